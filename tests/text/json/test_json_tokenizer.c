/* What each part of a tokenizer.json does, on tokenizers small enough to know by heart. */
#include "core/base/utf8.h"
#include "core/text/chat/chat.h"
#include "tests/text/json_toy.h"

#include <sys/stat.h>
#include <unistd.h>

static struct cop_tokenizer *toy;
static struct cop_error err;

static void close_toy(void)
{
    cop_tokenizer_free(toy);
    toy = NULL;
}

TestSuite(json_tokenizer, .fini = close_toy, .timeout = 60);

/* A model of letters: its vocabulary and merges, and members in front of "model". */
#define MODEL(front, settings, vocab, merges)                                                  \
    "{" front "\"model\":{\"type\":\"BPE\"," settings "\"vocab\":{" vocab                      \
    "},\"merges\":[" merges "]}}"
#define ABC "\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5"

#define ADDED(id, content, flags)                                                              \
    "{\"id\":" #id ",\"content\":\"" content "\"" flags ",\"normalized\":false}"
#define SPECIAL  ",\"special\":true"
#define MARKS(a) "\"added_tokens\":[" a "],"

static const struct {
    const char *name, *json;
    const char *text, *ids;
    bool special;
} encodings[] = {
    {"merges as strings", MODEL("", "", ABC, "\"a b\",\"ab c\""), "abcb", "5 1", false},
    {"merges as pairs", MODEL("", "", ABC, "[\"b\",\"c\"],[\"a\",\"bc\"]"), "abcb", "5 1",
     false},
    {"both, and the first line of a merges.txt",
     MODEL("", "", ABC, "\"#version: 0.2\",\"b c\",[\"a\",\"b\"]"), "abcab", "0 4 3", false},
    {"members in any order",
     "{\"model\":{\"merges\":[\"a b\"],\"vocab\":{" ABC "}},\"version\":\"1.0\"}", "abc", "3 2",
     false},
    /* A word that no merge reaches. */
    {"ignore_merges", MODEL("", "\"ignore_merges\":true,", ABC, "\"b c\""), "abc", "5", false},
    {"without it", MODEL("", "\"ignore_merges\":false,", ABC, "\"b c\""), "abc", "0 4", false},
    /* Symbols without a piece. */
    {"vanish", MODEL("", "", ABC, "\"a b\""), "axb", "3", false},
    {"unknown", MODEL("", "\"unk_token\":\"c\",", ABC, "\"a b\""), "axxb", "0 2 2 1", false},
    {"fused", MODEL("", "\"unk_token\":\"c\",\"fuse_unk\":true,", ABC, "\"a b\""), "axxbx",
     "0 2 1 2", false},
    {"in bytes",
     MODEL("", "\"byte_fallback\":true,\"unk_token\":\"c\",", ABC ",\"<0xC3>\":6,\"<0xA9>\":7",
           "\"a b\""),
     "a\u00E9\u00E8b", "0 6 7 2 1", false},
    {"pieces called like bytes", MODEL("", "", ABC ",\"<0x78>\":6", "\"a b\""), "axb", "3",
     false},
    /* Added tokens: longest first, then the leftmost; control tokens only when asked. */
    {"added",
     MODEL(MARKS(ADDED(6, "<", "") "," ADDED(7, "<b", "") "," ADDED(8, "<b>", SPECIAL)), "",
           ABC, "\"a b\""),
     "a<b<b>", "0 7 8", true},
    {"special ones are text",
     MODEL(MARKS(ADDED(6, "<b", "") "," ADDED(8, "<b>", SPECIAL)), "", ABC, "\"a b\""),
     "a<b<b>b", "0 6 1 1", false},
    {"no merge across", MODEL(MARKS(ADDED(6, "x", "")), "", ABC, "\"a b\""), "axb", "0 6 1",
     false},
    {"lstrip", MODEL(MARKS(ADDED(6, "x", ",\"lstrip\":true")), "", ABC ",\" \":7", "\"a b\""),
     "a  x x ", "0 6 6 7", false},
    {"rstrip", MODEL(MARKS(ADDED(6, "x", ",\"rstrip\":true")), "", ABC ",\" \":7", "\"a b\""),
     " x  \u3000x a", "7 6 6 0", false},
    {"an added token that is a piece",
     MODEL(MARKS(ADDED(3, "ab", "")), "", ABC, "\"a b\",\"ab c\""), "abcab", "3 2 3", false},
    /* Normalisers. */
    {"NFC", MODEL("\"normalizer\":{\"type\":\"NFC\"},", "", ABC ",\"\\u00e9\":6", "\"a b\""),
     "e\u0301a\u212B", "6 0", false},
    {"marks before normalising",
     MODEL(MARKS(ADDED(6, "e\\u0301", "")) "\"normalizer\":{\"type\":\"NFC\"},", "",
           ABC ",\"\\u00e9\":7", "\"a b\""),
     "e\u0301\u00E9", "6 7", false},
    {"marks after normalising",
     MODEL("\"added_tokens\":[{\"id\":6,\"content\":\"AX\",\"normalized\":true}],"
           "\"normalizer\":{\"type\":\"Lowercase\"},",
           "", ABC, "\"a b\""),
     "aAxBAXc", "0 6 1 6 2", false},
    {"lower case",
     MODEL("\"normalizer\":{\"type\":\"Lowercase\"},", "", ABC ",\"i\":6,\"\\u0307\":7",
           "\"a b\""),
     "AB\u0130", "3 6 7", false},
    {"a sequence",
     MODEL("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
           "\"prepend\":\"b\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
           "\"content\":\"a\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},"
           "\"content\":\"c\"}]},",
           "", ABC, "\"b c\""),
     "  ab a", "4 4", false},
    {"accents",
     MODEL("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},"
           "{\"type\":\"StripAccents\"}]},",
           "", ABC ",\"\\u0301\":6,\"\\u093f\":7", "\"a b\""),
     "\u00E1b\u093F\u20DDc\u0301", "3 2", false},
    {"accents that are part of a letter stay",
     MODEL("\"normalizer\":{\"type\":\"StripAccents\"},", "", ABC ",\"\\u00e1\":6", "\"a b\""),
     "\u00E1a\u0301b", "6 3", false},
    {"both ends are stripped",
     MODEL("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},", "",
           ABC ",\" \":6", "\"a b\""),
     "\u3000 \na b\t\u00A0", "0 6 1", false},
    {"the left end is stripped",
     MODEL("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false},", "",
           ABC ",\" \":6", "\"a b\""),
     "  ab ", "3 6", false},
    {"the right end is stripped",
     MODEL("\"normalizer\":{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true},", "",
           ABC ",\" \":6", "\"a b\""),
     " ab  ", "6 3", false},
    {"nothing is left of white space",
     MODEL("\"normalizer\":{\"type\":\"Strip\"},", "", ABC ",\" \":6", "\"a b\""), "  ", "",
     false},
    {"nothing is prepended to nothing",
     MODEL("\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"b\"},", "", ABC, "\"b c\""), "",
     "", false},
    /* Pre-tokenizers. */
    {"Split",
     MODEL("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"b\"},\"behavior\":"
           "\"MergedWithNext\",\"invert\":false},",
           "", ABC, "\"a b\",\"b c\""),
     "abcab", "0 4 0 1", false},
    {"Split removed",
     MODEL("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":"
           "\"Removed\"},",
           "", ABC, "\"a b\",\"b c\""),
     "abcab", "0 2 0", false},
    {"Metaspace",
     MODEL("\"pre_tokenizer\":{\"type\":\"Metaspace\"},", "",
           ABC ",\"\\u2581\":6,\"\\u2581a\":7,\"a\\u2581\":8", "\"a \\u2581\",\"\\u2581 a\""),
     "a a ", "7 7 6", false},
    {"Metaspace first",
     MODEL(MARKS(ADDED(9, "x", "")) "\"pre_tokenizer\":{\"type\":\"Metaspace\","
                                    "\"prepend_scheme\":\"first\",\"split\":false},",
           "", ABC ",\"\\u2581\":6,\"\\u2581a\":7,\"a\\u2581\":8",
           "\"a \\u2581\",\"\\u2581 a\""),
     "a axa", "6 8 0 9 0", false},
    {"ByteLevel",
     MODEL("\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true},", "",
           ABC
           ",\"\\u0120\":6,\"\\u0120a\":7,\"\\u00c3\":8,\"\\u00a9\":9,\"\\u0120\\u0120\":10",
           "\"\\u0120 a\",\"\\u0120 \\u0120\""),
     "a  a\u00E9", "7 6 7 8 9", false},
    {"Digits and ByteLevel",
     MODEL("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
           "\"individual_digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
           "\"use_regex\":false}]},",
           "", ABC ",\"1\":6,\"11\":7", "\"1 1\",\"a b\""),
     "ab11", "3 6 6", false},
    {"Punctuation and white space",
     MODEL("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
           "\"WhitespaceSplit\"},{\"type\":\"Punctuation\"}]},",
           "", ABC ",\"+\":6,\"a+\":7,\"++\":8", "\"a +\",\"+ +\",\"a b\""),
     "a++\u3000ab", "0 6 6 3", false},
    {"Whitespace",
     MODEL("\"pre_tokenizer\":{\"type\":\"Whitespace\"},", "", ABC ",\"+\":6,\"a+\":7,\"++\":8",
           "\"a +\",\"+ +\",\"a b\""),
     "a++ ab", "0 8 3", false},
};

