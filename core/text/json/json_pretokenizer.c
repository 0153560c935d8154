/* "pre_tokenizer" of a tokenizer.json. It also says what a word is made of: bytes where
 * ByteLevel ends it, else characters. */
#include "core/text/json/json_steps.h"

#include <string.h>

/* The family whose words ByteLevel cuts unless told otherwise. */
#define GPT2 "gpt-2"

static const char *const splits[] = {[COP_SPLIT_ISOLATED] = "Isolated",
                                     [COP_SPLIT_REMOVED] = "Removed",
                                     [COP_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
                                     [COP_SPLIT_WITH_NEXT] = "MergedWithNext",
                                     [COP_SPLIT_CONTIGUOUS] = "Contiguous",
                                     NULL};

static enum cop_status add_cut(struct cop_json_steps *steps, struct cop_cut_step step)
{
    struct cop_error inner;
    enum cop_status status = cop_pretokenizer_add(steps->tokenizer->pretokenizer, step, &inner);
    return status == COP_OK ? COP_OK : cop_json_relay(&steps->place, &inner);
}

/* A cut at an expression of this file. */
static enum cop_status add_own_cut(struct cop_json_steps *steps, const char *pattern,
                                   enum cop_split split, bool is_inverted)
{
    struct cop_cut_step step = {
        .kind = COP_CUT_SPLIT, .split = split, .is_inverted = is_inverted};
    struct cop_string text = {pattern, strlen(pattern)};
    enum cop_status status = cop_json_compile(steps, text, &step.regex);
    return status == COP_OK ? add_cut(steps, step) : status;
}

/* A step with texts of this file. */
static enum cop_status add_change(struct cop_json_steps *steps, enum cop_cut_kind kind,
                                  const char *from, struct cop_string to, bool first_only)
{
    struct cop_cut_step step = {.kind = kind, .first_only = first_only};
    enum cop_status status = cop_text_append(&step.from, from, strlen(from), steps->place.err);
    if (status == COP_OK) {
        status = cop_text_append(&step.to, to.bytes, to.length, steps->place.err);
    }
    if (status == COP_OK) {
        return add_cut(steps, step);
    }
    cop_cut_step_release(&step);
    return status;
}

static enum cop_status read_split(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    struct cop_cut_step step = {.kind = COP_CUT_SPLIT};
    int32_t split = -1;
    enum cop_status status = cop_json_pattern(steps, node, &step.from, &step.regex);
    if (status == COP_OK) {
        status = cop_json_choice(&steps->place, node, "behavior", splits, &split);
    }
    if (status == COP_OK && split < 0) {
        status = cop_json_lacks(steps, "behavior");
    }
    if (status == COP_OK) {
        status = cop_json_bool(&steps->place, node, "invert", &step.is_inverted);
    }
    if (status != COP_OK) {
        cop_cut_step_release(&step);
        return status;
    }
    step.split = (enum cop_split)split;
    return add_cut(steps, step);
}

static enum cop_status read_byte_level(struct cop_json_steps *steps,
                                       const struct cop_json_node *node)
{
    bool has_prefix = true;
    bool cuts = true;
    enum cop_status status =
        cop_json_bool(&steps->place, node, "add_prefix_space", &has_prefix);
    if (status == COP_OK) {
        status = cop_json_bool(&steps->place, node, "use_regex", &cuts);
    }
    if (status == COP_OK && has_prefix) {
        status = add_change(steps, COP_CUT_PREFIX, "", (struct cop_string){" ", 1}, false);
    }
    steps->tokenizer->symbols = COP_SYMBOLS_BYTES;
    steps->is_over = true;
    if (status != COP_OK || !cuts) {
        return status;
    }
    const struct cop_pretoken_family *family = cop_pretoken_family_find(GPT2, strlen(GPT2));
    struct cop_cut_step step = {.kind = COP_CUT_SPLIT, .split = COP_SPLIT_ISOLATED};
    status = cop_regex_new(&step.regex, family->steps[0], strlen(family->steps[0]),
                           COP_REGEX_OURS, steps->place.err);
    return status == COP_OK ? add_cut(steps, step) : status;
}

static enum cop_status read_digits(struct cop_json_steps *steps,
                                   const struct cop_json_node *node)
{
    bool are_alone = false;
    enum cop_status status =
        cop_json_bool(&steps->place, node, "individual_digits", &are_alone);
    return status == COP_OK
               ? add_own_cut(steps, "\\p{N}",
                             are_alone ? COP_SPLIT_ISOLATED : COP_SPLIT_CONTIGUOUS, false)
               : status;
}

static enum cop_status read_punctuation(struct cop_json_steps *steps,
                                        const struct cop_json_node *node)
{
    int32_t split = COP_SPLIT_ISOLATED;
    enum cop_status status = cop_json_choice(&steps->place, node, "behavior", splits, &split);
    return status == COP_OK
               ? add_own_cut(steps, "[\\p{P}$+<=>^`|~]", (enum cop_split)split, false)
               : status;
}

/* A word of the library in which Whitespace is written, which is not the one for \w. */
#define WORD                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}\\x{24B6}-\\x{24E9}"                   \
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

/* Words and the signs between them, or what lies between white space. */
static enum cop_status read_white(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    (void)node;
    return steps->row->value
               ? add_own_cut(steps, "[" WORD "]+|[^\\s" WORD "]+", COP_SPLIT_REMOVED, true)
               : add_own_cut(steps, "\\s", COP_SPLIT_REMOVED, false);
}

static enum cop_status read_metaspace(struct cop_json_steps *steps,
                                      const struct cop_json_node *node)
{
    struct cop_string replacement;
    enum cop_json_scheme scheme;
    bool cuts = true;
    enum cop_status status = cop_json_replacement(steps, node, &replacement);
    status = status == COP_OK ? cop_json_prepends(steps, node, &scheme) : status;
    status = status == COP_OK ? cop_json_bool(&steps->place, node, "split", &cuts) : status;
    if (status == COP_OK) {
        status = add_change(steps, COP_CUT_REPLACE, " ", replacement, false);
    }
    if (status == COP_OK && scheme != COP_JSON_NEVER) {
        status = add_change(steps, COP_CUT_PREFIX, "", replacement, scheme == COP_JSON_FIRST);
    }
    if (status != COP_OK || !cuts) {
        return status;
    }
    struct cop_cut_step step = {.kind = COP_CUT_SPLIT, .split = COP_SPLIT_WITH_NEXT};
    status =
        cop_text_append(&step.from, replacement.bytes, replacement.length, steps->place.err);
    return status == COP_OK ? add_cut(steps, step) : status;
}

enum cop_status cop_json_read_pretokenizer(const struct cop_json_source *source,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err)
{
    static const struct cop_json_row rows[] = {
        {"ByteLevel", read_byte_level, 0},  {"Digits", read_digits, 0},
        {"Metaspace", read_metaspace, 0},   {"Punctuation", read_punctuation, 0},
        {"Split", read_split, 0},           {"Whitespace", read_white, 1},
        {"WhitespaceSplit", read_white, 0}, {0}};
    struct cop_json_steps steps = {
        .rows = rows, .members = "pretokenizers", .tokenizer = tokenizer};
    tokenizer->symbols = COP_SYMBOLS_LETTERS;
    tokenizer->pretokenizer = cop_pretokenizer_empty();
    return tokenizer->pretokenizer
               ? cop_json_read_part(source, COP_JSON_PRETOKENIZER, &steps, err)
               : cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source->name);
}
