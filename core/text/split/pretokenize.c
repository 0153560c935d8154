/* Cutting: each step hands its parts to the next as soon as it has them, so that nothing but
 * the text is kept. As deep as there are steps. */
#include "core/text/split/pretokenize.h"

#include "core/text/split/normalize.h"
#include <stdlib.h>
#include <string.h>

/* ---- Steps ------------------------------------------------------------------------------ */

void cop_cut_step_release(struct cop_cut_step *step)
{
    cop_regex_free(step->regex);
    cop_text_release(&step->from);
    cop_text_release(&step->to);
    memset(step, 0, sizeof *step);
}

struct cop_pretokenizer *cop_pretokenizer_empty(void)
{
    return calloc(1, sizeof(struct cop_pretokenizer));
}

void cop_pretokenizer_free(struct cop_pretokenizer *pretokenizer)
{
    for (size_t i = 0; pretokenizer && i < pretokenizer->n_steps; i++) {
        cop_cut_step_release(&pretokenizer->steps[i]);
    }
    free(pretokenizer);
}

enum cop_status cop_pretokenizer_add(struct cop_pretokenizer *pretokenizer,
                                     struct cop_cut_step step, struct cop_error *err)
{
    if (pretokenizer->n_steps == COP_CUT_STEPS) {
        cop_cut_step_release(&step);
        return cop_fail(err, COP_ERR_LIMIT, "more than %d steps", COP_CUT_STEPS);
    }
    pretokenizer->steps[pretokenizer->n_steps++] = step;
    return COP_OK;
}

/* ---- Cutting ---------------------------------------------------------------------------- */

struct cut {
    const struct cop_pretokenizer *pretokenizer;
    struct {
        struct cop_regex_work regex;
        struct cop_text text; /* what a step has made of its part */
    } work[COP_CUT_STEPS];
    cop_pretoken_take take;
    void *context;
    struct cop_error *err;
};

struct part {
    const char *text;
    size_t length;
    bool at_start; /* begins where the whole text does */
};

static enum cop_status cut_part(struct cut *cut, size_t step, struct part part);

/* One step's way through its part: matches and what lies between them arrive in order, as
 * spans that may be empty; `pending` may still grow. */
struct splitter {
    struct cut *cut;
    size_t step;
    struct part part;
    struct cop_span pending;
    bool has_pending, is_match; /* is_match: of the span that arrived last */
};

static enum cop_status give(const struct splitter *splitter, struct cop_span span)
{
    const struct part *whole = &splitter->part;
    struct part part = {whole->text + span.start, span.end - span.start,
                        whole->at_start && span.start == 0};
    return cut_part(splitter->cut, splitter->step + 1, part);
}

/* Whether a span becomes part of the pending one. */
static bool joins(enum cop_split split, bool last_is_match, bool is_match)
{
    return (split == COP_SPLIT_CONTIGUOUS && last_is_match == is_match) ||
           (split == COP_SPLIT_WITH_PREVIOUS && !last_is_match && is_match) ||
           (split == COP_SPLIT_WITH_NEXT && last_is_match && !is_match);
}

static enum cop_status arrive(struct splitter *splitter, size_t start, size_t end,
                              bool is_match)
{
    const struct cop_cut_step *step = &splitter->cut->pretokenizer->steps[splitter->step];
    struct cop_span span = {start, end};
    is_match = is_match != step->is_inverted;
    if (step->split == COP_SPLIT_ISOLATED) {
        return give(splitter, span);
    }
    if (step->split == COP_SPLIT_REMOVED) {
        return is_match ? COP_OK : give(splitter, span);
    }
    enum cop_status status = COP_OK;
    if (splitter->has_pending && joins(step->split, splitter->is_match, is_match)) {
        splitter->pending.end = end;
    } else {
        status = splitter->has_pending ? give(splitter, splitter->pending) : COP_OK;
        splitter->pending = span;
        splitter->has_pending = true;
    }
    splitter->is_match = is_match;
    return status;
}

