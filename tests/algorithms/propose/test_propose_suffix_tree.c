/* suffix_tree: drafts of the reference's own code, and the tree itself against counting by
 * hand.
 */
#include "algorithms/history/suffix_tree.h"
#include "tests/algorithms/propose/propose_bench.h"

/* ---- Drafts ------------------------------------------------------------------------------ */

/* Tree A: 1 2 3 4 1 2 3 5 1 2 3 4 6 as history; at most 8 tokens. */
static struct cop_part *new_suffix(double factor, double least, const char *shape)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "suffix_tree");
    set_list(part, "history", IDS(1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3, 4, 6));
    set_number(set_number(part, "max_tokens", 8), "factor", factor);
    return set_string(set_number(part, "min_probability", least), "shape", shape);
}

static void expect_numbers(const double *got, const double *wanted, int32_t n, const char *what)
{
    for (int32_t i = 0; i < n; i++) {
        cr_expect_float_eq(got[i + 1], wanted[i], 1e-12, "%s: %d: %.17g", what, i + 1,
                           got[i + 1]);
    }
}

Test(propose_suffix_tree, paths_of_the_reference)
{
    static const double thirds[] = {2. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3};
    struct drawn *drawn = draw(new_suffix(1, 0.1, "path"), IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 1, 2), "factor 1");
    expect_numbers(drawn->probabilities, thirds, 3, "probabilities");
    expect_numbers(drawn->scores, thirds, 3, "scores");
    cr_expect_eq(drawn->matched, 3);
    drawn_free(drawn);
    drawn = draw(new_suffix(2, 0.1, "path"), IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 1, 2, 3, 5, 1), "factor 2");
    expect_numbers(drawn->probabilities, thirds, 6, "factor 2");
    drawn_free(drawn);
    expect_chain(new_suffix(1, 0.7, "path"), IDS(9, 1, 2, 3), 3, NULL, 0, "below 0.7");
    expect_chain(new_suffix(1, 0.1, "path"), IDS(3), 0, NULL, 0, "one token never matches");
    expect_chain(new_suffix(1, 0.1, "path"), IDS(2, 3), 1, IDS(4), "not the whole context");
    expect_chain(new_suffix(1, 0.1, "path"), IDS(7, 4, 1, 2, 3), 4, IDS(5, 1, 2, 3), "sure");
    expect_chain(new_suffix(0, 0.1, "path"), IDS(9, 1, 2, 3), 3, NULL, 0, "no factor");
    expect_chain(new_suffix(1, 0.1, "path"), IDS(8, 9), 0, NULL, 0, "unknown");
}

Test(propose_suffix_tree, trees_of_the_reference)
{
    static const double thirds[] = {2. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3};
    static const int32_t parents[] = {-1, 0, 0, 1, 1, 2, 3};
    struct drawn *drawn = draw(new_suffix(2, 0.1, "tree"), IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 5, 1, 6, 1, 2), "factor 2");
    cr_assert_eq(drawn->tree.size, 7);
    cr_expect_eq(memcmp(drawn->tree.parent, parents, sizeof parents), 0);
    expect_numbers(drawn->probabilities, thirds, 6, "factor 2");
    drawn_free(drawn);
    drawn = draw(new_suffix(1, 0.1, "tree"), IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 5, 1), "factor 1");
    cr_expect_eq(drawn->tree.parent[3], 1);
    drawn_free(drawn);
    drawn = draw(new_suffix(1, 0.4, "tree"), IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4), "0.4");
    drawn_free(drawn);
}

/* The request's own text counts the end of the context itself: 1 2 3 occurs twice, 4 once. */
Test(propose_suffix_tree, the_request_is_its_own_history)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "suffix_tree");
    struct drawn *drawn = draw(part, IDS(1, 2, 3, 4, 5, 1, 2, 3));
    static const double halves[] = {.5, .5, .5};
    expect_tokens(drawn, IDS(4, 5, 1), "own text");
    expect_numbers(drawn->probabilities, halves, 3, "own text");
    cr_expect_eq(drawn->matched, 3);
    drawn_free(drawn);
    /* history 1 2 3 9 scores 3 * 1 of one occurrence: more than the text's own 3 / 2 */
    part = set_list(new_part(COP_PLUG_PROPOSER, "suffix_tree"), "history",
                    IDS(1, 2, 3, 9, 9, 9, 9));
    expect_chain(part, IDS(1, 2, 3, 4, 5, 1, 2, 3), 3, IDS(9, 9, 9), "history is surer");
}

