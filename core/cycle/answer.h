/* The answer to one request, as its reader sees it: tokens, text and log-probabilities, all cut
 * at the same place, and when to show what.
 *
 * A cycle commits several tokens at once; the answer takes them one by one, as if they had come
 * singly, and stops taking at the first of: a stop token (left out; "stop"), an end token
 * (kept; "eos"), a stop string (text ends before it; "stop"), the last token that the request
 * or the context allows ("length").
 *
 *     tokens   "xx"   "yE"   "N"   "Dz"       stop string "END"
 *     starts   0      2      4     5          text "xxy", tokens "xx" "yE"
 *
 * Text is what decoding the tokens gives (struct cop_decoder says what waits for more tokens).
 * Control tokens have no text. At a stop string the tokens end with the last one
 * that has a byte of the text that stays; that may reach back into earlier cycles. Nothing that
 * was shown is ever taken back. */
#ifndef COP_CYCLE_ANSWER_H
#define COP_CYCLE_ANSWER_H

#include "core/cycle/engine.h"
#include "core/cycle/stops.h"

struct cop_answer {
    const struct cop_request *request;     /* lent */
    const struct cop_tokenizer *tokenizer; /* lent; NULL: the model has no text */
    int32_t limit;                         /* tokens at most */
    int32_t n_tokens;
    cop_token *tokens;            /* all arrays: [limit] */
    int32_t *depths;              /* drafted depth, 0: drawn from the target */
    size_t *starts;               /* place of the token's first byte in the text, counted
                                     with what was taken off its beginning */
    bool *is_silent;              /* the token has no text */
    struct cop_logprob *logprobs; /* NULL: not asked for */
    struct cop_text text;
    struct cop_decoder decoder;
    struct cop_stops stops;
    size_t n_shown_bytes;
    int32_t n_shown_tokens;
    enum cop_finish finish;
};

/* The tokens of one cycle: token k was drawn from the row of nodes[k]. */
struct cop_taken {
    const cop_token *tokens;
    const int32_t *nodes;
    int32_t n_accepted; /* the first ones came from the draft, at depths 1, 2, … */
    struct cop_rows target;
};

/* Ready for a request whose prompt leaves room for `limit` >= 1 tokens. */
enum cop_status cop_answer_init(struct cop_answer *answer, const struct cop_request *request,
                                const struct cop_tokenizer *tokenizer, int32_t limit,
                                struct cop_error *err);
void cop_answer_release(struct cop_answer *answer);

/* Takes n_accepted + 1 tokens until the answer ends; answer->finish then says why. */
enum cop_status cop_answer_take(struct cop_answer *answer, const struct cop_taken *taken,
                                struct cop_error *err);

/* Hands the reader (request->on_text) what may be shown now. A reader that refuses ends the
 * answer where it stands: "cancelled", text and tokens as far as they were shown. */
void cop_answer_show(struct cop_answer *answer);

/* Ends an answer from outside; text that was held back becomes part of it and is shown. */
enum cop_status cop_answer_finish(struct cop_answer *answer, enum cop_finish finish,
                                  struct cop_error *err);

/* Whether `token`, as the answer's token number `index` (from 0), may not be drawn: an end
 * token in an answer that must still go on. */
bool cop_answer_must_go_on(const struct cop_answer *answer, int32_t index);

/* The tokens that end an answer; *count may be 0. */
const cop_token *cop_answer_ends(const struct cop_answer *answer, size_t *count);

/* Moves tokens, text and log-probabilities into a result. */
void cop_answer_move(struct cop_answer *answer, struct cop_result *result);

#endif
