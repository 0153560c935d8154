/* The law of the children that each draw kind gives, by enumeration against numbers made by
 * hand.
 */
#include "core/cycle/contract/builder.h"
#include "core/cycle/law/enumerate.h"
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

enum { VOCAB = 4, CODES = 625 }; /* up to four children, as digits in base 5, 0: none */

static struct cop_tree tree;
static struct cop_error error;
static double law[CODES];
static int32_t frontier[1] = {0}, next[64];

static int code_of(const char *tokens)
{
    int code = 0;
    for (; *tokens; tokens++) {
        code = code * 5 + (*tokens - '0') + 1;
    }
    return code;
}

static int code_of_tree(void)
{
    int code = 0;
    for (int32_t node = 1; node < tree.size; node++) {
        code = code * 5 + tree.token[node] + 1;
    }
    return code;
}

/* The law of the root's children when `calls` asks for so many, one call after another. */
static void enumerate(enum cop_draw draw, const double *row, const int32_t *calls)
{
    struct cop_row rows[1] = {{.kind = COP_ROW_DENSE, .vocab = VOCAB, .dense = row}};
    struct cop_enumeration e;
    memset(law, 0, sizeof law);
    error = (struct cop_error){.code = COP_OK};
    tree.draw = draw;
    cop_enumeration_init(&e, &error);
    do {
        struct cop_draws draws = cop_enumeration_start(&e);
        struct cop_grow grow = {.tree = &tree,
                                .draws = &draws,
                                .level = 1,
                                .frontier = frontier,
                                .rows = rows,
                                .n_frontier = 1,
                                .budget = 9,
                                .next = next};
        cop_tree_reset(&tree, 0);
        for (int i = 0; calls[i] > 0; i++) {
            (void)cop_grow_draw(&grow, 0, calls[i]);
        }
        law[code_of_tree()] += e.probability;
    } while (error.code == COP_OK && cop_enumeration_next(&e));
    cop_enumeration_release(&e);
}

static void expect(const char *tokens, double probability)
{
    cr_expect_lt(fabs(law[code_of(tokens)] - probability), 1e-15, "%s: %.17g, not %.17g",
                 tokens, law[code_of(tokens)], probability);
    law[code_of(tokens)] = 0;
}

static void expect_nothing_else(void)
{
    cr_expect_eq(error.code, COP_OK, "%s", error.text);
    for (int code = 0; code < CODES; code++) {
        cr_expect_eq(law[code], 0, "children coded %d with probability %g", code, law[code]);
    }
}

static void start(void)
{
    cr_assert_eq(cop_tree_init(&tree, 16, NULL), COP_OK);
}
static void stop(void)
{
    cop_tree_release(&tree);
}
TestSuite(grow_law, .init = start, .fini = stop);

static const double plain[] = {.2, .4, .1, .3}, ties[] = {.25, .25, .25, .25},
                    two[] = {0, .75, 0, .25}, one[] = {0, 0, 1, 0};

Test(grow_law, greedy_draw)
{
    enumerate(COP_DRAW_GREEDY, plain, (int32_t[]){1, 0}); /* one plain sample */
    expect("0", .2), expect("1", .4), expect("2", .1), expect("3", .3);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, plain, (int32_t[]){2, 0});
    expect("10", .2 / .6), expect("12", .1 / .6), expect("13", .3 / .6);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, plain, (int32_t[]){3, 0});
    expect("130", .2 / .3), expect("132", .1 / .3);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, plain, (int32_t[]){4, 0});
    expect("1302", 1);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, ties, (int32_t[]){3, 0}); /* ties to the lowest ids */
    expect("012", .5), expect("013", .5);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, two, (int32_t[]){4, 0}); /* no more than are possible */
    expect("13", 1);
    expect_nothing_else();
    enumerate(COP_DRAW_GREEDY, one, (int32_t[]){2, 0});
    expect("2", 1);
    expect_nothing_else();
}

Test(grow_law, hub_pair)
{
    enumerate(COP_DRAW_HUB_PAIR, plain, (int32_t[]){2, 0}); /* the hub is token 1 */
    expect("01", .2), expect("21", .1), expect("31", .3);
    expect("10", .4 * .2 / .6), expect("12", .4 * .1 / .6), expect("13", .4 * .3 / .6);
    expect_nothing_else();
    enumerate(COP_DRAW_HUB_PAIR, two, (int32_t[]){2, 0});
    expect("31", .25), expect("13", .75);
    expect_nothing_else();
    enumerate(COP_DRAW_HUB_PAIR, one, (int32_t[]){2, 0});
    expect("2", 1);
    expect_nothing_else();
}

/* Asking again goes on where the last call ended. */
Test(grow_law, one_after_another)
{
    enumerate(COP_DRAW_WITHOUT_REPLACEMENT, two, (int32_t[]){1, 1, 1, 0});
    expect("13", .75), expect("31", .25);
    expect_nothing_else();
    enumerate(COP_DRAW_WITHOUT_REPLACEMENT, plain, (int32_t[]){1, 2, 0});
    expect("013", .2 * .4 / .8 * .3 / .4), expect("102", .4 * .2 / .6 * .1 / .4);
    for (int code = 0; code < CODES; code++) {
        law[code] = 0;
    }
    expect_nothing_else();
    enumerate(COP_DRAW_DETERMINISTIC, plain, (int32_t[]){1, 1, 2, 0});
    expect("1302", 1);
    expect_nothing_else();
    enumerate(COP_DRAW_INDEPENDENT, two, (int32_t[]){1, 1, 0});
    expect("11", .5625), expect("13", .1875), expect("31", .1875), expect("33", .0625);
    expect_nothing_else();
}

static void expect_refusal(const char *text)
{
    cr_expect_eq(error.code, COP_ERR_ARGUMENT);
    cr_expect_str_eq(error.text, text);
}

Test(grow_law, refusals)
{
    enumerate(COP_DRAW_HUB_PAIR, plain, (int32_t[]){3, 0});
    expect_refusal("draw = \"hub_pair\" draws two children of a node: every width must be 2");
    enumerate(COP_DRAW_HUB_PAIR, plain, (int32_t[]){1, 0});
    expect_refusal("draw = \"hub_pair\" draws two children of a node: every width must be 2");
    enumerate(COP_DRAW_HUB_PAIR, plain, (int32_t[]){2, 2, 0});
    expect_refusal("draw = \"hub_pair\" draws both children of a node at once");
    enumerate(COP_DRAW_GREEDY, plain, (int32_t[]){2, 1, 0});
    expect_refusal("draw = \"greedy_draw\" draws all children of a node at once");
}