Test(propose_suffix_tree, any_builder_finds_what_was_drafted)
{
    static const int32_t widths[] = {2, 2, 1};
    struct cop_part *builder = new_widths(widths, 3);
    struct drawn *drawn = draw_with(new_suffix(2, 0.1, "tree"), builder, 20, IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 5, 1, 6, 1, 2), "widths");
    drawn_free(drawn);
    cop_part_free(builder);
    builder = new_chain(5);
    drawn = draw_with(new_suffix(2, 0.1, "tree"), builder, 20, IDS(9, 1, 2, 3));
    expect_tokens(drawn, IDS(4, 1, 2), "chain");
    drawn_free(drawn);
    cop_part_free(builder);
    expect_refused(set_list(new_part(COP_PLUG_PROPOSER, "suffix_tree"), "history", IDS(7, 20)),
                   "cop.propose.suffix_tree: option \"history\": token 2 of list 1 is id 20, "
                   "which is outside the vocabulary of 20");
}

/* ---- The tree ---------------------------------------------------------------------------- */

enum { DEPTH = 7, TEXTS = 40, LONGEST = 30 };

struct texts { /* all that was written; the first n_gone are forgotten */
    cop_token ids[TEXTS][LONGEST];
    int32_t length[TEXTS], n, n_gone;
};

/* How often ids[0..n) occurs; *first: a number that grows with the end of its first occurrence.
 */
static int32_t occurrences(const struct texts *texts, const cop_token *ids, int32_t n,
                           int32_t *first)
{
    int32_t count = 0;
    for (int32_t t = texts->n_gone; t < texts->n; t++) {
        for (int32_t at = 0; at + n <= texts->length[t]; at++) {
            if (memcmp(texts->ids[t] + at, ids, (size_t)n * sizeof *ids) == 0) {
                *first = count++ == 0 ? t * LONGEST + at + n : *first;
            }
        }
    }
    return count;
}

/* All children of a string by hand, against cop_suffix_children. */
static void check_children(struct cop_suffix_tree *tree, const struct texts *texts,
                           const struct cop_suffix_place *place, cop_token *ids,
                           int32_t alphabet, uint32_t seed)
{
    int32_t total = cop_suffix_count(tree, place), children[16], n_wanted = 0, last = 0;
    int32_t n = cop_suffix_children(tree, place->node, (total + 3) / 4, children, 16);
    for (int32_t token = 0; token < alphabet; token++) {
        int32_t first = 0;
        ids[place->depth] = token;
        n_wanted += 4 * occurrences(texts, ids, place->depth + 1, &first) >= total;
    }
    cr_assert_eq(n, n_wanted, "seed %u: %d children, not %d", seed, n, n_wanted);
    for (int32_t i = 0, count = INT32_MAX; i < n; i++) {
        int32_t first = 0;
        ids[place->depth] = tree->nodes[children[i]].token;
        int32_t now = occurrences(texts, ids, place->depth + 1, &first);
        cr_assert_eq(now, tree->nodes[children[i]].count);
        cr_assert(now < count || (now == count && (texts->n_gone > 0 || first > last)),
                  "seed %u: order", seed);
        count = now;
        last = first;
    }
}

/* Every string of up to DEPTH tokens over the alphabet that occurs, and those one token longer
 * that do not. */
static void check(struct cop_suffix_tree *tree, const struct texts *texts,
                  const struct cop_suffix_place *place, cop_token *ids, int32_t alphabet,
                  uint32_t seed)
{
    if (cop_suffix_inside(tree, place) < 0 && place->depth > 0 && place->depth < DEPTH) {
        check_children(tree, texts, place, ids, alphabet, seed);
    }
    for (cop_token token = 0; token < alphabet && place->depth < DEPTH; token++) {
        struct cop_suffix_place next = *place;
        int32_t first = 0;
        ids[place->depth] = token;
        int32_t count = occurrences(texts, ids, place->depth + 1, &first);
        bool is_there = cop_suffix_advance(tree, &next, token);
        cr_assert_eq(is_there, count > 0, "seed %u depth %d", seed, next.depth);
        if (is_there) {
            cr_assert_eq(cop_suffix_count(tree, &next), count, "seed %u: %d times, not %d",
                         seed, cop_suffix_count(tree, &next), count);
            check(tree, texts, &next, ids, alphabet, seed);
        }
    }
}

