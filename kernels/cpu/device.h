/* The open CPU backend and what its files share. */
#ifndef COP_CPU_DEVICE_H
#define COP_CPU_DEVICE_H

#include "kernels/cpu/arena.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/product/share.h"
#include "kernels/ops.h"
#include "kernels/pool.h"

/* Memory that grows and is never given back before the device closes; lines of 64 bytes. */
struct cop_buffer {
    void *data;
    size_t bytes;
};

/* Room for `bytes` afterwards, contents undefined; false: no memory, and the buffer is as it
 * was. */
bool cop_buffer_grow(struct cop_buffer *buffer, size_t bytes);
void cop_buffer_free(struct cop_buffer *buffer);

struct cop_device {
    const struct cop_level *level;
    struct cop_pool *pool;
    int32_t threads;
    struct cop_arena arena;         /* weights */
    size_t held;                    /* bytes of those that live */
    struct cop_buffer activations;  /* tiles of the product that runs */
    struct cop_buffer totals;       /* per thread, f32 products */
    struct cop_buffer views, lists; /* of the attention that runs: attention.c */
    struct cop_buffer scores;
    struct cop_share *shares; /* [threads], of the product or attention that runs: share.h */
    size_t totals_stride;     /* bytes per thread */
};

/* ---- product.c, weight.c ---- */
struct cop_weight *cop_cpu_weight_new(struct cop_device *device, const struct cop_matrix *parts,
                                      int32_t n_parts, enum cop_precision precision);
void cop_cpu_weight_free(struct cop_device *device, struct cop_weight *weight);
size_t cop_cpu_weight_bytes(const struct cop_weight *weight);
size_t cop_cpu_held(const struct cop_device *device);
bool cop_cpu_matmul(struct cop_device *device, const struct cop_weight *weight, const float *x,
                    int32_t n, const float *bias, bool accumulate, float *out);

/* ---- multiply.c ---- */
bool cop_cpu_multiply(struct cop_device *device, const struct cop_multiplication *list,
                      int32_t n);

/* ---- attention.c ---- */
bool cop_cpu_attention(struct cop_device *device, const struct cop_attention *in, float *out);

/* ---- pages.c: [layer][kv_head][key block | value block], blocks as in attention_tile.h ----
 */
size_t cop_cpu_kv_page_bytes(const struct cop_kv_layout *layout);
size_t cop_cpu_kv_slot_bytes(const struct cop_kv_layout *layout);
void cop_cpu_kv_copy(const struct cop_kv_pool *kv, int32_t from_slot, int32_t to_slot);
void cop_cpu_kv_read(const struct cop_kv_pool *kv, int32_t layer, int32_t slot, float *key,
                     float *value);
size_t cop_cpu_key_block_bytes(const struct cop_kv_layout *layout);
size_t cop_cpu_head_bytes(const struct cop_kv_layout *layout); /* key block and value block */
/* The blocks of one page, layer and head: the key block; the value block lies behind it. */
uint8_t *cop_cpu_head_blocks(const struct cop_kv_pool *kv, int32_t page, int32_t layer,
                             int32_t kv_head);

#endif
