/* Times verify for every registered rule: a tree of about 64 nodes at a vocabulary of 128,256,
 * rows normalised beforehand, nothing in the caches. Beside it stands the time to read once
 * what the rule read: the pages that it touches are found by taking them away first. Run it
 * under `chrt -f 50`. */
#include "algorithms/register.h"
#include "core/base/hash.h"
#include "core/cycle/contract/rule.h"
#include "core/cycle/drafting.h"
#include "core/cycle/draws/coins.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    VOCAB = 128256,
    NODES = 72, /* room for the tree, the root included */
    SEEDS = 24, /* trees per rule */
    PAGE = 4096,
    PAGES = (VOCAB * 4 + PAGE - 1) / PAGE, /* of one row */
    ROWS = 2 * NODES,                      /* targets, then drafts */
    FLUSH = 96 << 20
};
static const double bound = 2.6;

/* Why a rule may take longer than its rows take to read. */
static const struct {
    const char *rule, *reason;
} reasons[] = {
    {"coupled", "OVER: a few hundred Philox blocks decide a race, however little is read"},
    {"traversal", "OVER: a pass over the same two rows for every refused sibling"},
    {"recursive", "OVER: a pass over the same two rows for every refused sibling"},
};

static const char *verdict_on(const char *rule, double megabytes, double ratio)
{
    if (megabytes < 0.5 || ratio <= bound) {
        return megabytes < 0.5 ? "less than a row" : "ok";
    }
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (strcmp(reasons[i].rule, rule) == 0) {
            return reasons[i].reason;
        }
    }
    return "OVER";
}

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

/* ---- Rows, in memory of their own
 * -------------------------------------------------------------
 */

static struct cop_row rows[ROWS], one_hot[NODES];
static char *pages; /* [2 * ROWS, PAGES, PAGE]: exponentials, then logits, row by row */
enum { ALL_PAGES = 2 * ROWS * PAGES };
static bool is_touched[ALL_PAGES];
static char *flush;

