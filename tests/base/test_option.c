/* Options: defaults, checked setters and their messages word by word, printing as Lua literals.
 */
#include "core/base/option.h"
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

struct settings {
    int32_t depth;
    double threshold;
    bool greedy;
    int32_t variant;
    char *name;
    struct cop_int_list widths;
    struct cop_path_list paths;
    void *draft;
    int32_t limit;
    double scale;
};

#define AT(field) .offset = offsetof(struct settings, field)
static const struct cop_option options[] = {
    {.name = "depth",
     .type = COP_OPTION_INT,
     AT(depth),
     .min = 1,
     .max = 4095,
     .fallback = 5,
     .help = "tokens drafted one after another"},
    {.name = "threshold",
     .type = COP_OPTION_NUMBER,
     AT(threshold),
     .min = 0,
     .max = 1,
     .fallback = 0.4},
    {.name = "greedy", .type = COP_OPTION_BOOL, AT(greedy), .fallback = 1},
    {.name = "variant",
     .type = COP_OPTION_CHOICE,
     AT(variant),
     .choices = "original|hf|vllm",
     .fallback = 1},
    {.name = "name", .type = COP_OPTION_STRING, AT(name), .flags = COP_OPTION_ABSENT},
    {.name = "widths",
     .type = COP_OPTION_INTS,
     AT(widths),
     .min = 1,
     .max = 64,
     .flags = COP_OPTION_REQUIRED},
    {.name = "paths", .type = COP_OPTION_PATHS, AT(paths), .min = 0, .max = 9},
    {.name = "draft",
     .type = COP_OPTION_OBJECT,
     AT(draft),
     .choices = "model",
     .flags = COP_OPTION_REQUIRED},
    {.name = "limit",
     .type = COP_OPTION_INT,
     AT(limit),
     .min = 0,
     .max = HUGE_VAL,
     .flags = COP_OPTION_ABSENT},
    {.name = "scale", .type = COP_OPTION_NUMBER, AT(scale), .fallback = 1},
    {0}};

static struct settings state;
static struct cop_error err;

static void start(void)
{
    memset(&state, 0, sizeof state);
    cop_option_defaults(options, &state);
}

static void stop(void)
{
    cop_option_release(options, &state);
}

TestSuite(option, .init = start, .fini = stop);

static const struct cop_option *find(const char *name)
{
    const struct cop_option *o = cop_option_find(options, name);
    cr_assert_not_null(o);
    return o;
}

static const char *printed(const char *name)
{
    static char text[200];
    cop_option_print(find(name), &state, text, sizeof text);
    return text;
}

#define OWNER "cop.tree.chain"
#define EXPECT_REFUSAL(call, message)                                                          \
    do {                                                                                       \
        cr_expect_eq(call, COP_ERR_ARGUMENT);                                                  \
        cr_expect_str_eq(err.text, message);                                                   \
    } while (0)

Test(option, defaults)
{
    cr_expect_eq(state.depth, 5);
    cr_expect_eq(state.threshold, 0.4);
    cr_expect(state.greedy);
    cr_expect_eq(state.variant, 1);
    cr_expect_null(state.name);
    cr_expect_eq(state.widths.count, 0);
    cr_expect_eq(state.limit, INT32_MIN);
    cr_expect(cop_option_is_absent(find("limit"), &state));
    cr_expect(cop_option_is_absent(find("draft"), &state));
    cr_expect_not(cop_option_is_absent(find("depth"), &state));
    cop_option_defaults(NULL, &state);
    cr_expect_null(cop_option_find(NULL, "depth"));
    cr_expect_null(cop_option_find(options, "depths"));
}

