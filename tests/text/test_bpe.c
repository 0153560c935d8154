/* Merging on numbers. */
#include "core/text/bpe.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(bpe, .timeout = 60);

static struct cop_error err;

#define MOST 12
static const struct {
    const char *name;
    cop_token merges[8][3]; /* left, right, result; by rank; {0} ends */
    cop_token before[MOST], after[MOST];
} cases[] = {
    {"nothing merges", {{1, 2, 9}}, {2, 1, 2 - 1}, {2, 1, 1}},
    {"one pair", {{1, 2, 9}}, {1, 2}, {9}},
    {"lower rank first", {{2, 3, 8}, {1, 2, 9}}, {1, 2, 3}, {1, 8}},
    {"leftmost of equals", {{1, 1, 9}}, {1, 1, 1}, {9, 1}},
    {"pairs of a run", {{1, 1, 9}}, {1, 1, 1, 1, 1}, {9, 9, 1}},
    {"hello", {{12, 12, 20}, {8, 5, 21}, {21, 20, 22}, {22, 15, 23}}, {8, 5, 12, 12, 15}, {23}},
    /* 1 2 would merge first if it were there, but 2 is eaten by the cheaper 2 3. */
    {"a merge takes a neighbour away", {{2, 3, 8}, {1, 2, 9}, {1, 8, 7}}, {1, 2, 3}, {7}},
    /* The pair (9, 3) appears only after a merge to its left, with a lower rank than (3, 4). */
    {"new pairs compete by rank", {{1, 2, 9}, {9, 3, 8}, {3, 4, 7}}, {1, 2, 3, 4}, {8, 4}},
    {"a new pair of higher rank waits",
     {{1, 2, 9}, {3, 4, 7}, {9, 3, 8}},
     {1, 2, 3, 4},
     {9, 7}},
};

static size_t length_of(const cop_token *ids)
{
    size_t length = 0;
    while (length < MOST && ids[length]) {
        length++;
    }
    return length;
}

Test(bpe, merges_by_rank_and_from_the_left)
{
    struct cop_bpe_work work = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cop_merges merges;
        cr_assert_eq(cop_merges_init(&merges, 8, &err), COP_OK);
        for (size_t rank = 0; rank < 8 && cases[i].merges[rank][0]; rank++) {
            const cop_token *merge = cases[i].merges[rank];
            cr_assert_eq(cop_merges_add(&merges, merge[0], merge[1], merge[2]), -1);
        }
        cop_token ids[MOST];
        memcpy(ids, cases[i].before, sizeof ids);
        size_t count = length_of(ids);
        cr_assert_eq(cop_bpe_merge(&merges, ids, &count, &work, &err), COP_OK);
        cr_expect_eq(count, length_of(cases[i].after), "%s", cases[i].name);
        cr_expect_eq(memcmp(ids, cases[i].after, count * sizeof *ids), 0, "%s", cases[i].name);
        cop_merges_release(&merges);
    }
    cop_bpe_work_release(&work);
}

Test(bpe, a_pair_keeps_its_first_rank)
{
    struct cop_merges merges;
    cr_assert_eq(cop_merges_init(&merges, 3, &err), COP_OK);
    cr_expect_eq(cop_merges_add(&merges, 1, 2, 9), -1);
    cr_expect_eq(cop_merges_add(&merges, 2, 1, 8), -1);
    cr_expect_eq(cop_merges_add(&merges, 1, 2, 7), 0);
    cr_expect_eq(cop_merges_rank(&merges, 2, 1, NULL), 1);
    cr_expect_eq(cop_merges_rank(&merges, 2, 2, NULL), -1);
    cop_merges_release(&merges);
}

/* The definition, read off the page: look for the best pair, merge, again. */
static size_t merge_slowly(const struct cop_merges *merges, cop_token *ids, size_t count)
{
    for (;;) {
        int32_t best = -1;
        size_t place = 0;
        cop_token result = -1;
        for (size_t i = 0; i + 1 < count; i++) {
            cop_token made;
            int32_t rank = cop_merges_rank(merges, ids[i], ids[i + 1], &made);
            if (rank >= 0 && (best < 0 || rank < best)) {
                best = rank;
                place = i;
                result = made;
            }
        }
        if (best < 0) {
            return count;
        }
        ids[place] = result;
        memmove(ids + place + 1, ids + place + 2, (count - place - 2) * sizeof *ids);
        count--;
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Random vocabularies of strings over {a, b}: results are ids of the joined strings. */
Test(bpe, agrees_with_the_definition_on_random_words)
{
    uint64_t state = 20240601;
    struct cop_bpe_work work = {0};
    for (int round = 0; round < 300; round++) {
        struct cop_merges merges;
        cr_assert_eq(cop_merges_init(&merges, 40, &err), COP_OK);
        cop_token n_pieces = 3; /* 1 and 2 are the letters */
        for (int i = 0; i < 40; i++) {
            cop_token left = 1 + (cop_token)(next_random(&state) % (uint64_t)(n_pieces - 1));
            cop_token right = 1 + (cop_token)(next_random(&state) % (uint64_t)(n_pieces - 1));
            n_pieces += cop_merges_add(&merges, left, right, n_pieces) < 0;
        }
        cop_token fast[200];
        cop_token slow[200];
        size_t count = 1 + next_random(&state) % 200;
        for (size_t i = 0; i < count; i++) {
            fast[i] = slow[i] = 1 + (cop_token)(next_random(&state) % 2);
        }
        size_t n_slow = merge_slowly(&merges, slow, count);
        cr_assert_eq(cop_bpe_merge(&merges, fast, &count, &work, &err), COP_OK);
        cr_assert_eq(count, n_slow, "round %d", round);
        cr_assert_eq(memcmp(fast, slow, count * sizeof *fast), 0, "round %d", round);
        cop_merges_release(&merges);
    }
    cop_bpe_work_release(&work);
}

Test(bpe, a_word_of_a_million_symbols_does_not_take_a_square_of_time)
{
    enum { COUNT = 1 << 20 };
    struct cop_merges merges;
    cr_assert_eq(cop_merges_init(&merges, 20, &err), COP_OK);
    for (cop_token i = 1; i <= 20; i++) {
        cop_merges_add(&merges, i, i, i + 1);
    }
    cop_token *ids = malloc(COUNT * sizeof *ids);
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = 1;
    }
    struct cop_bpe_work work = {0};
    size_t count = COUNT;
    cr_assert_eq(cop_bpe_merge(&merges, ids, &count, &work, &err), COP_OK);
    cr_expect_eq(count, 1);
    cr_expect_eq(ids[0], 21); /* 2^20 ones are one piece of level 20 */
    free(ids);
    cop_bpe_work_release(&work);
    cop_merges_release(&merges);
}
