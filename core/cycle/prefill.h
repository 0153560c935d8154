/* Reading the committed tokens of a sequence before its first cycle: all but the last one,
 * which is the first root. A proposer that asks for hidden states is handed them chunk by
 * chunk, and no more than a chunk of them is alive. Private to core/cycle. */
#ifndef COP_CYCLE_PREFILL_H
#define COP_CYCLE_PREFILL_H

#include "core/cycle/contract/proposer.h"

struct cop_prefill {
    struct cop_model *target;
    struct cop_cache *cache; /* of the target */
    int32_t sequence;
    const cop_token *ids; /* [n] */
    int32_t n;
    int32_t n_known; /* of them in the cache already; 0 where hidden states are asked for */
    const struct cop_proposer_ops *ops; /* NULL: none; else begin was called */
    void *session;
    const int32_t *layers; /* [n_layers] that it asks for */
    int32_t n_layers;
    const atomic_bool *cancel, *between; /* looked at inside a chunk, and between chunks */
};

enum cop_status cop_prefill(const struct cop_prefill *prefill, struct cop_error *err);

#endif