Test(json_tokenizer, every_part_encodes_as_it_says)
{
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++) {
        cr_assert_eq(json_toy_open(encodings[i].json, &toy, &err), COP_OK, "%s: %s",
                     encodings[i].name, err.text);
        cr_expect_str_eq(json_toy_ids(toy, encodings[i].text, encodings[i].special),
                         encodings[i].ids, "%s", encodings[i].name);
        close_toy();
    }
}

Test(json_tokenizer, single_words_stand_alone)
{
    cr_assert_eq(json_toy_open(MODEL(MARKS(ADDED(6, "x", ",\"single_word\":true")), "",
                                     ABC ",\" \":7,\"X\":8,\"-\":9", ""),
                               &toy, &err),
                 COP_OK, "%s", err.text);
    cr_expect_str_eq(json_toy_ids(toy, "x", false), "6");
    cr_expect_str_eq(json_toy_ids(toy, "-x-", false), "9 6 9");
    cr_expect_str_eq(json_toy_ids(toy, "ax xb x", false), "0 7 1 7 6");
    cr_expect_str_eq(json_toy_ids(toy, "x\u0301 \u00E9x", false), "7");
}

/* ---- Ids and kinds ---------------------------------------------------------------------- */

Test(json_tokenizer, gaps_are_unused_pieces)
{
    cr_assert_eq(json_toy_open("{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":"
                               "true},{\"id\":7,\"content\":\"<t>\",\"special\":false},"
                               "{\"id\":8,\"content\":\"\"}],\"model\":{\"vocab\":{\"a\":3,"
                               "\"<0x41>\":5},\"merges\":[]},"
                               "\"decoder\":{\"type\":\"ByteFallback\"}}",
                               &toy, &err),
                 COP_OK, "%s", err.text);
    cr_expect_eq(cop_tokenizer_size(toy), 10);
    cr_expect_eq(cop_tokenizer_kind(toy, 0), COP_PIECE_UNUSED);
    cr_expect_eq(cop_tokenizer_kind(toy, 3), COP_PIECE_NORMAL);
    cr_expect_eq(cop_tokenizer_kind(toy, 5), COP_PIECE_BYTE);
    cr_expect_eq(cop_tokenizer_kind(toy, 7), COP_PIECE_ADDED);
    cr_expect_eq(cop_tokenizer_kind(toy, 8), COP_PIECE_UNUSED);
    cr_expect_eq(cop_tokenizer_kind(toy, 9), COP_PIECE_CONTROL);
    cr_expect_eq(cop_tokenizer_piece(toy, 0).length, 0);
    cr_expect_eq(cop_tokenizer_piece(toy, 5).bytes[0], 'A');
    cr_expect_eq(cop_tokenizer_id(toy, "<s>", 3), 9);
    cr_expect_eq(cop_tokenizer_id(toy, "", 0), -1);
    cr_expect_str_eq(json_toy_decode(toy, "3 0 9 5", true), "a<s>A");
}

