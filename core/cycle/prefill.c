/* The chunks of a prompt: read by the target, shown to the proposer. */
#include "core/cycle/prefill.h"

#include <stdlib.h>

enum cop_status cop_proposer_layers(const struct cop_proposer_ops *ops, const void *state,
                                    const struct cop_model *target, int32_t *layers, int32_t *n,
                                    struct cop_error *err)
{
    *n = 0;
    if (!ops || !cop_proposer_facts_of(ops, state).needs_hidden) {
        return COP_OK;
    }
    if (!target) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "\"%s\" drafts from hidden states of the target, and no model is given",
                        ops->plug.name);
    }
    const struct cop_model_info *info = cop_model_info(target);
    *n = ops->hidden_layers(state, info, layers);
    for (int32_t i = 0; i < *n; i++) {
        if (layers[i] < COP_HIDDEN_NORMED || layers[i] > info->layers) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "\"%s\" needs the output of layer %d; the target has %d layers",
                            ops->plug.name, layers[i], info->layers);
        }
    }
    return COP_OK;
}

static enum cop_status read_chunk(const struct cop_prefill *prefill, int32_t first, int32_t n,
                                  float *hidden, struct cop_error *err)
{
    const struct cop_states states = {
        .layers = prefill->layers, .n_layers = prefill->n_layers, .out = hidden};
    enum cop_status status =
        cop_model_prefill_states(prefill->target, prefill->cache, prefill->sequence,
                                 prefill->ids + first, n, &states, prefill->cancel, err);
    if (status != COP_OK || prefill->n_layers == 0 || !prefill->ops->prefilled) {
        return status;
    }
    const struct cop_prefilled chunk = {.sequence = prefill->sequence,
                                        .first = first,
                                        .n = n,
                                        .ids = prefill->ids + first,
                                        .hidden = hidden,
                                        .n_hidden = prefill->n_layers};
    return prefill->ops->prefilled(prefill->session, &chunk, err);
}

static int32_t chunk_at(const struct cop_prefill *prefill, int32_t at)
{
    int32_t rest = prefill->n - 1 - at;
    return rest < COP_PREFILL_CHUNK ? rest : COP_PREFILL_CHUNK;
}

enum cop_status cop_prefill(const struct cop_prefill *prefill, struct cop_error *err)
{
    size_t width = (size_t)cop_model_info(prefill->target)->hidden_size;
    size_t count = (size_t)prefill->n_layers * (size_t)chunk_at(prefill, 0) * width;
    float *hidden = count > 0 ? malloc(count * sizeof *hidden) : NULL;
    if (count > 0 && !hidden) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for hidden states");
    }
    enum cop_status status = COP_OK;
    for (int32_t at = prefill->n_known; at < prefill->n - 1 && status == COP_OK;) {
        int32_t n = chunk_at(prefill, at);
        bool is_cancelled =
            prefill->between && atomic_load_explicit(prefill->between, memory_order_relaxed);
        status = is_cancelled ? COP_ERR_CANCELLED : read_chunk(prefill, at, n, hidden, err);
        at += n;
    }
    free(hidden);
    return status;
}
