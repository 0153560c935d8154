/* Rules that keep more than the ratio of target and draft allows, on chains and on trees.
 *
 * Siblings are tried in draw order. What the refused ones left of the target is (target - C *
 * draft)+, where each adds S / (1 - mass of the earlier ones) to C (without replacement; 1 in
 * place of the bracket with it) and S is the sum of what was left before; see recursive
 * rejection. A relaxed rule refuses only tokens that the strict one would refuse, so nothing is
 * left at a refused token here either. No law is published for trees: what is promised is that
 * the neutral setting gives the strict rule. */
#include "algorithms/accept/relaxed/relaxed.h"

#include <math.h>

struct siblings {
    const struct cop_tolerance *tolerance;
    const void *state;
    const char *name;
    const struct cop_verify_in *in;
    struct cop_residual
        rest;    /* what the refused ones left; its draft is NULL before the first */
    double mass; /* sum of the rest */
    double left; /* mass of the draft row outside refused siblings */
};

static enum cop_status draft_of(struct siblings *s, int32_t child, const struct cop_row **draft,
                                struct cop_error *err)
{
    *draft = cop_rows_at(&s->in->draft, child);
    if (!*draft) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accept.%s needs every draft row", s->name);
    }
    if (s->rest.draft && !cop_is_same_law(s->rest.draft, *draft)) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "accept.%s takes siblings from one drafter, not from several", s->name);
    }
    return COP_OK;
}

static double keep_probability(const struct siblings *s, const struct cop_row *draft,
                               cop_token token)
{
    double p = cop_row_probability(s->rest.target, token);
    double q = cop_row_probability(draft, token);
    double law = s->left > 0 ? q / s->left : 0;
    if (!(p > 0) || !(law > 0)) {
        return 0;
    }
    double rest = s->rest.draft ? fmax(0, p - s->rest.draft_scale * q) : p;
    double ratio = s->mass > 0 ? rest / (s->mass * law) : 0;
    double most = cop_row_probability(s->rest.target, cop_row_best(s->rest.target));
    double keep = fmin(1, s->tolerance->relax(s->state, ratio, most));
    return s->tolerance->chance > 0 ? s->tolerance->chance + (1 - s->tolerance->chance) * keep
                                    : keep;
}

/* Mass of the draft row outside the children up to `child`, summed where little is left. */
static double mass_left(const struct cop_tree *tree, int32_t child, const struct cop_row *draft)
{
    int32_t node = tree->parent[child];
    double gone = 0;
    for (int32_t i = node; (i = cop_next_child(tree, node, i)) > 0 && i <= child;) {
        gone += cop_tree_find(tree, node, tree->token[i]) == i
                    ? cop_row_probability(draft, tree->token[i])
                    : 0;
    }
    return 1 - gone > 1e-12 ? 1 - gone : 0;
}

static void refuse(struct siblings *s, int32_t child, const struct cop_row *draft)
{
    const struct cop_tree *tree = s->in->tree;
    bool replaces = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT && !tree->is_merged;
    s->rest.draft = draft;
    s->rest.draft_scale += s->left > 0 ? s->mass / s->left : 0;
    s->left = replaces ? 1 : mass_left(tree, child, draft);
}

/* The kept child of `node`, or -1 when all were refused. */
static enum cop_status try_children(struct siblings *s, int32_t node, int32_t *kept,
                                    struct cop_error *err)
{
    const struct cop_tree *tree = s->in->tree;
    s->rest =
        (struct cop_residual){.target = cop_rows_at(&s->in->target, node), .target_scale = 1};
    s->mass = s->left = 1;
    for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
        const struct cop_row *draft;
        enum cop_status status = draft_of(s, child, &draft, err);
        if (status != COP_OK) {
            return status;
        }
        if (s->rest.draft) {
            struct cop_weights weights = cop_residual_weights(&s->rest);
            s->mass = cop_weights_sum(&weights);
        }
        double keep = keep_probability(s, draft, tree->token[child]);
        if (cop_flip(s->in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            *kept = child;
            return COP_OK;
        }
        refuse(s, child, draft);
    }
    *kept = -1;
    return COP_OK;
}

/* Temperature 0: the drafted tokens are the draft's best, and the target's best is what counts:
 * the first child that comes near enough to it. */
static enum cop_status try_near_best(struct siblings *s, int32_t node, int32_t *kept)
{
    const struct cop_tree *tree = s->in->tree;
    struct cop_reading plain = cop_read_plain(cop_rows_at(&s->in->target, node));
    cop_token best = cop_reading_best(&plain);
    double most = cop_reading_probability(&plain, best), chance = s->tolerance->chance;
    *kept = -1;
    for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
        double p = cop_reading_probability(&plain, tree->token[child]);
        bool is_near = p > 0 && s->tolerance->relax(s->state, p / most, most) >= 1;
        if (is_near ||
            (p > 0 && chance > 0 &&
             cop_flip(s->in->draws, cop_purpose("accept"), tree->key[child], chance))) {
            *kept = child;
            break;
        }
    }
    return COP_OK;
}

static void correct(struct siblings *s, int32_t node, struct cop_verdict *out)
{
    out->origin = COP_ORIGIN_RECOVERED;
    enum cop_correction how = s->tolerance->correction;
    if (!s->rest.draft || how == COP_CORRECT_TARGET || how == COP_CORRECT_ARGMAX) {
        cop_end_with_target(s->in, node, how == COP_CORRECT_ARGMAX, out);
        return;
    }
    s->rest.draft_scale *= how == COP_CORRECT_SCALED ? s->tolerance->scale : 1;
    out->last = cop_pick_residual(s->in->draws, cop_purpose("recover"), s->in->tree->key[node],
                                  &s->rest);
}

enum cop_status cop_ratio_walk(const struct cop_tolerance *tolerance, const void *state,
                               const char *name, const struct cop_verify_in *in,
                               struct cop_verdict *out, struct cop_error *err)
{
    struct siblings s = {.tolerance = tolerance, .state = state, .name = name, .in = in};
    int32_t node = 0;
    while (cop_next_child(in->tree, node, node) > 0) {
        bool is_zero = cop_rows_at(&in->target, node)->kind == COP_ROW_ONE_HOT;
        int32_t child;
        enum cop_status status =
            is_zero ? try_near_best(&s, node, &child) : try_children(&s, node, &child, err);
        if (status != COP_OK) {
            return status;
        }
        if (child < 0) {
            correct(&s, node, out);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = child;
    }
    out->origin = COP_ORIGIN_BONUS;
    cop_end_with_target(in, node, false, out);
    return COP_OK;
}
