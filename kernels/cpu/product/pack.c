/* Interleaves 16 file rows into a panel, once per weight, at load.
 *
 * Q4_1, Q4_0 and Q8_0 already store what a quad needs in consecutive bytes: 4-byte moves. The
 * other formats go through their 32 codes per row. */
#include <string.h>

#include "kernels/cpu/product/panel.h"

static const struct cop_panel_format panel_formats[COP_FORMAT_COUNT] = {
    [COP_FORMAT_F32] = {1, 0, 2048},           [COP_FORMAT_F16] = {1, 0, 1024},
    [COP_FORMAT_BF16] = {1, 0, 1024},          [COP_FORMAT_Q8_0] = {1, 0, 32 + 512},
    [COP_FORMAT_Q4_0] = {1, 0, 32 + 256},      [COP_FORMAT_Q4_1] = {1, 0, 64 + 256},
    [COP_FORMAT_Q5_0] = {1, 0, 32 + 64 + 256}, [COP_FORMAT_Q5_1] = {1, 0, 64 + 64 + 256},
    [COP_FORMAT_Q4_K] = {8, 320, 256},         [COP_FORMAT_Q5_K] = {8, 320, 64 + 256},
    [COP_FORMAT_Q6_K] = {8, 320, 384},
};

const struct cop_panel_format *cop_panel_format(enum cop_format format)
{
    return &panel_formats[format];
}

int32_t cop_panel_subs(int32_t cols)
{
    return (cols + COP_PANEL_COLS - 1) / COP_PANEL_COLS;
}

size_t cop_panel_bytes(enum cop_format format, int32_t cols)
{
    const struct cop_panel_format *panel = &panel_formats[format];
    size_t blocks = (size_t)(cop_panel_subs(cols) / panel->subs);
    return blocks * (size_t)(panel->head_bytes + panel->subs * panel->sub_bytes);
}

/* Values of `bytes` bytes each, [row][col] to [col][row]. */
static void pack_values(const uint8_t *const *rows, int32_t cols, size_t bytes, uint8_t *panel)
{
    int32_t padded = cop_panel_subs(cols) * COP_PANEL_COLS;
    for (int32_t k = 0; k < padded; k++) {
        for (int r = 0; r < COP_PANEL_ROWS; r++, panel += bytes) {
            if (k < cols) {
                memcpy(panel, rows[r] + (size_t)k * bytes, bytes);
            } else {
                memset(panel, 0, bytes);
            }
        }
    }
}

/* Blocks of `scales` f16 numbers followed by `words` 4-byte words per row. */
static void pack_words(const uint8_t *const *rows, int32_t cols, int scales, int words,
                       uint8_t *panel)
{
    size_t block_bytes = (size_t)(2 * scales + 4 * words);
    for (int32_t b = 0; b < cols / 32; b++) {
        for (int r = 0; r < COP_PANEL_ROWS; r++) {
            const uint8_t *block = rows[r] + (size_t)b * block_bytes;
            for (int s = 0; s < scales; s++) {
                memcpy(panel + 32 * s + 2 * r, block + 2 * s, 2);
            }
            uint8_t *to = panel + 32 * scales + 4 * r;
            for (int w = 0; w < words; w++) {
                memcpy(to + 64 * w, block + 2 * scales + 4 * w, 4);
            }
        }
        panel += 32 * scales + 64 * words;
    }
}

/* The fifth-bit word of panel.h from 32 bits in column order. */
static uint32_t spread_fifth(uint32_t bits)
{
    uint32_t word = 0;
    for (int k = 0; k < 32; k++) {
        word |= (bits >> k & 1u) << (8 * (k % 4) + k / 4);
    }
    return word;
}

static void pack_q5(const uint8_t *const *rows, int32_t cols, int scales, uint8_t *panel)
{
    size_t block_bytes = (size_t)(2 * scales + 20);
    for (int32_t b = 0; b < cols / 32; b++) {
        for (int r = 0; r < COP_PANEL_ROWS; r++) {
            const uint8_t *block = rows[r] + (size_t)b * block_bytes;
            for (int s = 0; s < scales; s++) {
                memcpy(panel + 32 * s + 2 * r, block + 2 * s, 2);
            }
            uint8_t *to = panel + 32 * scales + 4 * r;
            uint32_t bits;
            memcpy(&bits, block + 2 * scales, 4);
            bits = spread_fifth(bits);
            memcpy(to, &bits, 4);
            for (int w = 0; w < 4; w++) {
                memcpy(to + 64 + 64 * w, block + 2 * scales + 4 + 4 * w, 4);
            }
        }
        panel += 32 * scales + 64 + 256;
    }
}

/* The nibbles, and the fifth-bit word, of one row's 32 codes. */
static void pack_codes(const uint8_t codes[32], uint8_t *nibbles, uint8_t *fifth)
{
    uint32_t bits = 0;
    for (int l = 0; l < 16; l++) {
        nibbles[64 * (l / 4) + l % 4] = (uint8_t)((codes[l] & 15) | (codes[l + 16] & 15) << 4);
        bits |= (uint32_t)(codes[l] >> 4 & 1) << l | (uint32_t)(codes[l + 16] >> 4 & 1)
                                                         << (l + 16);
    }
    if (fifth) {
        bits = spread_fifth(bits);
        memcpy(fifth, &bits, 4);
    }
}

