/* Laws of the cache, on a pool whose slots hold one number each: what a slot is for. */
#include "core/cache/cache.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- A device whose slots hold one integer ----------------------------------------------- */

static size_t fake_page_bytes(const struct cop_kv_layout *layout)
{
    (void)layout;
    return COP_PAGE_SLOTS * sizeof(int64_t);
}

static size_t fake_slot_bytes(const struct cop_kv_layout *layout)
{
    (void)layout;
    return sizeof(int64_t);
}

static void fake_copy(const struct cop_kv_pool *kv, int32_t from_slot, int32_t to_slot)
{
    int64_t *slots = kv->data;
    slots[to_slot] = slots[from_slot];
}

static const struct cop_ops fake_ops = {.name = "fake",
                                        .kv_page_bytes = fake_page_bytes,
                                        .kv_slot_bytes = fake_slot_bytes,
                                        .kv_copy = fake_copy};
static const struct cop_kv_layout fake_layout = {.layers = 1, .kv_heads = 1, .head_dim = 2};

static struct cop_cache *new_cache(int32_t context, int32_t n_sequences, int32_t pages)
{
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    cr_assert_eq(
        cop_cache_new(&cache, &fake_ops, &fake_layout, context, n_sequences, 64, pages, &err),
        COP_OK, "%s", err.text);
    return cache;
}

static int64_t *slot(struct cop_cache *cache, int32_t sequence, int32_t logical)
{
    int64_t *slots = cop_cache_pool(cache)->data;
    return &slots[cop_cache_pool_slot(cache, sequence, logical)];
}

static void check(struct cop_cache *cache)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_cache_check(cache, &err), COP_OK, "%s", err.text);
}

/* Adds slots below `parents` and writes values[i] into them. */
static enum cop_status extend(struct cop_cache *cache, int32_t sequence, const int32_t *parents,
                              const int64_t *values, int32_t count)
{
    int32_t before = cop_cache_speculative(cache, sequence);
    enum cop_status status = cop_cache_extend(cache, sequence, parents, count, NULL);
    for (int32_t i = 0; status == COP_OK && i < count; i++) {
        *slot(cache, sequence, cop_cache_committed(cache, sequence) + before + i) = values[i];
    }
    return status;
}

/* Appends `count` committed positions with values first, first + 1, … */
static void append(struct cop_cache *cache, int32_t sequence, int64_t first, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int64_t value = first + i;
        cr_assert_eq(extend(cache, sequence, (int32_t[]){-1}, &value, 1), COP_OK);
        cop_cache_commit(cache, sequence, (int32_t[]){0}, 1);
    }
}

static void expect_values(struct cop_cache *cache, int32_t sequence, const int64_t *values,
                          int32_t count, const char *when)
{
    cr_assert_eq(cop_cache_committed(cache, sequence), count, "%s", when);
    for (int32_t i = 0; i < count; i++) {
        cr_assert_eq(*slot(cache, sequence, i), values[i], "%s: position %d holds %ld, not %ld",
                     when, i, (long)*slot(cache, sequence, i), (long)values[i]);
    }
}

/* ---- By hand ----------------------------------------------------------------------------- */

Test(cache, starts_empty_and_untouched)
{
    struct cop_cache *cache = new_cache(1 << 20, 64, 0);
    struct cop_cache_usage usage = cop_cache_usage(cache);
    cr_expect_eq(usage.pages, 64 * ((1 << 20) + 64) / 16);
    cr_expect_eq(usage.used, 0);
    cr_expect_eq(usage.peak, 0);
    cr_expect_eq(usage.page_bytes, 128);
    cr_expect_eq(cop_cache_context(cache), 1 << 20);
    cr_expect_eq(cop_cache_sequences(cache), 64);
    cr_expect_eq(cop_cache_ops(cache), &fake_ops);
    check(cache);
    size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n = (size_t)usage.pages * usage.page_bytes / os_page;
    unsigned char *resident = calloc(n, 1);
    cr_assert_eq(mincore(cop_cache_pool(cache)->data, n * os_page, resident), 0);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(resident[i] & 1, 0, "page %zu was touched", i);
    }
    free(resident);
    cop_cache_free(cache);
    cop_cache_free(NULL);
}

/* Tree over 3 committed positions:   0 ── 2 ── 5
 *                                    └─ 3      committed: 10 11 12
 *                                    1 ── 4                              */
