/* Fuzzy speculative decoding: where target and draft nearly agree as laws, whatever was drafted
 * is kept.
 *
 * Divergences are those of the plain rows, as in the published code, whose kl_div is KL(draft
 * || target). The original rule draws a refused token afresh from the target, so a threshold of
 * 0 is plain sampling that hardly accepts; the reducible one falls back to the strict test. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

struct fuzzy {
    int32_t divergence;
    double threshold;
    bool reducible;
};

static const struct cop_option options[] = {
    COP_A_CHOICE(fuzzy, divergence, "js|kl|tv|kl_target",
                 "Jensen-Shannon, KL(draft || target), total variation, KL(target || draft); "
                 "nats"),
    COP_A_NUMBER(fuzzy, threshold, 0, 1000, 0.4,
                 "largest divergence at which every drafted token is kept"),
    {.name = "reducible",
     .type = COP_OPTION_BOOL,
     .offset = offsetof(struct fuzzy, reducible),
     .help = "above the threshold the strict test (r-fuzzy, arXiv:2607.08690), in place of a "
             "draw from the target"},
    {0}};

/* What keeps the token: 1 below the threshold; above it 0, or the strict ratio. */
static double keep_probability(const struct fuzzy *s, const struct cop_row *target,
                               const struct cop_row *draft, cop_token token)
{
    struct cop_reading plain_target = cop_read_plain(target);
    struct cop_reading plain_draft = cop_read_plain(draft);
    bool is_zero = target->kind == COP_ROW_ONE_HOT;
    double p = cop_row_probability(target, token);
    bool is_possible = is_zero ? cop_reading_probability(&plain_target, token) > 0 : p > 0;
    enum cop_divergence kind = (enum cop_divergence)s->divergence;
    double gap = cop_divergence_near(kind, &plain_target, &plain_draft);
    if (fabs(gap - s->threshold) <= COP_NEAR) {
        gap = cop_divergence(kind, &plain_target, &plain_draft);
    }
    if (gap <= s->threshold) {
        return is_possible;
    }
    double q = is_zero ? 1 : cop_row_probability(draft, token);
    return s->reducible && q > 0 ? fmin(1, p / q) : 0;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct fuzzy *s = state;
    const struct cop_tree *tree = in->tree;
    int32_t node = 0;
    for (int32_t child; (child = cop_next_child(tree, node, node)) > 0; node = child) {
        const struct cop_row *target = cop_rows_at(&in->target, node);
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.fuzzy needs every draft row");
        }
        if (s->reducible && tree->draw != COP_DRAW_INDEPENDENT &&
            target->kind != COP_ROW_ONE_HOT) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "accept.fuzzy with reducible = true tests the ratio to the draft "
                            "row, so tokens must be drawn from it: draw = \"independent\", not "
                            "\"%s\"",
                            cop_draw_name(tree->draw));
        }
        double keep = keep_probability(s, target, draft, tree->token[child]);
        bool is_kept = s->reducible
                           ? cop_flip(in->draws, cop_purpose("accept"), tree->key[child], keep)
                           : keep >= 1;
        if (!is_kept) {
            struct cop_residual rest = {target, s->reducible ? draft : NULL, .target_scale = 1,
                                        .draft_scale = 1};
            out->origin = COP_ORIGIN_RECOVERED;
            out->last =
                cop_pick_residual(in->draws, cop_purpose("recover"), tree->key[node], &rest);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = child;
    }
    out->origin = COP_ORIGIN_BONUS;
    cop_end_with_target(in, node, false, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_fuzzy = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "fuzzy",
             .help =
                 "keeps a drafted token, whatever it is, where the divergence of target and "
                 "draft (plain rows) is at most the threshold; otherwise draws from the "
                 "target (reducible: keeps with min(1, target / draft), else draws from "
                 "norm((target - draft)+)); the bonus token is the target's. kl is KL(draft "
                 "|| target), kl_target the other direction",
             .source = "Holsman, Huang, Dhingra 2025, arXiv:2502.20704",
             .synonyms = "FSD, r-fuzzy (reducible)",
             .state_size = sizeof(struct fuzzy),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_model_chain,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at each tried node",
    .promise = "L4, none: measured only",
};
