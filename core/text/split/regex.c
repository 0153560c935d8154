/* Compiling and searching. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/split/regex.h"

#include "core/base/utf8.h"
#include <pcre2.h>
#include <stdlib.h>

/* Steps that one search may take: enough for any sane expression, a tenth of a second for the
 * others. */
#define STEPS        5000000u
#define STEPS_A_BYTE 64u

#define LONGEST_PATTERN 20000

struct cop_regex {
    pcre2_code *code;
    enum cop_regex_origin origin;
};

/* ---- Compiling -------------------------------------------------------------------------- */

static enum cop_status compile_failed(int code, size_t offset, struct cop_error *err)
{
    char message[128];
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
    return cop_fail(err, code == PCRE2_ERROR_NOMEMORY ? COP_ERR_MEMORY : COP_ERR_FORMAT,
                    "the regular expression cannot be read (near its byte %zu): %s", offset,
                    message);
}

static enum cop_status compile(struct cop_regex *regex, const char *pattern, size_t length,
                               uint32_t options, struct cop_error *err)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a regular expression");
    }
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    options |= PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, length, options, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        return compile_failed(code, offset, err);
    }
    /* Without just-in-time compilation the interpreter does the same, slower. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return COP_OK;
}

static enum cop_status compile_foreign(struct cop_regex *regex, const char *pattern,
                                       size_t length, struct cop_error *err)
{
    if (length > LONGEST_PATTERN) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "the regular expression has %zu bytes, more than %d", length,
                        LONGEST_PATTERN);
    }
    struct cop_text ours = {0};
    enum cop_status status = cop_regex_translate(pattern, length, &ours, err);
    if (status == COP_OK) {
        status = compile(regex, ours.bytes, ours.length, PCRE2_MULTILINE, err);
    }
    cop_text_release(&ours);
    return status;
}

enum cop_status cop_regex_new(struct cop_regex **out, const char *pattern, size_t length,
                              enum cop_regex_origin origin, struct cop_error *err)
{
    *out = NULL;
    struct cop_regex *regex = calloc(1, sizeof *regex);
    if (!regex) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a regular expression");
    }
    regex->origin = origin;
    enum cop_status status = origin == COP_REGEX_FOREIGN
                                 ? compile_foreign(regex, pattern, length, err)
                                 : compile(regex, pattern, length, 0, err);
    if (status != COP_OK) {
        cop_regex_free(regex);
        return status;
    }
    *out = regex;
    return COP_OK;
}

void cop_regex_free(struct cop_regex *regex)
{
    if (regex) {
        pcre2_code_free(regex->code);
        free(regex);
    }
}

/* ---- Searching -------------------------------------------------------------------------- */

void cop_regex_work_release(struct cop_regex_work *work)
{
    pcre2_match_data_free(work->match);
    pcre2_match_context_free(work->limits);
    *work = (struct cop_regex_work){NULL, NULL};
}

static bool prepare(struct cop_regex_work *work)
{
    work->match = work->match ? work->match : pcre2_match_data_create(1, NULL);
    work->limits = work->limits ? work->limits : pcre2_match_context_create(NULL);
    return work->match && work->limits;
}

/* The count of steps grows with a run's length; it must not end a long one. */
static uint32_t most_steps(const struct cop_regex *regex, size_t length)
{
    size_t most = (UINT32_MAX - STEPS) / STEPS_A_BYTE;
    return regex->origin == COP_REGEX_OURS || length > most
               ? UINT32_MAX
               : STEPS + STEPS_A_BYTE * (uint32_t)length;
}

/* The first match that begins at or after `from`. */
static enum cop_status search(const struct cop_regex *regex, struct cop_regex_work *work,
                              const char *text, size_t length, size_t from,
                              struct cop_span *span, bool *is_found, struct cop_error *err)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int found =
        pcre2_match(regex->code, subject, length, from, options, work->match, work->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(regex->code, subject, length, from, options | PCRE2_NO_JIT,
                            work->match, work->limits);
    }
    /* 0: more groups than places, of which only the first is wanted. */
    *is_found = found >= 0;
    if (found >= 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(work->match);
        *span = (struct cop_span){ends[0], ends[1]};
    } else if (found != PCRE2_ERROR_NOMATCH) {
        char message[128];
        (void)pcre2_get_error_message(found, (PCRE2_UCHAR *)message, sizeof message);
        return cop_fail(err, found == PCRE2_ERROR_NOMEMORY ? COP_ERR_MEMORY : COP_ERR_LIMIT,
                        "a regular expression of the tokenizer failed: %s", message);
    }
    return COP_OK;
}

enum cop_status cop_regex_next(const struct cop_regex *regex, struct cop_regex_work *work,
                               const char *text, size_t length, struct cop_regex_scan *scan,
                               struct cop_span *span, bool *is_found, struct cop_error *err)
{
    *is_found = false;
    if (!prepare(work)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a regular expression");
    }
    (void)pcre2_set_match_limit(work->limits, most_steps(regex, length));
    while (scan->at <= length) {
        enum cop_status status =
            search(regex, work, text, length, scan->at, span, is_found, err);
        if (status != COP_OK || !*is_found) {
            return status;
        }
        if (span->start < scan->at || span->end < span->start) {
            return cop_fail(err, COP_ERR_LIMIT,
                            "a regular expression of the tokenizer matched backwards");
        }
        bool is_empty = span->start == span->end;
        if (!is_empty || !scan->has_last || span->end != scan->last_end) {
            scan->has_last = true;
            scan->last_end = scan->at = span->end;
            return COP_OK;
        }
        /* An empty match where the last one ended: go on behind the next character. */
        *is_found = false;
        size_t used = 1;
        if (span->end < length) {
            (void)cop_utf8_next(text + span->end, length - span->end, &used);
        }
        scan->at = span->end + used;
    }
    return COP_OK;
}