Test(option, integers_are_integral_and_in_range)
{
    cr_expect_eq(cop_option_set_number(find("depth"), &state, 4095, OWNER, &err), COP_OK);
    cr_expect_eq(state.depth, 4095);
    EXPECT_REFUSAL(cop_option_set_number(find("depth"), &state, 0, OWNER, &err),
                   "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got 0");
    EXPECT_REFUSAL(
        cop_option_set_number(find("depth"), &state, 2.5, OWNER, &err),
        "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got 2.5");
    EXPECT_REFUSAL(
        cop_option_set_number(find("depth"), &state, nan(""), OWNER, &err),
        "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got nan");
    EXPECT_REFUSAL(
        cop_option_set_string(find("depth"), &state, "five", OWNER, &err),
        "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got \"five\"");
    EXPECT_REFUSAL(
        cop_option_set_bool(find("depth"), &state, true, OWNER, &err),
        "cop.tree.chain: option \"depth\" must be an integer from 1 to 4095, got true");
    EXPECT_REFUSAL(cop_option_set_number(find("limit"), &state, -1, OWNER, &err),
                   "cop.tree.chain: option \"limit\" must be an integer of at least 0, got -1");
    EXPECT_REFUSAL(
        cop_option_set_number(find("limit"), &state, 1e10, OWNER, &err),
        "cop.tree.chain: option \"limit\" must be an integer of at least 0, got 10000000000");
    cr_expect_eq(state.depth, 4095, "a refusal leaves the state alone");
    cr_expect_eq(state.limit, INT32_MIN);
}

Test(option, numbers)
{
    cr_expect_eq(cop_option_set_number(find("threshold"), &state, 1, OWNER, &err), COP_OK);
    cr_expect_eq(state.threshold, 1.0);
    EXPECT_REFUSAL(
        cop_option_set_number(find("threshold"), &state, 1.5, OWNER, &err),
        "cop.tree.chain: option \"threshold\" must be a number from 0 to 1, got 1.5");
    cr_expect_eq(cop_option_set_number(find("scale"), &state, -HUGE_VAL, OWNER, &err), COP_OK);
    cr_expect_eq(cop_option_set_number(find("scale"), &state, nan(""), OWNER, &err),
                 COP_ERR_ARGUMENT);
}

Test(option, choices)
{
    cr_expect_eq(cop_option_set_string(find("variant"), &state, "vllm", OWNER, &err), COP_OK);
    cr_expect_eq(state.variant, 2);
    EXPECT_REFUSAL(cop_option_set_string(find("variant"), &state, "vll", OWNER, &err),
                   "cop.tree.chain: option \"variant\" must be one of \"original\", \"hf\", "
                   "\"vllm\", got \"vll\"");
    EXPECT_REFUSAL(cop_option_set_number(find("variant"), &state, 1, OWNER, &err),
                   "cop.tree.chain: option \"variant\" must be one of \"original\", \"hf\", "
                   "\"vllm\", got 1");
    cr_expect_eq(state.variant, 2);
}

Test(option, lists_and_paths)
{
    const int32_t widths[] = {4, 2, 2}, wrong[] = {4, 65};
    cr_expect_eq(cop_option_set_ints(find("widths"), &state, widths, 3, OWNER, &err), COP_OK);
    cr_expect_eq(state.widths.count, 3);
    cr_expect_eq(state.widths.items[0], 4);
    EXPECT_REFUSAL(cop_option_set_ints(find("widths"), &state, wrong, 2, OWNER, &err),
                   "cop.tree.chain: option \"widths\" must be a list of integers, each from 1 "
                   "to 64, got 65");
    cr_expect_eq(state.widths.count, 3);
    const int32_t ranks[] = {0, 0, 0, 1}, lengths[] = {1, 2, 1}, empty[] = {1, 0},
                  high[] = {0, 10};
    cr_expect_eq(cop_option_set_paths(find("paths"), &state, ranks, lengths, 3, OWNER, &err),
                 COP_OK);
    cr_expect_eq(state.paths.count, 3);
    cr_expect_eq(state.paths.starts[3], 4);
    EXPECT_REFUSAL(
        cop_option_set_paths(find("paths"), &state, high, lengths + 1, 1, OWNER, &err),
        "cop.tree.chain: option \"paths\" must be a list of paths such as {1}, "
        "{1, 1}, {2}, ranks from 1 to 10, got rank 11 in path 1");
    cr_expect_eq(cop_option_set_paths(find("paths"), &state, ranks, empty, 2, OWNER, &err),
                 COP_ERR_ARGUMENT);
    cr_expect_str_eq(printed("widths"), "{4, 2, 2}");
    cr_expect_str_eq(printed("paths"), "{{1}, {1, 1}, {2}}");
    EXPECT_REFUSAL(cop_option_set_number(find("widths"), &state, 4, OWNER, &err),
                   "cop.tree.chain: option \"widths\" must be a list of integers, each from 1 "
                   "to 64, got 4");
}

