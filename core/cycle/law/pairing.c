/* Which rule, builder, draw and supply go together, and what to write instead where they do
 * not.
 *
 * Three questions, in this order: can the children be drawn so at all (the builder's set of
 * draws, the proposer's supply, the number of drafters); which draw does AUTO stand for (the
 * rule's first claim that fits); does the rule claim the pair. Only the last one yields to
 * relaxed = true. */
#include "core/cycle/contract/proposer.h"
#include "core/cycle/law/law.h"

#include <stdio.h>
#include <string.h>

static const char *const LOSSLESS_ANYWHERE =
    "use cop.accept.sample_match {} (lossless for every draw and shape), or say relaxed = true";

static const struct cop_builder_ops *builder_ops(const struct cop_part *builder)
{
    return (const struct cop_builder_ops *)builder->plug;
}

static enum cop_shape shape_of(const struct cop_pairing *p)
{
    return p->builder ? builder_ops(p->builder)->shape(p->builder->state) : p->shape;
}

/* "a", "b" or "c" from a set of draws; the last comma reads `last`. */
static const char *list_draws(uint32_t draws, const char *last, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT && used < size; draw++) {
        if (draws & COP_DRAW_BIT(draw)) {
            draws &= ~COP_DRAW_BIT(draw);
            const char *before = used == 0 ? "" : draws >> COP_DRAW_INDEPENDENT ? ", " : last;
            int n = snprintf(text + used, size - used, "%s\"%s\"", before,
                             cop_draw_name((enum cop_draw)draw));
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return text;
}

/* ---- What can be drawn ------------------------------------------------------------------ */

/* Two children wherever there are any; true where the shape cannot be told beforehand. */
static bool has_pairs_only(const struct cop_part *builder)
{
    int32_t parents[COP_TREE_LIMIT + 1], ranks[COP_TREE_LIMIT + 1];
    int32_t children[COP_TREE_LIMIT + 1] = {0};
    const struct cop_builder_ops *ops = builder_ops(builder);
    if (!ops->sketch || ops->nodes(builder->state) > COP_TREE_LIMIT) {
        return true;
    }
    int32_t n = ops->sketch(builder->state, parents, ranks, NULL);
    for (int32_t node = 1; node < n; node++) {
        children[parents[node]]++;
    }
    bool are_pairs = true;
    for (int32_t node = 0; node < n; node++) {
        are_pairs = are_pairs && (children[node] == 0 || children[node] == 2);
    }
    return are_pairs;
}

/* As a script calls it; the shape that a proposer brings along has no name there. */
static const char *builder_name(const struct cop_part *builder, char *buffer, size_t size)
{
    const char *name = builder_ops(builder)->plug.name;
    if (strcmp(name, "own") == 0) {
        return "the proposer's own tree";
    }
    (void)snprintf(buffer, size, "cop.tree.%s", name);
    return buffer;
}

enum cop_status cop_builder_check_draw(const struct cop_part *builder, enum cop_draw draw,
                                       struct cop_error *err)
{
    const struct cop_builder_ops *ops = builder_ops(builder);
    if (!(ops->draws & COP_DRAW_BIT(draw))) {
        char known[160], name[80];
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s cannot pick children by draw = \"%s\"; it can by %s",
                        builder_name(builder, name, sizeof name), cop_draw_name(draw),
                        list_draws(ops->draws, " or ", known, sizeof known));
    }
    if (draw == COP_DRAW_HUB_PAIR && !has_pairs_only(builder)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "draw = \"hub_pair\" draws two children of every node that has any: "
                        "write cop.tree.widths with every width 2, as { 2 } or { 2, 2 }");
    }
    return COP_OK;
}

/* Points have no probabilities: they are chosen by the context alone. One of them is also a
 * draw from a point mass, so a chain may call it independent. Several drafters draw one child
 * each. */
static enum cop_status check_draw(const struct cop_pairing *p, enum cop_shape shape,
                                  enum cop_draw draw, struct cop_error *err)
{
    if (p->builder) {
        enum cop_status status = cop_builder_check_draw(p->builder, draw, err);
        if (status != COP_OK) {
            return status;
        }
    }
    if (p->n_drafters > 1 && draw != COP_DRAW_INDEPENDENT && draw != COP_DRAW_DETERMINISTIC) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "several drafters draw one child each: draw = \"independent\", not "
                        "\"%s\"",
                        cop_draw_name(draw));
    }
    if (p->n_drafters > 1 && shape == COP_SHAPE_PATHS) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "merged paths come from one drafter; several take cop.tree.widths {} or "
            "cop.tree.paths {}");
    }
    if (p->n_drafters > 1 && p->builder && builder_ops(p->builder)->select) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.tree.%s weighs nodes by one drafter's rows; several take "
                        "cop.tree.widths {} or cop.tree.paths {}",
                        builder_ops(p->builder)->plug.name);
    }
    if (p->supply == COP_SUPPLY_POINTS && draw != COP_DRAW_DETERMINISTIC &&
        !(draw == COP_DRAW_INDEPENDENT && shape == COP_SHAPE_CHAIN)) {
        bool can_best = !p->builder ||
                        (builder_ops(p->builder)->draws & COP_DRAW_BIT(COP_DRAW_DETERMINISTIC));
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "draw = \"%s\" needs probabilities, and the proposer supplies points "
                        "without any; use %s",
                        cop_draw_name(draw),
                        can_best ? "draw = \"deterministic\""
                                 : "another tree, as cop.tree.chain {}");
    }
    return COP_OK;
}

