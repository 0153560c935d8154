/* What the tests of rules that decide level by level share: the small rows of published
 * numbers, hard rows, and the sweep over everything that a rule claims. */
#ifndef TESTS_ALGORITHMS_LEVEL_LAWS_H
#define TESTS_ALGORITHMS_LEVEL_LAWS_H

#include "tests/algorithms/laws.h"

#include <stdio.h>

extern const struct cop_rule_ops cop_accept_recursive, cop_accept_kseq, cop_accept_greedy_draw,
    cop_accept_spechub, cop_accept_coupled;

#define CLOSE(a, b, tolerance)                                                                 \
    cr_expect_lt(fabs((a) - (b)), tolerance, "%.17g, not %.17g", (double)(a), (double)(b))

/* Target and draft of the one-level table: A is the toy of block verification. */
static struct fixed_row row_target[] = {{2, {{1.0 / 3, 2.0 / 3}}},
                                        {3, {{.5, .3, .2}}},
                                        {4, {{.1, .2, .3, .4}}},
                                        {3, {{.3, .4, .3}}}};
static struct fixed_row row_draft[] = {{2, {{2.0 / 3, 1.0 / 3}}},
                                       {3, {{.2, .3, .5}}},
                                       {4, {{.4, .3, .2, .1}}},
                                       {3, {{.6, .3, .1}}}};
enum { ROW_A, ROW_B, ROW_C, ROW_TRAVERSAL };

static inline struct cop_law_case on_rows(const struct cop_rule_ops *rule, enum cop_draw draw,
                                          struct cop_part *builder, int rows)
{
    return (struct cop_law_case){.rule = part_of(&rule->plug),
                                 .builder = builder,
                                 .draw = draw,
                                 .vocab = row_target[rows].vocab,
                                 .target = fixed_rows,
                                 .draft = fixed_rows,
                                 .target_context = &row_target[rows],
                                 .draft_context = &row_draft[rows]};
}

/* Expected accepted tokens of a case that must be lossless. */
static inline double accepted_of(struct cop_law_case what)
{
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-14);
    double expected = law.expected_accepted;
    cop_law_release(&law);
    return expected;
}

/* ---- Hard rows: laws.h has zeros, ties, equal and disjoint ones ----------------------------
 */

enum hardness {
    ONE_HOT_TARGET,
    ONE_HOT_DRAFT,
    ONE_HOT_BOTH,
    STEEP,        /* powers of 1e-3, other orders for target and draft */
    ALMOST_EQUAL, /* the draft is the target to the last bits */
    HARDNESSES
};

static inline enum cop_status hard_rows(void *context, const cop_token *prefix, int32_t length,
                                        int32_t drafter, double *out, struct cop_error *err)
{
    struct mixed_row m = *(struct mixed_row *)context;
    enum hardness hardness = (enum hardness)m.flavour;
    bool is_one_hot = m.is_draft ? hardness == ONE_HOT_DRAFT : hardness == ONE_HOT_TARGET;
    uint32_t hash = mix(m.salt + 5u * (uint32_t)length + 31u * m.is_draft);
    for (int32_t i = 0; i < length; i++) {
        hash = mix(hash ^ (uint32_t)prefix[i]);
    }
    if (is_one_hot || hardness == ONE_HOT_BOTH) {
        memset(out, 0, (size_t)m.vocab * sizeof *out);
        out[hash % (uint32_t)m.vocab] = 1;
        return COP_OK;
    }
    m.flavour = hardness == ALMOST_EQUAL ? EQUAL : PLAIN;
    enum cop_status status = mixed_rows(&m, prefix, length, drafter, out, err);
    if (hardness == ALMOST_EQUAL && m.is_draft) {
        double shift = (hash % 8) * 0x1p-54;
        out[0] += shift;
        out[1] -= shift;
    }
    double total = 0;
    for (int32_t i = 0; hardness == STEEP && i < m.vocab; i++) {
        out[i] = pow(1e-3, (double)((hash >> 8 ^ (uint32_t)i * (1 + hash % 3)) % 5));
        total += out[i];
    }
    for (int32_t i = 0; hardness == STEEP && i < m.vocab; i++) {
        out[i] /= total;
    }
    return status;
}

/* ---- The sweep -----------------------------------------------------------------------------
 */

struct shape_case {
    char kind; /* chain, widths, paths, independent paths, beam, threshold */
    const char *text;
    int32_t vocab_limit; /* keeps the branches few */
};
static const struct shape_case shape_cases[] = {
    {'c', "1", 5},  {'c', "2", 4},      {'c', "3", 2},
    {'w', "2", 5},  {'w', "3", 3},      {'w', "12", 3},
    {'w', "21", 3}, {'w', "22", 2},     {'i', "21", 5},
    {'i', "31", 4}, {'i', "22", 3},     {'i', "32", 2},
    {'i', "23", 2}, {'p', "0 00 1", 3}, {'p', "0 00 01 1 000", 2}};
enum { SHAPE_CASES = sizeof shape_cases / sizeof *shape_cases };

