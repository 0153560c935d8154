/* What no rule can pass: an upper bound on the expected number of accepted tokens, for drafted
 * paths of a known law and an output that must have the target's.
 *
 * At depth d, let S be the set of drafted paths of that length and Y the output's first d
 * tokens. A rule keeps d tokens only if Y is in S, and however it couples the two,
 *
 *     Pr(Y in S) <= alpha_d = min over sets H of paths of [ target(H) + 1 - Pr(S inside H) ],
 *
 * which is the value of a maximal flow from the law of S to the law of Y, H being the cut. The
 * bound is the sum of alpha_d over the depths. For one level some rule attains it; beyond, a
 * rule would have to couple best at every depth at once, which it usually cannot.
 *
 *   target (1/3, 2/3), draft (2/3, 1/3), one independent child: H = {0} gives
 *   1/3 + 1 - 2/3 = 2/3, the acceptance of the token rule. */
#ifndef COP_CYCLE_OPTIMUM_H
#define COP_CYCLE_OPTIMUM_H

#include "core/cycle/law/law.h"

enum cop_optimum_method {
    COP_OPTIMUM_SUBSET,  /* one level, by formula: any vocabulary */
    COP_OPTIMUM_MAX_FLOW /* the drafting enumerated: small cases, within the limits of a law */
};
const char *cop_optimum_method_name(enum cop_optimum_method method); /* "subset", "max_flow" */

/* The cut of one depth: paths of `depth` tokens, one after another. */
struct cop_optimum_cut {
    cop_token *tokens; /* [n_paths, depth] */
    int32_t n_paths;
};

struct cop_optimum {
    double value; /* sum of levels */
    enum cop_optimum_method method;
    bool is_attained; /* one level: some rule accepts that much. Else only a bound */
    int32_t depth;
    double *levels;               /* [depth]: alpha_d, d from 1 */
    struct cop_optimum_cut *cuts; /* [depth]: the minimising H of each */
    enum cop_draw draw;
    int64_t branches; /* of the drafting; 0 where a formula did */
};

/* The bound for a case; its rule may be NULL and is never looked at. `draw` AUTO: independent
 * where the builder can. Fails as cop_law_enumerate does. */
enum cop_status cop_optimum_find(struct cop_optimum *optimum, const struct cop_law_case *what,
                                 struct cop_error *err);
void cop_optimum_release(struct cop_optimum *optimum);

/* One level: `n_children` picked by `draw` from one row, over any vocabulary. in_cut [vocab]:
 * the minimising H. Draws: independent, without_replacement, deterministic, greedy_draw,
 * hub_pair (which are always two). COP_ERR_ARGUMENT for another draw, COP_ERR_MEMORY. */
enum cop_status cop_optimum_subset(const double *target, const double *draft, int32_t vocab,
                                   enum cop_draw draw, int32_t n_children, double *value,
                                   bool *in_cut, struct cop_error *err);

#endif
