/* MARS: where the target's two best logits are nearly equal, either will do.
 *
 * The ratio of two logits depends on their origin: a constant added to all of them changes
 * decisions. Read are the logits after penalties, bias and bans; literal rows have none, and
 * their log-probabilities stand in. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

enum test { SAMPLE, GREEDY };

struct mars {
    double theta;
    int32_t test;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(mars, theta, -1e6, 1e6, 0.9,
                 "ratio of the second logit to the first above which both are kept"),
    COP_A_CHOICE(mars, test, "sample|greedy",
                 "elsewhere: keep with the target's probability as the code does, or only the "
                 "target's best as the paper does"),
    {0}};

/* The two best of the plain row; `second` is -1 where there is one token only. */
struct pair {
    cop_token first, second;
    bool is_close;
};

static struct pair look_at(const struct cop_row *target, double theta)
{
    struct cop_reading plain = cop_read_plain(target);
    cop_token two[2] = {-1, -1};
    (void)cop_reading_top(&plain, 2, two);
    struct pair pair = {.first = two[0], .second = two[1]};
    pair.is_close =
        pair.second >= 0 &&
        cop_reading_logit(&plain, pair.second) / cop_reading_logit(&plain, pair.first) > theta;
    return pair;
}

/* The kept child, or -1. The ordinary test takes each child for a point mass: what is refused
 * leaves the target. */
static int32_t try_children(const struct mars *s, const struct cop_verify_in *in, int32_t node)
{
    const struct cop_tree *tree = in->tree;
    const struct cop_row *target = cop_rows_at(&in->target, node);
    struct pair pair = look_at(target, s->theta);
    double left = 1;
    for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
        cop_token token = tree->token[child];
        double p = cop_row_probability(target, token);
        bool is_possible = target->kind == COP_ROW_ONE_HOT || p > 0;
        bool is_one = token == pair.first || (pair.is_close && token == pair.second);
        if ((pair.is_close || s->test == GREEDY) && is_one && is_possible) {
            return child;
        }
        if (s->test == GREEDY || cop_tree_find(tree, node, token) != child) {
            continue;
        }
        double keep = left > 0 ? fmin(1, p / left) : 0;
        if (cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            return child;
        }
        left -= p;
    }
    return -1;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)err;
    const struct mars *s = state;
    int32_t node = 0;
    while (cop_next_child(in->tree, node, node) > 0) {
        int32_t kept = try_children(s, in, node);
        if (kept < 0) {
            out->origin = COP_ORIGIN_RECOVERED;
            struct cop_without others = {cop_rows_at(&in->target, node), in->tree, node};
            if (s->test == GREEDY) {
                cop_end_with_target(in, node, true, out);
            } else {
                out->last = cop_pick_without(in->draws, cop_purpose("recover"), &others);
            }
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = kept;
    }
    out->origin = COP_ORIGIN_BONUS;
    cop_end_with_target(in, node, s->test == GREEDY, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_mars = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "mars",
             .help = "with z1, z2 the target's two largest logits (after penalties, bias and "
                     "bans; of a literal row ln target): where z2 / z1 > theta keeps either "
                     "token. Otherwise the ordinary test, which takes drafted tokens for point "
                     "masses: keep with target probability, else without that token; the last "
                     "token is the target's",
             .source = "arXiv:2601.15498, 5SSjw/MARS",
             .synonyms = "margin-aware speculative verification",
             .state_size = sizeof(struct mars),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 at each visited node, 2 at the one that refuses",
    .promise =
        "L4, none: measured only; decisions change when a constant is added to all logits",
};
