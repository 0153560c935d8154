/* The contract of an acceptance rule: which drafted nodes survive, and the one token that
 * follows them.
 *
 * A rule is a pure function over the whole tree. It sees numbers only: no model, no clock, no
 * generator, no printing. Calling it twice with the same answers from `draws` gives the same
 * verdict, which is what lets core/cycle/law/law.h enumerate it.
 *
 * A complete lossless rule, to copy from: algorithms/accept/token.c. */
#ifndef COP_CYCLE_RULE_H
#define COP_CYCLE_RULE_H

#include "core/cycle/contract/plug.h"
#include "core/cycle/draws/draws.h"
#include "core/cycle/rows/row.h"
#include "core/cycle/rows/tree.h"

struct cop_verify_in {
    const struct cop_tree *tree;
    /* at(node): law of the token after node (root included); never NULL */
    struct cop_rows target;
    /* at(node): the row that node's own token was drawn from; NULL where none was recorded.
     * Always the proposer's distribution, also when the draw is deterministic */
    struct cop_rows draft;
    const struct cop_draws *draws;
    void *sequence_state; /* carried from cycle to cycle; NULL for rules without */
    int64_t position; /* of the root in its sequence: names noise that does not depend on the
                         draft (cop_shared_key) */
};

enum cop_origin {
    COP_ORIGIN_RECOVERED, /* drawn after a rejection */
    COP_ORIGIN_BONUS      /* drawn after a fully accepted path (a lone root included) */
};
const char *cop_origin_name(enum cop_origin origin);

struct cop_verdict {
    int32_t *accepted; /* [tree capacity], lent: nodes in path order, from below the root */
    int32_t n_accepted;
    cop_token last; /* has positive probability in the target row it was drawn from */
    enum cop_origin origin;
    bool is_substitute; /* relaxed rules: `last` is the best token of another law than the
                           target's, so at temperature 0 it may be any that the logits allow */
};

/* The output distribution equals the target's when children were picked by `draw` and the tree
 * has at most this shape. */
struct cop_claim {
    enum cop_draw draw; /* COP_DRAW_COUNT stands for every draw; COP_DRAW_AUTO ends a list */
    enum cop_shape shape;
    bool zero_only; /* at temperature 0 only */
};

struct cop_rule_ops {
    struct cop_plug plug;
    const struct cop_claim *lossless_for; /* required, ends with {COP_DRAW_AUTO}; the first that
                                             fits is the default draw */
    bool needs_draft_rows;      /* refuses proposers that supply points under draws other than
                                   deterministic */
    size_t sequence_state_size; /* plain memory, copied freely */
    void (*sequence_init)(const void *state, void *sequence_state); /* optional; else zero */
    /* required. A status other than COP_OK fails this request only. */
    enum cop_status (*verify)(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err);
    bool follows_luck; /* goes on below a child that the last token happens to equal */
    /* draft chains under the independent draw race with COP_PURPOSE_SHARED */
    bool shares_noise;
    bool several_rows; /* lossless also where siblings were drawn from different rows (several
                          drafters): asks for the row of each child */
    bool constant_length; /* lossless only where every cycle drafts as deep as the others,
                             whatever it drafts */
    bool changes_target;  /* sequence_state alters the law of later tokens: whole cycles are not
                             lossless one by one, only the tokens in the order they come */
    const struct cop_claim *defined_for; /* draws and shapes that the definition covers, the
                                            preferred draw first; others are refused, relaxed
                                            or not. NULL: every one */
    const char *cost;    /* passes over the vocabulary: "1 at the rejected node" */
    const char *promise; /* relaxed rules: what may be said of the output; NULL: lossless */
    /* optional: operation of the kernel table that runs the whole rule */
    const char *device_program;
};

/* Whether the rule claims this combination. At temperature 0 the draw does not matter (every
 * lossless rule is then match), the shape does. */
bool cop_rule_claims(const struct cop_rule_ops *rule, enum cop_draw draw, enum cop_shape shape,
                     bool is_zero_temperature);

/* Whether the rule's definition covers it (defined_for); the message says what it covers. */
enum cop_status cop_rule_check_pair(const struct cop_rule_ops *rule, enum cop_draw draw,
                                    enum cop_shape shape, bool is_zero_temperature,
                                    struct cop_error *err);
/* "independent × chain, any draw × tree at temperature 0" from a list of claims. */
void cop_claims_list(const struct cop_claim *claims, char *text, size_t size);

/* Checks a verdict: a path of the tree, a last token of positive target probability. */
enum cop_status cop_verdict_check(const struct cop_verify_in *in,
                                  const struct cop_verdict *verdict, struct cop_error *err);
/* The same for whoever runs a rule (the engine after every verify), with what its questions
 * were told (NULL or code COP_OK: nothing wrong): the message names the rule. */
enum cop_status cop_rule_check(const struct cop_rule_ops *rule, const struct cop_verify_in *in,
                               const struct cop_verdict *verdict, const struct cop_error *asked,
                               struct cop_error *err);

#endif
