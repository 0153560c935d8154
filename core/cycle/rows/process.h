/* Processors: what happens to a row of logits before a token is chosen from it, in one order.
 *
 *     repetition_penalty   z < 0 ? z * r : z / r for each distinct token of the prefix
 *     presence_penalty     z - f for each token of the answer so far (f rounded to f32)
 *     frequency_penalty    z - f * (how often the answer so far has the token)
 *     logit_bias           z + bias
 *     banned               -inf
 *     min_tokens           -inf for tokens that end an answer, while it is too short
 *     processor            a script's function changes logits in place
 *     temperature          z / T; 0: all mass on the best token, ties to the lowest id
 *     top_k                keeps z >= the k-th largest: all ties with it stay
 *     top_p                keeps the shortest prefix, best first, whose mass reaches p
 *     min_p                drops probability < min_p * the largest
 *
 * What comes before temperature changes logits, and log-probabilities and "raw logits" are read
 * after it; the rest truncates. The prefix of a node is the prompt, what was committed, and the
 * path from the root to the node, the node included: nothing is counted from cycle to cycle, so
 * what was drafted and rejected leaves no trace. "The prefix" is prompt and answer, "the
 * answer" what was generated: OpenAI's two penalties count that alone.
 *
 * All of this shapes target rows. The rows of draft models see the same but the script's
 * function, which may be slow: a draft that guesses badly costs time and changes no answer. */
#ifndef COP_CYCLE_PROCESS_H
#define COP_CYCLE_PROCESS_H

#include "core/cycle/rows/row.h"

/* In the documented order. */
enum cop_step {
    COP_STEP_REPETITION_PENALTY,
    COP_STEP_PRESENCE_PENALTY,
    COP_STEP_FREQUENCY_PENALTY,
    COP_STEP_LOGIT_BIAS,
    COP_STEP_BANNED,
    COP_STEP_MIN_TOKENS,
    COP_STEP_PROCESSOR,
    COP_STEP_TEMPERATURE,
    COP_STEP_TOP_K,
    COP_STEP_TOP_P,
    COP_STEP_MIN_P,
    COP_STEP_COUNT
};
#define COP_STEP_FIRST_SHAPING COP_STEP_TEMPERATURE

/* What a step looks at besides the logits. */
enum { COP_NEEDS_PROMPT = 1, COP_NEEDS_ANSWER = 2 };

struct cop_step_info {
    const char *name;
    int needs;
    const char *help;
};
extern const struct cop_step_info cop_steps[COP_STEP_COUNT];

struct cop_bias {
    cop_token id;
    double bias; /* finite, or -inf: never */
};

/* The settings of what changes logits. Zeroed: everything is off. Arrays are lent. */
struct cop_processing {
    double repetition_penalty; /* above 0; 0, 1: off */
    double presence_penalty, frequency_penalty;
    const struct cop_bias *bias; /* [n_bias] each id at most once */
    int32_t n_bias;
    const cop_token *banned; /* [n_banned] */
    int32_t n_banned;
    /* optional: changes logits[0..vocab) of the row that follows prefix[0..n_prefix) */
    enum cop_status (*process)(void *user, const cop_token *prefix, int32_t n_prefix,
                               float *logits, int32_t vocab, struct cop_error *err);
    void *user;
};

/* Ranges, and ids inside the vocabulary. */
enum cop_status cop_processing_check(const struct cop_processing *how, int32_t vocab,
                                     struct cop_error *err);
/* Whether a step but min_tokens is on; which COP_NEEDS_… its steps have. */
bool cop_processing_is_on(const struct cop_processing *how);
int cop_processing_needs(const struct cop_processing *how);

/* A row in one of two number formats. The engine's rows are f32; each step computes in double
 * and rounds what it wrote. */
struct cop_logits {
    float *f32; /* [vocab], or NULL */
    double *f64;
    int32_t vocab;
};

/* One node's row and what its steps may look at. */
struct cop_process {
    const struct cop_processing *how;
    struct cop_logits logits;
    const cop_token *prefix; /* [n_prefix]: prompt first; NULL where no step needs it */
    int32_t n_prefix, n_prompt;
    const cop_token *ends; /* [n_ends] may not be chosen */
    size_t n_ends;
    struct cop_row_arena *arena; /* lent: counters */
};

/* One step that changes logits: it comes before COP_STEP_FIRST_SHAPING. */
enum cop_status cop_process_step(struct cop_process *process, enum cop_step step,
                                 struct cop_error *err);
/* All of them in order. COP_ERR_NUMERIC where they leave no token ("no token left"). */
enum cop_status cop_process_apply(struct cop_process *process, struct cop_error *err);

/* ---- In double, in any order (process_exact.c) ------------------------------------------ */

/* One shaping step on double logits: what it drops becomes -inf. Every step sees logits as the
 * steps before it left them. COP_ERR_NUMERIC for rows that are no law. */
enum cop_status cop_exact_step(double *logits, int32_t vocab, enum cop_step step,
                               const struct cop_sampling *sampling, struct cop_error *err);
/* The soft-max of double logits. */
enum cop_status cop_exact_probabilities(const double *logits, int32_t vocab, double *out,
                                        struct cop_error *err);

#endif
