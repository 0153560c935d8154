/* Taking committed tokens one by one, cutting, and showing: see the header for the rules. */
#include "core/cycle/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *cop_finish_name(enum cop_finish finish)
{
    switch (finish) {
    case COP_FINISH_NONE: return "none";
    case COP_FINISH_STOP: return "stop";
    case COP_FINISH_LENGTH: return "length";
    case COP_FINISH_EOS: return "eos";
    case COP_FINISH_CANCELLED: return "cancelled";
    case COP_FINISH_ERROR: return "error";
    }
    return "unknown";
}

enum cop_status cop_answer_init(struct cop_answer *answer, const struct cop_request *request,
                                const struct cop_tokenizer *tokenizer, int32_t limit,
                                struct cop_error *err)
{
    *answer = (struct cop_answer){.request = request, .tokenizer = tokenizer, .limit = limit};
    cop_decoder_init(&answer->decoder, tokenizer, false);
    enum cop_status status = cop_stops_init(&answer->stops, request->stop,
                                            request->stop_lengths, request->n_stop, err);
    if (status != COP_OK) {
        return status;
    }
    size_t room = (size_t)limit;
    answer->tokens = malloc(room * sizeof *answer->tokens);
    answer->depths = malloc(room * sizeof *answer->depths);
    answer->starts = malloc(room * sizeof *answer->starts);
    answer->is_silent = malloc(room * sizeof *answer->is_silent);
    bool has_logprobs = request->logprobs >= 0;
    if (has_logprobs) {
        answer->logprobs = calloc(room, sizeof *answer->logprobs);
    }
    if (!answer->tokens || !answer->depths || !answer->starts || !answer->is_silent ||
        (has_logprobs && !answer->logprobs)) {
        cop_answer_release(answer);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an answer of %d tokens", limit);
    }
    return COP_OK;
}

static void logprobs_release(struct cop_logprob *logprobs, int32_t first, int32_t end)
{
    for (int32_t i = first; logprobs && i < end; i++) {
        free(logprobs[i].top_logprobs); /* `top` lies in the same block */
        logprobs[i] = (struct cop_logprob){0};
    }
}

void cop_answer_release(struct cop_answer *answer)
{
    logprobs_release(answer->logprobs, 0, answer->n_tokens);
    free(answer->logprobs);
    free(answer->tokens);
    free(answer->depths);
    free(answer->starts);
    free(answer->is_silent);
    cop_text_release(&answer->text);
    cop_decoder_release(&answer->decoder);
    cop_stops_release(&answer->stops);
    *answer = (struct cop_answer){0};
}

const cop_token *cop_answer_ends(const struct cop_answer *answer, size_t *count)
{
    *count = 0;
    if (!answer->tokenizer || answer->request->ignore_eos) {
        return NULL;
    }
    return cop_tokenizer_eos(answer->tokenizer, count);
}

static bool is_end(const struct cop_answer *answer, cop_token token)
{
    size_t count = 0;
    const cop_token *ends = cop_answer_ends(answer, &count);
    for (size_t i = 0; i < count; i++) {
        if (ends[i] == token) {
            return true;
        }
    }
    return false;
}

static bool is_stop_token(const struct cop_answer *answer, cop_token token)
{
    for (int32_t i = 0; i < answer->request->n_stop_tokens; i++) {
        if (answer->request->stop_tokens[i] == token) {
            return true;
        }
    }
    return false;
}

bool cop_answer_must_go_on(const struct cop_answer *answer, int32_t index)
{
    return index < answer->request->min_tokens;
}

/* ---- Log-probabilities ------------------------------------------------------------------ */

/* The n largest logits above -inf into top[0..), best first, ties to the lowest id. */
static int32_t best_logits(const float *logits, int32_t vocab, int32_t n, cop_token *top)
{
    int32_t count = 0;
    for (int32_t i = 0; i < vocab; i++) {
        float logit = logits[i];
        if (logit == -INFINITY || (count == n && logit <= logits[top[n - 1]])) {
            continue;
        }
        int32_t at = count < n ? count++ : n - 1;
        for (; at > 0 && logit > logits[top[at - 1]]; at--) {
            top[at] = top[at - 1];
        }
        top[at] = i;
    }
    return count;
}