Test(option, printing_gives_lua_literals)
{
    cr_expect_str_eq(printed("depth"), "5");
    cr_expect_str_eq(printed("threshold"), "0.4");
    cr_expect_str_eq(printed("greedy"), "true");
    cr_expect_str_eq(printed("variant"), "\"hf\"");
    cr_expect_str_eq(printed("name"), "nil");
    cr_expect_str_eq(printed("limit"), "nil");
    cr_expect_str_eq(printed("draft"), "nil");
    cr_expect_str_eq(printed("widths"), "{}");
    cr_expect_eq(cop_option_set_string(find("name"), &state, "a \"b\"\\\n\x01", OWNER, &err),
                 COP_OK);
    cr_expect_str_eq(printed("name"), "\"a \\\"b\\\"\\\\\\n\\001\"");
    cr_expect_eq(cop_option_set_object(find("draft"), &state, &state, OWNER, &err), COP_OK);
    cr_expect_str_eq(printed("draft"), "<model>");
    state.scale = 0.1 + 0.2;
    cr_expect_str_eq(printed("scale"), "0.30000000000000004");
    state.scale = HUGE_VAL;
    cr_expect_str_eq(printed("scale"), "math.huge");
    state.scale = 1e300;
    cr_expect_str_eq(printed("scale"), "1e+300");
    char tiny[5];
    cop_option_print(find("variant"), &state, tiny, sizeof tiny);
    cr_expect_str_eq(tiny, "\"hf\"");
    cop_option_print(find("name"), &state, tiny, sizeof tiny);
    cr_expect_eq(strlen(tiny), 4);
}

Test(option, descriptions)
{
    char text[200];
    cop_option_describe(find("depth"), text, sizeof text);
    cr_expect_str_eq(text, "depth = 5 (1 to 4095): tokens drafted one after another");
    cop_option_describe(find("variant"), text, sizeof text);
    cr_expect_str_eq(text, "variant = \"hf\" (\"original\", \"hf\", \"vllm\")");
    cop_option_describe(find("widths"), text, sizeof text);
    cr_expect_str_eq(text, "widths, required (1 to 64)");
    cop_option_describe(find("limit"), text, sizeof text);
    cr_expect_str_eq(text, "limit = nil (at least 0)");
}

Test(option, nearest_name)
{
    const char *const known[] = {"token", "match", "sample_match", "k", "expand_rerank"};
    cr_expect_str_eq(cop_nearest("tokne", known, 5), "token"); /* a swap is one edit */
    cr_expect_str_eq(cop_nearest("samplematch", known, 5), "sample_match");
    cr_expect_str_eq(cop_nearest("match", known, 5), "match");
    cr_expect_str_eq(cop_nearest("expandrerankk", known, 5), "expand_rerank");
    cr_expect_str_eq(cop_nearest("expnd_rrnk", known, 5),
                     "expand_rerank"); /* 3 of 10 letters */
    cr_expect_null(cop_nearest("zz", known, 5), "nothing in common is not near");
    cr_expect_null(cop_nearest("typical", known, 5));
    cr_expect_null(cop_nearest("", known, 5));
    cr_expect_null(cop_nearest(NULL, known, 5));
}

Test(option, lists_are_replaced_and_released)
{
    const int32_t widths[] = {4, 2, 2};
    for (int i = 1; i <= 3; i++) {
        cr_expect_eq(cop_option_set_ints(find("widths"), &state, widths, i, OWNER, &err),
                     COP_OK);
        cr_expect_eq(cop_option_set_string(find("name"), &state, "x", OWNER, &err), COP_OK);
    }
    cop_option_release(options, &state);
    cr_expect_null(state.name);
    cr_expect_null(state.widths.items);
    cop_option_defaults(options, &state);
    cr_expect_eq(state.depth, 5);
}