Test(cache, knows_depths_and_paths)
{
    struct cop_cache *cache = new_cache(100, 2, 0);
    append(cache, 1, 10, 3);
    const int32_t parents[6] = {-1, -1, 0, 0, 1, 2};
    const int64_t values[6] = {100, 101, 102, 103, 104, 105};
    cr_assert_eq(extend(cache, 1, parents, values, 3), COP_OK);
    cr_assert_eq(extend(cache, 1, parents + 3, values + 3, 3), COP_OK);
    cr_expect_eq(cop_cache_speculative(cache, 1), 6);
    cr_expect_eq(cop_cache_speculative(cache, 0), 0);
    const int32_t depths[6] = {0, 0, 1, 1, 1, 2};
    for (int32_t i = 0; i < 6; i++) {
        cr_expect_eq(cop_cache_depth(cache, 1, i), depths[i]);
    }
    int32_t path[3] = {-9, -9, -9};
    cop_cache_path(cache, 1, 5, path);
    cr_expect_arr_eq(path, ((int32_t[]){3, 5, 8}), sizeof path);
    cop_cache_path(cache, 1, 4, path);
    cr_expect_arr_eq(path, ((int32_t[]){4, 7, 8}), sizeof path);
    check(cache);

    cop_cache_commit(cache, 1, (int32_t[]){0, 2, 5}, 3);
    expect_values(cache, 1, (int64_t[]){10, 11, 12, 100, 102, 105}, 6, "after the commit");
    cr_expect_eq(cop_cache_speculative(cache, 1), 0);
    cr_expect_eq(cop_cache_usage(cache).bytes_moved, 2 * 8, "slot 0 was in place");
    check(cache);
    cop_cache_free(cache);
}

Test(cache, chain_moves_nothing)
{
    struct cop_cache *cache = new_cache(100, 1, 0);
    append(cache, 0, 0, 14);
    const int32_t parents[5] = {-1, 0, 1, 2, 3};
    const int64_t values[5] = {14, 15, 16, 17, 18};
    cr_assert_eq(extend(cache, 0, parents, values, 5), COP_OK);
    cr_expect_eq(cop_cache_usage(cache).used, 2);
    cop_cache_commit(cache, 0, (int32_t[]){0, 1}, 2);
    expect_values(cache, 0, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                  16, "chain");
    cr_expect_eq(cop_cache_usage(cache).bytes_moved, 0);
    cr_expect_eq(cop_cache_usage(cache).used, 1, "16 positions fill one page");
    cr_expect_eq(cop_cache_usage(cache).peak, 2);
    cop_cache_free(cache);
}

Test(cache, rollback_truncate_and_reset_give_pages_back)
{
    struct cop_cache *cache = new_cache(200, 1, 0);
    append(cache, 0, 0, 40);
    cr_expect_eq(cop_cache_usage(cache).used, 3);
    int32_t parents[40];
    for (int32_t i = 0; i < 40; i++) {
        parents[i] = -1;
    }
    cr_assert_eq(cop_cache_extend(cache, 0, parents, 40, NULL), COP_OK);
    cr_expect_eq(cop_cache_usage(cache).used, 5);
    cop_cache_retract(cache, 0, 20);
    cr_expect_eq(cop_cache_speculative(cache, 0), 20);
    cr_expect_eq(cop_cache_usage(cache).used, 4);
    check(cache);
    cop_cache_rollback(cache, 0);
    cr_expect_eq(cop_cache_committed(cache, 0), 40);
    cr_expect_eq(cop_cache_usage(cache).used, 3);
    cop_cache_truncate(cache, 0, 17);
    cr_expect_eq(cop_cache_committed(cache, 0), 17);
    cr_expect_eq(cop_cache_usage(cache).used, 2);
    cop_cache_truncate(cache, 0, 0);
    cr_expect_eq(cop_cache_usage(cache).used, 0);
    append(cache, 0, 0, 20);
    cop_cache_reset(cache, 0);
    cr_expect_eq(cop_cache_committed(cache, 0), 0);
    cr_expect_eq(cop_cache_usage(cache).used, 0);
    cr_expect_eq(cop_cache_usage(cache).peak, 5);
    check(cache);
    cop_cache_free(cache);
}

/* 20 positions: one full page, shared for good, and one of 4 slots, copied by the first writer.
 */
