/* Rows over a reduced vocabulary: filled at their ids alone, in memory that stays at -inf. */
#include "algorithms/propose/subset.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { VOCAB = 300, N_IDS = 64 + 70 + 63, STRIDE = N_IDS + 1 };

/* 64 that follow one another, 70 that do not, and 63 that would be 64 with one more, which is
 * none of them. */
static void list_ids(cop_token ids[N_IDS + 1])
{
    for (int32_t i = 0; i <= N_IDS; i++) {
        ids[i] = i < 64 ? i : i < 64 + 70 ? 66 + 2 * (i - 64) : 230 + (i - 64 - 70);
    }
}

static void expect_row(const float *row, const cop_token *ids, const float *own)
{
    int32_t i = 0;
    for (int32_t token = 0; token < VOCAB; token++) {
        bool is_listed = i < N_IDS && ids[i] == token;
        cr_expect_eq(row[token], is_listed ? own[i] : -INFINITY, "token %d", token);
        i += is_listed;
    }
}

Test(subset, rows_hold_what_is_placed_and_minus_infinity)
{
    cop_token ids[N_IDS + 1];
    float own[2 * STRIDE];
    struct cop_floats rows = {0};
    list_ids(ids);
    for (int turn = 0; turn < 3; turn++) { /* new, the same memory again, larger */
        int32_t n = turn < 2 ? 1 : 2;
        for (int32_t i = 0; i < 2 * STRIDE; i++) {
            own[i] = (float)(i * 7 % 61 + turn);
        }
        cr_assert(cop_subset_reserve(ids, &rows, (size_t)n * VOCAB));
        cop_subset_place(ids, N_IDS, STRIDE, own, n, VOCAB, rows.items);
        for (int32_t row = 0; row < n; row++) {
            expect_row(rows.items + (ptrdiff_t)row * VOCAB, ids, own + (ptrdiff_t)row * STRIDE);
        }
    }
    free(rows.items);
}

Test(subset, without_ids_there_is_room)
{
    struct cop_floats rows = {0};
    cr_assert(cop_subset_reserve(NULL, &rows, VOCAB));
    cr_expect_eq(rows.capacity, VOCAB);
    free(rows.items);
}