Test(json_tokenizer, zero_bytes_and_half_surrogates_in_pieces)
{
    cr_assert_eq(json_toy_open(MODEL("\"decoder\":{\"type\":\"Fuse\"},", "",
                                     "\"\\u0000\":0,\"a\\u0000b\":1,\"\\ud83d\":2,"
                                     "\"\\ud83e\\udd99\":3,\"a\":4,\"b\":5,\"a\\u0000\":6",
                                     "[\"a\",\"\\u0000\"],[\"a\\u0000\",\"b\"]"),
                               &toy, &err),
                 COP_OK, "%s", err.text);
    struct cop_ids ids = {0};
    struct cop_text text = {0};
    cr_assert_eq(cop_tokenizer_encode(toy, "a\0b\0\U0001F999\uFFFD", 11,
                                      (struct cop_encode_options){0}, &ids, &err),
                 COP_OK);
    cr_assert_eq(ids.count, 4);
    cr_expect(ids.items[0] == 1 && ids.items[1] == 0 && ids.items[2] == 3 &&
              ids.items[3] == 2); /* half a pair is U+FFFD */
    cr_assert_eq(cop_tokenizer_decode(toy, ids.items, ids.count, true, &text, &err), COP_OK);
    cr_expect(text.length == 11 && memcmp(text.bytes, "a\0b\0\U0001F999\uFFFD", 11) == 0);
    cop_ids_release(&ids);
    cop_text_release(&text);
}

