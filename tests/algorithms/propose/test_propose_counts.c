/* ngram_cache, suffix_automaton and recycling against values worked out by the methods' own
 * code. */
#include "tests/algorithms/propose/propose_bench.h"

/* ---- ngram_cache ------------------------------------------------------------------------- */

static struct cop_part *new_cache(int32_t tokens)
{
    return set_number(new_part(COP_PLUG_PROPOSER, "ngram_cache"), "tokens", tokens);
}

static struct cop_part *with_static(int32_t tokens)
{
    return set_list(new_cache(tokens), "static", IDS(5, 7, 8, 3, 7, 8, 3, 7, 8, 4));
}

Test(propose_ngram_cache, context_decides_by_lax_limits)
{
    expect_chain(new_cache(8), IDS(1, 2, 3, 4, 1, 2, 3), 3, IDS(4, 1, 2, 3, 4, 1, 2, 3), "a");
    expect_chain(new_cache(8), IDS(1, 2, 3, 4, 5, 1, 2, 3), 3, IDS(4, 5, 1, 2, 3, 4, 5, 1),
                 "b");
    expect_chain(new_cache(8), IDS(7, 8, 9, 7), 0, NULL, 0, "a lone unigram needs 2 samples");
    expect_chain(new_cache(8), IDS(7, 8, 9, 7, 8, 9, 7), 4, IDS(8, 9, 7, 8, 9, 7, 8, 9), "c");
    expect_chain(new_cache(8), IDS(1, 2, 2), 0, NULL, 0, "d");
    expect_chain(new_cache(8), IDS(1), 0, NULL, 0, "one token");
    /* 1 was followed by 2 three times of four: 75 of the 66 percent; then 2 by 1 always */
    expect_chain(new_cache(2), IDS(1, 2, 1, 2, 1, 2, 1, 3, 5, 1), 1, IDS(2, 1), "e");
    /* two of four are 50 percent: too few for one token */
    expect_chain(new_cache(2), IDS(1, 2, 1, 2, 1, 3, 1, 3, 5, 1), 0, NULL, 0, "f");
}

Test(propose_ngram_cache, static_counts_weigh_and_serve)
{
    expect_chain(with_static(4), IDS(1, 7, 8), 2, IDS(3, 7, 8, 3), "static alone");
    expect_chain(with_static(4), IDS(7, 8, 9, 7, 8), 2, IDS(3, 7, 8, 3), "context rejected");
    expect_chain(with_static(4), IDS(7, 8, 4, 6, 7, 8, 3, 1, 7, 8), 2, IDS(3, 1, 7, 8),
                 "static breaks the tie");
    expect_chain(with_static(4), IDS(8), 0, NULL, 0, "shorter than a static n-gram");
}

Test(propose_ngram_cache, lists_are_checked)
{
    expect_refused(set_list(new_cache(4), "static", IDS(1, 2, 20)),
                   "cop.propose.ngram_cache: option \"static\": token 3 of list 1 is id 20, "
                   "which is outside the vocabulary of 20");
}

/* Feeds one request to an open session and returns the first drafted token of the next. */
static cop_token after_request(struct cop_part *part, const cop_token *first, int32_t n_first,
                               const cop_token *context, int32_t n_context)
{
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)ready(part)->plug;
    struct cop_proposer_env env = {
        .vocab_size = 20, .context = 1 << 20, .n_sequences = 2, .capacity = 64};
    struct cop_error err = {0};
    struct cop_tree tree;
    void *session = NULL;
    int32_t root = 0;
    struct cop_row row = {.kind = COP_ROW_NONE};
    cr_assert_eq(ops->open(part->state, &env, &session, &err), COP_OK, "%s", err.text);
    cr_assert_eq(ops->begin(session, 0, first, 1, &err), COP_OK);
    cr_assert_eq(cop_tree_init(&tree, 8, &err), COP_OK);
    for (int32_t i = 1; i < n_first; i++) {
        cop_tree_reset(&tree, first[i - 1]);
        struct cop_observed observed = {
            .tree = &tree, .last = first[i], .committed = first + i};
        cr_assert_eq(ops->observe(session, &observed, &err), COP_OK);
    }
    ops->end(session, 0);
    cr_assert_eq(ops->begin(session, 1, context, n_context, &err), COP_OK);
    cop_tree_reset(&tree, context[n_context - 1]);
    struct cop_frontier frontier = {
        .sequence = 1, .tree = &tree, .nodes = &root, .count = 1, .rows = &row};
    cr_assert_eq(ops->expand(session, &frontier, 1, &err), COP_OK);
    cop_token token = row.kind == COP_ROW_POINTS ? row.ids[0] : -1;
    ops->end(session, 1);
    ops->close(session);
    cop_tree_release(&tree);
    cop_part_free(part);
    return token;
}

