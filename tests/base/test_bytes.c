/* UTF-8, quoting, paths, hashing. */
#include "core/base/hash.h"
#include "core/base/path.h"
#include "core/base/quote.h"
#include "core/base/utf8.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- UTF-8 ---- */

static const struct {
    const char *bytes;
    size_t length;
    enum cop_utf8 kind;
    size_t used;
} sequences[] = {
    {"A", 1, COP_UTF8_WHOLE, 1},
    {"\0", 1, COP_UTF8_WHOLE, 1},
    {"\xC3\xA9", 2, COP_UTF8_WHOLE, 2},
    {"\xE2\x82\xAC!", 4, COP_UTF8_WHOLE, 3},
    {"\xF0\x9F\x98\x80", 4, COP_UTF8_WHOLE, 4},
    {"\xF4\x8F\xBF\xBF", 4, COP_UTF8_WHOLE, 4}, /* U+10FFFF */
    {"\xF4\x90\x80\x80", 4, COP_UTF8_ILL, 1},   /* past it */
    {"\xC0\x80", 2, COP_UTF8_ILL, 1},           /* overlong */
    {"\xE0\x9F\xBF", 3, COP_UTF8_ILL, 1},       /* overlong */
    {"\xED\xA0\x80", 3, COP_UTF8_ILL, 1},       /* surrogate */
    {"\x80", 1, COP_UTF8_ILL, 1},               /* begins nothing */
    {"\xF5\x80\x80\x80", 4, COP_UTF8_ILL, 1},   /* begins nothing */
    {"\xE2\x82", 2, COP_UTF8_UNFINISHED, 2},
    {"\xF0\x9F\x98", 3, COP_UTF8_UNFINISHED, 3},
    {"\xE2\x82\x41", 3, COP_UTF8_ILL, 2},     /* a maximal part of two bytes */
    {"\xF0\x9F\x98\x41", 4, COP_UTF8_ILL, 3}, /* of three */
};

Test(bytes, utf8_knows_whole_ill_formed_and_unfinished_sequences)
{
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        size_t used;
        enum cop_utf8 kind = cop_utf8_next(sequences[i].bytes, sequences[i].length, &used);
        cr_expect_eq(kind, sequences[i].kind, "row %zu", i);
        cr_expect_eq(used, sequences[i].used, "row %zu", i);
    }
}

Test(bytes, utf8_writes_what_it_reads_for_every_character)
{
    size_t n_wrong = 0;
    for (uint32_t character = 0; character <= 0x10FFFF; character++) {
        char bytes[4];
        size_t used;
        size_t length = cop_utf8_write(character, bytes);
        bool is_surrogate = character >= 0xD800 && character <= 0xDFFF;
        enum cop_utf8 kind = cop_utf8_next(bytes, length, &used);
        n_wrong += is_surrogate ? kind != COP_UTF8_ILL
                                : kind != COP_UTF8_WHOLE || used != length ||
                                      cop_utf8_read(bytes, used) != character;
    }
    cr_expect_eq(n_wrong, 0);
}

Test(bytes, utf8_valid_prefix_stops_at_the_first_fault)
{
    cr_expect_eq(cop_utf8_valid_prefix("ab\xC3\xA9", 4), 4);
    cr_expect_eq(cop_utf8_valid_prefix("ab\xC3", 3), 2);
    cr_expect_eq(cop_utf8_valid_prefix("ab\xFFz", 4), 2);
    cr_expect_eq(cop_utf8_valid_prefix("", 0), 0);
}

/* ---- Quoting ---- */

Test(bytes, quote_escapes_what_could_steer_a_terminal)
{
    char buffer[COP_QUOTE_SIZE];
    cr_expect_str_eq(cop_quote(buffer, "blk.0\x1B[2J\n\xFF", 11), "blk.0\\x1B[2J\\x0A\\xFF");
    cr_expect_str_eq(cop_quote(buffer, "\xC4\xA0the", 5), "\xC4\xA0the");
    cr_expect_str_eq(cop_quote(buffer, "\xC2\x85", 2), "\\xC2\\x85"); /* a control character */
    cr_expect_str_eq(cop_quote(buffer, "", 0), "");
}

Test(bytes, quote_cuts_what_is_long_and_always_ends)
{
    char buffer[COP_QUOTE_SIZE];
    char name[300];
    for (size_t length = 0; length < sizeof name; length++) {
        memset(name, length % 2 ? 'x' : '\x01', length);
        size_t shown = strlen(cop_quote(buffer, name, length));
        cr_assert_lt(shown, COP_QUOTE_SIZE);
        cr_expect_eq(shown >= 3 && strcmp(buffer + shown - 3, "...") == 0,
                     length * (length % 2 ? 1 : 4) > COP_QUOTE_SIZE - 4, "length %zu", length);
    }
}

Test(bytes, path_tail_keeps_the_end)
{
    cr_expect_str_eq(cop_path_tail("a/b.gguf", 20), "a/b.gguf");
    cr_expect_str_eq(cop_path_tail("folder/b.gguf", 6), "b.gguf");
}

Test(bytes, path_name_is_what_follows_the_last_slash)
{
    static const char *const paths[][2] = {{"b.gguf", "b.gguf"},
                                           {"a/b.gguf", "b.gguf"},
                                           {"/b.gguf", "b.gguf"},
                                           {"/a/b/c", "c"},
                                           {"a//b", "b"},
                                           {"a/", "a/"},
                                           {"/", "/"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        cr_expect_str_eq(cop_path_name(paths[i][0]), paths[i][1], "%s", paths[i][0]);
    }
}

/* ---- Hashing ---- */

Test(bytes, hash_depends_on_every_byte_and_on_the_length)
{
    char bytes[64] = {0};
    uint64_t plain = cop_hash_bytes(bytes, sizeof bytes, 1);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        cr_expect_neq(cop_hash_bytes(bytes, sizeof bytes, 1), plain);
        bytes[i] = 0;
        cr_expect_neq(cop_hash_bytes(bytes, i, 1), plain);
    }
    cr_expect_neq(cop_hash_bytes(bytes, sizeof bytes, 2), plain);
    cr_expect_eq(cop_hash_bytes(bytes, sizeof bytes, 1), plain);
}

/* Fingerprints are compared within one machine and may be stored: the function must not drift.
 */
Test(bytes, hash_is_the_same_in_every_build)
{
    cr_expect_eq(cop_hash_bytes("coppice", 7, 0), 0xDA280A84AD5AFDAAu);
}

Test(bytes, names_find_what_was_added_first_and_nothing_else)
{
    enum { COUNT = 5000 };
    static char keys[COUNT][16];
    struct cop_names names;
    cr_assert(cop_names_init(&names, COUNT));
    for (int i = 0; i < COUNT; i++) {
        int length = snprintf(keys[i], sizeof keys[i], "key %d", i);
        cr_assert_eq(cop_names_add(&names, keys[i], (size_t)length, i), i);
    }
    cr_expect_eq(cop_names_add(&names, "key 17", 6, 99), 17);
    cr_expect_eq(names.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(cop_names_find(&names, keys[i], strlen(keys[i])), i);
    }
    cr_expect_eq(cop_names_find(&names, "key 5000", 8), -1);
    cr_expect_eq(cop_names_find(&names, "key 1", 4), -1);
    cop_names_release(&names);
    cop_names_release(&names);
    cr_expect_eq(cop_names_find(&names, "key 1", 5), -1);
}
