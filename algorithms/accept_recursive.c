/* Recursive rejection sampling: the children of a node are tried in draw order, each against
 * what the earlier ones left of the target row.
 *
 * With P_1 = target and q_j the law of the j-th child: keep it with probability min(1, P_j(x) /
 * q_j(x)), else P_{j+1} = norm((P_j - q_j)+); after the last child draw from what is left. With
 * replacement q_j is the child's draft row. Without (also in a merged tree, where equal draws
 * became one node and the others are a sample without replacement of random width) it is the
 * row without the tokens of the earlier children, normalised.
 *
 * No row is ever stored. With u_j the residual before normalising and S_j its sum (u_1 =
 * target, S_1 = 1), u_{j+1} = (u_j - S_j q_j)+ stays of the form (target - sum of scale * draft
 * row)+: a child adds S_j to the scale of its row, without replacement S_j over the row's mass
 * outside the earlier tokens. Those tokens need no exception: each was rejected, so nothing is
 * left at it, or the draft row has it at 0 and it keeps the target's mass. */
#include "algorithms/levels.h"
#include "kernels/ops.h"

/* What the children so far left of the target. */
struct rest {
    const struct cop_row *target;
    int32_t n_rows; /* different draft rows; one drafter has one */
    const struct cop_row *rows[COP_TREE_LIMIT];
    double scales[COP_TREE_LIMIT];
    struct cop_residual one; /* the rest while there is at most one row: has a fast sum */
};

static void rest_init(struct rest *rest, const struct cop_row *target)
{
    rest->target = target;
    rest->n_rows = 0;
    rest->one = (struct cop_residual){target, NULL, .target_scale = 1};
}

static void take(struct rest *rest, const struct cop_row *draft, double scale)
{
    int32_t i = 0;
    while (i < rest->n_rows && rest->rows[i] != draft) {
        i++;
    }
    if (i == rest->n_rows) {
        rest->rows[i] = draft;
        rest->scales[i] = 0;
        rest->n_rows++;
    }
    rest->scales[i] += scale;
    rest->one.draft = rest->rows[0];
    rest->one.draft_scale = rest->scales[0];
}

static double rest_at(const struct rest *rest, cop_token token)
{
    double left = cop_row_probability(rest->target, token);
    for (int32_t i = 0; i < rest->n_rows; i++) {
        left -= rest->scales[i] * cop_row_probability(rest->rows[i], token);
    }
    return left > 0 ? left : 0;
}

static void fill_rest(const void *context, int32_t first, int32_t count, double *out)
{
    const struct rest *rest = context;
    while (count > 0) {
        double draft[COP_SUM_BLOCK];
        int32_t n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        cop_row_fill(rest->target, first, n, out);
        for (int32_t r = 0; r < rest->n_rows; r++) {
            cop_row_fill(rest->rows[r], first, n, draft);
            for (int32_t i = 0; i < n; i++) {
                out[i] -= rest->scales[r] * draft[i];
            }
        }
        for (int32_t i = 0; i < n; i++) {
            out[i] = out[i] > 0 ? out[i] : 0;
        }
        first += n;
        count -= n;
        out += n;
    }
}

static struct cop_weights rest_weights(const struct rest *rest)
{
    return rest->n_rows < 2 ? cop_residual_weights(&rest->one)
                            : (struct cop_weights){.vocab = rest->target->vocab,
                                                   .fill = fill_rest,
                                                   .context = rest};
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    (void)state;
    const struct cop_tree *tree = in->tree;
    bool replaces = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT && !tree->is_merged;
    struct rest rest;
    rest_init(&rest, cop_rows_at(&in->target, node));
    cop_token tried[COP_TREE_LIMIT];
    int32_t n_tried = 0;
    for (int32_t child = node; (child = cop_level_next(tree, node, child)) > 0;) {
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.recursive needs every draft row");
        }
        cop_token token = tree->token[child];
        if (!replaces && cop_tree_find(tree, node, token) != child) {
            continue; /* a twin, which no draw without replacement gives */
        }
        struct cop_weights weights = rest_weights(&rest);
        double mass = n_tried > 0 ? cop_weights_sum(&weights) : 1;
        double left = replaces ? 1 : cop_level_mass_without(draft, tried, n_tried);
        double law = left > 0 ? cop_row_probability(draft, token) / left : 0;
        double keep = law > 0 && mass > 0 ? rest_at(&rest, token) / (mass * law) : 0;
        if (cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            choice->child = child;
            return COP_OK;
        }
        take(&rest, draft, left > 0 ? mass / left : 0);
        tried[n_tried++] = token;
    }
    struct cop_weights weights = rest_weights(&rest);
    choice->token = cop_pick_else(in->draws, cop_purpose("recover"), tree->key[node], &weights,
                                  rest.target);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    return cop_levels_walk(decide, state, in, out, err);
}

static const struct cop_claim claims[] = {{COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_recursive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "recursive",
             .help = "tries the children in draw order: keeps one with probability min(1, P / "
                     "q), else P becomes norm((P - q)+), from P = target on; q is the law of "
                     "that draw: the draft row, without replacement (and in a merged tree) "
                     "less the earlier children",
             .source = "Miao et al. 2023, arXiv:2305.09781 (with replacement); Jeon et al. "
                       "2024, arXiv:2402.14160, and Chen et al. 2024, arXiv:2402.12374 "
                       "(without)",
             .synonyms = "RRS, RRSw, SpecInfer, multi-step speculative sampling, RSD, Sequoia, "
                         "MCSD, multi-round rejection"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .several_rows = true,
    .cost = "1 per rejected child",
};
