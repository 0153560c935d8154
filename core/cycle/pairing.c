/* Which rule, builder, draw and supply go together, and what to write instead where they do
 * not.
 *
 * Three questions, in this order: can the children be drawn so at all (the builder's set of
 * draws, the proposer's supply); which draw does AUTO stand for (the rule's first claim that
 * fits); does the rule claim the pair. Only the last one yields to relaxed = true. */
#include "core/cycle/law.h"
#include "core/cycle/proposer.h"

#include <stdio.h>
#include <string.h>

static const char *const LOSSLESS_ANYWHERE =
    "use cop.accept.sample_match {} (lossless for every draw and shape), or say relaxed = true";

static uint32_t builder_draws(const struct cop_pairing *p)
{
    return p->builder ? ((const struct cop_builder_ops *)p->builder->plug)->draws : ~0u;
}

static enum cop_shape shape_of(const struct cop_pairing *p)
{
    return p->builder
               ? ((const struct cop_builder_ops *)p->builder->plug)->shape(p->builder->state)
               : p->shape;
}

/* Points have no probabilities: they are chosen by the context alone. One of them is also a
 * draw from a point mass, so a chain may call it independent. */
static bool supply_allows(const struct cop_pairing *p, enum cop_shape shape, enum cop_draw draw)
{
    return p->supply != COP_SUPPLY_POINTS || draw == COP_DRAW_DETERMINISTIC ||
           (draw == COP_DRAW_INDEPENDENT && shape == COP_SHAPE_CHAIN);
}

static bool is_possible(const struct cop_pairing *p, enum cop_shape shape, enum cop_draw draw)
{
    return (builder_draws(p) & COP_DRAW_BIT(draw)) && supply_allows(p, shape, draw);
}

/* "independent, deterministic" from a set of draws. */
static void list_draws(uint32_t draws, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT && used < size; draw++) {
        if (draws & COP_DRAW_BIT(draw)) {
            int n = snprintf(text + used, size - used, used ? ", \"%s\"" : "\"%s\"",
                             cop_draw_name((enum cop_draw)draw));
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* "independent × chain, any draw × tree at temperature 0" from a list of claims. */
static void list_claims(const struct cop_rule_ops *rule, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct cop_claim *c = rule->lossless_for;
         c && c->draw != COP_DRAW_AUTO && used < size; c++) {
        int n = snprintf(text + used, size - used, "%s%s × %s%s", used ? ", " : "",
                         c->draw == COP_DRAW_COUNT ? "any draw" : cop_draw_name(c->draw),
                         cop_shape_name(c->shape), c->zero_only ? " at temperature 0" : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

static enum cop_status refuse_draw(const struct cop_pairing *p, enum cop_draw draw,
                                   struct cop_error *err)
{
    if (!(builder_draws(p) & COP_DRAW_BIT(draw))) {
        char known[160];
        list_draws(builder_draws(p), known, sizeof known);
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.tree.%s cannot pick children by draw = \"%s\"; it can by %s",
                        p->builder->plug->name, cop_draw_name(draw), known);
    }
    return cop_fail(
        err, COP_ERR_ARGUMENT,
        "draw = \"%s\" needs probabilities, and the proposer supplies points without "
        "any; use draw = \"deterministic\"",
        cop_draw_name(draw));
}

/* The draw that AUTO stands for, or COP_DRAW_COUNT where no claim fits. */
static enum cop_draw first_claimed(const struct cop_pairing *p, enum cop_shape shape)
{
    const struct cop_rule_ops *rule = (const struct cop_rule_ops *)p->rule->plug;
    for (const struct cop_claim *c = rule->lossless_for; c && c->draw != COP_DRAW_AUTO; c++) {
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
        *draw = first_claimed(p, shape);
        *draw = *draw == COP_DRAW_COUNT ? first_possible(p, shape) : *draw;
    }
    return is_possible(p, shape, *draw) ? COP_OK : refuse_draw(p, *draw, err);
}

static bool claims_zero_only(const struct cop_rule_ops *rule)
{
    for (const struct cop_claim *c = rule->lossless_for; c->draw != COP_DRAW_AUTO; c++) {
        if (!c->zero_only) {
            return false;
        }
    }
    return true;
}

static enum cop_status refuse_unsound(const struct cop_rule_ops *rule, enum cop_draw draw,
                                      enum cop_shape shape, bool is_zero, struct cop_error *err)
{
    const char *name = rule->plug.name;
    char claims[200];
    list_claims(rule, claims, sizeof claims);
    if (!claims[0]) {
        return cop_fail(
            err, COP_ERR_UNSOUND,
            "accept.%s changes the output distribution by design; say relaxed = true, "
            "or use cop.accept.sample_match {} (lossless for every draw and shape)",
            name);
    }
    if (!is_zero && claims_zero_only(rule)) {
        return cop_fail(err, COP_ERR_UNSOUND, "accept.%s is lossless at temperature 0 only; %s",
                        name, LOSSLESS_ANYWHERE);
    }
    return cop_fail(err, COP_ERR_UNSOUND, "accept.%s is lossless for %s, not for %s%s × %s; %s",
                    name, claims, is_zero ? "temperature 0 and " : "", cop_draw_name(draw),
                    cop_shape_name(shape), LOSSLESS_ANYWHERE);
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
    bool claims = cop_rule_claims(rule, draw, shape, pairing->is_zero_temperature);
    if (!claims && !pairing->relaxed) {
        return refuse_unsound(rule, draw, shape, pairing->is_zero_temperature, err);
    }
    if (resolved) {
        *resolved = draw;
    }
    if (is_lossless) {
        *is_lossless = claims;
    }
    return COP_OK;
}