Test(propose_ngram_cache, ended_requests_are_remembered_under_strict_limits)
{
    /* 3 samples and 66 percent for two tokens: 3 of 4 after (1 2) */
    const cop_token often[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 4};
    cr_expect_eq(after_request(new_cache(4), often, COUNT(often), IDS(9, 1, 2)), 3);
    const cop_token twice[] = {5, 1, 2, 3, 6, 1, 2, 3};
    cr_expect_eq(after_request(new_cache(4), twice, COUNT(twice), IDS(9, 1, 2)), -1,
                 "two samples of a 2-gram are too few");
    /* as 3-gram two samples do */
    cr_expect_eq(after_request(new_cache(4), IDS(7, 1, 2, 3, 7, 1, 2, 3), IDS(7, 1, 2)), 3);
}

/* ---- suffix_automaton -------------------------------------------------------------------- */

static struct cop_part *new_automaton(int32_t tokens)
{
    return set_number(new_part(COP_PLUG_PROPOSER, "suffix_automaton"), "tokens", tokens);
}

Test(propose_suffix_automaton, drafts_what_followed_the_first_occurrence)
{
    expect_chain(new_automaton(3), IDS(1, 2, 3, 4, 1, 2, 3), 3, IDS(4, 1, 2), "a");
    expect_chain(new_automaton(7), IDS(1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3), 3,
                 IDS(4, 1, 2, 3, 5, 1, 2), "b");
    expect_chain(new_automaton(2), IDS(1, 2, 2, 1, 2, 2), 3, IDS(2, 1), "climbs to the link");
    expect_chain(new_automaton(5), IDS(5, 6, 7, 8, 9, 5, 6, 7), 3, IDS(8, 9, 5, 6), "d");
    expect_chain(new_automaton(5), IDS(5), 0, NULL, 0, "one token");
    expect_chain(new_automaton(5), IDS(1, 2, 3), 0, NULL, 0, "nothing twice");
}

Test(propose_suffix_automaton, history_serves_where_it_matches_longer)
{
    struct cop_part *part = set_list(new_automaton(3), "history", IDS(1, 2, 3, 4, 5, 6, 7));
    expect_chain(part, IDS(9, 1, 2), 2, IDS(3, 4, 5), "no match in the text");
    part = set_list(new_automaton(3), "history", IDS(1, 2, 3, 4, 5, 6, 7));
    expect_chain(part, IDS(5, 9, 1, 2, 3, 4, 5), 1, IDS(9, 1, 2), "5 to 1 is not enough");
    part = set_list(new_automaton(3), "history", IDS(9, 1, 2, 3, 4, 5, 6, 7));
    expect_chain(set_number(part, "bias", 4), IDS(5, 9, 1, 2, 3, 4, 5), 6, IDS(6, 7), "6 to 1");
    part = set_list(new_automaton(3), "history", IDS(1, 2, 3));
    expect_chain(part, IDS(3), 1, NULL, 0, "the text ends there");
    expect_refused(set_list(new_automaton(4), "history", IDS(33)),
                   "cop.propose.suffix_automaton: option \"history\": token 1 of list 1 is id "
                   "33, which is outside the vocabulary of 20");
}

/* Any substring is read, its state's length and first occurrence are right: by brute force. */
Test(propose_suffix_automaton, longest_match_is_the_longest)
{
    for (uint32_t seed = 0; seed < 40; seed++) {
        cop_token text[48];
        uint32_t state = seed * 2654435761u + 12345u;
        int32_t n = COUNT(text);
        for (int32_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            text[i] = (cop_token)((state >> 16) % (2 + seed % 3));
        }
        int32_t longest = 0;
        for (int32_t m = 1; m < n; m++) {
            for (int32_t at = 0; at + m < n; at++) { /* ends before the text does */
                if (memcmp(text + at, text + n - m, (size_t)m * sizeof *text) == 0) {
                    longest = m;
                }
            }
        }
        struct drawn *drawn = draw(new_automaton(1), text, n);
        cr_expect_eq(drawn->matched, longest, "seed %u: %d, not %d", seed, drawn->matched,
                     longest);
        drawn_free(drawn);
    }
}