Test(cache, fork_copies_only_the_open_page)
{
    struct cop_cache *cache = new_cache(100, 3, 0);
    append(cache, 0, 0, 20);
    cr_assert_eq(cop_cache_fork(cache, 0, 1, NULL), COP_OK);
    cr_assert_eq(cop_cache_fork(cache, 0, 2, NULL), COP_OK);
    cr_expect_eq(cop_cache_usage(cache).used, 2);
    check(cache);
    int64_t moved = cop_cache_usage(cache).bytes_moved;
    append(cache, 1, 1000, 1);
    cr_expect_eq(cop_cache_usage(cache).bytes_moved - moved, 4 * 8);
    cr_expect_eq(cop_cache_usage(cache).used, 3);
    append(cache, 0, 2000, 1);
    cr_expect_eq(cop_cache_usage(cache).used, 4);
    append(cache, 2, 3000, 1);
    cr_expect_eq(cop_cache_usage(cache).used, 4, "the last holder writes in place");
    cr_expect_eq(cop_cache_usage(cache).bytes_moved - moved, 8 * 8);
    int64_t expected[21];
    for (int32_t i = 0; i < 20; i++) {
        expected[i] = i;
    }
    const int64_t last[3] = {2000, 1000, 3000};
    for (int32_t s = 0; s < 3; s++) {
        expected[20] = last[s];
        expect_values(cache, s, expected, 21, "fork");
    }
    cr_expect_eq(cop_cache_page_table(cache, 0)[0], cop_cache_page_table(cache, 2)[0]);
    cop_cache_reset(cache, 0);
    expected[20] = 1000;
    expect_values(cache, 1, expected, 21, "after the parent's end");
    check(cache);
    cop_cache_free(cache);
}

/* A sequence cut back into a page that it shares copies what it keeps of it, no more. */
Test(cache, truncate_into_a_shared_page_then_write)
{
    struct cop_cache *cache = new_cache(100, 2, 0);
    append(cache, 0, 0, 16);
    cr_assert_eq(cop_cache_fork(cache, 0, 1, NULL), COP_OK);
    cop_cache_truncate(cache, 1, 5);
    append(cache, 1, 500, 1);
    expect_values(cache, 1, (int64_t[]){0, 1, 2, 3, 4, 500}, 6, "writer");
    expect_values(cache, 0, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                  16, "sibling");
    cr_expect_eq(cop_cache_usage(cache).bytes_moved, 5 * 8);
    check(cache);
    cop_cache_free(cache);
}

/* ---- Refusals change nothing ------------------------------------------------------------- */

static void expect_refusal(struct cop_cache *cache, int32_t sequence, const int32_t *parents,
                           int32_t count, enum cop_status expected, const char *word)
{
    struct cop_cache_usage before = cop_cache_usage(cache);
    int32_t committed = cop_cache_committed(cache, sequence);
    int32_t speculative = cop_cache_speculative(cache, sequence);
    struct cop_error err = {0};
    cr_expect_eq(cop_cache_extend(cache, sequence, parents, count, &err), expected, "%s",
                 err.text);
    cr_expect_not_null(strstr(err.text, word), "\"%s\" lacks \"%s\"", err.text, word);
    struct cop_cache_usage after = cop_cache_usage(cache);
    cr_expect_eq(memcmp(&before, &after, sizeof before), 0);
    cr_expect_eq(cop_cache_committed(cache, sequence), committed);
    cr_expect_eq(cop_cache_speculative(cache, sequence), speculative);
    check(cache);
}

Test(cache, context_limits_positions_not_nodes)
{
    struct cop_cache *cache = new_cache(8, 1, 0);
    append(cache, 0, 0, 6);
    const int32_t star[12] = {-1, -1, -1, -1, -1, 0, 0, 0, 1, 1, 1, 1};
    cr_assert_eq(cop_cache_extend(cache, 0, star, 12, NULL), COP_OK, "12 nodes of depth 1");
    expect_refusal(cache, 0, (int32_t[]){11}, 1, COP_ERR_LIMIT, "context of 8");
    cop_cache_commit(cache, 0, (int32_t[]){0, 5}, 2);
    cr_expect_eq(cop_cache_committed(cache, 0), 8);
    expect_refusal(cache, 0, (int32_t[]){-1}, 1, COP_ERR_LIMIT, "position 8");
    cr_expect_eq(cop_cache_extend(cache, 0, NULL, 0, NULL), COP_OK, "nothing fits always");
    cop_cache_free(cache);
}