static bool is_possible(const struct cop_pairing *p, enum cop_shape shape, enum cop_draw draw)
{
    struct cop_error reason;
    return check_draw(p, shape, draw, &reason) == COP_OK;
}

/* ---- Which draw -------------------------------------------------------------------------- */

/* The first draw of a list that is possible on this shape, or COP_DRAW_COUNT. */
static enum cop_draw first_fitting(const struct cop_pairing *p, const struct cop_claim *claims,
                                   enum cop_shape shape)
{
    for (const struct cop_claim *c = claims; c && c->draw != COP_DRAW_AUTO; c++) {
        if (c->zero_only || shape > c->shape) {
            continue;
        }
        bool is_any = c->draw == COP_DRAW_COUNT;
        int low = is_any ? COP_DRAW_INDEPENDENT : (int)c->draw;
        int high = is_any ? COP_DRAW_COUNT - 1 : (int)c->draw;
        for (int draw = low; draw <= high; draw++) {
            if (is_possible(p, shape, (enum cop_draw)draw)) {
                return (enum cop_draw)draw;
            }
        }
    }
    return COP_DRAW_COUNT;
}

/* For a pair that no claim covers: what the proposer and the builder can do. */
static enum cop_draw first_possible(const struct cop_pairing *p, enum cop_shape shape)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    for (const struct cop_claim *c = rule->lossless_for; c && c->draw != COP_DRAW_AUTO; c++) {
        if (c->draw != COP_DRAW_COUNT && is_possible(p, shape, c->draw)) {
            return c->draw;
        }
    }
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        if (is_possible(p, shape, (enum cop_draw)draw)) {
            return (enum cop_draw)draw;
        }
    }
    return COP_DRAW_DETERMINISTIC;
}

static enum cop_status resolve(const struct cop_pairing *p, enum cop_shape shape,
                               enum cop_draw *draw, struct cop_error *err)
{
    if (p->is_zero_temperature) {
        *draw = COP_DRAW_DETERMINISTIC;
        return COP_OK;
    }
    *draw = p->draw;
    if (p->draw == COP_DRAW_AUTO) {
        const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
        *draw = first_fitting(p, rule->lossless_for, shape);
        *draw = *draw == COP_DRAW_COUNT ? first_fitting(p, rule->defined_for, shape) : *draw;
        *draw = *draw == COP_DRAW_COUNT ? first_possible(p, shape) : *draw;
    }
    return check_draw(p, shape, *draw, err);
}

/* ---- Whether it is sound ----------------------------------------------------------------- */

static bool claims_zero_only(const struct cop_rule_ops *rule)
{
    for (const struct cop_claim *c = rule->lossless_for; c->draw != COP_DRAW_AUTO; c++) {
        if (!c->zero_only) {
            return false;
        }
    }
    return true;
}

static bool fits_length(const struct cop_pairing *p)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    return !rule->constant_length || p->is_zero_temperature || !cop_length_varies(p->length);
}

static bool fits_rows(const struct cop_pairing *p)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    return !rule->changes_target || p->is_zero_temperature || !p->proposer ||
           p->supply == COP_SUPPLY_POINTS || cop_proposer_facts(p->proposer).rows_by_prefix;
}

/* The draws for which the rule is lossless on this shape above temperature 0. */
static uint32_t claimed_draws(const struct cop_rule_ops *rule, enum cop_shape shape)
{
    uint32_t draws = 0;
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        if (cop_rule_claims(rule, (enum cop_draw)draw, shape, false)) {
            draws |= COP_DRAW_BIT(draw);
        }
    }
    return draws;
}

static uint32_t possible_draws(const struct cop_pairing *p, enum cop_shape shape)
{
    uint32_t draws = 0;
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        if (is_possible(p, shape, (enum cop_draw)draw)) {
            draws |= COP_DRAW_BIT(draw);
        }
    }
    return draws;
}

