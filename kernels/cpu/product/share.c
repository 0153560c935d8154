/* Stretches in one word each, so that owner and thief move its two ends at once. */
#include "kernels/cpu/product/share.h"

static uint64_t pack(int32_t first, int32_t end)
{
    return (uint64_t)(uint32_t)end << 32 | (uint32_t)first;
}

void cop_share_deal(struct cop_share *share, int32_t first, int32_t end)
{
    atomic_store_explicit(&share->left, pack(first, end), memory_order_relaxed);
}

static int32_t amount(int32_t left, int32_t least, int32_t most)
{
    int32_t n = left / 2;
    n = n < least ? least : n > most ? most : n;
    return n < left ? n : left;
}

bool cop_share_take(struct cop_share *shares, int32_t rank, int32_t size, int32_t least,
                    int32_t most, int32_t *first, int32_t *end)
{
    for (int32_t i = 0; i < size; i++) {
        _Atomic uint64_t *share = &shares[(rank + i) % size].left;
        uint64_t seen = atomic_load_explicit(share, memory_order_relaxed), rest;
        do {
            *first = (int32_t)(uint32_t)seen;
            *end = (int32_t)(seen >> 32);
            if (*first >= *end) {
                break;
            }
            int32_t n = amount(*end - *first, least, most);
            if (i == 0) { /* its own: from the front */
                rest = pack(*first + n, *end);
                *end = *first + n;
            } else {
                rest = pack(*first, *end - n);
                *first = *end - n;
            }
        } while (!atomic_compare_exchange_weak_explicit(
            share, &seen, rest, memory_order_relaxed, memory_order_relaxed));
        if (*first < *end) {
            return true;
        }
    }
    return false;
}
