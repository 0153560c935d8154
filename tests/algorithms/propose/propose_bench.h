/* What the tests of proposers without a model share: one draft, compared with a list. */
#ifndef TESTS_ALGORITHMS_PROPOSE_BENCH_H
#define TESTS_ALGORITHMS_PROPOSE_BENCH_H

#include "tests/algorithms/engine/engine_bench.h"

#define COUNT(list) (int32_t)(sizeof(list) / sizeof *(list))
#define IDS(...)    (const cop_token[]){__VA_ARGS__}, COUNT(((const cop_token[]){__VA_ARGS__}))

/* Lists of one option: IDS of a single list. */
static UNUSED_FUNCTION struct cop_part *set_list(struct cop_part *part, const char *name,
                                                 const cop_token *ids, int32_t n)
{
    struct cop_error err = {0};
    cr_assert_eq(
        cop_option_set_paths(option(part, name), part->state, ids, &n, 1, "test", &err), COP_OK,
        "%s", err.text);
    return part;
}

struct drawn {
    struct cop_tree tree;
    double probabilities[COP_TREE_LIMIT + 1], scores[COP_TREE_LIMIT + 1];
    int32_t matched;
};

/* Drafts once and frees the part. */
static UNUSED_FUNCTION struct drawn *draw_with(struct cop_part *part, struct cop_part *builder,
                                               int32_t vocab, const cop_token *context,
                                               int32_t n)
{
    struct drawn *drawn = calloc(1, sizeof *drawn);
    struct cop_error err = {0};
    struct cop_proposer_env env = {.vocab_size = vocab,
                                   .context = 1 << 20,
                                   .n_sequences = 1,
                                   .sampling = {.temperature = 1, .top_p = 1}};
    cr_assert_eq(cop_tree_init(&drawn->tree, COP_TREE_LIMIT + 1, &err), COP_OK);
    cr_assert_eq(cop_propose_once(ready(part), builder, COP_DRAW_AUTO, &env, context, n, 0,
                                  &drawn->tree, drawn->probabilities, drawn->scores,
                                  &drawn->matched, &err),
                 COP_OK, "%s", err.text);
    cop_part_free(part);
    return drawn;
}

static UNUSED_FUNCTION struct drawn *draw(struct cop_part *part, const cop_token *context,
                                          int32_t n)
{
    return draw_with(part, NULL, 20, context, n);
}

static UNUSED_FUNCTION void drawn_free(struct drawn *drawn)
{
    cop_tree_release(&drawn->tree);
    free(drawn);
}

static UNUSED_FUNCTION void expect_tokens(const struct drawn *drawn, const cop_token *ids,
                                          int32_t n, const char *what)
{
    cr_expect_eq(drawn->tree.size - 1, n, "%s: %d nodes, not %d", what, drawn->tree.size - 1,
                 n);
    for (int32_t i = 0; i < n && i < drawn->tree.size - 1; i++) {
        cr_expect_eq(drawn->tree.token[i + 1], ids[i], "%s: node %d carries %d, not %d", what,
                     i + 1, drawn->tree.token[i + 1], ids[i]);
    }
}

/* The draft is a chain of these tokens after a match of `matched`. */
static UNUSED_FUNCTION void expect_chain(struct cop_part *part, const cop_token *context,
                                         int32_t n_context, int32_t matched,
                                         const cop_token *ids, int32_t n, const char *what)
{
    struct drawn *drawn = draw(part, context, n_context);
    expect_tokens(drawn, ids, n, what);
    cr_expect_eq(drawn->matched, matched, "%s: matched %d, not %d", what, drawn->matched,
                 matched);
    for (int32_t node = 1; node < drawn->tree.size; node++) {
        cr_expect_eq(drawn->tree.parent[node], node - 1, "%s", what);
    }
    drawn_free(drawn);
}

/* Opening refuses with this message. */
static UNUSED_FUNCTION void expect_refused(struct cop_part *part, const char *message)
{
    struct cop_error err = {0};
    struct cop_tree tree;
    struct cop_proposer_env env = {.vocab_size = 20, .context = 1 << 20, .n_sequences = 1};
    cop_token context = 1;
    cr_assert_eq(cop_tree_init(&tree, COP_TREE_LIMIT + 1, &err), COP_OK);
    cr_expect_eq(cop_propose_once(ready(part), NULL, COP_DRAW_AUTO, &env, &context, 1, 0, &tree,
                                  NULL, NULL, NULL, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, message);
    cop_tree_release(&tree);
    cop_part_free(part);
}

#endif