/* ---- Byte fallback ---------------------------------------------------------------------- */

/* 256 byte pieces, then the letters a to z. */
static void open_fallback(const char *normalizer)
{
    char json[16384];
    int filled = snprintf(json, sizeof json,
                          "{%s\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":"
                          "\"ByteFallback\"},{\"type\":\"Fuse\"}]},\"model\":{\"byte_fallback\""
                          ":true,\"merges\":[],\"vocab\":{\"a\":256",
                          normalizer);
    for (int i = 0; i < 256; i++) {
        filled +=
            snprintf(json + filled, sizeof json - (size_t)filled, ",\"<0x%02X>\":%d", i, i);
    }
    for (int i = 1; i < 26; i++) {
        filled += snprintf(json + filled, sizeof json - (size_t)filled, ",\"%c\":%d", 'a' + i,
                           256 + i);
    }
    (void)snprintf(json + filled, sizeof json - (size_t)filled, "}}}");
    cr_assert_eq(json_toy_open(json, &toy, &err), COP_OK, "%s", err.text);
}

Test(json_tokenizer, every_character_survives_byte_fallback)
{
    static const uint32_t edges[] = {0,      1,      0x7F,   0x80,    0x7FF,   0x800,
                                     0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x12397, 0x10FFFF};
    open_fallback("");
    cr_expect_str_eq(json_toy_ids(toy, "a\u00E9z", false), "256 195 169 281");
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        char bytes[6] = {'x'};
        size_t length = cop_utf8_write(edges[i], bytes + 1) + 2;
        bytes[length - 1] = 'y';
        struct cop_ids ids = {0};
        struct cop_text text = {0};
        cr_assert_eq(cop_tokenizer_encode(toy, bytes, length, (struct cop_encode_options){0},
                                          &ids, &err),
                     COP_OK);
        cr_expect_eq(ids.count, length);
        cr_assert_eq(cop_tokenizer_decode(toy, ids.items, ids.count, true, &text, &err),
                     COP_OK);
        cr_expect(text.length == length && memcmp(text.bytes, bytes, length) == 0, "U+%04X",
                  edges[i]);
        cop_ids_release(&ids);
        cop_text_release(&text);
    }
}