Test(cache, refuses_broken_parents)
{
    struct cop_cache *cache = new_cache(50, 1, 0);
    append(cache, 0, 0, 3);
    expect_refusal(cache, 0, (int32_t[]){0}, 1, COP_ERR_ARGUMENT, "parent 0");
    expect_refusal(cache, 0, (int32_t[]){-2}, 1, COP_ERR_ARGUMENT, "parent -2");
    expect_refusal(cache, 0, (int32_t[]){-1, 0, 2}, 3, COP_ERR_ARGUMENT, "slot 2");
    cop_cache_free(cache);
}

Test(cache, exhaustion_leaves_everything)
{
    struct cop_cache *cache = new_cache(1000, 2, 3);
    append(cache, 0, 0, 20);
    int32_t star[40];
    for (int32_t i = 0; i < 40; i++) {
        star[i] = -1;
    }
    expect_refusal(cache, 0, star, 29, COP_ERR_MEMORY, "pages");
    cr_expect_eq(cop_cache_extend(cache, 0, star, 28, NULL), COP_OK, "48 slots fill 3 pages");
    expect_refusal(cache, 1, star, 1, COP_ERR_MEMORY, "pages");
    cop_cache_rollback(cache, 0);
    cr_assert_eq(cop_cache_fork(cache, 0, 1, NULL), COP_OK);
    append(cache, 1, 100, 1); /* copies the open page: all 3 in use */
    expect_refusal(cache, 0, star, 13, COP_ERR_MEMORY, "pages");
    cr_expect_eq(cop_cache_extend(cache, 0, star, 12, NULL), COP_OK, "its page has 12 free");
    cop_cache_rollback(cache, 0);
    int64_t expected[21];
    for (int32_t i = 0; i < 20; i++) {
        expected[i] = i;
    }
    expected[20] = 100;
    expect_values(cache, 0, expected, 20, "first");
    expect_values(cache, 1, expected, 21, "second");
    cop_cache_free(cache);
}

/* No page left for the copy of a shared one: counts as a page needed. */
Test(cache, exhaustion_by_a_copy)
{
    struct cop_cache *cache = new_cache(1000, 2, 2);
    append(cache, 0, 0, 20);
    cr_assert_eq(cop_cache_fork(cache, 0, 1, NULL), COP_OK);
    expect_refusal(cache, 1, (int32_t[]){-1}, 1, COP_ERR_MEMORY, "pages");
    expect_refusal(cache, 0, (int32_t[]){-1}, 1, COP_ERR_MEMORY, "pages");
    cop_cache_reset(cache, 0);
    append(cache, 1, 20, 12);
    cr_expect_eq(cop_cache_usage(cache).bytes_moved, 0, "alone, it writes in place");
    check(cache);
    cop_cache_free(cache);
}

