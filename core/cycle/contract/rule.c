/* Claims of acceptance rules, and the check of what a rule hands back. */
#include "core/cycle/contract/rule.h"

#include <math.h>
#include <stdio.h>

const char *cop_origin_name(enum cop_origin origin)
{
    switch (origin) {
    case COP_ORIGIN_RECOVERED: return "recovered";
    case COP_ORIGIN_BONUS: return "bonus";
    }
    return "unknown";
}

static bool covers(const struct cop_claim *claims, enum cop_draw draw, enum cop_shape shape,
                   bool is_zero_temperature)
{
    for (const struct cop_claim *c = claims; c && c->draw != COP_DRAW_AUTO; c++) {
        bool fits_draw = is_zero_temperature || c->draw == draw || c->draw == COP_DRAW_COUNT;
        if (fits_draw && shape <= c->shape && (is_zero_temperature || !c->zero_only)) {
            return true;
        }
    }
    return false;
}

bool cop_rule_claims(const struct cop_rule_ops *rule, enum cop_draw draw, enum cop_shape shape,
                     bool is_zero_temperature)
{
    return covers(rule->lossless_for, draw, shape, is_zero_temperature);
}

/* Whether a later entry says the same and more. */
static bool is_repeated(const struct cop_claim *claim)
{
    for (const struct cop_claim *c = claim + 1; c->draw != COP_DRAW_AUTO; c++) {
        if ((c->draw == COP_DRAW_COUNT || c->draw == claim->draw) && c->shape >= claim->shape &&
            (claim->zero_only || !c->zero_only)) {
            return true;
        }
    }
    return false;
}

void cop_claims_list(const struct cop_claim *claims, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct cop_claim *c = claims; c && c->draw != COP_DRAW_AUTO && used < size;
         c++) {
        if (is_repeated(c)) {
            continue;
        }
        int n = snprintf(text + used, size - used, "%s%s × %s%s", used ? ", " : "",
                         c->draw == COP_DRAW_COUNT ? "any draw" : cop_draw_name(c->draw),
                         cop_shape_name(c->shape), c->zero_only ? " at temperature 0" : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

enum cop_status cop_rule_check_pair(const struct cop_rule_ops *rule, enum cop_draw draw,
                                    enum cop_shape shape, bool is_zero_temperature,
                                    struct cop_error *err)
{
    if (!rule->defined_for || covers(rule->defined_for, draw, shape, is_zero_temperature)) {
        return COP_OK;
    }
    char covered[200];
    cop_claims_list(rule->defined_for, covered, sizeof covered);
    return cop_fail(
        err, COP_ERR_ARGUMENT, "accept.%s is defined for %s; it says nothing about %s × %s",
        rule->plug.name, covered, is_zero_temperature ? "temperature 0" : cop_draw_name(draw),
        cop_shape_name(shape));
}

static bool can_end(const struct cop_row *target, const struct cop_verdict *verdict)
{
    cop_token last = verdict->last;
    bool is_inside = last >= 0 && last < target->vocab;
    if (verdict->is_substitute && target->kind == COP_ROW_ONE_HOT && is_inside) {
        return target->logits  ? target->logits[last] > -INFINITY
               : target->dense ? target->dense[last] > 0
                               : true;
    }
    return cop_row_probability(target, last) > 0;
}

/* What is wrong with the next node of a path, after `stop`. */
static enum cop_status refuse_node(const struct cop_verify_in *in, int32_t node, int32_t stop,
                                   struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    if (node < 1 || node >= tree->size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "accepted node %d; this tree's nodes are 1 to %d", (int)node,
                        (int)tree->size - 1);
    }
    if (cop_tree_is_ancestor(tree, node, stop)) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accepted node %d twice", (int)node);
    }
    if (tree->parent[node] == stop) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accepted node %d, which is hidden from rules",
                        (int)node);
    }
    return cop_fail(err, COP_ERR_ARGUMENT,
                    "accepted node %d after node %d, but its parent is node %d: no "
                    "path of the tree",
                    (int)node, (int)stop, (int)tree->parent[node]);
}

enum cop_status cop_verdict_check(const struct cop_verify_in *in,
                                  const struct cop_verdict *verdict, struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    int32_t stop = 0;
    if (verdict->n_accepted < 0 || verdict->n_accepted >= tree->size) {
        return cop_fail(err, COP_ERR_ARGUMENT, "accepted %d nodes of a tree with %d",
                        (int)verdict->n_accepted, (int)tree->size - 1);
    }
    for (int32_t i = 0; i < verdict->n_accepted; i++) {
        int32_t node = verdict->accepted[i];
        if (node < 1 || node >= tree->size || tree->parent[node] != stop ||
            (tree->flags[node] & COP_NODE_SCOUT)) {
            return refuse_node(in, node, stop, err);
        }
        stop = node;
    }
    const struct cop_row *target = cop_rows_at(&in->target, stop);
    if (!target || !can_end(target, verdict)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "ended with token %d, to which the target gives no probability after "
                        "node %d",
                        (int)verdict->last, (int)stop);
    }
    return COP_OK;
}

enum cop_status cop_rule_check(const struct cop_rule_ops *rule, const struct cop_verify_in *in,
                               const struct cop_verdict *verdict, const struct cop_error *asked,
                               struct cop_error *err)
{
    struct cop_error wrong = {.code = COP_OK};
    enum cop_status status = asked ? asked->code : COP_OK;
    if (status == COP_OK) {
        status = cop_verdict_check(in, verdict, &wrong);
        asked = &wrong;
    }
    return status == COP_OK
               ? COP_OK
               : cop_fail(err, status, "accept.%s: %s", rule->plug.name, asked->text);
}