static double normal(uint64_t seed, uint64_t index)
{
    double u = ((double)(cop_hash_u64(2 * index, seed) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(cop_hash_u64(2 * index + 1, seed) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The draft's logits are the target's with noise. A pool of random numbers, read from different
 * places, is random enough here. */
static void make_rows(struct cop_row_arena *arena, double *seconds)
{
    enum { POOL = 1 << 18 };
    static float pool[POOL];
    struct cop_sampling sampling = {.temperature = 1, .top_p = 1};
    struct cop_error err;
    for (int32_t i = 0; i < POOL; i++) {
        pool[i] = (float)normal(1, (uint64_t)i);
    }
    double best = 1e9;
    for (int32_t r = 0; r < ROWS; r++) {
        int32_t node = r % NODES;
        bool is_draft = r >= NODES;
        float *own = (float *)(void *)(pages + (ptrdiff_t)r * PAGES * PAGE);
        float *logits = (float *)(void *)(pages + (ptrdiff_t)(ROWS + r) * PAGES * PAGE);
        for (int32_t i = 0; i < VOCAB; i++) {
            float noise = pool[(i + 40503 * (node + 77)) % POOL];
            logits[i] =
                3 * pool[(i + 7919 * (node + 1)) % POOL] + (is_draft ? 0.5f * noise : 0);
        }
        check(cop_row_from_logits(&rows[r], logits, VOCAB, &sampling, arena, &err), &err);
        double started = now();
        check(cop_row_normalise(&rows[r], arena, &err), &err);
        best = fmin(best, now() - started);
        memcpy(own, rows[r].exponentials, VOCAB * sizeof *own);
        rows[r].exponentials = own;
        if (!is_draft) {
            one_hot[node] =
                (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = VOCAB, .best = rows[r].best};
        }
    }
    *seconds = best;
}

static void touch(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    ptrdiff_t offset = (char *)info->si_addr - pages;
    if (offset < 0 || offset >= (ptrdiff_t)ALL_PAGES * PAGE) {
        signal(signal_number, SIG_DFL);
        return;
    }
    is_touched[offset / PAGE] = true;
    (void)mprotect(pages + offset / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void protect(bool is_hidden)
{
    (void)mprotect(pages, (size_t)ALL_PAGES * PAGE,
                   is_hidden ? PROT_NONE : PROT_READ | PROT_WRITE);
}

static uint64_t sum_of(const char *bytes, size_t n)
{
    const uint64_t *words = (const uint64_t *)(const void *)bytes;
    uint64_t a = 0, b = 0, c = 0, d = 0;
    for (size_t i = 0; i < n / 8; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
    }
    return a + b + c + d;
}

static volatile uint64_t sink;

static void empty_caches(void)
{
    sink += sum_of(flush, FLUSH);
}

/* Runs of touched pages. */
static struct span {
    const char *bytes;
    size_t length;
} spans[ALL_PAGES];
static int32_t n_spans;

static size_t find_spans(void)
{
    size_t total = 0;
    n_spans = 0;
    for (int32_t i = 0, n; i < ALL_PAGES; i += n + 1) {
        for (n = 0; i + n < ALL_PAGES && is_touched[i + n]; n++) {
        }
        if (n > 0) {
            spans[n_spans++] = (struct span){pages + (ptrdiff_t)i * PAGE, (size_t)n * PAGE};
            total += (size_t)n * PAGE;
        }
    }
    return total;
}

/* Reads them once; returns the seconds. */
static double read_spans(void)
{
    uint64_t sum = 0;
    double started = now();
    for (int32_t i = 0; i < n_spans; i++) {
        sum += sum_of(spans[i].bytes, spans[i].length);
    }
    double seconds = now() - started;
    sink += sum;
    return seconds;
}

/* ---- One tree
 * ---------------------------------------------------------------------------------
 */

struct trial {
    const struct cop_rule_ops *rule;
    struct cop_part *part, *builder;
    struct cop_claim claim;
    struct cop_drafting drafting;
    struct cop_coins coins;
    struct cop_error asked;
    void *state;
    int32_t accepted[NODES];
};

static const struct cop_row *target_at(void *context, int32_t node)
{
    const struct trial *trial = context;
    return trial->claim.zero_only ? &one_hot[node] : &rows[node];
}

static void grow(struct trial *trial, uint64_t seed)
{
    struct cop_error err;
    struct cop_draws draws = cop_coins_draws(&trial->coins);
    cop_coins_init(&trial->coins, seed, 0, &trial->asked);
    cop_drafting_start(&trial->drafting, 0, 64);
    while (cop_drafting_goes_on(&trial->drafting, NULL, NULL)) {
        struct cop_frontier frontier;
        check(cop_drafting_ask(&trial->drafting, 0, &frontier, &err), &err);
        for (int32_t i = 0; i < frontier.count; i++) {
            frontier.rows[i] = rows[NODES + frontier.nodes[i]];
        }
        check(cop_drafting_grow(&trial->drafting, trial->builder, &draws, &err), &err);
    }
}

/* The tree and its coins must be fresh. */
static double verify(struct trial *trial, enum cop_status *status, struct cop_error *err)
{
    struct cop_draws draws = cop_coins_draws(&trial->coins);
    struct cop_verify_in in = {.tree = &trial->drafting.tree,
                               .target = {target_at, trial},
                               .draft = cop_drafting_rows(&trial->drafting),
                               .draws = &draws,
                               .sequence_state = trial->state};
    struct cop_verdict verdict = {.accepted = trial->accepted, .last = -1};
    if (trial->state) {
        memset(trial->state, 0, trial->rule->sequence_state_size);
        if (trial->rule->sequence_init) {
            trial->rule->sequence_init(trial->part->state, trial->state);
        }
    }
    double started = now();
    *status = trial->rule->verify(trial->part->state, &in, &verdict, err);
    return now() - started;
}

/* ---- One rule
 * ---------------------------------------------------------------------------------
 */

struct figures {
    double verify, read, nodes, megabytes, accepted;
};

static enum cop_status measure(struct trial *trial, struct figures *sum, struct cop_error *err)
{
    *sum = (struct figures){0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum cop_status status;
        grow(trial, seed);
        memset(is_touched, 0, sizeof is_touched);
        protect(true);
        (void)verify(trial, &status, err);
        protect(false);
        if (status != COP_OK) {
            return status;
        }
        size_t bytes = find_spans();
        double best_verify = 1e9, best_read = 1e9;
        for (int repeat = 0; repeat < 3; repeat++) {
            cop_coins_release(&trial->coins);
            grow(trial, seed);
            empty_caches();
            best_verify = fmin(best_verify, verify(trial, &status, err));
            empty_caches();
            best_read = fmin(best_read, read_spans());
        }
        sum->verify += best_verify / SEEDS;
        sum->read += best_read / SEEDS;
        sum->nodes += (double)(trial->drafting.tree.size - 1) / SEEDS;
        sum->megabytes += (double)bytes / 1e6 / SEEDS;
        cop_coins_release(&trial->coins);
    }
    return COP_OK;
}

static struct cop_part *builder_for(const struct cop_registry *registry,
                                    const struct cop_claim *claim)
{
    static const int32_t wide[] = {4, 3, 4}, pairs[] = {2, 2, 2, 2, 2};
    struct cop_error err;
    bool is_tree = claim->shape == COP_SHAPE_TREE;
    bool is_merged = claim->shape == COP_SHAPE_PATHS;
    struct cop_part *part = cop_part_new(cop_registry_find(registry, COP_PLUG_BUILDER,
                                                           is_tree     ? "widths"
                                                           : is_merged ? "independent_paths"
                                                                       : "chain"));
    const struct cop_option *options = part->plug->options;
    if (is_tree) {
        bool is_pair = claim->draw == COP_DRAW_HUB_PAIR;
        check(cop_option_set_ints(cop_option_find(options, "widths"), part->state,
                                  is_pair ? pairs : wide, is_pair ? 5 : 3, "bench", &err),
              &err);
    } else {
        check(cop_option_set_number(cop_option_find(options, "depth"), part->state,
                                    is_merged ? 8 : 64, "bench", &err),
              &err);
        if (is_merged) {
            check(cop_option_set_number(cop_option_find(options, "count"), part->state, 8,
                                        "bench", &err),
                  &err);
        }
    }
    check(cop_part_prepare(part, &err), &err);
    return part;
}

static void bench(const struct cop_registry *registry, const struct cop_plug *plug,
                  const struct cop_claim *claim)
{
    struct trial trial = {.rule = (const struct cop_rule_ops *)plug, .claim = *claim};
    struct cop_error err = {.code = COP_OK};
    struct figures figures;
    trial.part = cop_part_new(plug);
    for (const struct cop_option *o = plug->options; o && o->name; o++) {
        if (o->flags & COP_OPTION_REQUIRED &&
            (o->type == COP_OPTION_NUMBER || o->type == COP_OPTION_INT)) {
            double middle = o->max - o->min < 1000 ? floor((o->min + o->max) * 4) / 8 : 1;
            (void)cop_option_set_number(o, trial.part->state, middle, "bench", &err);
        }
    }
    if (cop_part_prepare(trial.part, &err) != COP_OK) {
        printf("%-18s %s\n", plug->name, err.text);
        cop_part_free(trial.part);
        return;
    }
    trial.builder = builder_for(registry, claim);
    trial.state =
        trial.rule->sequence_state_size ? calloc(1, trial.rule->sequence_state_size) : NULL;
    check(cop_drafting_init(&trial.drafting, NODES - 1, NULL, &err), &err);
    trial.drafting.tree.draw = claim->zero_only ? COP_DRAW_DETERMINISTIC : claim->draw;
    trial.drafting.tree.is_merged = claim->shape == COP_SHAPE_PATHS;
    trial.drafting.shares_noise = trial.rule->shares_noise;
    if (measure(&trial, &figures, &err) == COP_OK) {
        double ratio = figures.verify / figures.read;
        printf("%-18s %-19s %-5s %5.1f %9.0f %9.1f %9.1f %9.2f %6.2f  %s\n", plug->name,
               cop_draw_name(trial.drafting.tree.draw), cop_shape_name(claim->shape),
               figures.nodes, 1e9 * figures.verify / figures.nodes, 1e6 * figures.verify,
               1e6 * figures.read, figures.megabytes, ratio,
               verdict_on(plug->name, figures.megabytes, ratio));
    } else {
        printf("%-18s %s\n", plug->name, err.text);
    }
    fflush(stdout);
    cop_drafting_release(&trial.drafting);
    cop_part_free(trial.part);
    cop_part_free(trial.builder);
    free(trial.state);
}

int main(int argc, char **argv)
{
    struct cop_registry registry = {0};
    struct cop_error err;
    struct sigaction action = {.sa_sigaction = touch, .sa_flags = SA_SIGINFO};
    check(cop_register_all(&registry, &err), &err);
    pages = mmap(NULL, (size_t)ALL_PAGES * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    flush = malloc(FLUSH);
    if (pages == MAP_FAILED || !flush) {
        fprintf(stderr, "no memory\n");
        return 1;
    }
    memset(flush, 1, FLUSH);
    (void)sigaction(SIGSEGV, &action, NULL);
    struct cop_row_arena *arena = cop_row_arena_new();
    double normalise;
    make_rows(arena, &normalise);
    printf(
        "verify at vocabulary %d; normalising a row beforehand: %.1f us (%.2f ns an entry)\n",
        VOCAB, 1e6 * normalise, 1e9 * normalise / VOCAB);
    printf("%-18s %-19s %-5s %5s %9s %9s %9s %9s %6s  at most %.1f\n", "rule", "draw", "shape",
           "nodes", "ns/node", "verify us", "read us", "MB read", "ratio", bound);
    static const struct cop_claim relaxed[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                               {.draw = COP_DRAW_AUTO}};
    for (size_t i = 0; i < registry.count; i++) {
        const struct cop_plug *plug = registry.plugs[i];
        if (plug->kind != COP_PLUG_RULE || (argc > 1 && strcmp(plug->name, argv[1]) != 0)) {
            continue;
        }
        const struct cop_claim *claims = ((const struct cop_rule_ops *)plug)->lossless_for;
        claims = claims->draw == COP_DRAW_AUTO ? relaxed : claims;
        for (; claims->draw != COP_DRAW_AUTO; claims++) {
            if (claims->draw != COP_DRAW_COUNT || claims->zero_only) {
                bench(&registry, plug, claims);
            }
        }
    }
    cop_row_arena_free(arena);
    cop_registry_release(&registry);
    return 0;
}