static enum cop_status fill_logprob(struct cop_logprob *out, cop_token token,
                                    const struct cop_row *row, int32_t n_top,
                                    struct cop_error *err)
{
    double total = cop_row_logsumexp(row);
    *out = (struct cop_logprob){.id = token, .logprob = (double)row->logits[token] - total};
    if (n_top == 0) {
        return COP_OK;
    }
    out->top_logprobs = malloc((size_t)n_top * (sizeof *out->top_logprobs + sizeof *out->top));
    if (!out->top_logprobs) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for log-probabilities");
    }
    out->top = (cop_token *)(void *)(out->top_logprobs + n_top);
    out->n_top = best_logits(row->logits, row->vocab, n_top, out->top);
    for (int32_t i = 0; i < out->n_top; i++) {
        out->top_logprobs[i] = (double)row->logits[out->top[i]] - total;
    }
    return COP_OK;
}

/* ---- Taking ----------------------------------------------------------------------------- */

/* How many tokens have a byte of text[0..cut), counted to the last one that has. */
static int32_t tokens_before(const struct cop_answer *answer, size_t cut)
{
    int32_t n = cut > 0 ? answer->n_tokens : 0;
    size_t end = cut + (n > 0 ? cop_decoder_stripped(&answer->decoder) : 0);
    while (n > 0 && (answer->is_silent[n - 1] || answer->starts[n - 1] >= end)) {
        n--;
    }
    return n;
}

static void cut_answer(struct cop_answer *answer, size_t bytes, int32_t n_tokens)
{
    logprobs_release(answer->logprobs, n_tokens, answer->n_tokens);
    answer->n_tokens = n_tokens;
    cop_decoder_release(&answer->decoder);
    cop_decoder_init(&answer->decoder, answer->tokenizer, false);
    if (bytes < answer->text.length) {
        answer->text.length = bytes;
        answer->text.bytes[bytes] = '\0';
    }
}

/* The byte pieces of a run were counted as one byte each; those that were replaced have three.
 */
static void move_replaced(struct cop_answer *answer, size_t n_replaced, int32_t end)
{
    for (int32_t i = end - 1; n_replaced > 0; i--) {
        n_replaced -= !answer->is_silent[i];
        answer->starts[i] += 2 * n_replaced;
    }
}

/* Looks for stops in text[before..), as far as they may count; ends the answer at the first. */
static void find_stop(struct cop_answer *answer, size_t before)
{
    int32_t min_tokens = answer->request->min_tokens;
    size_t end = 0, length = 0, stripped = cop_decoder_stripped(&answer->decoder);
    if (answer->n_tokens <= min_tokens) {
        return;
    }
    if (min_tokens > 0 && answer->starts[min_tokens] > before + stripped) {
        before = answer->starts[min_tokens] - stripped;
    }
    if (before < answer->text.length &&
        cop_stops_read(&answer->stops, answer->text.bytes + before,
                       answer->text.length - before, &end, &length)) {
        size_t cut = before + end - length;
        cut_answer(answer, cut, tokens_before(answer, cut));
        answer->finish = COP_FINISH_STOP;
    }
}

/* Appends the text of the last token. */
static enum cop_status take_text(struct cop_answer *answer, cop_token token,
                                 struct cop_error *err)
{
    size_t before = answer->text.length;
    int32_t index = answer->n_tokens - 1;
    if (!answer->tokenizer ||
        cop_tokenizer_kind(answer->tokenizer, token) == COP_PIECE_CONTROL ||
        cop_tokenizer_piece(answer->tokenizer, token).length == 0) {
        return COP_OK;
    }
    answer->is_silent[index] = false;
    enum cop_status status = cop_decoder_push(&answer->decoder, token, &answer->text, err);
    if (status == COP_OK) {
        answer->starts[index] += 2 * answer->decoder.n_replaced;
        move_replaced(answer, answer->decoder.n_replaced, index);
        find_stop(answer, before);
    }
    return status;
}

