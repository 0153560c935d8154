/* The table of families.
 *
 * The patterns are the published ones, rewritten so that no run of characters is ever given
 * back one by one: `++` never backtracks. Where a published pattern relies on giving back, what
 * it then matches is said directly. White space is spelled out, because PCRE2's own \s also
 * holds U+180E, which is none in Unicode: the property White_Space is exactly 09-0D, 85 and the
 * separators. Letters, numbers and the case folding of (?i: follow PCRE2's Unicode tables. */
#include "core/text/split/pretokenize.h"

#include <stdio.h>
#include <string.h>

/* ---- Families --------------------------------------------------------------------------- */

#define WHITE       COP_REGEX_WHITE
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

enum cop_status cop_pretokenizer_new(struct cop_pretokenizer **out,
                                     const struct cop_pretoken_family *family,
                                     struct cop_error *err)
{
    *out = NULL;
    struct cop_pretokenizer *made = cop_pretokenizer_empty();
    enum cop_status status =
        made ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a pre-tokenizer");
    for (size_t i = 0; status == COP_OK && i < COP_PRETOKEN_STEPS && family->steps[i]; i++) {
        struct cop_cut_step step = {.kind = COP_CUT_SPLIT, .split = COP_SPLIT_ISOLATED};
        status = cop_regex_new(&step.regex, family->steps[i], strlen(family->steps[i]),
                               COP_REGEX_OURS, err);
        if (status == COP_OK) {
            status = cop_pretokenizer_add(made, step, err);
        }
    }
    if (status != COP_OK) {
        cop_pretokenizer_free(made);
        return status;
    }
    *out = made;
    return COP_OK;
}
