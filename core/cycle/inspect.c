/* Debug builds: the invariants of a cycle, looked at after each one. */
#include "core/cycle/engine_state.h"

#include "kernels/ops.h"
#include <stdlib.h>
#include <string.h>

static enum cop_status check_lengths(const struct cop_engine *engine, struct cop_error *err)
{
    for (int32_t i = 0; i < engine->n_serving; i++) {
        const struct cop_sequence *sequence = engine->serving[i];
        int32_t committed = cop_cache_committed(engine->cache, sequence->slot);
        if (committed != (int32_t)sequence->committed.count - 1 ||
            cop_cache_speculative(engine->cache, sequence->slot) != 0) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "sequence %d: %d positions in the cache, %d tokens committed",
                            sequence->slot, committed, (int32_t)sequence->committed.count);
        }
    }
    return COP_OK;
}

/* One position of two caches: the same K and V in every layer? */
static bool equal_position(const struct cop_engine *engine, const struct cop_cache *fresh,
                           int32_t slot, int32_t position, float *space)
{
    const struct cop_kv_pool *pool = cop_cache_pool(engine->cache);
    const struct cop_ops *ops = cop_cache_ops(engine->cache);
    size_t width = (size_t)pool->layout.kv_heads * (size_t)pool->layout.head_dim;
    int32_t ours = cop_cache_pool_slot(engine->cache, slot, position);
    int32_t theirs = cop_cache_pool_slot(fresh, 0, position);
    for (int32_t layer = 0; layer < pool->layout.layers; layer++) {
        ops->kv_read(pool, layer, ours, space, space + width);
        ops->kv_read(cop_cache_pool(fresh), layer, theirs, space + 2 * width,
                     space + 3 * width);
        if (memcmp(space, space + 2 * width, 2 * width * sizeof *space) != 0) {
            return false;
        }
    }
    return true;
}

static enum cop_status check_values(struct cop_engine *engine, struct cop_sequence *sequence,
                                    struct cop_cache *fresh, float *space,
                                    struct cop_error *err)
{
    int32_t length = (int32_t)sequence->committed.count - 1;
    cop_cache_reset(fresh, 0);
    enum cop_status status = cop_model_prefill(engine->plan.target, fresh, 0,
                                               sequence->committed.items, length, 0, NULL, err);
    for (int32_t i = 0; i < length && status == COP_OK; i++) {
        if (!equal_position(engine, fresh, sequence->slot, i, space)) {
            status = cop_fail(err, COP_ERR_ARGUMENT,
                              "sequence %d: K or V at position %d differs from a fresh prefill",
                              sequence->slot, i);
        }
    }
    return status;
}

static enum cop_status check_all_values(struct cop_engine *engine, struct cop_error *err)
{
    const struct cop_kv_layout *layout = &cop_cache_pool(engine->cache)->layout;
    struct cop_cache *fresh = NULL;
    float *space =
        malloc(4 * (size_t)layout->kv_heads * (size_t)layout->head_dim * sizeof *space);
    enum cop_status status =
        space ? cop_model_cache_new(engine->plan.target, 1, COP_PREFILL_CHUNK, &fresh, err)
              : cop_fail(err, COP_ERR_MEMORY, "no memory to inspect the cache");
    for (int32_t i = 0; i < engine->n_serving && status == COP_OK; i++) {
        status = check_values(engine, engine->serving[i], fresh, space, err);
    }
    cop_cache_free(fresh);
    free(space);
    return status;
}

enum cop_status cop_engine_inspect(struct cop_engine *engine, struct cop_error *err)
{
    const char *wish = getenv("COPPICE_CHECK_KV");
    enum cop_status status = cop_cache_check(engine->cache, err);
    if (status == COP_OK) {
        status = check_lengths(engine, err);
    }
    if (status == COP_OK && wish && strcmp(wish, "1") == 0 && engine->n_serving > 0) {
        status = check_all_values(engine, err);
    }
    return status;
}