Test(json_tokenizer, runs_of_bytes_decode_together)
{
    open_fallback("");
    cr_expect_str_eq(json_toy_decode(toy, "195 169", true), "\u00E9");
    cr_expect_str_eq(json_toy_decode(toy, "195 256 169", true), "\uFFFDa\uFFFD");
    cr_expect_str_eq(json_toy_decode(toy, "256 65 195 169 195", true),
                     "a\uFFFD\uFFFD\uFFFD\uFFFD");
    cr_expect_str_eq(json_toy_decode(toy, "240 159 166 153", true), "\U0001F999");
    cr_expect_str_eq(json_toy_decode(toy, "", true), "");
}

/* ---- Decoders --------------------------------------------------------------------------- */

#define DECODER(steps) "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" steps "]},"
#define STRIP(start, stop)                                                                     \
    "{\"type\":\"Strip\",\"content\":\" \",\"start\":" #start ",\"stop\":" #stop "}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" \"}"

static const struct {
    const char *front;
    const char *ids, *text;
} decodings[] = {
    {DECODER(REPLACE ",{\"type\":\"Fuse\"}," STRIP(1, 0)), "0 1 0", " a  "},
    {DECODER(REPLACE ",{\"type\":\"Fuse\"}," STRIP(3, 1)), "0 1 0", "a "},
    {DECODER(REPLACE ",{\"type\":\"Fuse\"}," STRIP(0, 9)), "0 1 0", "  a"},
    {DECODER(REPLACE ",{\"type\":\"Fuse\"}," STRIP(9, 9)), "0 0", ""},
    {DECODER(REPLACE ",{\"type\":\"Fuse\"}," STRIP(9, 9)), "3 0 1", "<s>  a"},
    {DECODER(REPLACE), "0 1 2", "  a\u00C3"},
    {"\"decoder\":{\"type\":\"ByteLevel\"},", "0 1 2", "\u2581\u2581a\uFFFD"},
    {"\"decoder\":{\"type\":\"Fuse\"},", "1 2", "a\u00C3"},
    {"", "1 3 2", "a <s> \u00C3"}, /* no decoder: as the library that defines the format */
    {"\"decoder\":null,", "1 1", "a a"},
};

Test(json_tokenizer, decoders)
{
    for (size_t i = 0; i < sizeof decodings / sizeof decodings[0]; i++) {
        char json[1024];
        (void)snprintf(json, sizeof json,
                       "{%s\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"special\":true}],"
                       "\"model\":{\"vocab\":{\"\\u2581\\u2581\":0,\"a\":1,\"\\u00c3\":2},"
                       "\"merges\":[]}}",
                       decodings[i].front);
        cr_assert_eq(json_toy_open(json, &toy, &err), COP_OK, "%s", err.text);
        cr_expect_str_eq(json_toy_decode(toy, decodings[i].ids, true), decodings[i].text,
                         "row %zu", i);
        close_toy();
    }
}

Test(json_tokenizer, dropped_tokens_do_not_part_what_is_beside)
{
    open_fallback("\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true}],");
    cr_expect_str_eq(json_toy_decode(toy, "195 300 169", false), "\u00E9");
    cr_expect_str_eq(json_toy_decode(toy, "195 300 169", true), "\uFFFD<s>\uFFFD");
}

/* ---- The files beside ------------------------------------------------------------------- */

#define TOKENS                                                                                 \
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,"            \
    "\"content\":"                                                                             \
    "\"</s>\",\"special\":true},{\"id\":3,\"content\":\"<x>\",\"special\":true}],"             \
    "%s\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"
