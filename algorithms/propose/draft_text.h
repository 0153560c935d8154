/* Drafting text instead of tokens (string-level exact matching): the draft model writes a few
 * of its tokens, and their text is cut into the target's. Which tokens of the target that gives
 * is a function of the context, so they are points.
 *
 *     draft's tokens   " quant" "um" " mech" "anics"      text " quantum mechanics"
 *     target's         " quantum" " mechanics"            one point a level */
#ifndef ALGORITHMS_PROPOSE_DRAFT_TEXT_H
#define ALGORITHMS_PROPOSE_DRAFT_TEXT_H

#include "algorithms/propose/drafter.h"

struct cop_draft_writing { /* of one sequence */
    struct cop_text text;
    bool goes_on;
    cop_token last;        /* the draft's token that was written last, or that ended the text */
    struct cop_ids tokens; /* the target's */
};
struct cop_draft_text {
    struct cop_drafter *drafter;        /* lent; has a map */
    int32_t depth;                      /* tokens of the draft that are written a cycle */
    struct cop_draft_writing *writings; /* [n_sequences] */
};

/* Closed also after failure, before the drafter. */
enum cop_status cop_draft_text_open(struct cop_draft_text *text, struct cop_drafter *drafter,
                                    int32_t depth, struct cop_error *err);
void cop_draft_text_close(struct cop_draft_text *text);
enum cop_status cop_draft_text_expand(struct cop_draft_text *text,
                                      struct cop_frontier *frontiers, int32_t n_frontiers,
                                      struct cop_error *err);

/* The target's tokens of `text` as it follows the piece of `before` (-1: nothing). A character
 * that is not finished is left out. */
enum cop_status cop_draft_text_cut(const struct cop_tokenizer *target, cop_token before,
                                   struct cop_string text, struct cop_ids *ids,
                                   struct cop_error *err);

#endif