/* Q4_K, and Q5_K where `fifth_bytes` is 32: see kernels/format.c for the file's order. */
static void pack_k_row(const uint8_t *block, int r, int fifth_bytes, uint8_t *head,
                       uint8_t *subs, size_t sub_bytes)
{
    memcpy(head + 2 * r, block, 2);
    memcpy(head + 32 + 2 * r, block + 2, 2);
    const uint8_t *packed = block + 4, *fifths = block + 16, *nibbles = fifths + fifth_bytes;
    for (int s = 0; s < 8; s++) {
        uint8_t *sub = subs + (size_t)s * sub_bytes;
        int scale = s < 4 ? packed[s] & 63 : (packed[s + 4] & 15) | packed[s - 4] >> 6 << 4;
        int min = s < 4 ? packed[s + 4] & 63 : packed[s + 4] >> 4 | packed[s] >> 6 << 4;
        head[64 + 32 * s + r] = (uint8_t)scale;
        head[64 + 32 * s + 16 + r] = (uint8_t)min;
        uint8_t codes[32];
        for (int l = 0; l < 32; l++) {
            int byte = nibbles[s / 2 * 32 + l];
            int code = s % 2 ? byte >> 4 : byte & 15;
            codes[l] = (uint8_t)(fifth_bytes ? code | (fifths[l] >> s & 1) << 4 : code);
        }
        uint8_t *fifth = fifth_bytes ? sub + 4 * r : NULL;
        pack_codes(codes, sub + 2 * fifth_bytes + 4 * r, fifth);
    }
}

static void pack_q6_row(const uint8_t *block, int r, uint8_t *head, uint8_t *subs,
                        size_t sub_bytes)
{
    memcpy(head + 2 * r, block + 208, 2);
    memset(head + 32 + 2 * r, 0, 2);
    for (int s = 0; s < 8; s++) {
        uint8_t *sub = subs + (size_t)s * sub_bytes, codes[32];
        head[64 + 32 * s + r] = block[192 + 2 * s];
        head[64 + 32 * s + 16 + r] = block[192 + 2 * s + 1];
        const uint8_t *low = block + s / 4 * 64 + s % 2 * 32, *high = block + 128 + s / 4 * 32;
        for (int l = 0; l < 32; l++) {
            codes[l] = (uint8_t)((low[l] >> (s % 4 / 2 * 4) & 15) |
                                 (high[l] >> (2 * (s % 4)) & 3) << 4);
        }
        for (int l = 0; l < 24; l++) {
            uint8_t cut = codes[24 + l / 12 * 4 + l % 4] >> (2 * (l / 4 % 3)) & 3;
            sub[64 * (l / 4) + 4 * r + l % 4] = (uint8_t)(codes[l] | cut << 6);
        }
    }
}

static void pack_k(enum cop_format format, const uint8_t *const *rows, int32_t cols,
                   uint8_t *panel)
{
    const struct cop_panel_format *layout = &panel_formats[format];
    size_t block_bytes = (size_t)cop_format_info(format)->block_bytes;
    size_t sub_bytes = (size_t)layout->sub_bytes;
    for (int32_t b = 0; b < cols / 256; b++) {
        uint8_t *subs = panel + layout->head_bytes;
        for (int r = 0; r < COP_PANEL_ROWS; r++) {
            const uint8_t *block = rows[r] + (size_t)b * block_bytes;
            if (format == COP_FORMAT_Q6_K) {
                pack_q6_row(block, r, panel, subs, sub_bytes);
            } else {
                pack_k_row(block, r, format == COP_FORMAT_Q5_K ? 32 : 0, panel, subs,
                           sub_bytes);
            }
        }
        panel = subs + 8 * sub_bytes;
    }
}

void cop_panel_pack(enum cop_format format, const uint8_t *const rows[COP_PANEL_ROWS],
                    int32_t cols, uint8_t *panel)
{
    switch (format) {
    case COP_FORMAT_F32: pack_values(rows, cols, 4, panel); break;
    case COP_FORMAT_F16:
    case COP_FORMAT_BF16: pack_values(rows, cols, 2, panel); break;
    case COP_FORMAT_Q8_0: pack_words(rows, cols, 1, 8, panel); break;
    case COP_FORMAT_Q4_0: pack_words(rows, cols, 1, 4, panel); break;
    case COP_FORMAT_Q4_1: pack_words(rows, cols, 2, 4, panel); break;
    case COP_FORMAT_Q5_0: pack_q5(rows, cols, 1, panel); break;
    case COP_FORMAT_Q5_1: pack_q5(rows, cols, 2, panel); break;
    case COP_FORMAT_Q4_K:
    case COP_FORMAT_Q5_K:
    case COP_FORMAT_Q6_K: pack_k(format, rows, cols, panel); break;
    case COP_FORMAT_COUNT: break;
    }
}
