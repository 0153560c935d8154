/* The edits. */
#include "tests/support/mutate.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t limit)
{
    return limit == 0 ? 0 : (size_t)(next(state) % limit);
}

static const uint64_t awkward[] = {
    0,
    1,
    2,
    13,
    255,
    256,
    INT32_MAX,
    1ull << 31,
    UINT32_MAX,
    1ull << 32,
    1ull << 60,
    INT64_MAX,
    1ull << 63,
    UINT64_MAX,
    UINT64_MAX - 7,
    UINT64_MAX / 8,
};

/* One edit of bytes[0..size), which has room for twice as many; returns the new size. */
static size_t edit(uint8_t *bytes, size_t size, uint64_t *state)
{
    if (size == 0) {
        return 0;
    }
    size_t at = below(state, size);
    size_t length = 1 + below(state, 32);
    length = length > size - at ? size - at : length;
    size_t other = below(state, size - length + 1);
    switch (next(state) % 8) {
    case 0:
    case 1: bytes[at] = (uint8_t)next(state); break;
    case 2: bytes[at] ^= (uint8_t)(1u << next(state) % 8); break;
    case 3:
    case 4: {
        uint64_t value = awkward[below(state, sizeof awkward / sizeof awkward[0])];
        value = next(state) % 4 == 0 ? size - below(state, 40) : value;
        size_t width = size - at < 8 ? size - at : 8;
        memcpy(bytes + at, &value, next(state) % 2 && width > 4 ? 4 : width);
        break;
    }
    case 5: /* remove */
        memmove(bytes + at, bytes + at + length, size - at - length);
        return size - length;
    case 6: /* repeat */
        memmove(bytes + at + length, bytes + at, size - at);
        return size + length;
    default:
        if (next(state) % 4 == 0) {
            return at; /* cut off */
        }
        memmove(bytes + other, bytes + at, length); /* copy a part over another */
        break;
    }
    return size;
}

uint8_t *mutate(const uint8_t *image, size_t size, uint64_t seed, size_t *mutated_size)
{
    uint64_t state = seed;
    uint8_t *room = malloc(2 * size + 256);
    memcpy(room, image, size);
    size_t n_edits = 1 + below(&state, 4);
    for (size_t i = 0; i < n_edits; i++) {
        size = edit(room, size, &state);
    }
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, room, size);
    free(room);
    *mutated_size = size;
    return exact;
}