/* Appends what was held back; a stop in it counts. */
static enum cop_status end_text(struct cop_answer *answer, struct cop_error *err)
{
    size_t before = answer->text.length;
    if (!answer->tokenizer) {
        return COP_OK;
    }
    enum cop_status status = cop_decoder_flush(&answer->decoder, &answer->text, err);
    if (status == COP_OK) {
        move_replaced(answer, answer->decoder.n_replaced, answer->n_tokens);
        find_stop(answer, before);
    }
    return status;
}

static enum cop_status take_token(struct cop_answer *answer, const struct cop_taken *taken,
                                  int32_t k, struct cop_error *err)
{
    cop_token token = taken->tokens[k];
    int32_t index = answer->n_tokens;
    bool may_end = !cop_answer_must_go_on(answer, index);
    if (may_end && is_stop_token(answer, token)) {
        answer->finish = COP_FINISH_STOP;
        return COP_OK;
    }
    if (answer->logprobs) {
        const struct cop_row *row = cop_rows_at(&taken->target, taken->nodes[k]);
        enum cop_status status =
            fill_logprob(&answer->logprobs[index], token, row, answer->request->logprobs, err);
        if (status != COP_OK) {
            return status;
        }
    }
    answer->tokens[index] = token;
    answer->depths[index] = k < taken->n_accepted ? k + 1 : 0;
    answer->starts[index] =
        answer->tokenizer ? cop_decoder_place(&answer->decoder, token, &answer->text) : 0;
    answer->is_silent[index] = true;
    answer->n_tokens++;
    enum cop_status status = take_text(answer, token, err);
    if (status == COP_OK && answer->finish == COP_FINISH_NONE) {
        answer->finish = may_end && is_end(answer, token)    ? COP_FINISH_EOS
                         : answer->n_tokens == answer->limit ? COP_FINISH_LENGTH
                                                             : COP_FINISH_NONE;
    }
    return status;
}

enum cop_status cop_answer_take(struct cop_answer *answer, const struct cop_taken *taken,
                                struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t k = 0; k <= taken->n_accepted && status == COP_OK; k++) {
        if (answer->finish != COP_FINISH_NONE) {
            break;
        }
        status = take_token(answer, taken, k, err);
    }
    return status == COP_OK && answer->finish != COP_FINISH_NONE ? end_text(answer, err)
                                                                 : status;
}

enum cop_status cop_answer_finish(struct cop_answer *answer, enum cop_finish finish,
                                  struct cop_error *err)
{
    if (answer->finish != COP_FINISH_NONE) {
        return COP_OK;
    }
    answer->finish = finish;
    enum cop_status status = end_text(answer, err);
    cop_answer_show(answer);
    return status;
}

/* ---- Showing ---------------------------------------------------------------------------- */

void cop_answer_show(struct cop_answer *answer)
{
    const struct cop_request *request = answer->request;
    bool is_over = answer->finish != COP_FINISH_NONE;
    size_t bytes = answer->text.length - (is_over ? 0 : cop_stops_held(&answer->stops));
    int32_t tokens =
        is_over || !answer->tokenizer ? answer->n_tokens : tokens_before(answer, bytes);
    size_t new_bytes = bytes - answer->n_shown_bytes;
    int32_t first = answer->n_shown_tokens;
    bool has_news = new_bytes > 0 || ((is_over || !answer->tokenizer) && tokens > first);
    if (!request->on_text || !has_news) {
        return;
    }
    answer->n_shown_bytes = bytes;
    answer->n_shown_tokens = tokens;
    const char *text = new_bytes > 0 ? answer->text.bytes + bytes - new_bytes : "";
    bool goes_on =
        request->on_text(request->user, request->id, text, new_bytes, answer->tokens + first,
                         answer->depths + first, tokens - first);
    if (!goes_on && !is_over) {
        cut_answer(answer, bytes, tokens);
        answer->finish = COP_FINISH_CANCELLED;
    }
}

void cop_answer_move(struct cop_answer *answer, struct cop_result *result)
{
    result->tokens = answer->tokens;
    result->n_tokens = answer->n_tokens;
    result->text = answer->text;
    result->logprobs = answer->logprobs;
    result->finish = answer->finish;
    answer->tokens = NULL;
    answer->logprobs = NULL;
    answer->text = (struct cop_text){0};
}