#define TEMPLATE                                                                               \
    "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{"     \
    "\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{"        \
    "\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1]}}"  \
    "}]},"

static const struct {
    const char *front, *tokenizer_config, *generation_config, *config;
    cop_token bos;
    bool adds_bos;
    cop_token eos[4]; /* -1 ends */
} ends[] = {
    {"", NULL, NULL, NULL, -1, false, {2, -1}}, /* known by name where nothing is declared */
    {TEMPLATE, NULL, NULL, NULL, 1, true, {2, -1}},
    {TEMPLATE, "{\"add_bos_token\":false}", NULL, NULL, 1, false, {2, -1}},
    {"", "{\"bos_token\":\"<s>\",\"eos_token\":\"<x>\"}", NULL, NULL, 1, false, {3, -1}},
    {"",
     "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":{\"content\":\"<x>\"},"
     "\"add_bos_token\":true}",
     NULL,
     NULL,
     1,
     true,
     {3, -1}},
    {"", "{\"bos_token\":null,\"eos_token\":null}", NULL, NULL, -1, false, {2, -1}},
    {"", NULL, "{\"bos_token_id\":1,\"eos_token_id\":3}", NULL, 1, false, {3, -1}},
    {"", NULL, "{\"eos_token_id\":[3,0,3]}", NULL, -1, false, {3, 0, -1}},
    {"", NULL, NULL, "{\"eos_token_id\":2,\"bos_token_id\":0}", 0, false, {2, -1}},
    {"", NULL, NULL, "{\"eos_token_id\":-1,\"bos_token_id\":-1}", -1, false, {2, -1}},
    /* All that disagree count, in this order. */
    {"",
     "{\"eos_token\":\"</s>\",\"bos_token\":\"<s>\"}",
     "{\"eos_token_id\":[3,2],\"bos_token_id\":3}",
     "{\"eos_token_id\":0}",
     1,
     false,
     {2, 3, 0, -1}},
};

Test(json_tokenizer, beginnings_and_ends)
{
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char json[1024];
        (void)snprintf(json, sizeof json, TOKENS, ends[i].front);
        struct cop_json_text files[COP_JSON_FILES] = {
            json_toy_text("t.json", json),
            json_toy_text("tokenizer_config.json", ends[i].tokenizer_config),
            json_toy_text("", NULL),
            json_toy_text("generation_config.json", ends[i].generation_config),
            json_toy_text("config.json", ends[i].config)};
        cr_assert_eq(cop_tokenizer_from_json(&toy, files, &err), COP_OK, "%s", err.text);
        cr_expect_eq(cop_tokenizer_bos(toy), ends[i].bos, "row %zu", i);
        cr_expect_eq(cop_tokenizer_adds_bos(toy), ends[i].adds_bos, "row %zu", i);
        size_t count;
        const cop_token *eos = cop_tokenizer_eos(toy, &count);
        size_t wanted = 0;
        while (ends[i].eos[wanted] >= 0) {
            cr_expect(wanted < count && eos[wanted] == ends[i].eos[wanted], "row %zu", i);
            wanted++;
        }
        cr_expect_eq(count, wanted, "row %zu", i);
        close_toy();
    }
}

