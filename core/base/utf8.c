/* UTF-8 by the table of well-formed sequences (Unicode, table 3-7). */
#include "core/base/utf8.h"

/* A range of first bytes: how many bytes follow, and what the second may be (it excludes
 * overlong forms, surrogates and what lies past U+10FFFF). Later bytes are 80 to BF. */
struct lead {
    uint8_t first, last;
    uint8_t n_following;
    uint8_t second_min, second_max;
};
static const struct lead leads[] = {
    {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF}, {0xE1, 0xEC, 2, 0x80, 0xBF},
    {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
    {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F},
};

static const struct lead *find_lead(uint8_t byte)
{
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++) {
        if (byte >= leads[i].first && byte <= leads[i].last) {
            return &leads[i];
        }
    }
    return NULL;
}

enum cop_utf8 cop_utf8_next(const char *bytes, size_t length, size_t *used)
{
    const uint8_t *at = (const uint8_t *)bytes;
    *used = 1;
    if (at[0] < 0x80) {
        return COP_UTF8_WHOLE;
    }
    const struct lead *lead = find_lead(at[0]);
    if (!lead) {
        return COP_UTF8_ILL;
    }
    for (size_t i = 1; i <= lead->n_following; i++) {
        if (i == length) {
            *used = length;
            return COP_UTF8_UNFINISHED;
        }
        uint8_t min = i == 1 ? lead->second_min : 0x80;
        uint8_t max = i == 1 ? lead->second_max : 0xBF;
        if (at[i] < min || at[i] > max) {
            *used = i;
            return COP_UTF8_ILL;
        }
    }
    *used = (size_t)lead->n_following + 1;
    return COP_UTF8_WHOLE;
}

size_t cop_utf8_valid_prefix(const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t used;
        if (cop_utf8_next(bytes + at, length - at, &used) != COP_UTF8_WHOLE) {
            break;
        }
        at += used;
    }
    return at;
}

size_t cop_utf8_write(uint32_t character, char out[4])
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    size_t n_following = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const uint8_t marks[] = {0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n_following; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    out[0] = (char)(marks[n_following] | character);
    return n_following + 1;
}

uint32_t cop_utf8_read(const char *bytes, size_t used)
{
    static const uint8_t masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t character = (uint8_t)bytes[0] & masks[used];
    for (size_t i = 1; i < used; i++) {
        character = character << 6 | ((uint8_t)bytes[i] & 0x3F);
    }
    return character;
}
