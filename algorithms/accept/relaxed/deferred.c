/* FLy: a token that the target would not have said is kept when the target was unsure there and
 * says what the draft says for a while afterwards.
 *
 * Target rows after the mismatch are conditioned on the drafted token, so that agreement is
 * partly its own doing. The window counts the matches that must follow, as in vLLM; the paper's
 * number includes the mismatch itself. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

enum test { GREEDY, RATIO };

struct deferred {
    int32_t window; /* INT32_MIN: by the length of the chain */
    double entropy;
    int32_t test;
};

static const struct cop_option options[] = {
    {.name = "window",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct deferred, window),
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT,
     .help =
         "matches that must follow a mismatch, all within the block; absent: 6, at most one "
         "less than was drafted, as in vLLM (the paper: 5)"},
    COP_A_NUMBER(deferred, entropy, 0, 1000, 0.3,
                 "least -sum target ln target over the target's three best tokens (plain row)"),
    COP_A_CHOICE(deferred, test, "greedy|ratio",
                 "a match is the target's best token, or what min(1, target / draft) keeps by "
                 "its own coin"),
    {0}};

/* The drafted chain: node i + 1 of the path, tested when first asked for. */
struct chain {
    const struct deferred *how;
    const struct cop_verify_in *in;
    int32_t nodes[COP_TREE_LIMIT + 1]; /* the root first */
    int32_t n;                         /* drafted */
    int8_t verdicts[COP_TREE_LIMIT];   /* of token i; -1: not tested yet */
};

static cop_token token_of(const struct chain *chain, int32_t i)
{
    return chain->in->tree->token[chain->nodes[i + 1]];
}

static const struct cop_row *target_of(const struct chain *chain, int32_t i)
{
    return cop_rows_at(&chain->in->target, chain->nodes[i]);
}

static bool test(const struct chain *chain, int32_t i)
{
    const struct cop_row *target = target_of(chain, i);
    if (chain->how->test == GREEDY || target->kind == COP_ROW_ONE_HOT) {
        return token_of(chain, i) == cop_row_best(target);
    }
    int32_t node = chain->nodes[i + 1];
    double p = cop_row_probability(target, token_of(chain, i));
    double q = cop_row_probability(cop_rows_at(&chain->in->draft, node), token_of(chain, i));
    return cop_flip(chain->in->draws, cop_purpose("accept"), chain->in->tree->key[node],
                    q > 0 ? fmin(1, p / q) : 0);
}

static bool matches(struct chain *chain, int32_t i)
{
    if (chain->verdicts[i] < 0) {
        chain->verdicts[i] = test(chain, i);
    }
    return chain->verdicts[i] > 0;
}

/* Entropy of the three best, not normalised again. */
static double top_entropy(const struct cop_reading *plain)
{
    cop_token best[3];
    int32_t n = cop_reading_top(plain, 3, best);
    double entropy = 0;
    for (int32_t i = 0; i < n; i++) {
        entropy -= cop_reading_probability(plain, best[i]) * cop_reading_log(plain, best[i]);
    }
    return entropy;
}

/* Whether the mismatch at i may stay. */
static bool is_excused(struct chain *chain, int32_t i)
{
    const struct cop_row *target = target_of(chain, i);
    int32_t longest = chain->n > 6 ? 6 : chain->n > 2 ? chain->n - 1 : 1;
    int32_t window = chain->how->window == INT32_MIN ? longest : chain->how->window;
    struct cop_reading plain = cop_read_plain(target);
    bool is_possible = target->kind == COP_ROW_ONE_HOT
                           ? cop_reading_probability(&plain, token_of(chain, i)) > 0
                           : cop_row_probability(target, token_of(chain, i)) > 0;
    if (i + window >= chain->n || !is_possible || top_entropy(&plain) < chain->how->entropy) {
        return false;
    }
    if (chain->how->test == RATIO && target->kind != COP_ROW_ONE_HOT &&
        !(cop_row_probability(cop_rows_at(&chain->in->draft, chain->nodes[i + 1]),
                              token_of(chain, i)) > 0)) {
        return false;
    }
    for (int32_t k = 1; k <= window; k++) {
        if (!matches(chain, i + k)) {
            return false;
        }
    }
    return true;
}

static enum cop_status check_draw(const struct chain *chain, struct cop_error *err)
{
    const struct cop_tree *tree = chain->in->tree;
    if (chain->how->test == GREEDY || target_of(chain, 0)->kind == COP_ROW_ONE_HOT) {
        return COP_OK;
    }
    if (tree->draw != COP_DRAW_INDEPENDENT) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "accept.deferred with test = \"ratio\" needs tokens drawn from the draft "
            "row: draw = \"independent\", not \"%s\"",
            cop_draw_name(tree->draw));
    }
    for (int32_t i = 0; i < chain->n; i++) {
        if (!cop_rows_at(&chain->in->draft, chain->nodes[i + 1])) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "accept.deferred with test = \"ratio\" needs every draft row");
        }
    }
    return COP_OK;
}

static void read_chain(struct chain *chain)
{
    chain->n = 0;
    chain->nodes[0] = 0;
    for (int32_t child, node = 0; (child = cop_next_child(chain->in->tree, node, node)) > 0;
         node = child) {
        chain->verdicts[chain->n++] = -1;
        chain->nodes[chain->n] = child;
    }
}

static void end(const struct chain *chain, struct cop_verdict *out)
{
    const struct cop_verify_in *in = chain->in;
    int32_t node = cop_stop_of(in, out);
    if (chain->how->test == GREEDY || out->origin == COP_ORIGIN_BONUS ||
        cop_rows_at(&in->target, node)->kind == COP_ROW_ONE_HOT) {
        cop_end_with_target(in, node, chain->how->test == GREEDY, out);
        return;
    }
    struct cop_residual rest = {cop_rows_at(&in->target, node),
                                cop_rows_at(&in->draft, chain->nodes[out->n_accepted + 1]),
                                .target_scale = 1, .draft_scale = 1};
    out->last =
        cop_pick_residual(in->draws, cop_purpose("recover"), in->tree->key[node], &rest);
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    struct chain chain = {.how = state, .in = in};
    read_chain(&chain);
    enum cop_status status = check_draw(&chain, err);
    if (status != COP_OK) {
        return status;
    }
    while (out->n_accepted < chain.n &&
           (matches(&chain, out->n_accepted) || is_excused(&chain, out->n_accepted))) {
        out->accepted[out->n_accepted] = chain.nodes[out->n_accepted + 1];
        out->n_accepted++;
    }
    end(&chain, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_deferred = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "deferred",
             .help =
                 "greedy: keeps the target's best tokens, and a mismatch where the entropy "
                 "of the target's three best is at least `entropy` and the next `window` "
                 "drafted tokens, all within the block, match; the last token is the "
                 "target's best. ratio: a match is what the strict test keeps with its own "
                 "coin; after a refusal draws from norm((target - draft)+), the bonus token "
                 "from the target",
             .source = "arXiv:2511.22972 (FLy), and its port to vLLM",
             .synonyms = "FLy, rejection_sample_method \"fly\"",
             .state_size = sizeof(struct deferred),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_chain,
    .verify = verify,
    .cost = "1 at each mismatch",
    .promise = "L4, none: measured only",
};
