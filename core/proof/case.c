/* Drawing cases. */
#include "core/proof/case.h"

#include "core/base/hash.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BRANCHES = 200000 };

/* ---- Fixed cases
 * ------------------------------------------------------------------------------
 */

struct fixed {
    int32_t vocab;
    double target[4], draft[4];
};
/* The pairs of rows on which the literature's numbers are computed, and two where faults hide:
 * equal rows, and a draft that is surer than the target. */
static const struct fixed fixed_rows[] = {
    {2, {1.0 / 3, 2.0 / 3}, {2.0 / 3, 1.0 / 3}},
    {3, {.3, .4, .3}, {.6, .3, .1}},
    {3, {.5, .3, .2}, {.2, .3, .5}},
    {4, {.1, .2, .3, .4}, {.4, .3, .2, .1}},
    {2, {.5, .5}, {.5, .5}},
    {2, {.5, .5}, {.7, .3}},
};
enum { REFERENCE = 2, FIXED_ROWS = sizeof fixed_rows / sizeof *fixed_rows };

struct fixed_shape {
    enum cop_shape shape;
    int32_t numbers[4], count; /* widths; merged paths: count and depth */
};
static const struct fixed_shape fixed_shapes[] = {
    {COP_SHAPE_CHAIN, {1}, 1},       {COP_SHAPE_CHAIN, {1, 1}, 2},
    {COP_SHAPE_CHAIN, {1, 1, 1}, 3}, {COP_SHAPE_CHAIN, {1, 1, 1, 1}, 4},
    {COP_SHAPE_PATHS, {2, 1}, 2},    {COP_SHAPE_PATHS, {2, 2}, 2},
    {COP_SHAPE_PATHS, {3, 2}, 2},    {COP_SHAPE_TREE, {2}, 1},
    {COP_SHAPE_TREE, {2, 2}, 2},     {COP_SHAPE_TREE, {3}, 1},
    {COP_SHAPE_TREE, {1, 2}, 2},     {COP_SHAPE_TREE, {2, 1}, 2},
};
enum { FIXED_SHAPES = sizeof fixed_shapes / sizeof *fixed_shapes };

static bool fits(const struct fixed_shape *shape, const struct cop_proof_kind *kind)
{
    if (kind->draw == COP_DRAW_HUB_PAIR) { /* two children everywhere, or none */
        return shape->shape == COP_SHAPE_TREE && shape->numbers[0] == 2 &&
               (shape->count == 1 || shape->numbers[1] == 2);
    }
    if (kind->draw == COP_DRAW_SELECTED || kind->draw == COP_DRAW_BEAM) {
        return false;
    }
    return shape->shape <= kind->shape &&
           (shape->shape != COP_SHAPE_PATHS || kind->draw == COP_DRAW_INDEPENDENT);
}

static int32_t count_shapes(const struct cop_proof_kind *kind)
{
    int32_t n = 0;
    for (int32_t i = 0; i < FIXED_SHAPES; i++) {
        n += fits(&fixed_shapes[i], kind);
    }
    return n;
}

int32_t cop_proof_fixed_cases(const struct cop_proof_kind *kind)
{
    return count_shapes(kind) * FIXED_ROWS;
}

static void set_rows(struct cop_proof_case *out, int32_t vocab, enum cop_proof_flavour flavour,
                     uint64_t seed)
{
    out->target = (struct cop_proof_rows){.vocab = vocab, .flavour = flavour, .seed = seed};
    out->draft = out->target;
    out->draft.is_draft = true;
    out->law.vocab = vocab;
    out->law.target = out->law.draft = cop_proof_row;
    out->law.target_context = &out->target;
    out->law.draft_context = &out->draft;
}

static void set_fixed(struct cop_proof_case *out, const struct fixed *rows)
{
    set_rows(out, rows->vocab, COP_PROOF_FIXED, 0);
    out->target.fixed = rows->target;
    out->draft.fixed = rows->draft;
}

static enum cop_status set_shape(struct cop_proof_case *out,
                                 const struct cop_registry *registry,
                                 const struct fixed_shape *shape, struct cop_error *err)
{
    const int32_t *n = shape->numbers;
    enum cop_status status =
        shape->shape == COP_SHAPE_PATHS
            ? cop_proof_merged(&out->builder, registry, n[0], n[1], err)
            : cop_proof_widths(&out->builder, registry, out->law.draw, n, shape->count, err);
    out->law.builder = out->builder;
    return status;
}

static enum cop_status draw_fixed(struct cop_proof_case *out,
                                  const struct cop_registry *registry,
                                  const struct cop_proof_kind *kind, int32_t number,
                                  struct cop_error *err)
{
    int32_t wanted = number / FIXED_ROWS;
    const struct fixed_shape *shape = fixed_shapes;
    while (!fits(shape, kind) || wanted-- > 0) {
        shape++;
    }
    const struct fixed *rows = &fixed_rows[number % FIXED_ROWS];
    set_fixed(out, rows);
    (void)snprintf(out->text, sizeof out->text, "fixed rows %d, fixed shape %d",
                   (int)(number % FIXED_ROWS) + 1, (int)(shape - fixed_shapes) + 1);
    return set_shape(out, registry, shape, err);
}

