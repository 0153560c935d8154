/* The contract of an observer: sees every cycle's raw facts. The trace, the progress bar, a
 * script's `observe` function and r.cycles are observers. */
#ifndef COP_CYCLE_OBSERVER_H
#define COP_CYCLE_OBSERVER_H

#include "core/cycle/contract/plug.h"
#include "core/cycle/contract/rule.h"
#include "core/cycle/rows/tree.h"

/* One sequence in one cycle. Times are of the whole batch's cycle, in microseconds; everything
 * is lent until the call returns. */
/* Why a cycle has no drafted node. */
enum cop_undrafted {
    COP_UNDRAFTED_NOT,     /* it has, or there is no proposer */
    COP_UNDRAFTED_NOTHING, /* the proposer had nothing to go on */
    COP_UNDRAFTED_OVER, /* nor will it: the sequence is longer than the draft's own context, or
                           holds a token that the draft lacks */
    COP_UNDRAFTED_LENGTH, /* the length policy would not */
    COP_UNDRAFTED_LIMIT   /* one token, or one position, was left */
};
const char *cop_undrafted_name(enum cop_undrafted undrafted); /* "nothing", …; NULL for NOT */

struct cop_cycle {
    uint32_t request;
    int32_t sequence, cycle;     /* cycle counts from 0 within the request */
    const struct cop_tree *tree; /* scored nodes */
    /* [tree size] of each node's token under its draft row; NaN: no row */
    const double *draft_logprob;
    const int32_t *accepted;
    int32_t n_accepted;
    enum cop_undrafted undrafted;
    cop_token last;
    enum cop_origin origin;
    int32_t progress;       /* n_accepted + 1, before the cut by a stop or limit */
    int32_t kept;           /* of these, tokens that became part of the answer; a stop string
                               that ends later may still cut into them */
    int32_t context_length; /* committed positions in the cache before the cycle */
    int32_t tokens_scored;  /* of the whole batch */
    int32_t batch_size;
    int64_t kv_bytes_moved;
    double draft_us, score_us;             /* D, V */
    double verify_us, commit_us, other_us; /* H = their sum */
    double lua_us;                         /* part of H spent in a script's functions */
};

/* What a recorder of rows is shown when the verdict is there and the rows still are. Whoever
 * looks at a target row has it made; its time is nobody's. */
struct cop_cycle_rows {
    const struct cop_tree *tree; /* without scouts */
    struct cop_rows target; /* of the token after a node; `logits` NULL or not finite: no law */
    struct cop_rows draft;  /* that a node's token was drawn from; NULL: none recorded */
    const int32_t *accepted;
    int32_t n_accepted;
    cop_token last;
    int32_t context_length; /* committed tokens before the root */
    int32_t room;           /* levels that the answer's limit lets a cycle draft here */
};

struct cop_observer_ops {
    struct cop_plug plug;
    enum cop_status (*cycle)(void *state, const struct cop_cycle *cycle, struct cop_error *err);
};

#endif
