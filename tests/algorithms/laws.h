/* Cases for the enumeration: rows by hand or by a formula of the prefix, and parts by name. */
#ifndef TESTS_ALGORITHMS_LAWS_H
#define TESTS_ALGORITHMS_LAWS_H

#include "core/cycle/law/law.h"
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

extern const struct cop_rule_ops cop_accept_match, cop_accept_sample_match, cop_accept_token;
extern const struct cop_builder_ops cop_tree_chain, cop_tree_widths, cop_tree_paths,
    cop_tree_independent_paths, cop_tree_sequoia, cop_tree_expand_rerank, cop_tree_best_first,
    cop_tree_opt_tree, cop_tree_threshold, cop_tree_beam, cop_tree_beam_search;
extern const struct cop_length_ops cop_length_fixed, cop_length_confidence;

#define NEAR(a, b)                                                                             \
    cr_expect_lt(fabs((a) - (b)), 1e-13, "%.17g, not %.17g", (double)(a), (double)(b))

static inline struct cop_part *part_of(const struct cop_plug *plug)
{
    struct cop_part *part = cop_part_new(plug);
    struct cop_error err;
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static inline struct cop_part *chain_of(int32_t depth)
{
    struct cop_part *part = cop_part_new(&cop_tree_chain.plug);
    struct cop_error err;
    cr_assert_eq(cop_option_set_number(&part->plug->options[0], part->state, depth, "t", &err),
                 COP_OK);
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static inline struct cop_part *independent_paths_of(int32_t count, int32_t depth)
{
    struct cop_part *part = cop_part_new(&cop_tree_independent_paths.plug);
    const struct cop_option *options = part->plug->options;
    struct cop_error err;
    cr_assert_eq(cop_option_set_number(&options[0], part->state, count, "t", &err), COP_OK);
    cr_assert_eq(cop_option_set_number(&options[1], part->state, depth, "t", &err), COP_OK);
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

/* Widths as a string of digits: "32" is three children, two below each. */
static inline struct cop_part *widths_of(const char *digits)
{
    struct cop_part *part = cop_part_new(&cop_tree_widths.plug);
    struct cop_error err;
    int32_t widths[16], n = 0;
    for (; digits[n]; n++) {
        widths[n] = digits[n] - '0';
    }
    cr_assert_eq(
        cop_option_set_ints(&part->plug->options[0], part->state, widths, n, "t", &err),
        COP_OK);
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

/* Rank paths, ranks from 0, as words of digits: "0 00 01 1". */
static inline enum cop_status set_paths(struct cop_part *part, const char *words,
                                        struct cop_error *err)
{
    int32_t ranks[256], lengths[64] = {0}, n = 0, n_ranks = 0;
    for (const char *c = words; *c; c++) {
        if (*c == ' ') {
            n++;
        } else {
            ranks[n_ranks++] = *c - '0';
            lengths[n]++;
        }
    }
    cr_assert_eq(cop_option_set_paths(&part->plug->options[0], part->state, ranks, lengths,
                                      n + 1, "cop.tree.paths", err),
                 COP_OK);
    return cop_part_prepare(part, err);
}

static inline struct cop_part *paths_of(const char *words)
{
    struct cop_part *part = cop_part_new(&cop_tree_paths.plug);
    struct cop_error err;
    cr_assert_eq(set_paths(part, words, &err), COP_OK, "%s", err.text);
    return part;
}

/* The same row everywhere: context points to the probabilities, drafters one after another. */
struct fixed_row {
    int32_t vocab;
    double row[4][5];
};
static inline enum cop_status fixed_rows(void *context, const cop_token *prefix, int32_t length,
                                         int32_t drafter, double *out, struct cop_error *err)
{
    (void)prefix, (void)length, (void)err;
    const struct fixed_row *fixed = context;
    memcpy(out, fixed->row[drafter], (size_t)fixed->vocab * sizeof *out);
    return COP_OK;
}

/* The toy of block verification: target (1/3, 2/3), draft (2/3, 1/3), everywhere. */
static struct fixed_row toy_target = {2, {{1.0 / 3, 2.0 / 3}}};
static struct fixed_row toy_draft = {2, {{2.0 / 3, 1.0 / 3}}};

static inline struct cop_law_case fixed_case(const struct cop_rule_ops *rule,
                                             struct cop_part *builder, struct fixed_row *target,
                                             struct fixed_row *draft)
{
    return (struct cop_law_case){.rule = part_of(&rule->plug),
                                 .builder = builder,
                                 .vocab = target->vocab,
                                 .target = fixed_rows,
                                 .draft = fixed_rows,
                                 .target_context = target,
                                 .draft_context = draft};
}

static inline struct cop_law_case toy(const struct cop_rule_ops *rule, struct cop_part *builder)
{
    return fixed_case(rule, builder, &toy_target, &toy_draft);
}

/* Rows that depend on the whole prefix, made of small integers so that ties, zeros, equal and
 * disjoint rows are exact. */
enum flavour {
    PLAIN,    /* positive everywhere */
    ZEROS,    /* some tokens impossible, not the same ones for target and draft */
    TIES,     /* few different values */
    EQUAL,    /* the draft is the target */
    DISJOINT, /* no token possible in both */
    FLAVOURS
};
struct mixed_row {
    int32_t vocab;
    enum flavour flavour;
    uint32_t salt;
    bool is_draft;
};

static inline uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static inline enum cop_status mixed_rows(void *context, const cop_token *prefix, int32_t length,
                                         int32_t drafter, double *out, struct cop_error *err)
{
    (void)err;
    const struct mixed_row *m = context;
    bool is_draft = m->is_draft && m->flavour != EQUAL;
    uint32_t hash = mix(m->salt * 2 + is_draft + 77u * (uint32_t)drafter * is_draft);
    for (int32_t i = 0; i < length; i++) {
        hash = mix(hash ^ ((uint32_t)prefix[i] + 1u) * 0x9e3779b9u);
    }
    double total = 0;
    for (int32_t i = 0; i < m->vocab; i++) {
        uint32_t h = mix(hash + (uint32_t)i);
        uint32_t value = 1 + h % (m->flavour == TIES ? 2 : 9);
        if (m->flavour == ZEROS && h >> 16 & 1 && i != (int32_t)(hash % (uint32_t)m->vocab)) {
            value = 0;
        }
        if (m->flavour == DISJOINT && (i % 2 == 0) == m->is_draft) {
            value = 0;
        }
        out[i] = value;
        total += value;
    }
    for (int32_t i = 0; i < m->vocab; i++) {
        out[i] /= total;
    }
    return COP_OK;
}

/* Frees the parts of a case, which it owns here. */
static inline void free_case(struct cop_law_case *what)
{
    cop_part_free((struct cop_part *)(uintptr_t)what->rule);
    cop_part_free((struct cop_part *)(uintptr_t)what->builder);
    cop_part_free((struct cop_part *)(uintptr_t)what->length);
}

/* The law of a case that must enumerate; frees its parts. */
static inline struct cop_law law_of(struct cop_law_case what)
{
    struct cop_law law;
    struct cop_error err = {0};
    cr_assert_eq(cop_law_enumerate(&law, &what, &err), COP_OK, "%s", err.text);
    free_case(&what);
    return law;
}

#endif