enum cop_status cop_proof_case_reference(struct cop_proof_case *out,
                                         const struct cop_registry *registry,
                                         const struct cop_proof_kind *kind,
                                         struct cop_error *err)
{
    static const struct fixed_shape shapes[] = {
        {COP_SHAPE_CHAIN, {1, 1}, 2}, {COP_SHAPE_PATHS, {2, 2}, 2}, {COP_SHAPE_TREE, {2}, 1}};
    *out = (struct cop_proof_case){.law = {.draw = kind->draw, .max_branches = BRANCHES}};
    set_fixed(out, &fixed_rows[REFERENCE]);
    out->law.is_zero_temperature = kind->zero_only;
    return set_shape(out, registry, &shapes[kind->shape], err);
}

/* ---- Drawn cases
 * ------------------------------------------------------------------------------
 */

/* A tree whose tokens are a function of the context, equal siblings and all. */
static enum cop_status draw_given(struct cop_proof_case *out, const struct cop_proof_kind *kind,
                                  const struct cop_proof_size *size,
                                  struct cop_proof_dice *dice, struct cop_error *err)
{
    enum { NODES = 7 };
    enum cop_status status = cop_tree_init(&out->given, NODES + 1, err);
    int32_t nodes = cop_proof_roll(dice, 0, NODES);
    for (int32_t i = 0; i < nodes && status == COP_OK; i++) {
        int32_t parent = kind->shape < COP_SHAPE_TREE
                             ? out->given.size - 1
                             : cop_proof_roll(dice, 0, out->given.size - 1);
        if (cop_tree_depth(&out->given, parent) < size->depth &&
            cop_tree_children(&out->given, parent) < size->width) {
            (void)cop_tree_add(&out->given, parent, cop_proof_roll(dice, 0, size->vocab - 1),
                               -1);
        }
    }
    out->given.draw = COP_DRAW_DETERMINISTIC;
    out->law.given = &out->given;
    return status;
}

static double roll_number(const struct cop_option *o, struct cop_proof_dice *dice)
{
    return o->min + (o->max - o->min) * cop_proof_roll(dice, 0, 10) / 10;
}

/* Options of other types stay as they are. */
static void draw_option(const struct cop_option *o, void *state, struct cop_proof_dice *dice)
{
    bool is_bounded = isfinite(o->min) && isfinite(o->max);
    if (o->type == COP_OPTION_INT) {
        double value = fmin(fmax(cop_proof_roll(dice, 1, 3), o->min), o->max);
        (void)cop_option_set_number(o, state, value, "check rules", NULL);
    } else if (o->type == COP_OPTION_NUMBER && is_bounded) {
        (void)cop_option_set_number(o, state, roll_number(o, dice), "check rules", NULL);
    } else if (o->type == COP_OPTION_NUMBERS && is_bounded) {
        double list[3];
        int32_t count = cop_proof_roll(dice, 0, 3);
        for (int32_t i = 0; i < count; i++) {
            list[i] = roll_number(o, dice);
        }
        (void)cop_option_set_numbers(o, state, list, count, "check rules", NULL);
    }
}

static enum cop_status draw_length(struct cop_proof_case *out,
                                   const struct cop_registry *registry,
                                   struct cop_proof_dice *dice, struct cop_error *err)
{
    const struct cop_plug *plug = NULL;
    int32_t seen = 0;
    for (size_t i = 0; i < registry->count; i++) {
        if (registry->plugs[i]->kind == COP_PLUG_LENGTH &&
            cop_proof_roll(dice, 0, seen++) == 0) {
            plug = registry->plugs[i];
        }
    }
    out->length = plug ? cop_part_new(plug) : NULL;
    for (const struct cop_option *o = out->length ? plug->options : NULL; o && o->name; o++) {
        draw_option(o, out->length->state, dice);
    }
    out->law.length = out->length;
    return out->length ? cop_part_prepare(out->length, err) : COP_OK;
}

/* About how many branches there are: every drawn node and the last token is one of the
 * vocabulary, every node may be the one where the rule stops. */
static double estimate(const struct cop_proof_case *drawn)
{
    if (!drawn->builder || drawn->law.is_zero_temperature) {
        return 1;
    }
    const struct cop_builder_ops *ops = (const struct cop_builder_ops *)drawn->builder->plug;
    int32_t nodes = ops->nodes(drawn->builder->state);
    double drafts =
        drawn->law.draw == COP_DRAW_DETERMINISTIC ? 1 : pow(drawn->law.vocab, nodes);
    double cycle = drafts * drawn->law.vocab * (1 + nodes) / 2;
    return pow(cycle, drawn->law.horizon > 1 ? drawn->law.horizon : 1);
}