/* ---- Vocabularies ------------------------------------------------------------------------ */

static struct cop_vocabulary_option vocabulary;
static const struct cop_option vocabularies[] = {
    {.name = "ids", .type = COP_OPTION_VOCABULARY, .flags = COP_OPTION_ABSENT},
    {.name = "same", .type = COP_OPTION_VOCABULARY, .choices = "same|text", .fallback = 1},
    {0}};

static void expect_text(const struct cop_option *option, const char *text)
{
    char buffer[64];
    cop_option_print(option, &vocabulary, buffer, sizeof buffer);
    cr_expect_str_eq(buffer, text);
}

Test(option, a_vocabulary_is_one_of_three_things)
{
    const struct cop_option *ids = &vocabularies[0], *same = &vocabularies[1];
    struct cop_option row[2] = {*same, {0}};
    cop_option_defaults(row, &vocabulary);
    cr_expect_eq(vocabulary.choice, 1);
    expect_text(same, "\"text\"");
    cr_expect_eq(cop_option_set_number(same, &vocabulary, 8192, OWNER, &err), COP_OK);
    cr_expect(vocabulary.choice == INT32_MIN && vocabulary.size == 8192);
    expect_text(same, "8192");
    cr_expect_eq(cop_option_set_ints(same, &vocabulary, (int32_t[]){7, 2}, 2, OWNER, &err),
                 COP_OK);
    cr_expect(vocabulary.size == 0 && vocabulary.ids.count == 2 &&
              vocabulary.ids.items[1] == 2);
    char two[64], other[64];
    cop_option_print(same, &vocabulary, two, sizeof two);
    cr_expect_eq(cop_option_set_ints(same, &vocabulary, (int32_t[]){7, 3}, 2, OWNER, &err),
                 COP_OK);
    cop_option_print(same, &vocabulary, other, sizeof other);
    cr_expect(strncmp(two, "<2 ids, ", 8) == 0 && strcmp(two, other) != 0);
    cr_expect_eq(cop_option_set_string(same, &vocabulary, "same", OWNER, &err), COP_OK);
    cr_expect(vocabulary.choice == 0 && vocabulary.ids.count == 0);

    row[0] = *ids;
    cop_option_release(row, &vocabulary);
    cop_option_defaults(row, &vocabulary);
    cr_expect(cop_option_is_absent(ids, &vocabulary));
    expect_text(ids, "nil");
    EXPECT_REFUSAL(cop_option_set_string(ids, &vocabulary, "same", OWNER, &err),
                   "cop.tree.chain: option \"ids\" must be a list of token ids (from 0) or a "
                   "number of tokens, got \"same\"");
    EXPECT_REFUSAL(cop_option_set_number(ids, &vocabulary, 0, OWNER, &err),
                   "cop.tree.chain: option \"ids\" must be a list of token ids (from 0) or a "
                   "number of tokens, got 0");
    EXPECT_REFUSAL(cop_option_set_ints(ids, &vocabulary, (int32_t[]){1, -1}, 2, OWNER, &err),
                   "cop.tree.chain: option \"ids\" must be a list of token ids (from 0) or a "
                   "number of tokens, got -1");
    EXPECT_REFUSAL(cop_option_set_ints(ids, &vocabulary, NULL, 0, OWNER, &err),
                   "cop.tree.chain: option \"ids\" must be a list of token ids (from 0) or a "
                   "number of tokens, got an empty list");
    EXPECT_REFUSAL(cop_option_set_string(same, &vocabulary, "any", OWNER, &err),
                   "cop.tree.chain: option \"same\" must be a list of token ids (from 0), a "
                   "number of tokens, or one of \"same\", \"text\", got \"any\"");
    cr_expect(cop_option_is_absent(ids, &vocabulary), "unchanged after failure");
}
