/* SGLang's thresholds: one coin walks along the siblings, and two knobs let it stop early.
 *
 * With both at 1 this is: draw from the target and look the token up among the children. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

struct sglang_threshold {
    double single, accumulated;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(sglang_threshold, single, 0, 1, 1,
                 "a child with this target probability is kept whatever the coin says; 1: off"),
    COP_A_NUMBER(
        sglang_threshold, accumulated, 0, 1, 1,
        "divides the running sum of target probabilities that the coin is held against "
        "(1e-9 at least); 1 is lossless"),
    {0}};

/* How far the coin may go for each child in draw order; then the rest, which refuses all. */
struct stretches {
    double ends[COP_TREE_LIMIT + 1];
    int32_t children[COP_TREE_LIMIT];
    int32_t n;
};

static void fill_stretches(const void *context, int32_t first, int32_t count, double *out)
{
    const struct stretches *s = context;
    for (int32_t i = 0; i < count; i++) {
        int32_t k = first + i;
        double begin = k > 0 ? s->ends[k - 1] : 0;
        out[i] = (k < s->n ? s->ends[k] : 1) - begin;
    }
}

static void measure(const struct sglang_threshold *how, const struct cop_verify_in *in,
                    int32_t node, struct stretches *s)
{
    const struct cop_row *target = cop_rows_at(&in->target, node);
    double sum = 0, end = 0, divisor = fmax(how->accumulated, 1e-9);
    s->n = 0;
    for (int32_t child = node; (child = cop_next_child(in->tree, node, child)) > 0;) {
        double p = cop_row_probability(target, in->tree->token[child]);
        /* A twin has had its share; a token that the target excludes has none. */
        if (p > 0 && cop_tree_find(in->tree, node, in->tree->token[child]) == child) {
            sum += p;
            end = fmax(end, p >= how->single ? 1 : fmin(1, sum / divisor));
        }
        s->children[s->n] = child;
        s->ends[s->n++] = end;
    }
}

/* The number of the kept child, or s->n. One coin for all: an only child's own, else one of the
 * node. */
static int32_t toss(const struct cop_verify_in *in, int32_t node, const struct stretches *s)
{
    if (s->n == 1) {
        uint32_t key = in->tree->key[s->children[0]];
        return cop_flip(in->draws, cop_purpose("accept"), key, s->ends[0]) ? 0 : 1;
    }
    struct cop_weights coin = {.vocab = s->n + 1, .fill = fill_stretches, .context = s};
    return cop_pick(in->draws, cop_purpose("siblings"), in->tree->key[node], &coin);
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)err;
    const struct cop_tree *tree = in->tree;
    struct stretches s;
    int32_t node = 0;
    while (cop_next_child(tree, node, node) > 0) {
        measure(state, in, node, &s);
        int32_t kept = toss(in, node, &s);
        if (kept < 0 || kept >= s.n) {
            struct cop_without others = {cop_rows_at(&in->target, node), tree, node};
            out->origin = COP_ORIGIN_RECOVERED;
            out->last = cop_pick_without(in->draws, cop_purpose("recover"), &others);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = s.children[kept];
    }
    out->origin = COP_ORIGIN_BONUS;
    cop_end_with_target(in, node, false, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_sglang_threshold = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "sglang_threshold",
             .help =
                 "walks the children in draw order with one coin u: keeps the first with u "
                 "<= (sum of target so far) / accumulated, or target >= single; when none is "
                 "kept draws from the target without the children, the bonus token from the "
                 "target. The order of siblings matters below accumulated = 1. Equal "
                 "siblings count once",
             .source = "sgl-project/sglang, speculative_sampling.cuh",
             .synonyms =
                 "speculative_accept_threshold_single, speculative_accept_threshold_acc",
             .state_size = sizeof(struct sglang_threshold),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 at the node that refuses",
    .promise = "L4, none below (1, 1): measured only",
};
