/* Running the steps: each reads one of two buffers and fills the other. */
#include "core/text/split/normalize.h"
#include "core/base/utf8.h"

#include <string.h>

void cop_normalizer_release(struct cop_normalizer *normalizer)
{
    for (size_t i = 0; i < COP_NORMALIZE_STEPS; i++) {
        cop_regex_free(normalizer->steps[i].regex);
        cop_text_release(&normalizer->steps[i].from);
        cop_text_release(&normalizer->steps[i].to);
    }
    memset(normalizer, 0, sizeof *normalizer);
}

void cop_normalize_work_release(struct cop_normalize_work *work)
{
    cop_text_release(&work->texts[0]);
    cop_text_release(&work->texts[1]);
    cop_regex_work_release(&work->regex);
}

/* A file may replace one character by many, step after step. */
static enum cop_status check_length(const struct cop_text *out, struct cop_error *err)
{
    return out->length <= COP_LONGEST_TEXT
               ? COP_OK
               : cop_fail(err, COP_ERR_LIMIT,
                          "the tokenizer's normaliser makes a text longer than %zu bytes, the "
                          "most that is encoded at once; encode it in parts",
                          COP_LONGEST_TEXT);
}

enum cop_status cop_replace(struct cop_string text, struct cop_string from,
                            struct cop_string to, struct cop_text *out, struct cop_error *err)
{
    const char *at = text.bytes;
    const char *end = text.bytes + text.length;
    enum cop_status status = COP_OK;
    while (status == COP_OK && at < end) {
        const char *found = memmem(at, (size_t)(end - at), from.bytes, from.length);
        status = cop_text_append(out, at, (size_t)((found ? found : end) - at), err);
        if (status == COP_OK && found) {
            status = cop_text_append(out, to.bytes, to.length, err);
        }
        status = status == COP_OK ? check_length(out, err) : status;
        at = found ? found + from.length : end;
    }
    return status;
}

static enum cop_status replace_matches(const struct cop_normalize_step *step,
                                       struct cop_string text, struct cop_regex_work *work,
                                       struct cop_text *out, struct cop_error *err)
{
    struct cop_regex_scan scan = {0};
    struct cop_span span;
    size_t copied = 0;
    for (;;) {
        bool is_found;
        enum cop_status status = cop_regex_next(step->regex, work, text.bytes, text.length,
                                                &scan, &span, &is_found, err);
        size_t until = is_found ? span.start : text.length;
        if (status == COP_OK) {
            status = cop_text_append(out, text.bytes + copied, until - copied, err);
        }
        if (status == COP_OK && is_found) {
            status = cop_text_append(out, step->to.bytes, step->to.length, err);
        }
        status = status == COP_OK ? check_length(out, err) : status;
        if (status != COP_OK || !is_found) {
            return status;
        }
        copied = span.end;
    }
}

static enum cop_status unmark(struct cop_string text, struct cop_text *out,
                              struct cop_error *err)
{
    enum cop_status status = COP_OK;
    size_t used;
    for (size_t at = 0; status == COP_OK && at < text.length; at += used) {
        (void)cop_utf8_next(text.bytes + at, text.length - at, &used);
        if (!cop_is_mark(cop_utf8_read(text.bytes + at, used))) {
            status = cop_text_append(out, text.bytes + at, used, err);
        }
    }
    return status;
}

static struct cop_string stripped(struct cop_string text, bool left, bool right)
{
    size_t first = text.length, last = 0, used;
    for (size_t at = 0; at < text.length; at += used) {
        (void)cop_utf8_next(text.bytes + at, text.length - at, &used);
        if (!cop_is_white(cop_utf8_read(text.bytes + at, used))) {
            first = at < first ? at : first;
            last = at + used;
        }
    }
    first = left ? first : 0;
    last = right ? last : text.length;
    return (struct cop_string){text.bytes + first, last > first ? last - first : 0};
}

static enum cop_status run(const struct cop_normalize_step *step, struct cop_string text,
                           struct cop_regex_work *work, struct cop_text *out,
                           struct cop_error *err)
{
    struct cop_string from = {step->from.bytes, step->from.length};
    struct cop_string to = {step->to.bytes, step->to.length};
    enum cop_status status;
    switch (step->kind) {
    case COP_NORMALIZE_FORM:
        return cop_unicode_form(step->form, text.bytes, text.length, out, err);
    case COP_NORMALIZE_LOWER: return cop_unicode_lower(text.bytes, text.length, out, err);
    case COP_NORMALIZE_UNMARK: return unmark(text, out, err);
    case COP_NORMALIZE_STRIP:
        text = stripped(text, step->left, step->right);
        return cop_text_append(out, text.bytes, text.length, err);
    case COP_NORMALIZE_PREPEND:
        status = cop_text_append(out, to.bytes, to.length, err);
        return status == COP_OK ? cop_text_append(out, text.bytes, text.length, err) : status;
    case COP_NORMALIZE_REPLACE:
    default:
        return step->regex ? replace_matches(step, text, work, out, err)
                           : cop_replace(text, from, to, out, err);
    }
}

enum cop_status cop_normalize(const struct cop_normalizer *normalizer, struct cop_string text,
                              struct cop_normalize_work *work, struct cop_string *out,
                              struct cop_error *err)
{
    *out = text;
    for (size_t i = 0; i < normalizer->n_steps && out->length > 0; i++) {
        struct cop_text *filled = &work->texts[i % 2];
        filled->length = 0;
        enum cop_status status = run(&normalizer->steps[i], *out, &work->regex, filled, err);
        if (status != COP_OK) {
            return status;
        }
        *out = (struct cop_string){filled->bytes, filled->length};
    }
    return COP_OK;
}