/* One option and the depth, as two digits. */
static inline struct cop_part *two_of(const struct cop_plug *plug, const char *name,
                                      const char *digits)
{
    struct cop_part *part = cop_part_new(plug);
    struct cop_error err;
    const char *const names[] = {name, "depth"};
    for (int i = 0; i < 2; i++) {
        const struct cop_option *option = cop_option_find(plug->options, names[i]);
        cr_assert_eq(cop_option_set_number(option, part->state, digits[i] - '0', "t", &err),
                     COP_OK);
    }
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static inline struct cop_part *shape_of(const struct shape_case *s)
{
    switch (s->kind) {
    case 'c': return chain_of(s->text[0] - '0');
    case 'w': return widths_of(s->text);
    case 'p': return paths_of(s->text);
    case 'b': return two_of(&cop_tree_beam.plug, "width", s->text);
    case 't': return two_of(&cop_tree_threshold.plug, "budget", s->text);
    default: return independent_paths_of(s->text[0] - '0', s->text[1] - '0');
    }
}

/* All rows of one claim and shape: `use` sees each case, which is still its own to change. */
typedef void (*use_case)(struct cop_law_case what, const char *name);

static inline void sweep_rows(const struct cop_rule_ops *rule, enum cop_draw draw,
                              const struct shape_case *s, int32_t n_drafters, use_case use)
{
    for (int flavour = 0; flavour < FLAVOURS + HARDNESSES; flavour++) {
        bool is_hard = flavour >= FLAVOURS;
        enum flavour f = (enum flavour)(is_hard ? flavour - FLAVOURS : flavour);
        for (int32_t vocab = 2; vocab <= s->vocab_limit; vocab++) {
            struct mixed_row target = {vocab, f, 5, false}, draft = {vocab, f, 5, true};
            char name[120];
            (void)snprintf(name, sizeof name, "%s, %s, %c %s, rows %d, %d tokens, %d drafters",
                           rule->plug.name, cop_draw_name(draw), s->kind, s->text, flavour,
                           (int)vocab, (int)n_drafters);
            struct cop_law_case what = {.rule = part_of(&rule->plug),
                                        .builder = shape_of(s),
                                        .draw = draw,
                                        .n_drafters = n_drafters,
                                        .vocab = vocab,
                                        .target = is_hard ? hard_rows : mixed_rows,
                                        .draft = is_hard ? hard_rows : mixed_rows,
                                        .target_context = &target,
                                        .draft_context = &draft};
            use(what, name);
        }
    }
}

static inline int sweep(const struct cop_rule_ops *rule, enum cop_draw draw, bool is_zero,
                        use_case use)
{
    int n = 0;
    for (int i = 0; i < SHAPE_CASES; i++) {
        struct cop_part *builder = shape_of(&shape_cases[i]);
        const struct cop_builder_ops *ops = (const struct cop_builder_ops *)builder->plug;
        bool fits = (is_zero || ops->draws & COP_DRAW_BIT(draw)) &&
                    cop_rule_claims(rule, draw, ops->shape(builder->state), is_zero) &&
                    (draw != COP_DRAW_HUB_PAIR || shape_cases[i].text[0] == '2') &&
                    (draw != COP_DRAW_HUB_PAIR || !strchr(shape_cases[i].text, '1'));
        cop_part_free(builder);
        if (fits) {
            sweep_rows(rule, draw, &shape_cases[i], 1, use);
            n++;
        }
    }
    return n;
}

static inline void use_lossless(struct cop_law_case what, const char *name)
{
    struct cop_law law = law_of(what);
    cr_expect_lt(law.total_variation, 1e-12, "%s: %g", name, law.total_variation);
    cr_expect_leq(law.expected_accepted, law.depth + 1e-12, "%s", name);
    const struct mixed_row *rows = what.target_context;
    if (what.target == mixed_rows && rows->flavour == DISJOINT) {
        cr_expect_lt(law.expected_accepted, 1e-12, "%s", name);
    }
    cop_law_release(&law);
}

/* At temperature 0 the outcomes are match's. */
static inline void use_match(struct cop_law_case what, const char *name)
{
    struct cop_law_case reference = what;
    what.is_zero_temperature = reference.is_zero_temperature = true;
    what.draw = reference.draw = COP_DRAW_AUTO;
    reference.rule = part_of(&cop_accept_match.plug);
    reference.builder = cop_part_share((struct cop_part *)(uintptr_t)what.builder);
    struct cop_law match = law_of(reference), law = law_of(what);
    cr_expect_eq(match.n_outcomes, 1);
    const struct cop_law_outcome *only = &match.outcomes[0];
    double same = 0;
    for (int64_t i = 0; i < law.n_outcomes; i++) {
        const struct cop_law_outcome *o = &law.outcomes[i];
        bool is_same = o->n_accepted == only->n_accepted &&
                       memcmp(o->tokens, only->tokens,
                              (size_t)(o->n_accepted + 1) * sizeof *o->tokens) == 0;
        same += is_same ? o->probability : 0;
    }
    cr_expect_eq(same, 1.0, "%s: %.17g", name, same);
    cop_law_release(&match);
    cop_law_release(&law);
}

#endif