static struct cop_proof_size size_of(int32_t attempt)
{
    static const struct cop_proof_size sizes[] = {{5, 3, 3}, {4, 3, 3}, {4, 2, 3}, {3, 3, 2},
                                                  {3, 2, 3}, {3, 2, 2}, {2, 2, 2}, {2, 1, 2}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    return sizes[attempt < SIZES ? attempt : SIZES - 1];
}

static void append(struct cop_proof_case *out, const char *text)
{
    size_t used = strlen(out->text);
    (void)snprintf(out->text + used, sizeof out->text - used, ", %s", text);
}

static bool may_differ(const struct cop_proof_case *out)
{
    return out->builder &&
           (out->law.draw == COP_DRAW_INDEPENDENT || out->law.draw == COP_DRAW_DETERMINISTIC) &&
           strcmp(out->builder->plug->name, "independent_paths") != 0;
}

static enum cop_status draw_random(struct cop_proof_case *out,
                                   const struct cop_registry *registry,
                                   const struct cop_proof_kind *kind,
                                   struct cop_proof_dice *dice, int32_t attempt,
                                   struct cop_error *err)
{
    struct cop_proof_size size = size_of(attempt);
    size.vocab = cop_proof_roll(dice, 2, size.vocab);
    enum cop_proof_flavour flavour =
        (enum cop_proof_flavour)cop_proof_roll(dice, 0, COP_PROOF_FLAVOURS + 3);
    flavour = flavour > COP_PROOF_MIXED ? COP_PROOF_MIXED : flavour;
    set_rows(out, size.vocab, flavour, cop_proof_bits(dice));
    const struct cop_proof_wanted wanted = {
        .draw = kind->draw, .shape = kind->shape, .is_constant = kind->constant_length};
    char shape[128] = "a given tree";
    bool is_given = kind->draw == COP_DRAW_DETERMINISTIC && cop_proof_roll(dice, 0, 2) == 0;
    enum cop_status status = is_given ? draw_given(out, kind, &size, dice, err)
                                      : cop_proof_shape(&out->builder, registry, &wanted, &size,
                                                        dice, shape, sizeof shape, err);
    out->law.builder = out->builder;
    (void)snprintf(out->text, sizeof out->text, "vocabulary %d, %s, %s", (int)size.vocab,
                   cop_proof_flavour_name(flavour), shape);
    if (status == COP_OK && kind->several_rows && may_differ(out) &&
        cop_proof_roll(dice, 0, 5) == 0) {
        out->law.n_drafters = 3; /* no node has more children */
        append(out, "3 drafters");
    }
    if (status == COP_OK && !is_given && !kind->constant_length &&
        cop_proof_roll(dice, 0, 5) == 0) {
        status = draw_length(out, registry, dice, err);
        append(out, out->length ? out->length->plug->name : "");
    }
    if (kind->has_state && cop_proof_roll(dice, 0, 1)) {
        out->law.horizon = cop_proof_roll(dice, 2, 3);
        append(out, "several cycles");
    }
    return status;
}

/* Most cases are small, some large. The estimate counts zeros as drawn and is mostly too high.
 */
static double budget_of(int32_t number)
{
    return BRANCHES * (number % 16 == 0 ? 4.0 : number % 4 == 0 ? 1.0 : 0.1);
}

enum cop_status cop_proof_case_draw(struct cop_proof_case *out,
                                    const struct cop_registry *registry,
                                    const struct cop_proof_kind *kind, uint64_t seed,
                                    int32_t number, int32_t attempt, struct cop_error *err)
{
    int32_t n_fixed = kind->zero_only ? 0 : cop_proof_fixed_cases(kind);
    struct cop_proof_dice dice = {
        .seed = cop_hash_u64((uint64_t)number,
                             cop_hash_u64((uint64_t)kind->draw * 8 + kind->shape, seed))};
    bool is_fixed = number < n_fixed && attempt == 0;
    double budget = budget_of(number);
    for (;; attempt++) {
        *out = (struct cop_proof_case){.law = {.draw = kind->draw, .max_branches = BRANCHES}};
        out->law.is_zero_temperature = kind->zero_only || (!is_fixed && number % 8 == 7);
        enum cop_status status =
            is_fixed ? draw_fixed(out, registry, kind, number, err)
                     : draw_random(out, registry, kind, &dice, attempt / 3, err);
        if (status != COP_OK) {
            cop_proof_case_release(out);
            return status;
        }
        if (is_fixed || estimate(out) <= budget || attempt >= 30) {
            break;
        }
        cop_proof_case_release(out);
    }
    if (out->law.is_zero_temperature) {
        append(out, "temperature 0");
    }
    return COP_OK;
}

void cop_proof_case_release(struct cop_proof_case *drawn)
{
    cop_part_free(drawn->builder);
    cop_part_free(drawn->length);
    cop_tree_release(&drawn->given);
    *drawn = (struct cop_proof_case){0};
}
