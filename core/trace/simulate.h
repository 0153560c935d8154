/* What serving would have taken: recorded acceptance replayed against a cost model.
 *
 *     progress[i]   tokens that a cycle commits when it begins at output position i, last token
 *                   included, as far as the draft is long enough: recorded at every position
 *
 *     pass(context, tokens) = fixed + context * kv + tokens * token               seconds
 *     cycle = pass of the target over all drafts of the batch + the draft + overhead
 *
 * A batch is `batch` copies of one request. Prefill is a pass over the prompts and commits the
 * first token. A copy walks from position to position by what it commits, min(progress, draft +
 * 1); the last cycle may commit more than the output has. Times are those of arXiv:2601.11580's
 * simulator, two of its habits included: a copy's cycle lasts as long as its own draft, not the
 * batch's longest, and within a cycle each copy's draft sees the cache with the tokens of the
 * copies before it. */
#ifndef COP_TRACE_SIMULATE_H
#define COP_TRACE_SIMULATE_H

#include "core/base/error.h"
#include "core/base/mersenne.h"
#include <stdbool.h>
#include <stdint.h>

struct cop_pass_cost {
    double kv, token, fixed; /* seconds */
};

struct cop_simulated_cost {
    struct cop_pass_cost target;
    struct cop_pass_cost draft; /* of a draft model: token counts the root as well */
    double lookup;              /* of a lookup: share of the target's pass */
    double overhead;            /* of a cycle */
};

/* Who drafted a position's tokens, and so what the draft costs. */
enum { COP_DRAFT_MODEL = 1, COP_DRAFT_LOOKUP = 2 };

#define COP_SIMULATED_ORACLE (-1) /* drafts exactly what will be accepted */

struct cop_simulated_request {
    int32_t n_prompt, n_output;
    const int32_t *progress; /* [n_output] >= 1 */
    const uint8_t *drafter;  /* [n_output] of COP_DRAFT_… */
};

struct cop_simulation {
    struct cop_simulated_cost cost;
    int32_t batch;  /* >= 1 */
    int32_t length; /* drafted tokens of a cycle, or COP_SIMULATED_ORACLE */
    /* A cycle without a match drafts nothing and costs no draft: of positions where nothing is
     * accepted, those by a coin with probability 1 - match. 1: there is always a match. */
    double match;
    bool skips_empty; /* a draft of no token costs nothing */
};

struct cop_simulated {
    double plain_seconds, seconds; /* of the answer, mean over the copies */
    int64_t cycles, committed;     /* of all copies, prefill not counted */
};

/* coins is read where match < 1 only. COP_ERR_MEMORY. */
enum cop_status cop_simulate(const struct cop_simulation *simulation,
                             const struct cop_simulated_request *request,
                             struct cop_mersenne *coins, struct cop_simulated *out,
                             struct cop_error *err);

#endif
