/* Rules that decide level by level: what they share.
 *
 * Such a rule answers one question, which token follows a node whose children were drafted, and
 * the tree is walked by asking it again: a token that a child carries leads to that child, any
 * other ends the cycle, and after a leaf the token is the target's own. It makes no difference
 * whether the token was a kept child or a lucky draw from what the children left over: both
 * have the target's law, and what was drafted below a child does not depend on the decision
 * above it. Following luck is also what makes every such rule match at temperature 0, where all
 * that can come out is the arg max. */
#ifndef ALGORITHMS_ACCEPT_LEVELS_H
#define ALGORITHMS_ACCEPT_LEVELS_H

#include "core/cycle/contract/rule.h"

struct cop_level_choice {
    int32_t child;   /* kept child, or -1: */
    cop_token token; /* the token drawn instead */
};

/* Decides what follows `node`, which has at least one child. */
typedef enum cop_status (*cop_level_rule)(const void *state, const struct cop_verify_in *in,
                                          int32_t node, struct cop_level_choice *choice,
                                          struct cop_error *err);

/* A whole verify: `decide` from the root on. */
enum cop_status cop_levels_walk(cop_level_rule decide, const void *state,
                                const struct cop_verify_in *in, struct cop_verdict *out,
                                struct cop_error *err);

/* The next child of `node` in draw order after the child `elder` (`node` itself: the first), or
 * -1. Passes over scout nodes. */
int32_t cop_level_next(const struct cop_tree *tree, int32_t node, int32_t elder);

/* Mass of a row outside different tokens. Where little is left it is summed, as 1 minus the
 * rest would be rounding. */
double cop_level_mass_without(const struct cop_row *row, const cop_token *tokens, int32_t n);

#endif
