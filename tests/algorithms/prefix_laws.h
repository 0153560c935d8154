/* What the tests of the rules that weigh whole prefixes share: rows that
 * are sharper than those of laws.h, and the sweep over all of them. */
#ifndef TESTS_ALGORITHMS_PREFIX_LAWS_H
#define TESTS_ALGORITHMS_PREFIX_LAWS_H

#include "tests/algorithms/laws.h"

extern const struct cop_rule_ops cop_accept_block, cop_accept_hierarchical,
    cop_accept_greedy_block, cop_accept_traversal, cop_accept_multipath_block;

/* Expected accepted tokens of a lossless case. */
static inline double accepted_by(struct cop_law_case what)
{
    struct cop_law law = law_of(what);
    double expected = law.expected_accepted;
    cr_expect_lt(law.total_variation, 1e-13, "%g", law.total_variation);
    cop_law_release(&law);
    return expected;
}

/* Rows of laws.h, of which a third (by prefix) are one-hot and a third have a value of 1e-13 in
 * place of one token's. */
static inline enum cop_status sharp_rows(void *context, const cop_token *prefix, int32_t length,
                                         int32_t drafter, double *out, struct cop_error *err)
{
    const struct mixed_row *m = context;
    enum cop_status status = mixed_rows(context, prefix, length, drafter, out, err);
    uint32_t hash = mix(m->salt + 7);
    for (int32_t i = 0; i < length; i++) {
        hash = mix(hash ^ ((uint32_t)prefix[i] + 3u) * 0x85ebca6bu);
    }
    uint32_t at = mix(hash + (m->is_draft ? 5u : 0u)) % (uint32_t)m->vocab;
    for (int32_t i = 0; i < m->vocab && hash % 3 == 0; i++) {
        out[i] = i == (int32_t)at;
    }
    if (hash % 3 == 1 && out[at] > 0 && out[at] < .99) {
        double rest = 1 - out[at];
        for (int32_t i = 0; i < m->vocab; i++) {
            out[i] = i == (int32_t)at ? 1e-13 : out[i] * (1 - 1e-13) / rest;
        }
    }
    return status;
}

/* All mass on the likeliest token of mixed_rows, ties to the lowest id. */
static inline enum cop_status best_rows(void *context, const cop_token *prefix, int32_t length,
                                        int32_t drafter, double *out, struct cop_error *err)
{
    const struct mixed_row *m = context;
    enum cop_status status = mixed_rows(context, prefix, length, drafter, out, err);
    int32_t best = 0;
    for (int32_t i = 1; i < m->vocab; i++) {
        best = out[i] > out[best] ? i : best;
    }
    for (int32_t i = 0; i < m->vocab; i++) {
        out[i] = i == best;
    }
    return status;
}

struct sweep {
    const struct cop_rule_ops *rule;
    enum cop_draw draw;
    struct cop_part *(*build)(int32_t i); /* NULL after the last one */
    int32_t vocab_limit[16];              /* by builder: keeps the branches below the limit */
    int32_t n_drafters, horizon;
    uint32_t salts;
    bool has_length;
};

static inline struct cop_law_case sweep_case(const struct sweep *s, int32_t i,
                                             struct mixed_row *target, struct mixed_row *draft,
                                             bool is_sharp)
{
    struct cop_law_case what = {.rule = part_of(&s->rule->plug),
                                .builder = s->build(i),
                                .draw = s->draw,
                                .vocab = target->vocab,
                                .n_drafters = s->n_drafters,
                                .horizon = s->horizon,
                                .target = is_sharp ? sharp_rows : mixed_rows,
                                .draft = is_sharp ? sharp_rows : mixed_rows,
                                .target_context = target,
                                .draft_context = draft};
    what.length = s->has_length ? part_of(&cop_length_confidence.plug) : NULL;
    return what;
}

/* Total variation 0 for every builder, flavour of rows, vocabulary and salt; equal rows are all
 * kept on chains, disjoint ones never. Returns how many cases there were. */