/* The next place where the step matches. */
static enum cop_status find(struct splitter *splitter, struct cop_regex_scan *scan,
                            struct cop_span *span, bool *is_found)
{
    struct cut *cut = splitter->cut;
    const struct cop_cut_step *step = &cut->pretokenizer->steps[splitter->step];
    const struct part *part = &splitter->part;
    if (step->regex) {
        return cop_regex_next(step->regex, &cut->work[splitter->step].regex, part->text,
                              part->length, scan, span, is_found, cut->err);
    }
    const char *found = memmem(part->text + scan->at, part->length - scan->at, step->from.bytes,
                               step->from.length);
    *is_found = found != NULL;
    if (found) {
        span->start = (size_t)(found - part->text);
        span->end = scan->at = span->start + step->from.length;
    }
    return COP_OK;
}

static enum cop_status split(struct cut *cut, size_t step, struct part part)
{
    struct splitter splitter = {.cut = cut, .step = step, .part = part};
    struct cop_regex_scan scan = {0};
    size_t done = 0;
    bool is_found = true;
    while (is_found) {
        struct cop_span span = {0, 0};
        enum cop_status status = find(&splitter, &scan, &span, &is_found);
        size_t until = is_found ? span.start : part.length;
        if (status == COP_OK && done < until) {
            status = arrive(&splitter, done, until, false);
        }
        if (status == COP_OK && is_found) {
            status = arrive(&splitter, span.start, span.end, true);
        }
        if (status != COP_OK) {
            return status;
        }
        done = span.end;
    }
    return splitter.has_pending ? give(&splitter, splitter.pending) : COP_OK;
}

/* The part as the step changes it, in the step's own buffer. */
static enum cop_status change(struct cut *cut, size_t step, struct part part)
{
    const struct cop_cut_step *how = &cut->pretokenizer->steps[step];
    struct cop_text *text = &cut->work[step].text;
    struct cop_string to = {how->to.bytes, how->to.length};
    enum cop_status status;
    text->length = 0;
    if (how->kind == COP_CUT_REPLACE) {
        struct cop_string from = {how->from.bytes, how->from.length};
        status =
            cop_replace((struct cop_string){part.text, part.length}, from, to, text, cut->err);
    } else {
        status = cop_text_append(text, to.bytes, to.length, cut->err);
        if (status == COP_OK) {
            status = cop_text_append(text, part.text, part.length, cut->err);
        }
    }
    struct part changed = {text->bytes, text->length, part.at_start};
    return status == COP_OK ? cut_part(cut, step + 1, changed) : status;
}

static enum cop_status cut_part(struct cut *cut, size_t step, struct part part)
{
    if (part.length == 0) {
        return COP_OK;
    }
    if (step == cut->pretokenizer->n_steps) {
        return cut->take(cut->context, part.text, part.length, cut->err);
    }
    const struct cop_cut_step *how = &cut->pretokenizer->steps[step];
    if (how->kind == COP_CUT_SPLIT) {
        return split(cut, step, part);
    }
    bool has_prefix =
        part.length >= how->to.length && memcmp(part.text, how->to.bytes, how->to.length) == 0;
    if (how->kind == COP_CUT_PREFIX && (has_prefix || (how->first_only && !part.at_start))) {
        return cut_part(cut, step + 1, part);
    }
    return change(cut, step, part);
}

enum cop_status cop_pretokenizer_cut(const struct cop_pretokenizer *pretokenizer,
                                     const char *text, size_t length, bool at_start,
                                     cop_pretoken_take take, void *context,
                                     struct cop_error *err)
{
    struct cut cut = {
        .pretokenizer = pretokenizer, .take = take, .context = context, .err = err};
    enum cop_status status = cut_part(&cut, 0, (struct part){text, length, at_start});
    for (size_t i = 0; i < pretokenizer->n_steps; i++) {
        cop_regex_work_release(&cut.work[i].regex);
        cop_text_release(&cut.work[i].text);
    }
    return status;
}
