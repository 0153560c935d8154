/* Maximal flow: a network by hand, the cut as certificate, and all cuts of small random ones.
 */
#include "core/cycle/law/flow.h"

#include <criterion/criterion.h>
#include <math.h>

#define NEAR(a, b)                                                                             \
    cr_expect_lt(fabs((a) - (b)), 1e-15, "%.17g, not %.17g", (double)(a), (double)(b))

/*        .5 ── 1 ── inf ─┬─ 3 ── .25
 *   0 ──┤                └─ 4 ── .5   ──► 5
 *        .5 ── 2 ── inf ─── 3 */
Test(flow, two_sets_and_two_tokens)
{
    struct cop_flow flow;
    cr_assert_eq(cop_flow_init(&flow, 6, 7, NULL), COP_OK);
    cr_assert_eq(cop_flow_add(&flow, 0, 1, .5), 0);
    cr_assert_eq(cop_flow_add(&flow, 0, 2, .5), 1);
    int32_t first_3 = cop_flow_add(&flow, 1, 3, (double)INFINITY);
    int32_t first_4 = cop_flow_add(&flow, 1, 4, (double)INFINITY);
    int32_t second_3 = cop_flow_add(&flow, 2, 3, (double)INFINITY);
    (void)cop_flow_add(&flow, 3, 5, .25);
    (void)cop_flow_add(&flow, 4, 5, .5);
    NEAR(cop_flow_solve(&flow, 0, 5), .75);
    NEAR(cop_flow_on(&flow, first_4), .5);
    NEAR(cop_flow_on(&flow, first_3), 0);
    NEAR(cop_flow_on(&flow, second_3), .25);
    cr_expect(cop_flow_is_cut(&flow, 2) && cop_flow_is_cut(&flow, 3), "3 is full, 2 is not");
    cr_expect_not(cop_flow_is_cut(&flow, 1) || cop_flow_is_cut(&flow, 4));
    cop_flow_release(&flow);
}

/* The greedy first path 0-1-2-3 must be taken back in part. */
Test(flow, an_arc_is_taken_back)
{
    struct cop_flow flow;
    cr_assert_eq(cop_flow_init(&flow, 4, 5, NULL), COP_OK);
    int32_t across = cop_flow_add(&flow, 1, 2, 1);
    (void)cop_flow_add(&flow, 0, 1, 1);
    (void)cop_flow_add(&flow, 0, 2, .5);
    (void)cop_flow_add(&flow, 1, 3, .5);
    (void)cop_flow_add(&flow, 2, 3, 1);
    NEAR(cop_flow_solve(&flow, 0, 3), 1.5);
    NEAR(cop_flow_on(&flow, across), .5);
    cop_flow_reset(&flow, 3);
    (void)cop_flow_add(&flow, 0, 1, .3);
    (void)cop_flow_add(&flow, 1, 2, .2);
    NEAR(cop_flow_solve(&flow, 0, 2), .2);
    cr_expect(cop_flow_is_cut(&flow, 0) && cop_flow_is_cut(&flow, 1));
    cr_expect_not(cop_flow_is_cut(&flow, 2));
    cop_flow_release(&flow);
}

static uint32_t roll(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 10) % n;
}

enum { NODES = 7, EDGES = 18 };

/* The smallest cut by looking at all of them: node 0 is in, the last one out. */
static double smallest_cut(const int32_t *from, const int32_t *to, const double *capacity)
{
    double best = (double)INFINITY;
    for (uint32_t set = 1; set < 1u << (NODES - 1); set += 2) {
        double cut = 0;
        for (int i = 0; i < EDGES; i++) {
            cut += (set >> from[i] & 1) && !(set >> to[i] & 1) ? capacity[i] : 0;
        }
        best = fmin(best, cut);
    }
    return best;
}

Test(flow, equals_the_smallest_cut)
{
    for (uint32_t seed = 0; seed < 500; seed++) {
        uint32_t dice = seed;
        int32_t from[EDGES], to[EDGES];
        double capacity[EDGES], out[NODES] = {0};
        struct cop_flow flow;
        cr_assert_eq(cop_flow_init(&flow, NODES, EDGES, NULL), COP_OK);
        for (int i = 0; i < EDGES; i++) {
            from[i] = (int32_t)roll(&dice, NODES);
            to[i] = (int32_t)roll(&dice, NODES);
            capacity[i] = roll(&dice, 8) / 7.0;
            (void)cop_flow_add(&flow, from[i], to[i], capacity[i]);
        }
        double value = cop_flow_solve(&flow, 0, NODES - 1);
        cr_expect_lt(fabs(value - smallest_cut(from, to, capacity)), 1e-14, "seed %u", seed);
        double cut = 0;
        for (int i = 0; i < EDGES; i++) {
            double on = cop_flow_on(&flow, i);
            cr_expect(on >= 0 && on <= capacity[i], "seed %u", seed);
            out[from[i]] += on;
            out[to[i]] -= on;
            cut += cop_flow_is_cut(&flow, from[i]) && !cop_flow_is_cut(&flow, to[i])
                       ? capacity[i]
                       : 0;
        }
        cr_expect_lt(fabs(cut - value), 1e-14, "the certificate of seed %u", seed);
        for (int i = 1; i < NODES - 1; i++) {
            cr_expect_lt(fabs(out[i]), 1e-14, "node %d keeps something, seed %u", i, seed);
        }
        cop_flow_release(&flow);
    }
}
