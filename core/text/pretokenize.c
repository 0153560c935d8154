/* The table of families, and running their expressions.
 *
 * The patterns are the published ones, rewritten so that no run of characters is ever given
 * back one by one: `++` never backtracks. Where a published pattern relies on giving back, what
 * it then matches is said directly. White space is spelled out, because PCRE2's own \s also
 * holds U+180E, which is none in Unicode: the property White_Space is exactly 09-0D, 85 and the
 * separators. Letters, numbers and the case folding of (?i: follow PCRE2's Unicode tables. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/pretokenize.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Families --------------------------------------------------------------------------- */

#define WHITE       "\\t-\\r\\x{85}\\p{Z}"         /* inside brackets */
#define BLANK       "[\\t\\x{0B}\\f\\x{85}\\p{Z}]" /* white space that ends no line */
#define NOT_A_WORD  "[^" WHITE "\\p{L}\\p{N}]"     /* signs, marks, controls */
#define CONTRACTION "'(?:[stmd]|re|ve|ll)"

/* Runs of white space leave their last character to the word that follows. */
#define SPACES "[" WHITE "]+(?![^" WHITE "])|[" WHITE "]++"

#define DIGIT_ALONE "\\p{N}"
#define GPT2        CONTRACTION "| ?+\\p{L}++| ?+\\p{N}++| ?+" NOT_A_WORD "++|" SPACES
/* Llama 3 and Qwen2 differ in how many digits stay together. White space up to the last line
 * end of a run (\s*[\r\n]+ in the published form) is the loop of blanks and line ends. */
#define LINES(digits)                                                                          \
    "(?i:" CONTRACTION ")|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|" digits "| ?+" NOT_A_WORD           \
    "++[\\r\\n]*+|(?:" BLANK "*+[\\r\\n]++)++|" SPACES

static const struct cop_pretoken_family families[] = {
    {{"gpt-2", "gpt2", "phi-2", "mpt", "olmo"}, {GPT2}, false, false},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell"},
     {DIGIT_ALONE, GPT2},
     false,
     false},
    {{"llama-bpe", "llama3", "llama-v3"}, {LINES("\\p{N}{1,3}+")}, true, true},
    {{"qwen2", "stablelm2", "deepseek-r1-qwen"}, {LINES("\\p{N}")}, false, false},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

const struct cop_pretoken_family *cop_pretoken_family_find(const char *name, size_t length)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        for (size_t j = 0; j < COP_PRETOKEN_NAMES && families[i].names[j]; j++) {
            const char *known = families[i].names[j];
            if (strlen(known) == length && memcmp(known, name, length) == 0) {
                return &families[i];
            }
        }
    }
    return NULL;
}

const char *cop_pretoken_family_names(char *buffer, size_t size)
{
    size_t filled = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < N_FAMILIES && filled < size; i++) {
        int written = snprintf(buffer + filled, size - filled, "%s%s", i > 0 ? ", " : "",
                               families[i].names[0]);
        filled += written > 0 ? (size_t)written : 0;
    }
    return buffer;
}

/* ---- Compiling -------------------------------------------------------------------------- */

struct cop_pretokenizer {
    pcre2_code *codes[COP_PRETOKEN_STEPS];
    size_t n_steps;
};

static enum cop_status regex_failed(int code, struct cop_error *err)
{
    char message[128];
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
    return cop_fail(err, code == PCRE2_ERROR_NOMEMORY ? COP_ERR_MEMORY : COP_ERR_LIMIT,
                    "the pre-tokenizer's regular expression failed: %s", message);
}