Test(cache, refuses_bad_sizes_and_forks)
{
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    const struct {
        int32_t context, sequences, speculative, pages;
        enum cop_status expected;
    } sizes[] = {{0, 1, 0, 0, COP_ERR_ARGUMENT},
                 {1, 0, 0, 0, COP_ERR_ARGUMENT},
                 {1, 1, -1, 0, COP_ERR_ARGUMENT},
                 {1, 1, 0, -1, COP_ERR_ARGUMENT},
                 {INT32_MAX, 1000, INT32_MAX, 0, COP_ERR_LIMIT},
                 {10, 1, 0, INT32_MAX, COP_ERR_LIMIT}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_expect_eq(cop_cache_new(&cache, &fake_ops, &fake_layout, sizes[i].context,
                                   sizes[i].sequences, sizes[i].speculative, sizes[i].pages,
                                   &err),
                     sizes[i].expected, "row %zu", i);
        cr_expect_null(cache);
    }
    cache = new_cache(10, 2, 0);
    cr_expect_eq(cop_cache_fork(cache, 0, 0, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(cop_cache_fork(cache, 0, 2, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(cop_cache_fork(cache, -1, 1, &err), COP_ERR_ARGUMENT);
    cr_assert_eq(cop_cache_extend(cache, 0, (int32_t[]){-1}, 1, NULL), COP_OK);
    cr_expect_eq(cop_cache_fork(cache, 0, 1, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "speculative"), "%s", err.text);
    cr_expect_eq(cop_cache_extend(cache, 2, (int32_t[]){-1}, 1, &err), COP_ERR_ARGUMENT);
    check(cache);
    cop_cache_free(cache);
}

/* ---- Random operations against a plain list of values ------------------------------------ */

enum { SEQUENCES = 4, CONTEXT = 90, POOL = 17, TREE = 24 };

struct shadow {
    int64_t values[SEQUENCES][CONTEXT];
    int32_t lengths[SEQUENCES];
    int64_t next_value;
    uint64_t state;
};

static uint32_t draw(struct shadow *shadow, uint32_t below)
{
    shadow->state = shadow->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(shadow->state >> 33) % below;
}

/* A random tree in one or two pieces, then a commit of a random path of it (maybe none). */
static void random_cycle(struct shadow *shadow, struct cop_cache *cache, int32_t sequence)
{
    int32_t parents[TREE];
    int64_t values[TREE];
    int32_t n = 1 + (int32_t)draw(shadow, TREE);
    int32_t first = (int32_t)draw(shadow, (uint32_t)n);
    for (int32_t i = 0; i < n; i++) {
        parents[i] = (int32_t)draw(shadow, (uint32_t)i + 1) - 1;
        values[i] = shadow->next_value++;
    }
    struct cop_cache_usage before = cop_cache_usage(cache);
    if (extend(cache, sequence, parents, values, first) != COP_OK ||
        extend(cache, sequence, parents + first, values + first, n - first) != COP_OK) {
        cop_cache_rollback(cache, sequence);
        cr_assert(cop_cache_usage(cache).used <= before.used + 1, "at most a copied page");
        return;
    }
    check(cache);
    int32_t path[TREE];
    int32_t length = 0;
    for (int32_t node = (int32_t)draw(shadow, (uint32_t)n + 1) - 1; node >= 0;
         node = parents[node]) {
        path[length++] = node;
    }
    for (int32_t i = 0; i < length / 2; i++) {
        int32_t swap = path[i];
        path[i] = path[length - 1 - i];
        path[length - 1 - i] = swap;
    }
    cop_cache_commit(cache, sequence, path, length);
    for (int32_t i = 0; i < length; i++) {
        shadow->values[sequence][shadow->lengths[sequence]++] = values[path[i]];
    }
}

static void random_step(struct shadow *shadow, struct cop_cache *cache)
{
    int32_t sequence = (int32_t)draw(shadow, SEQUENCES);
    int32_t other = (int32_t)draw(shadow, SEQUENCES);
    int32_t *length = &shadow->lengths[sequence];
    switch (draw(shadow, 10)) {
    case 0:
        cop_cache_reset(cache, sequence);
        *length = 0;
        break;
    case 1:
        *length = (int32_t)draw(shadow, (uint32_t)*length + 1);
        cop_cache_truncate(cache, sequence, *length);
        break;
    case 2:
    case 3:
        if (other != sequence) {
            cr_assert_eq(cop_cache_fork(cache, other, sequence, NULL), COP_OK);
            *length = shadow->lengths[other];
            memcpy(shadow->values[sequence], shadow->values[other],
                   sizeof shadow->values[other]);
        }
        break;
    default: random_cycle(shadow, cache, sequence); break;
    }
}

Test(cache, random_operations_keep_every_value)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        char when[64];
        struct cop_cache *cache = new_cache(CONTEXT, SEQUENCES, POOL);
        struct shadow shadow = {.next_value = 1, .state = seed};
        for (int32_t step = 0; step < 500; step++) {
            snprintf(when, sizeof when, "seed %d, step %d", (int)seed, step);
            random_step(&shadow, cache);
            struct cop_error err = {0};
            cr_assert_eq(cop_cache_check(cache, &err), COP_OK, "%s: %s", when, err.text);
            for (int32_t s = 0; s < SEQUENCES; s++) {
                expect_values(cache, s, shadow.values[s], shadow.lengths[s], when);
            }
        }
        for (int32_t s = 0; s < SEQUENCES; s++) {
            cop_cache_reset(cache, s);
        }
        cr_assert_eq(cop_cache_usage(cache).used, 0, "seed %d", (int)seed);
        check(cache);
        cop_cache_free(cache);
    }
}