static const char *shape_words(enum cop_shape shape)
{
    switch (shape) {
    case COP_SHAPE_CHAIN: return "a chain";
    case COP_SHAPE_PATHS: return "merged paths";
    case COP_SHAPE_TREE: return "a tree";
    }
    return "this shape";
}

/* The shape is claimed, the draw is not. */
static enum cop_status refuse_pair(const struct cop_pairing *p, enum cop_draw draw,
                                   enum cop_shape shape, struct cop_error *err)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    uint32_t claimed = claimed_draws(rule, shape), possible = possible_draws(p, shape);
    char list[160];
    if (claimed & possible) {
        return cop_fail(
            err, COP_ERR_UNSOUND,
            "accept.%s is not lossless for draw = \"%s\" on %s; write draw = %s, or "
            "%s",
            rule->plug.name, cop_draw_name(draw), shape_words(shape),
            list_draws(claimed & possible, " or ", list, sizeof list), LOSSLESS_ANYWHERE);
    }
    struct cop_error reason = {.code = COP_OK};
    int wanted = COP_DRAW_INDEPENDENT;
    while (!(claimed & COP_DRAW_BIT(wanted))) {
        wanted++;
    }
    (void)check_draw(p, shape, (enum cop_draw)wanted, &reason);
    return cop_fail(
        err, COP_ERR_UNSOUND,
        "accept.%s is lossless on %s for draw = %s only, not for \"%s\", and %s; %s",
        rule->plug.name, shape_words(shape), list_draws(claimed, " or ", list, sizeof list),
        cop_draw_name(draw), reason.text, LOSSLESS_ANYWHERE);
}

static enum cop_status refuse_unsound(const struct cop_pairing *p, enum cop_draw draw,
                                      enum cop_shape shape, struct cop_error *err)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    const char *name = rule->plug.name;
    char claims[200];
    cop_claims_list(rule->lossless_for, claims, sizeof claims);
    if (!claims[0]) {
        return cop_fail(
            err, COP_ERR_UNSOUND,
            "accept.%s changes the output distribution by design; say relaxed = true, "
            "or use cop.accept.sample_match {} (lossless for every draw and shape)",
            name);
    }
    if (!p->is_zero_temperature && claims_zero_only(rule)) {
        return cop_fail(err, COP_ERR_UNSOUND, "accept.%s is lossless at temperature 0 only; %s",
                        name, LOSSLESS_ANYWHERE);
    }
    if (!fits_rows(p)) {
        return cop_fail(err, COP_ERR_UNSOUND,
                        "accept.%s is lossless only where the draft row after a prefix is the "
                        "same in every cycle, which cop.propose.%s does not promise; use "
                        "cop.accept.block {}, or say relaxed = true",
                        name, p->proposer->plug->name);
    }
    if (!fits_length(p)) {
        return cop_fail(
            err, COP_ERR_UNSOUND,
            "accept.%s is lossless only where every cycle drafts to the same depth, "
            "and the draft length \"%s\" varies; use cop.length.fixed {}, or say "
            "relaxed = true",
            name, p->length->plug->name);
    }
    if (cop_rule_claims(rule, draw, shape, p->is_zero_temperature)) {
        return cop_fail(err, COP_ERR_UNSOUND,
                        "accept.%s is lossless only where all siblings are drawn from one row, "
                        "and several drafters have one each; %s",
                        name, LOSSLESS_ANYWHERE);
    }
    if (!p->is_zero_temperature && claimed_draws(rule, shape)) {
        return refuse_pair(p, draw, shape, err);
    }
    return cop_fail(err, COP_ERR_UNSOUND, "accept.%s is lossless for %s only, not on %s%s; %s",
                    name, claims, shape_words(shape),
                    p->is_zero_temperature ? ", at temperature 0 either" : "",
                    LOSSLESS_ANYWHERE);
}

enum cop_status cop_pairing_check(const struct cop_pairing *pairing, enum cop_draw *resolved,
                                  bool *is_lossless, struct cop_error *err)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)pairing->rule->plug;
    enum cop_shape shape = shape_of(pairing);
    enum cop_draw draw;
    enum cop_status status = resolve(pairing, shape, &draw, err);
    if (status != COP_OK) {
        return status;
    }
    status = cop_rule_check_pair(rule, draw, shape, pairing->is_zero_temperature, err);
    if (status != COP_OK) {
        return status;
    }
    bool claims = cop_rule_claims(rule, draw, shape, pairing->is_zero_temperature) &&
                  fits_length(pairing) && fits_rows(pairing) &&
                  (pairing->n_drafters < 2 || shape == COP_SHAPE_CHAIN || rule->several_rows);
    if (!claims && !pairing->relaxed) {
        return refuse_unsound(pairing, draw, shape, err);
    }
    if (resolved) {
        *resolved = draw;
    }
    if (is_lossless) {
        *is_lossless = claims;
    }
    return COP_OK;
}
