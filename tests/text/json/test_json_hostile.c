/* Damaged tokenizer.json files and files beside them: whatever the bytes, an answer and no
 * crash. */
#include "core/base/utf8.h"
#include "core/text/chat/chat.h"
#include "core/text/json/json_source.h"
#include "tests/support/mutate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(hostile_json, .timeout = 300);

/* Small, so that most damage falls on something that matters. */
static const char bytes_file[] =
    "{\"added_tokens\":[{\"id\":14,\"content\":\"<e>\",\"special\":true,\"rstrip\":true},"
    "{\"id\":15,\"content\":\"<t>\",\"lstrip\":true,\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+x\"},\"content\":\"y\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
    "\"pattern\":{\"Regex\":\"\\\\p{N}|[^\\\\s\\\\w]+\"},\"behavior\":\"MergedWithNext\","
    "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false}]}"
    ","
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
    "\"<e>\"}}],\"special_tokens\":{\"<e>\":{\"ids\":[14]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":null,\"ignore_merges\":true,\"vocab\":{\"h\":0,"
    "\"e\":1,\"l\":2,\"o\":3,\"\\u0120\":4,\"a\":5,\"he\":6,\"ll\":7,\"hell\":8,\"aa\":9,"
    "\"\\u00c3\":10,\"\\u00a9\":11,\"<\":12,\"o\\u0120a\":13},"
    "\"merges\":[\"h e\",[\"l\",\"l\"],\"he ll\",\"a a\"]}}";

static const char letters_file[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":9,"
    "\"content\":"
    "\"<t>\",\"single_word\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"\\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}"
    "]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
    "\"prepend_scheme\":\"first\",\"split\":true},\"decoder\":{\"type\":\"Sequence\","
    "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},\"content\":\" "
    "\"}"
    ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
    "\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":"
    "true,\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"\\u2581\":3,\"h\":4,\"e\":5,"
    "\"l\":6,\"he\":7,\"\\u2581he\":8},\"merges\":[\"h e\",\"\\u2581 he\"]}}";

static const char config_file[] =
    "{\"bos_token\":{\"content\":\"<e>\"},\"eos_token\":\"<e>\",\"add_bos_token\":true,"
    "\"chat_template\":[{\"name\":\"default\",\"template\":\"<|im_start|><|im_end|>\"}]}";
static const char generation_file[] = "{\"bos_token_id\":14,\"eos_token_id\":[14,3]}";

/* Encodes and decodes with whatever came out. */
static void use(const struct cop_tokenizer *tokenizer)
{
    static const char text[] = "hello <t> he 12\xFF aaaaaaa <e>  \xC3\xA9  x<<";
    struct cop_encode_options options = {.special = true, .bos = true};
    struct cop_ids ids = {0};
    struct cop_text back = {0};
    struct cop_error err;
    enum cop_status status =
        cop_tokenizer_encode(tokenizer, text, sizeof text, options, &ids, &err);
    cr_assert(status == COP_OK || status == COP_ERR_LIMIT, "%s", err.text);
    for (size_t i = 0; i < ids.count; i++) {
        cr_assert(ids.items[i] >= 0 && ids.items[i] < cop_tokenizer_size(tokenizer));
    }
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids.items, ids.count, true, &back, &err),
                 COP_OK);
    cr_assert_eq(cop_utf8_valid_prefix(back.bytes, back.length), back.length);
    cop_ids_release(&ids);
    cop_text_release(&back);
}

/* Whether it opens; messages begin with the name of one of the files. */
static bool survives(const struct cop_json_text *files)
{
    struct cop_tokenizer *tokenizer;
    struct cop_error err = {.text = ""};
    enum cop_status status = cop_tokenizer_from_json(&tokenizer, files, &err);
    if (status != COP_OK) {
        bool has_name = false;
        for (int i = 0; i < COP_JSON_FILES; i++) {
            size_t length = files[i].name ? strlen(files[i].name) : 0;
            has_name =
                has_name || (length > 0 && strncmp(err.text, files[i].name, length) == 0);
        }
        cr_assert(!tokenizer && err.code == status && has_name, "%s", err.text);
        return false;
    }
    use(tokenizer);
    cop_tokenizer_free(tokenizer);
    return true;
}

static struct cop_json_text text_of(const char *name, const char *bytes)
{
    return (struct cop_json_text){name, {bytes, strlen(bytes)}};
}

/* Damages one of the files, `count` times. */
static void damage(struct cop_json_text *files, enum cop_json_file which, uint64_t first,
                   size_t count, size_t least_opened)
{
    struct cop_string original = files[which].text;
    size_t n_opened = 0;
    cr_assert(survives(files));
    for (uint64_t seed = first; seed < first + count; seed++) {
        size_t size;
        uint8_t *damaged = mutate_json(original.bytes, original.length, seed, &size);
        files[which].text = (struct cop_string){(const char *)damaged, size};
        n_opened += survives(files);
        free(damaged);
    }
    files[which].text = original;
    cr_expect_gt(n_opened, least_opened);
}

Test(hostile_json, random_damage_to_byte_level)
{
    struct cop_json_text files[COP_JSON_FILES] = {text_of("t.json", bytes_file)};
    damage(files, COP_FILE_TOKENIZER, 0, MUTATIONS / 2, MUTATIONS / 100);
}

Test(hostile_json, random_damage_to_letters)
{
    struct cop_json_text files[COP_JSON_FILES] = {text_of("t.json", letters_file)};
    damage(files, COP_FILE_TOKENIZER, MUTATIONS / 2, MUTATIONS / 2, MUTATIONS / 100);
}

Test(hostile_json, random_damage_to_the_files_beside)
{
    struct cop_json_text files[COP_JSON_FILES] = {text_of("t.json", bytes_file),
                                                  text_of("c.json", config_file),
                                                  {"j", {NULL, 0}},
                                                  text_of("g.json", generation_file)};
    damage(files, COP_FILE_TOKENIZER_CONFIG, 0, MUTATIONS / 2, MUTATIONS / 100);
    damage(files, COP_FILE_GENERATION_CONFIG, 0, MUTATIONS / 2, MUTATIONS / 100);
}

Test(hostile_json, every_byte_set_to_several_values)
{
    static const char values[] = {0, '"', '{', ']', ',', '\\', '9', (char)0xFF};
    struct cop_json_text files[COP_JSON_FILES] = {text_of("t.json", bytes_file)};
    for (size_t at = 0; at < sizeof bytes_file - 1; at++) {
        for (size_t i = 0; i < sizeof values; i++) {
            char *copy = malloc(sizeof bytes_file - 1);
            memcpy(copy, bytes_file, sizeof bytes_file - 1);
            copy[at] = values[i];
            files[0].text = (struct cop_string){copy, sizeof bytes_file - 1};
            (void)survives(files);
            free(copy);
        }
    }
}

Test(hostile_json, cut_off_everywhere)
{
    struct cop_json_text files[COP_JSON_FILES] = {{"t.json", {NULL, 0}}};
    for (size_t length = 0; length < sizeof letters_file - 1; length++) {
        char *copy = malloc(length ? length : 1);
        memcpy(copy, letters_file, length);
        files[0].text = (struct cop_string){copy, length};
        cr_expect_not(survives(files), "%zu bytes", length);
        free(copy);
    }
}