/* ---- recycling --------------------------------------------------------------------------- */

Test(propose_recycling, own_tree_is_the_published_one)
{
    static const int32_t sizes[] = {1, 8, 21, 25, 15, 8, 3};
    struct drawn *drawn = draw(new_part(COP_PLUG_PROPOSER, "recycling"), IDS(5));
    int32_t count[8] = {0};
    cr_assert_eq(drawn->tree.size, 81);
    for (int32_t node = 0; node < 81; node++) {
        count[cop_tree_depth(&drawn->tree, node)]++;
    }
    for (int32_t depth = 0; depth < COUNT(sizes); depth++) {
        cr_expect_eq(count[depth], sizes[depth], "depth %d", depth);
    }
    cr_expect_eq(drawn->matched, -1);
    drawn_free(drawn);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "recycling");
    drawn = draw(set_string(part, "unseen", "none"), IDS(5));
    cr_expect_eq(drawn->tree.size, 1);
    drawn_free(drawn);
}

enum { VOCAB = 12 };
static struct cop_row target_rows[4];

static const struct cop_row *row_at(void *context, int32_t node)
{
    (void)context;
    return &target_rows[node];
}

Test(propose_recycling, every_scored_node_teaches_the_last_one_counts)
{
    static const float logits[4][VOCAB] = {
        {0, 9, 1, 8, 2, 7, 3, 6, 4, 5, -1, -2},  /* root, token 1 */
        {5, 5, 5, 4, 4, 4, 3, 3, 3, 2, 2, 2},    /* token 3 */
        {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, /* token 3 again */
        {-INFINITY, -INFINITY, 1, -INFINITY, 2, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
         -INFINITY, -INFINITY, -INFINITY}}; /* token 7 */
    struct cop_part *part = ready(new_part(COP_PLUG_PROPOSER, "recycling"));
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)part->plug;
    struct cop_proposer_env env = {.vocab_size = VOCAB, .n_sequences = 1, .capacity = 80};
    struct cop_error err = {0};
    struct cop_tree tree;
    void *session = NULL;
    cr_assert_eq(ops->open(part->state, &env, &session, &err), COP_OK);
    cr_assert_eq(cop_tree_init(&tree, 4, &err), COP_OK);
    cop_tree_reset(&tree, 1);
    cop_tree_add(&tree, 0, 3, -1);
    cop_tree_add(&tree, 1, 3, -1);
    cop_tree_add(&tree, 0, 7, -1);
    for (int32_t node = 0; node < 4; node++) {
        target_rows[node] =
            (struct cop_row){.kind = COP_ROW_ONE_HOT, .vocab = VOCAB, .logits = logits[node]};
    }
    struct cop_observed observed = {.tree = &tree, .last = 1, .target = {.at = row_at}};
    cr_assert_eq(ops->observe(session, &observed, &err), COP_OK);
    static const cop_token expected[4][8] = {{1, 3, 5, 7, 9, 8, 6, 4},
                                             {11, 10, 9, 8, 7, 6, 5, 4},
                                             {11, 10, 9, 8, 7, 6, 5, 4},
                                             {4, 2}};
    static const int32_t counts[4] = {8, 8, 8, 2};
    for (int32_t node = 0; node < 4; node++) {
        struct cop_row row = {.kind = COP_ROW_NONE};
        struct cop_frontier frontier = {
            .tree = &tree, .nodes = &node, .count = 1, .rows = &row};
        cr_assert_eq(ops->expand(session, &frontier, 1, &err), COP_OK);
        cr_assert_eq(row.kind, COP_ROW_POINTS);
        cr_expect_eq(row.count, counts[node]);
        cr_expect_eq(memcmp(row.ids, expected[node], (size_t)counts[node] * sizeof *row.ids), 0,
                     "node %d", node);
        /* Of the eight's probability, in 255 parts: e^0, e^-1 … e^-7 are 161, 59, 22, 8 …; e^0
         * and e^-1 alone 186, 69. Token 3 is no successor of itself, so the second one is
         * believed as much as the first. */
        static const double first[4] = {161. / 255, 59. / 255 * 161 / 255,
                                        59. / 255 * 161 / 255, 8. / 255 * 186 / 255};
        cr_expect_lt(fabs(row.weights[0] - first[node]), 1e-12, "node %d: %.17g", node,
                     row.weights[0]);
    }
    ops->close(session);
    cop_tree_release(&tree);
    cop_part_free(part);
}
