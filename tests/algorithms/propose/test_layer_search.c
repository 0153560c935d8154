/* The search over sub-layers to leave out: what a mask may be, when it ends, and that it finds
 * better ones. */
#include "algorithms/propose/layer_search.h"
#include "core/model/model.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LAYERS = 12 };

static int32_t parts_of(const uint8_t *mask)
{
    int32_t n = 0;
    for (int32_t i = 0; i < LAYERS; i++) {
        n += (mask[i] & COP_SKIP_ATTENTION) != 0;
        n += (mask[i] & COP_SKIP_MLP) != 0;
    }
    return n;
}

static struct cop_layer_search new_search(double goal, int32_t most_steps)
{
    struct cop_layer_search search;
    struct cop_error err = {0};
    cr_assert_eq(cop_layer_search_init(&search, LAYERS, 0.45, goal, most_steps, &err), COP_OK);
    return search;
}

/* Share of skipped parts that lie in the upper half: the best mask scores 1. */
static double upper_half(const uint8_t *mask)
{
    uint8_t upper[LAYERS] = {0};
    memcpy(upper + LAYERS / 2, mask + LAYERS / 2, LAYERS / 2);
    return (double)parts_of(upper) / parts_of(mask);
}

/* 0.45 of 2 (12 - 2) parts is 9 of them; the first and the last layer are whole. */
Test(layer_search, masks_leave_out_as_many_parts_as_they_should)
{
    struct cop_layer_search search = new_search(1, 60);
    int32_t often[LAYERS] = {0};
    cr_assert_eq(search.n_skipped, 9);
    cr_expect_eq(parts_of(search.best), 9);
    while (cop_layer_search_next(&search)) {
        cr_expect_eq(parts_of(search.trial), 9);
        cr_expect_eq(search.trial[0] | search.trial[LAYERS - 1], 0);
        for (int32_t i = 0; i < LAYERS; i++) {
            often[i] += search.trial[i] != 0;
        }
        cop_layer_search_told(&search, 0.5);
    }
    cr_expect_eq(search.step, 60);
    for (int32_t i = 1; i < LAYERS - 1; i++) {
        cr_expect(often[i] > 25 && often[i] < 57, "layer %d: %d of 60", i, often[i]);
    }
    cop_layer_search_release(&search);
}

Test(layer_search, ends_by_goal_idleness_and_steps)
{
    struct cop_layer_search search = new_search(0.93, 1000);
    cr_assert(cop_layer_search_next(&search));
    cop_layer_search_told(&search, 0.93);
    cr_assert(cop_layer_search_next(&search), "at the goal is not above it");
    cop_layer_search_told(&search, 0.94);
    cr_expect_not(cop_layer_search_next(&search));
    cop_layer_search_restart(&search);
    while (cop_layer_search_next(&search)) {
        cop_layer_search_told(&search, 0.1);
    }
    cr_expect_eq(search.step, 301, "%d", search.step);
    cop_layer_search_release(&search);
}

/* Its every 25th step is chosen by what the others scored, and better than they are. */
Test(layer_search, hopes_are_better_than_chance)
{
    struct cop_layer_search search = new_search(1, 300);
    double hopeful = 0, random = 0, first = upper_half(search.best);
    int32_t n_hopeful = 0, n_random = 0;
    while (cop_layer_search_next(&search)) {
        double score = upper_half(search.trial);
        bool is_hopeful = search.step > 0 && search.step % 25 == 0;
        *(is_hopeful ? &hopeful : &random) += score;
        ++*(is_hopeful ? &n_hopeful : &n_random);
        cop_layer_search_told(&search, score);
    }
    cr_expect_eq(n_hopeful, 11);
    cr_expect_gt(hopeful / n_hopeful, random / n_random + 0.1, "%g and %g", hopeful / n_hopeful,
                 random / n_random);
    cr_expect_geq(search.best_score, 7.0 / 9);
    cr_expect_gt(search.best_score, first);
    cr_expect_float_eq(upper_half(search.best), search.best_score, 0);
    cop_layer_search_release(&search);
}
