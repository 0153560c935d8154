/* One case of the check: rows, a shape, and now and then a given tree, several drafters, a
 * length policy or temperature 0, all drawn from a seed. The same seed, draw and shape make the
 * same case for every rule. */
#ifndef COP_PROOF_CASE_H
#define COP_PROOF_CASE_H

#include "core/proof/rows.h"
#include "core/proof/shape.h"

struct cop_proof_case {
    struct cop_law_case law; /* without the rule, which the caller sets */
    struct cop_proof_rows target, draft;
    struct cop_part *builder, *length;
    struct cop_tree given; /* capacity 0: none */
    char text[200];        /* "vocabulary 3, zeros, widths {2, 1}" */
};

/* What a pair of draw and shape asks of its cases. */
struct cop_proof_kind {
    enum cop_draw draw;
    enum cop_shape shape; /* at most */
    bool zero_only;       /* temperature 0 in every case */
    bool has_state;       /* the rule carries state: some cases run over several cycles */
    bool several_rows;    /* some cases have several drafters */
    bool constant_length; /* no length policy, and every cycle drafts the same shape */
};

/* The case `number` of a kind: the first ones are the fixed cases, then drawn ones. `attempt`
 * makes it smaller, for a case that had too many branches. */
enum cop_status cop_proof_case_draw(struct cop_proof_case *out,
                                    const struct cop_registry *registry,
                                    const struct cop_proof_kind *kind, uint64_t seed,
                                    int32_t number, int32_t attempt, struct cop_error *err);
void cop_proof_case_release(struct cop_proof_case *drawn);

/* How many fixed cases a kind has. */
int32_t cop_proof_fixed_cases(const struct cop_proof_kind *kind);

/* The case on which rules are compared: target (1/2, 3/10, 1/5), draft (1/5, 3/10, 1/2) after
 * every prefix; a chain of two, two independent paths of two, or two children. */
enum cop_status cop_proof_case_reference(struct cop_proof_case *out,
                                         const struct cop_registry *registry,
                                         const struct cop_proof_kind *kind,
                                         struct cop_error *err);

#endif