enum cop_status cop_pretokenizer_new(struct cop_pretokenizer **out,
                                     const struct cop_pretoken_family *family,
                                     struct cop_error *err)
{
    *out = NULL;
    struct cop_pretokenizer *made = calloc(1, sizeof *made);
    if (!made) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a pre-tokenizer");
    }
    for (size_t i = 0; i < COP_PRETOKEN_STEPS && family->steps[i]; i++) {
        int code;
        PCRE2_SIZE offset;
        made->codes[i] = pcre2_compile((PCRE2_SPTR)family->steps[i], PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
        if (!made->codes[i]) {
            cop_pretokenizer_free(made);
            return regex_failed(code, err);
        }
        /* Without just-in-time compilation the interpreter does the same, slower. */
        (void)pcre2_jit_compile(made->codes[i], PCRE2_JIT_COMPLETE);
        made->n_steps++;
    }
    *out = made;
    return COP_OK;
}

void cop_pretokenizer_free(struct cop_pretokenizer *pretokenizer)
{
    if (!pretokenizer) {
        return;
    }
    for (size_t i = 0; i < COP_PRETOKEN_STEPS; i++) {
        pcre2_code_free(pretokenizer->codes[i]);
    }
    free(pretokenizer);
}

/* ---- Cutting ---------------------------------------------------------------------------- */

struct cut {
    const struct cop_pretokenizer *pretokenizer;
    pcre2_match_data *matches[COP_PRETOKEN_STEPS];
    pcre2_match_context *limits;
    cop_pretoken_take take;
    void *context;
    struct cop_error *err;
};

/* The next match at or after `from`; false in *is_found: none. */
static enum cop_status next_match(const struct cut *cut, size_t step, const char *text,
                                  size_t length, size_t from, size_t *start, size_t *end,
                                  bool *is_found)
{
    const pcre2_code *code = cut->pretokenizer->codes[step];
    pcre2_match_data *match = cut->matches[step];
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int found =
        pcre2_match(code, subject, length, from, PCRE2_NO_UTF_CHECK, match, cut->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(code, subject, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            match, cut->limits);
    }
    *is_found = found > 0;
    if (found > 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
        *start = ends[0];
        *end = ends[1];
    }
    return found > 0 || found == PCRE2_ERROR_NOMATCH ? COP_OK : regex_failed(found, cut->err);
}

/* Cuts a part by one step and hands what comes out to the next. As deep as there are steps. */
static enum cop_status cut_part(const struct cut *cut, size_t step, const char *text,
                                size_t length)
{
    if (length == 0) {
        return COP_OK;
    }
    if (step == cut->pretokenizer->n_steps) {
        return cut->take(cut->context, text, length, cut->err);
    }
    size_t at = 0;
    while (at < length) {
        size_t start = length;
        size_t end = length;
        bool is_found;
        enum cop_status status =
            next_match(cut, step, text, length, at, &start, &end, &is_found);
        if (!is_found || end <= at) {
            start = end = length;
        }
        if (status == COP_OK) {
            status = cut_part(cut, step + 1, text + at, start - at);
        }
        if (status == COP_OK) {
            status = cut_part(cut, step + 1, text + start, end - start);
        }
        if (status != COP_OK) {
            return status;
        }
        at = end;
    }
    return COP_OK;
}

enum cop_status cop_pretokenizer_cut(const struct cop_pretokenizer *pretokenizer,
                                     const char *text, size_t length, cop_pretoken_take take,
                                     void *context, struct cop_error *err)
{
    struct cut cut = {
        .pretokenizer = pretokenizer, .take = take, .context = context, .err = err};
    bool has_memory = true;
    for (size_t i = 0; i < pretokenizer->n_steps; i++) {
        cut.matches[i] = pcre2_match_data_create(1, NULL);
        has_memory = has_memory && cut.matches[i] != NULL;
    }
    cut.limits = pcre2_match_context_create(NULL);
    enum cop_status status;
    if (has_memory && cut.limits) {
        /* The count of internal steps grows with a run's length; it must not end a long one. */
        (void)pcre2_set_match_limit(cut.limits, UINT32_MAX);
        status = cut_part(&cut, 0, text, length);
    } else {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a regular expression");
    }
    for (size_t i = 0; i < pretokenizer->n_steps; i++) {
        pcre2_match_data_free(cut.matches[i]);
    }
    pcre2_match_context_free(cut.limits);
    return status;
}
