/* Times the builders that look at rows: trees of 1,024 nodes at a vocabulary of 128,256, beside
 * the time to read twice the logits of every row that was expanded. Rows are normalised
 * beforehand and nothing is in the caches; the pool of rows is larger than these. The bar is
 * that time. Run it under `chrt -f 50`. */
#include "algorithms/register.h"
#include "core/base/hash.h"
#include "core/cycle/contract/builder.h"
#include "core/cycle/drafting.h"
#include "core/cycle/draws/coins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCAB = 128256, POOL = 192, NODES = 1024, DEPTH = 12, REPEATS = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static struct cop_row rows[POOL];
static float *logits[POOL];

/* Rows as a model's: normal logits, a few tokens that stand out. */
static void make_rows(struct cop_row_arena *arena)
{
    enum { NUMBERS = 1 << 18 };
    static float numbers[NUMBERS];
    struct cop_sampling sampling = {.temperature = 1, .top_p = 1};
    struct cop_error err;
    for (int32_t i = 0; i < NUMBERS; i++) {
        double u = ((double)(cop_hash_u64(2 * (uint64_t)i, 1) >> 11) + 0.5) * 0x1p-53;
        double v = (double)(cop_hash_u64(2 * (uint64_t)i + 1, 1) >> 11) * 0x1p-53;
        numbers[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
    for (int32_t r = 0; r < POOL; r++) {
        logits[r] = malloc(VOCAB * sizeof *logits[r]);
        for (int32_t i = 0; i < VOCAB; i++) {
            logits[r][i] = 2 * numbers[(i + 7919 * (r + 1)) % NUMBERS];
        }
        for (int32_t best = 0; best < 8; best++) {
            logits[r][cop_hash_u64((uint64_t)best, (uint64_t)r) % VOCAB] =
                16 - 1.5f * (float)best;
        }
        check(cop_row_from_logits(&rows[r], logits[r], VOCAB, &sampling, arena, &err), &err);
        check(cop_row_normalise(&rows[r], arena, &err), &err);
    }
}

static volatile uint64_t sink;

static void read_row(int32_t r)
{
    const uint64_t *words = (const uint64_t *)(const void *)logits[r];
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < VOCAB / 2; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
    }
    sink += a + b + c + d;
}

struct outcome {
    double seconds, reading;
    int32_t kept, drafted, expanded;
};

/* One tree; which row of the pool a node gets changes with every call. */
static struct outcome grow(const struct cop_part *part, enum cop_draw draw, uint32_t cycle)
{
    static int32_t next_row;
    struct outcome outcome = {0};
    struct cop_error err = {.code = COP_OK}, asked = {.code = COP_OK};
    struct cop_drafting drafting;
    struct cop_coins coins;
    const struct cop_builder_ops *ops = (const struct cop_builder_ops *)part->plug;
    check(cop_drafting_init(&drafting, cop_builder_candidates(part), NULL, &err), &err);
    drafting.tree.draw = draw;
    cop_coins_init(&coins, 1, 0, &asked);
    cop_coins_cycle(&coins, cycle);
    struct cop_draws draws = cop_coins_draws(&coins);
    cop_drafting_start(&drafting, 0, ops->depth(part->state));
    while (cop_drafting_goes_on(&drafting, NULL, NULL)) {
        struct cop_frontier frontier;
        check(cop_drafting_ask(&drafting, 0, &frontier, &err), &err);
        for (int32_t i = 0; i < frontier.count; i++) {
            frontier.rows[i] = rows[(next_row + i) % POOL];
        }
        double started = now();
        for (int32_t i = 0; i < 2 * frontier.count; i++) {
            read_row((next_row + i % frontier.count) % POOL);
        }
        outcome.reading += now() - started;
        next_row = (next_row + frontier.count) % POOL;
        outcome.expanded += frontier.count;
        started = now();
        check(cop_drafting_grow(&drafting, part, &draws, &err), &err);
        outcome.seconds += now() - started;
    }
    outcome.drafted = drafting.tree.size - 1;
    double started = now();
    cop_drafting_finish(&drafting, part);
    outcome.seconds += now() - started;
    outcome.kept = drafting.tree.size - 1;
    cop_coins_release(&coins);
    cop_drafting_release(&drafting);
    return outcome;
}

static struct cop_part *make(const struct cop_registry *registry, const char *name,
                             const char *const *names, const double *values)
{
    const struct cop_plug *plug = cop_registry_find(registry, COP_PLUG_BUILDER, name);
    struct cop_part *part = cop_part_new(plug);
    struct cop_error err;
    for (int i = 0; i < 3 && names[i]; i++) {
        const struct cop_option *option = cop_option_find(plug->options, names[i]);
        check(cop_option_set_number(option, part->state, values[i], "bench", &err), &err);
    }
    check(cop_part_prepare(part, &err), &err);
    return part;
}

int main(void)
{
    static const struct {
        const char *name, *names[3];
        double values[3];
        enum cop_draw draw;
    } cases[] = {
        {"sequoia", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_DETERMINISTIC},
        {"sequoia", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_WITHOUT_REPLACEMENT},
        {"expand_rerank", {"top_k", "depth", "budget"}, {16, 6, NODES}, COP_DRAW_DETERMINISTIC},
        {"best_first", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_DETERMINISTIC},
        {"opt_tree", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_DETERMINISTIC},
        {"threshold", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_DETERMINISTIC},
        {"threshold", {"budget", "depth"}, {NODES, DEPTH}, COP_DRAW_WITHOUT_REPLACEMENT},
        {"beam", {"width", "depth"}, {64, 16}, COP_DRAW_DETERMINISTIC},
        {"beam", {"width", "depth"}, {64, 16}, COP_DRAW_BEAM},
        {"beam_search", {"width", "depth"}, {64, 16}, COP_DRAW_DETERMINISTIC},
    };
    struct cop_registry registry = {0};
    struct cop_error err;
    check(cop_register_all(&registry, &err), &err);
    struct cop_row_arena *arena = cop_row_arena_new();
    make_rows(arena);
    bool is_fast = true;
    printf("%-14s %-20s %6s %8s %9s %9s %16s\n", "builder", "draw", "nodes", "drafted",
           "expanded", "ms", "/ reading twice");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct cop_part *part = make(&registry, cases[c].name, cases[c].names, cases[c].values);
        struct outcome best = {.seconds = HUGE_VAL};
        for (uint32_t i = 0; i < REPEATS; i++) {
            struct outcome outcome = grow(part, cases[c].draw, i);
            if (outcome.seconds / outcome.reading < best.seconds / best.reading || i == 0) {
                best = outcome;
            }
        }
        bool is_under = best.seconds <= best.reading;
        printf("%-14s %-20s %6d %8d %9d %9.2f %16.2f  %s\n", cases[c].name,
               cop_draw_name(cases[c].draw), best.kept, best.drafted, best.expanded,
               1e3 * best.seconds, best.seconds / best.reading, is_under ? "" : "over the bar");
        is_fast &= is_under;
        cop_part_free(part);
    }
    cop_row_arena_free(arena);
    cop_registry_release(&registry);
    return is_fast ? 0 : 1;
}