/* special_tokens_map.json fills what tokenizer_config.json leaves open; its end counts too. */
Test(json_tokenizer, special_tokens_map)
{
    static const struct {
        const char *map, *config;
        cop_token bos, eos[3];
    } rows[] = {
        {"{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"<x>\",\"lstrip\":false}}",
         NULL,
         1,
         {3, -1}},
        {"{\"bos_token\":\"<s>\",\"eos_token\":\"<x>\"}",
         "{\"bos_token\":\"</s>\",\"eos_token\":\"</s>\",\"add_bos_token\":true}",
         2,
         {3, 2, -1}},
        {"{\"pad_token\":\"nobody\",\"additional_special_tokens\":[\"<x>\"]}",
         NULL,
         -1,
         {2, -1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[1024];
        (void)snprintf(json, sizeof json, TOKENS, "");
        struct cop_json_text files[COP_JSON_FILES] = {
            json_toy_text("t.json", json),
            json_toy_text("tokenizer_config.json", rows[i].config),
            [COP_FILE_SPECIAL_TOKENS] = json_toy_text("special_tokens_map.json", rows[i].map)};
        cr_assert_eq(cop_tokenizer_from_json(&toy, files, &err), COP_OK, "%s", err.text);
        cr_expect_eq(cop_tokenizer_bos(toy), rows[i].bos, "row %zu", i);
        size_t count;
        const cop_token *eos = cop_tokenizer_eos(toy, &count);
        for (size_t k = 0; k < count; k++) {
            cr_expect_eq(eos[k], rows[i].eos[k], "row %zu", i);
        }
        cr_expect(count > 0 && rows[i].eos[count] == -1, "row %zu", i);
        close_toy();
    }
}

Test(json_tokenizer, chat_templates)
{
    static const struct {
        const char *config, *jinja, *text;
    } rows[] = {
        {"{\"chat_template\":\"one\"}", NULL, "one"},
        {"{\"chat_template\":\"one\"}", "two\n", "two\n"},
        {"{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"x\"},{\"name\":\"default\","
         "\"template\":\"y\"}]}",
         NULL, "y"},
        {"{\"chat_template\":[]}", NULL, ""},
        {"{}", NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[1024];
        (void)snprintf(json, sizeof json, TOKENS, "");
        struct cop_json_text files[COP_JSON_FILES] = {json_toy_text("t.json", json),
                                                      json_toy_text("c.json", rows[i].config),
                                                      json_toy_text("j", rows[i].jinja)};
        cr_assert_eq(cop_tokenizer_from_json(&toy, files, &err), COP_OK, "%s", err.text);
        struct cop_string text = cop_tokenizer_template(toy);
        cr_expect(text.length == strlen(rows[i].text) &&
                      (text.length == 0 || memcmp(text.bytes, rows[i].text, text.length) == 0),
                  "row %zu", i);
        close_toy();
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

Test(json_tokenizer, folders)
{
    char folder[] = "/tmp/coppice_folder_XXXXXX";
    char path[512];
    cr_assert(mkdtemp(folder) != NULL);
    cr_expect_eq(cop_tokenizer_from_folder(&toy, folder, &err), COP_OK);
    cr_expect_null(toy);
    cr_expect_eq(cop_tokenizer_open(&toy, folder, &err), COP_ERR_FORMAT);
    cr_expect(strstr(err.text, "holds no tokenizer (tokenizer.json)"), "%s", err.text);
    write_file(folder, "tokenizer.json", MODEL("", "", ABC, "\"a b\""));
    write_file(folder, "generation_config.json", "{\"eos_token_id\":[4,5]}");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s%s", folder, i ? "/tokenizer.json" : "/");
        cr_assert_eq(cop_tokenizer_open(&toy, path, &err), COP_OK, "%s", err.text);
        size_t count;
        (void)cop_tokenizer_eos(toy, &count);
        cr_expect_eq(count, 2);
        cr_expect_str_eq(json_toy_ids(toy, "abc", false), "3 2");
        close_toy();
    }
    write_file(folder, "generation_config.json", "{\"eos_token_id\":6}");
    cr_expect_eq(cop_tokenizer_open(&toy, folder, &err), COP_ERR_FORMAT);
    (void)snprintf(path, sizeof path,
                   "%s/generation_config.json: eos_token_id: id 6 is outside the vocabulary "
                   "of 6",
                   folder);
    cr_expect_str_eq(err.text, path);
    cr_expect_eq(cop_tokenizer_open(&toy, "no/such/tokenizer.json", &err), COP_ERR_IO);
    cr_expect_str_eq(err.text, "no/such/tokenizer.json: No such file or directory");
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/generation_config.json", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}