/* What the text's own end matches: every shorter end, longest first, that occurs twice. */
static void check_cursors(const struct cop_suffix_tree *tree, const struct texts *texts)
{
    const cop_token *text = texts->ids[texts->n - 1];
    int32_t length = texts->length[texts->n - 1], first, longest = 0;
    for (int32_t m = 1; m < DEPTH && m <= length; m++) {
        longest = occurrences(texts, text + length - m, m, &first) > 1 ? m : longest;
    }
    cr_assert_eq(tree->n_cursors, longest);
    for (int32_t i = 0; i < tree->n_cursors; i++) {
        cr_assert_eq(tree->cursors[i].depth, longest - i);
    }
}

Test(suffix_tree, counts_as_by_hand_while_texts_come_and_go)
{
    static struct texts texts;
    for (uint32_t seed = 0; seed < 24; seed++) {
        uint32_t state = seed * 2654435761u + 99u;
        int32_t alphabet = 2 + (int32_t)(seed % 3), kept = seed < 12 ? TEXTS : 3;
        struct cop_suffix_tree tree;
        struct cop_error err = {0};
        cop_token ids[DEPTH + 1];
        texts = (struct texts){.n = 0};
        cr_assert_eq(cop_suffix_tree_init(&tree, DEPTH, 0.25, &err), COP_OK);
        for (int32_t t = 0; t < 9; t++) {
            int32_t length = 1 + (int32_t)((state >> 8) % LONGEST);
            texts.n++;
            for (int32_t i = 0; i < length; i++) {
                state = state * 1664525u + 1013904223u;
                cop_token token = (cop_token)((state >> 16) % (uint32_t)alphabet);
                texts.ids[t][texts.length[t]++] = token;
                cr_assert_eq(cop_suffix_tree_push(&tree, token, &err), COP_OK);
                check_cursors(&tree, &texts);
                if (i % 5 == 0) {
                    check(&tree, &texts, &COP_SUFFIX_ROOT, ids, alphabet, seed);
                }
            }
            cr_assert_eq(cop_suffix_tree_finish(&tree, &err), COP_OK);
            while (texts.n - texts.n_gone > kept) {
                cop_suffix_tree_forget(&tree);
                texts.n_gone++;
            }
            check(&tree, &texts, &COP_SUFFIX_ROOT, ids, alphabet, seed);
        }
        cop_suffix_tree_release(&tree);
    }
}

/* Text and nodes of forgotten texts are used again: a long stream takes bounded memory. */
Test(suffix_tree, forgetting_gives_memory_back)
{
    struct cop_suffix_tree tree;
    struct cop_error err = {0};
    uint32_t state = 7;
    int32_t most_nodes = 0;
    cr_assert_eq(cop_suffix_tree_init(&tree, 16, 0.1, &err), COP_OK);
    for (int32_t t = 0; t < 200; t++) {
        for (int32_t i = 0; i < 300; i++) {
            state = state * 1664525u + 1013904223u;
            cr_assert_eq(cop_suffix_tree_push(&tree, (cop_token)(state >> 27), &err), COP_OK);
        }
        cr_assert_eq(cop_suffix_tree_finish(&tree, &err), COP_OK);
        if (t >= 10) {
            cop_suffix_tree_forget(&tree);
        }
        most_nodes = tree.n_used > most_nodes ? tree.n_used : most_nodes;
    }
    cr_expect_lt(tree.text.count, 3 * 11 * 300);
    cr_expect_leq(tree.n_nodes, 2 * 11 * 300 + 1);
    while (tree.n_texts > 0) {
        cop_suffix_tree_forget(&tree);
    }
    cr_expect_eq(tree.n_used, 1, "%d nodes are left", tree.n_used);
    cr_expect_eq(tree.nodes[0].count, 0);
    cop_suffix_tree_release(&tree);
}
