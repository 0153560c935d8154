/* Sequoia's programme against all trees: acceptance that rises and falls, with and without a
 * bound on the depth; and how long it may take. */
#include "algorithms/tree/sequoia_optimum.h"
#include "core/base/hash.h"
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { RANKS = 4, MOST = 7 };
#ifdef COP_DEBUG
enum { SECONDS = 50 };
#else
enum { SECONDS = 1 };
#endif

/* The best of all trees of n nodes on `levels` levels whose root has its children from rank
 * `rank` on: the subtree of that child is of every size in turn. */
static double best_of_all(const double *p, int32_t rank, int32_t n, int32_t levels)
{
    double best = n == 0 ? 0 : -HUGE_VAL;
    for (int32_t m = 1; m <= n && rank < RANKS && levels > 1; m++) {
        double child = 1 + best_of_all(p, 0, m - 1, levels - 1);
        double value = p[rank] * child + best_of_all(p, rank + 1, n - m, levels);
        best = child > 0 && value > best ? value : best;
    }
    return best;
}

Test(tree_sequoia, is_the_best_of_all_trees)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        double p[RANKS];
        struct cop_error err;
        for (int32_t i = 0; i < RANKS; i++) {
            p[i] = (double)(cop_hash_u64((uint64_t)i, seed) % 10) / 10;
        }
        p[RANKS - 1] += .05; /* trailing ranks of no use are left out */
        for (int32_t depth = 1; depth <= MOST; depth++) {
            struct cop_sequoia s;
            cr_assert_eq(cop_sequoia_solve(&s, p, RANKS, MOST, depth, &err), COP_OK);
            for (int32_t n = 1; n <= MOST; n++) {
                double all = 1 + best_of_all(p, 0, n, depth + 1);
                double value = cop_sequoia_value(&s, n + 1, depth + 1);
                cr_expect(fabs(value - all) < 1e-12 || (isinf(value) && isinf(all)),
                          "seed %d, depth %d, %d nodes: %g, not %g", (int)seed, depth, n, value,
                          all);
            }
            cop_sequoia_release(&s);
        }
    }
}

/* The tree that is read back has the value that was promised, on as many levels as allowed. */
Test(tree_sequoia, tree_has_its_value)
{
    static const double p[] = {.4, .1, 0, .3, .05};
    struct cop_error err;
    for (int32_t depth = 2; depth <= 40; depth += 2) {
        struct cop_sequoia s;
        struct cop_fixed_tree tree;
        double *scores, sum = 0;
        cr_assert_eq(cop_sequoia_solve(&s, p, 5, 30, depth, &err), COP_OK);
        cr_assert_eq(cop_sequoia_tree(&s, 31, s.n_levels, &tree, &scores, &err), COP_OK);
        cr_expect_eq(tree.n_nodes, 30);
        cr_expect_leq(tree.depth, depth);
        for (int32_t node = 0; node <= tree.n_nodes; node++) {
            sum += scores[node];
            for (int32_t j = 0; j < tree.n_children[node]; j++) {
                int32_t child = tree.first_child[node] + j;
                cr_expect(tree.parent[child] == node && tree.rank[child] == j);
            }
        }
        cr_expect_lt(fabs(sum - cop_sequoia_value(&s, 31, s.n_levels)), 1e-12);
        free(scores);
        cop_fixed_tree_release(&tree);
        cop_sequoia_release(&s);
    }
}

/* 0.25 s on a machine of 2023; a bound that only another order of growth would break. */
Test(tree_sequoia, thousand_nodes_in_no_time, .timeout = 60)
{
    double p[32];
    struct cop_error err;
    struct cop_sequoia s;
    for (int32_t i = 0; i < 32; i++) {
        p[i] = .6 / (1 + i);
    }
    clock_t started = clock();
    cr_assert_eq(cop_sequoia_solve(&s, p, 32, 1024, 10, &err), COP_OK);
    cr_expect_lt((double)(clock() - started) / CLOCKS_PER_SEC, SECONDS);
    cop_sequoia_release(&s);
}
