/* What a trace says about one arm: sums and counts over its requests, each with one meaning.
 *
 *     block efficiency        progress / forward_passes     last token included; plain: 1
 *     tokens per second       tokens / decode_seconds       prefill apart
 *     accepted at depth d     reached[d] / forward_passes   unconditional: never rises with d,
 *                                                           sums to block efficiency - 1
 *     … given depth d - 1     reached[d] / tested[d]        conditional: of the cycles that put
 *                                                           a draft of depth d to the test
 *
 * Identities that hold in every trace: reached[0] = forward_passes; accepted = sum of
 * reached[d] over d >= 1; progress = accepted + forward_passes. A cycle without drafts is not a
 * rejection: it counts in forward_passes and not in tested; nor does one whose draft is not
 * known (of other programs' files). Failed requests are counted and left out. */
#ifndef COP_TRACE_METRICS_H
#define COP_TRACE_METRICS_H

#include "core/trace/trace.h"

struct cop_metrics {
    int64_t requests, failed;
    int64_t tokens; /* of the answers, after the cut by a stop or limit */
    int64_t forward_passes, drafted, accepted, progress;
    int64_t drafting_cycles; /* cycles with at least one draft */
    int64_t kv_bytes_moved;
    /* Charged to the requests: a cycle's time divided by its batch. decode = draft (D) + score
     * (V) + host (H). */
    double decode_seconds, draft_seconds, score_seconds, host_seconds, lua_seconds;
    double prefill_seconds;
    int32_t peak_pages;
    int32_t depth;             /* deepest draft that was tested; the lists are [depth + 1] */
    int64_t *reached, *tested; /* cycles that accepted, tested a draft of at least this depth */
    uint64_t fingerprint;      /* of all answers in order of prompt, repeat, turn */
};

/* Of an arm, of one category of the dataset (NULL: all). */
enum cop_status cop_trace_metrics(struct cop_trace *trace, int64_t arm, const char *category,
                                  struct cop_metrics *metrics, struct cop_error *err);
void cop_metrics_release(struct cop_metrics *metrics);

/* The fingerprint of one more answer: start with 0. */
uint64_t cop_fingerprint_add(uint64_t fingerprint, const cop_token *tokens, int32_t n);

#endif