static inline int expect_lossless(const struct sweep *s)
{
    int n = 0;
    for (int32_t i = 0; s->vocab_limit[i]; i++) {
        for (uint32_t j = 0; j < 2 * FLAVOURS * s->salts; j++) {
            enum flavour flavour = (enum flavour)(j % FLAVOURS);
            bool is_sharp = j / FLAVOURS % 2 == 1;
            for (int32_t vocab = 2; vocab <= s->vocab_limit[i]; vocab++, n++) {
                struct mixed_row target = {vocab, flavour, 100 + j, false};
                struct mixed_row draft = {vocab, flavour, 100 + j, true};
                struct cop_law law = law_of(sweep_case(s, i, &target, &draft, is_sharp));
                cr_expect_lt(law.total_variation, 1e-12,
                             "%s, %s, builder %d, flavour %d%s, %d tokens, salt %u: %g",
                             s->rule->plug.name, cop_draw_name(law.draw), i, flavour,
                             is_sharp ? " sharp" : "", vocab, j, law.total_variation);
                if (flavour == DISJOINT && !is_sharp && s->horizon < 2) {
                    cr_expect_lt(law.expected_accepted, 1e-13);
                }
                cop_law_release(&law);
            }
        }
    }
    return n;
}

/* The accepted tokens of a rule on rows of a salt; flavour and vocabulary go with it. */
static inline double accepted_on(const struct cop_rule_ops *rule, enum cop_draw draw,
                                 struct cop_part *(*build)(int32_t i), int32_t i, uint32_t salt)
{
    struct mixed_row target = {3, salt % FLAVOURS, salt, false};
    struct mixed_row draft = {3, salt % FLAVOURS, salt, true};
    struct sweep sweep = {.rule = rule, .draw = draw, .build = build};
    return accepted_by(sweep_case(&sweep, i, &target, &draft, false));
}

/* Outcomes of a that b lacks, or has with another probability: rounding may add some of 1e-17.
 */
static inline void expect_outcomes_of(const struct cop_law *a, const struct cop_law *b)
{
    for (int64_t i = 0; i < a->n_outcomes; i++) {
        double other = 0;
        size_t size = (size_t)(a->outcomes[i].n_accepted + 1) * sizeof(cop_token);
        for (int64_t j = 0; j < b->n_outcomes; j++) {
            if (b->outcomes[j].n_accepted == a->outcomes[i].n_accepted &&
                memcmp(a->outcomes[i].tokens, b->outcomes[j].tokens, size) == 0) {
                other = b->outcomes[j].probability;
            }
        }
        NEAR(a->outcomes[i].probability, other);
    }
}

static inline void expect_same_outcomes(const struct cop_law *a, const struct cop_law *b)
{
    expect_outcomes_of(a, b);
    expect_outcomes_of(b, a);
}

/* Outcome by outcome the same law, on the first n builders of a list. */
static inline void expect_same_laws(const struct cop_rule_ops *a, const struct cop_rule_ops *b,
                                    struct cop_part *(*build)(int32_t i), int32_t n)
{
    for (uint32_t salt = 0; salt < 40; salt++) {
        struct mixed_row target = {3, salt % FLAVOURS, salt, false};
        struct mixed_row draft = {3, salt % FLAVOURS, salt, true};
        for (int32_t i = 0; i < n; i++) {
            struct sweep one = {.rule = a, .build = build}, other = {.rule = b, .build = build};
            struct cop_law laws[] = {law_of(sweep_case(&one, i, &target, &draft, false)),
                                     law_of(sweep_case(&other, i, &target, &draft, false))};
            expect_same_outcomes(&laws[0], &laws[1]);
            cop_law_release(&laws[0]);
            cop_law_release(&laws[1]);
        }
    }
}

/* At temperature 0 a rule has match's verdicts, and so has its arithmetic on dense one-hot rows
 * under soft drafts, by any draw. */
static inline void expect_match_at_zero(const struct cop_rule_ops *rule,
                                        struct cop_part *(*build)(int32_t i), int32_t n,
                                        enum cop_draw draw)
{
    for (uint32_t j = 0; j < 120; j++) {
        struct mixed_row target = {3, j / 2 % 3, j, false}, draft = {3, j / 2 % 3, j, true};
        struct sweep sweeps[] = {{.rule = rule, .build = build},
                                 {.rule = &cop_accept_match, .build = build}};
        struct cop_law laws[2];
        for (int i = 0; i < 2; i++) {
            struct cop_law_case what =
                sweep_case(&sweeps[i], (int32_t)j % n, &target, &draft, false);
            what.is_zero_temperature = j % 2;
            what.relaxed = true;
            what.draw = draw;
            what.target = j % 2 ? mixed_rows : best_rows;
            laws[i] = law_of(what);
        }
        expect_same_outcomes(&laws[0], &laws[1]);
        cop_law_release(&laws[0]);
        cop_law_release(&laws[1]);
    }
}

#endif
