/* How keys and values lie in a page, and how one slot is copied or read.
 *
 * A page is [layer][kv_head][key block | value block]. The key block is [head_dim][16 slots]:
 * attention scores 16 keys in the lanes of one vector. The value block is slices of 16
 * dimensions, each [16 slots][16]: attention adds values in the lanes of one vector; the last
 * slice is padded with zeros. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/device.h"

#define SLICE 16

static size_t element_bytes(const struct cop_kv_layout *layout)
{
    return layout->is_f32 ? sizeof(float) : sizeof(uint16_t);
}

static size_t slices(const struct cop_kv_layout *layout)
{
    return ((size_t)layout->head_dim + SLICE - 1) / SLICE;
}

size_t cop_cpu_key_block_bytes(const struct cop_kv_layout *layout)
{
    return (size_t)layout->head_dim * COP_PAGE_SLOTS * element_bytes(layout);
}

size_t cop_cpu_head_bytes(const struct cop_kv_layout *layout)
{
    return cop_cpu_key_block_bytes(layout) +
           slices(layout) * SLICE * COP_PAGE_SLOTS * element_bytes(layout);
}

size_t cop_cpu_kv_page_bytes(const struct cop_kv_layout *layout)
{
    return (size_t)layout->layers * (size_t)layout->kv_heads * cop_cpu_head_bytes(layout);
}

size_t cop_cpu_kv_slot_bytes(const struct cop_kv_layout *layout)
{
    return 2 * (size_t)layout->layers * (size_t)layout->kv_heads * (size_t)layout->head_dim *
           element_bytes(layout);
}

uint8_t *cop_cpu_head_blocks(const struct cop_kv_pool *kv, int32_t page, int32_t layer,
                             int32_t kv_head)
{
    const struct cop_kv_layout *layout = &kv->layout;
    assert(page >= 0 && page < kv->n_pages && layer < layout->layers);
    size_t head = (size_t)layer * (size_t)layout->kv_heads + (size_t)kv_head;
    return (uint8_t *)kv->data + (size_t)page * cop_cpu_kv_page_bytes(layout) +
           head * cop_cpu_head_bytes(layout);
}

static void copy_key_f16(const uint16_t *from, uint16_t *to, int32_t head_dim)
{
    for (int32_t d = 0; d < head_dim; d++) {
        to[d * COP_PAGE_SLOTS] = from[d * COP_PAGE_SLOTS];
    }
}

static void copy_key_f32(const float *from, float *to, int32_t head_dim)
{
    for (int32_t d = 0; d < head_dim; d++) {
        to[d * COP_PAGE_SLOTS] = from[d * COP_PAGE_SLOTS];
    }
}

void cop_cpu_kv_copy(const struct cop_kv_pool *kv, int32_t from_slot, int32_t to_slot)
{
    const struct cop_kv_layout *layout = &kv->layout;
    size_t element = element_bytes(layout), key_bytes = cop_cpu_key_block_bytes(layout);
    size_t head_bytes = cop_cpu_head_bytes(layout), row_bytes = SLICE * element;
    size_t from_at = (size_t)(from_slot % COP_PAGE_SLOTS);
    size_t to_at = (size_t)(to_slot % COP_PAGE_SLOTS);
    const uint8_t *from = cop_cpu_head_blocks(kv, from_slot / COP_PAGE_SLOTS, 0, 0);
    uint8_t *to = cop_cpu_head_blocks(kv, to_slot / COP_PAGE_SLOTS, 0, 0);
    for (int32_t head = 0; head < layout->layers * layout->kv_heads; head++) {
        const void *from_key = from + from_at * element;
        void *to_key = to + to_at * element;
        if (layout->is_f32) {
            copy_key_f32(from_key, to_key, layout->head_dim);
        } else {
            copy_key_f16(from_key, to_key, layout->head_dim);
        }
        for (size_t slice = 0; slice < slices(layout); slice++) {
            size_t at = key_bytes + slice * COP_PAGE_SLOTS * row_bytes;
            memmove(to + at + to_at * row_bytes, from + at + from_at * row_bytes, row_bytes);
        }
        from += head_bytes;
        to += head_bytes;
    }
}

static float element_at(const struct cop_kv_layout *layout, const uint8_t *block, size_t index)
{
    if (layout->is_f32) {
        float value;
        memcpy(&value, block + index * sizeof value, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, block + index * sizeof bits, sizeof bits);
    return cop_f16_to_f32(bits);
}

void cop_cpu_kv_read(const struct cop_kv_pool *kv, int32_t layer, int32_t slot, float *key,
                     float *value)
{
    const struct cop_kv_layout *layout = &kv->layout;
    size_t at = (size_t)(slot % COP_PAGE_SLOTS), head_dim = (size_t)layout->head_dim;
    for (int32_t head = 0; head < layout->kv_heads; head++) {
        const uint8_t *keys = cop_cpu_head_blocks(kv, slot / COP_PAGE_SLOTS, layer, head);
        const uint8_t *values = keys + cop_cpu_key_block_bytes(layout);
        for (size_t d = 0; d < head_dim; d++) {
            size_t in_slice = (d / SLICE * COP_PAGE_SLOTS + at) * SLICE + d % SLICE;
            *key++ = element_at(layout, keys, d * COP_PAGE_SLOTS + at);
            *value++ = element_at(layout, values, in_slice);
        }
    }
}
