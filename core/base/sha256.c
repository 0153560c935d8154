/* SHA-256, written from the standard: eight working variables, sixty-four rounds a block. */
#include "core/base/sha256.h"
#include "core/base/quote.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotate(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void expand_block(const uint8_t block[64], uint32_t w[64])
{
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | (uint32_t)block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t low = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t high = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + low + w[i - 7] + high;
    }
}

/* One round without moving the working variables: they are named anew by the caller. */
static inline void round_step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e,
                              uint32_t f, uint32_t g, uint32_t *h, uint32_t word)
{
    uint32_t choice = g ^ (e & (f ^ g)), majority = (a & b) | (c & (a | b));
    uint32_t mixed_e = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    uint32_t mixed_a = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    uint32_t t = *h + mixed_e + choice + word;
    *d += t;
    *h = t + mixed_a + majority;
}

static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64], s[8];
    expand_block(block, w);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        w[i] += round_constants[i];
    }
    for (int i = 0; i < 64; i += 8) { /* after eight rounds the names are back in place */
        round_step(s[0], s[1], s[2], &s[3], s[4], s[5], s[6], &s[7], w[i]);
        round_step(s[7], s[0], s[1], &s[2], s[3], s[4], s[5], &s[6], w[i + 1]);
        round_step(s[6], s[7], s[0], &s[1], s[2], s[3], s[4], &s[5], w[i + 2]);
        round_step(s[5], s[6], s[7], &s[0], s[1], s[2], s[3], &s[4], w[i + 3]);
        round_step(s[4], s[5], s[6], &s[7], s[0], s[1], s[2], &s[3], w[i + 4]);
        round_step(s[3], s[4], s[5], &s[6], s[7], s[0], s[1], &s[2], w[i + 5]);
        round_step(s[2], s[3], s[4], &s[5], s[6], s[7], s[0], &s[1], w[i + 6]);
        round_step(s[1], s[2], s[3], &s[4], s[5], s[6], s[7], &s[0], w[i + 7]);
    }
    for (int i = 0; i < 8; i++) {
        state[i] += s[i];
    }
}

void cop_sha256_start(struct cop_sha256 *hash)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(hash->state, start, sizeof start);
    hash->length = 0;
}

void cop_sha256_add(struct cop_sha256 *hash, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    size_t held = hash->length % 64;
    hash->length += length;
    if (held + length < 64) {
        if (length) {
            memcpy(hash->block + held, at, length);
        }
        return;
    }
    memcpy(hash->block + held, at, 64 - held);
    compress(hash->state, hash->block);
    at += 64 - held;
    length -= 64 - held;
    for (; length >= 64; at += 64, length -= 64) {
        compress(hash->state, at);
    }
    memcpy(hash->block, at, length);
}

void cop_sha256_finish(struct cop_sha256 *hash, char hex[COP_SHA256_HEX])
{
    uint64_t bits = hash->length * 8;
    uint8_t tail[72] = {0x80}; /* the mark, zeros up to 56 modulo 64, the length in bits */
    size_t zeros = (119 - hash->length % 64) % 64;
    for (size_t i = 0; i < 8; i++) {
        tail[1 + zeros + i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    cop_sha256_add(hash, tail, 1 + zeros + 8);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(hex + 8 * i, 9, "%08x", hash->state[i]);
    }
}

enum cop_status cop_sha256_file(const char *path, char hex[COP_SHA256_HEX],
                                struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    uint8_t buffer[1 << 15];
    struct cop_sha256 hash;
    FILE *file = fopen(path, "rb");
    if (!file) {
        return cop_fail(err, COP_ERR_IO, "cannot open \"%s\": %s",
                        cop_quote(quoted, path, strlen(path)), strerror(errno));
    }
    cop_sha256_start(&hash);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) {
        cop_sha256_add(&hash, buffer, n);
    }
    bool is_broken = ferror(file) != 0;
    int reason = errno;
    (void)fclose(file);
    if (is_broken) {
        return cop_fail(err, COP_ERR_IO, "cannot read \"%s\": %s",
                        cop_quote(quoted, path, strlen(path)), strerror(reason));
    }
    cop_sha256_finish(&hash, hex);
    return COP_OK;
}
