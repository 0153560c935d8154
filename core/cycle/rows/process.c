/* The steps that change logits, and the table of all steps: see the header for order and
 * formulas. */
#include "core/cycle/rows/process.h"

#include "core/cycle/rows/arena.h"
#include <float.h>
#include <math.h>
#include <string.h>

const struct cop_step_info cop_steps[COP_STEP_COUNT] = {
    [COP_STEP_REPETITION_PENALTY] = {"repetition_penalty", COP_NEEDS_PROMPT | COP_NEEDS_ANSWER,
                                     "z < 0 ? z * r : z / r for each distinct token of prompt "
                                     "and answer (transformers); 1: off"},
    [COP_STEP_PRESENCE_PENALTY] = {"presence_penalty", COP_NEEDS_ANSWER,
                                   "z - f for each token that the answer has (OpenAI); 0: off"},
    [COP_STEP_FREQUENCY_PENALTY] = {"frequency_penalty", COP_NEEDS_ANSWER,
                                    "z - f * count of the token in the answer (OpenAI); 0: "
                                    "off"},
    [COP_STEP_LOGIT_BIAS] = {"logit_bias", 0, "z + bias, { [id] = bias }; -math.huge: never"},
    [COP_STEP_BANNED] = {"banned", 0, "ids that are never chosen"},
    [COP_STEP_MIN_TOKENS] = {"min_tokens", 0,
                             "no end of the answer before it has that many tokens"},
    [COP_STEP_PROCESSOR] = {"processor", COP_NEEDS_PROMPT | COP_NEEDS_ANSWER,
                            "function(prefix ids, row): changes logits in place"},
    [COP_STEP_TEMPERATURE] = {"temperature", 0, "z / T; 0: the best token"},
    [COP_STEP_TOP_K] = {"top_k", 0, "keeps the k best and all ties with the k-th; 0: off"},
    [COP_STEP_TOP_P] = {"top_p", 0, "keeps the best tokens until their mass reaches p; 1: off"},
    [COP_STEP_MIN_P] = {"min_p", 0, "drops probability < min_p * the largest; 0: off"}};

/* ---- Settings --------------------------------------------------------------------------- */

#define LARGEST_PENALTY 1e6 /* so that no logit leaves f32 by way of a count */
#define LARGEST_BIAS    1e30

static enum cop_status check_penalties(const struct cop_processing *how, struct cop_error *err)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"presence_penalty", how->presence_penalty},
                {"frequency_penalty", how->frequency_penalty}};
    if (!(how->repetition_penalty >= 0 && how->repetition_penalty <= LARGEST_PENALTY)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "repetition_penalty = %g: must be above 0 (1: off) and at most %g",
                        how->repetition_penalty, LARGEST_PENALTY);
    }
    for (int i = 0; i < 2; i++) {
        if (!(fabs(rows[i].value) <= LARGEST_PENALTY)) {
            return cop_fail(err, COP_ERR_ARGUMENT, "%s = %g: must be from %g to %g (0: off)",
                            rows[i].name, rows[i].value, -LARGEST_PENALTY, LARGEST_PENALTY);
        }
    }
    return COP_OK;
}

static enum cop_status check_id(const char *name, cop_token id, int32_t vocab,
                                struct cop_error *err)
{
    return id >= 0 && id < vocab
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "%s: id %d is outside the vocabulary of %d (ids from 0)", name, id,
                          vocab);
}

enum cop_status cop_processing_check(const struct cop_processing *how, int32_t vocab,
                                     struct cop_error *err)
{
    enum cop_status status = check_penalties(how, err);
    for (int32_t i = 0; i < how->n_bias && status == COP_OK; i++) {
        double bias = how->bias[i].bias;
        status = check_id("logit_bias", how->bias[i].id, vocab, err);
        if (status == COP_OK && !(fabs(bias) <= LARGEST_BIAS) && bias != -HUGE_VAL) {
            status = cop_fail(err, COP_ERR_ARGUMENT,
                              "logit_bias of id %d is %g: must be a number up to %g, or "
                              "-math.huge for never",
                              how->bias[i].id, isnan(bias) ? (double)NAN : bias, LARGEST_BIAS);
        }
    }
    for (int32_t i = 0; i < how->n_banned && status == COP_OK; i++) {
        status = check_id("banned", how->banned[i], vocab, err);
    }
    return status;
}

static bool is_on(const struct cop_processing *how, enum cop_step step)
{
    switch (step) {
    case COP_STEP_REPETITION_PENALTY:
        return how->repetition_penalty > 0 && how->repetition_penalty != 1;
    case COP_STEP_PRESENCE_PENALTY: return how->presence_penalty != 0;
    case COP_STEP_FREQUENCY_PENALTY: return how->frequency_penalty != 0;
    case COP_STEP_LOGIT_BIAS: return how->n_bias > 0;
    case COP_STEP_BANNED: return how->n_banned > 0;
    case COP_STEP_PROCESSOR: return how->process != NULL;
    case COP_STEP_MIN_TOKENS: /* the request's, not the engine's */
    case COP_STEP_TEMPERATURE:
    case COP_STEP_TOP_K:
    case COP_STEP_TOP_P:
    case COP_STEP_MIN_P:
    case COP_STEP_COUNT: return false;
    }
    return false;
}

bool cop_processing_is_on(const struct cop_processing *how)
{
    bool any = false;
    for (int step = 0; step < COP_STEP_FIRST_SHAPING; step++) {
        any |= is_on(how, (enum cop_step)step);
    }
    return any;
}

int cop_processing_needs(const struct cop_processing *how)
{
    int needs = 0;
    for (int step = 0; step < COP_STEP_FIRST_SHAPING; step++) {
        needs |= is_on(how, (enum cop_step)step) ? cop_steps[step].needs : 0;
    }
    return needs;
}

/* ---- Logits ----------------------------------------------------------------------------- */

static double get(const struct cop_logits *logits, cop_token token)
{
    return logits->f64 ? logits->f64[token] : (double)logits->f32[token];
}

/* Finite values stay finite in f32. */
static void set(struct cop_logits *logits, cop_token token, double value)
{
    if (logits->f64) {
        logits->f64[token] = value;
    } else if (isfinite(value)) {
        logits->f32[token] = (float)fmin(fmax(value, -(double)FLT_MAX), (double)FLT_MAX);
    } else {
        logits->f32[token] = isnan(value) ? NAN : value > 0 ? INFINITY : -INFINITY;
    }
}

static void ban(struct cop_logits *logits, const cop_token *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] >= 0 && tokens[i] < logits->vocab) {
            set(logits, tokens[i], -HUGE_VAL);
        }
    }
}

/* ---- Penalties -------------------------------------------------------------------------- */

typedef double (*penalty)(const struct cop_processing *how, double logit, int32_t count);

static double repetition(const struct cop_processing *how, double logit, int32_t count)
{
    (void)count;
    return logit < 0 ? logit * how->repetition_penalty : logit / how->repetition_penalty;
}

/* The penalty as an f32 number: reference values multiply it with a mask of f32 ones, which
 * shows from the eighth digit on. */
static double presence(const struct cop_processing *how, double logit, int32_t count)
{
    (void)count;
    return logit - (double)(float)how->presence_penalty;
}

static double frequency(const struct cop_processing *how, double logit, int32_t count)
{
    return logit - how->frequency_penalty * (double)count;
}

/* Once for each distinct token of the prefix from `first` on, with its count there. */
static enum cop_status penalise(struct cop_process *process, int32_t first, penalty change,
                                struct cop_error *err)
{
    int32_t *counts = cop_row_arena_counts(process->arena, process->logits.vocab);
    if (!counts) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to count tokens");
    }
    for (int32_t i = first; i < process->n_prefix; i++) {
        counts[process->prefix[i]]++;
    }
    for (int32_t i = first; i < process->n_prefix; i++) {
        cop_token token = process->prefix[i];
        if (counts[token] > 0) {
            double logit = get(&process->logits, token);
            set(&process->logits, token, change(process->how, logit, counts[token]));
            counts[token] = 0; /* left as they were lent */
        }
    }
    return COP_OK;
}

/* ---- Steps ------------------------------------------------------------------------------ */

static void add_bias(struct cop_process *process)
{
    for (int32_t i = 0; i < process->how->n_bias; i++) {
        const struct cop_bias *one = &process->how->bias[i];
        set(&process->logits, one->id, get(&process->logits, one->id) + one->bias);
    }
}

/* A script sees f32; of a row in double, what it leaves alone keeps its double. */
static enum cop_status call_processor(struct cop_process *process, struct cop_error *err)
{
    const struct cop_processing *how = process->how;
    struct cop_logits *logits = &process->logits;
    int32_t vocab = logits->vocab;
    float *shown = logits->f32;
    if (!shown) {
        shown = cop_row_arena_scratch(process->arena, (size_t)vocab * sizeof *shown);
        if (!shown) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for a row of logits");
        }
        for (int32_t i = 0; i < vocab; i++) {
            shown[i] = (float)logits->f64[i];
        }
    }
    enum cop_status status =
        how->process(how->user, process->prefix, process->n_prefix, shown, vocab, err);
    for (int32_t i = 0; logits->f64 && i < vocab && status == COP_OK; i++) {
        float before = (float)logits->f64[i];
        if (memcmp(&shown[i], &before, sizeof before) != 0) {
            logits->f64[i] = (double)shown[i];
        }
    }
    return status;
}

enum cop_status cop_process_step(struct cop_process *process, enum cop_step step,
                                 struct cop_error *err)
{
    const struct cop_processing *how = process->how;
    if (step == COP_STEP_MIN_TOKENS) {
        ban(&process->logits, process->ends, process->n_ends);
        return COP_OK;
    }
    if (!is_on(how, step)) {
        return COP_OK;
    }
    switch (step) {
    case COP_STEP_REPETITION_PENALTY: return penalise(process, 0, repetition, err);
    case COP_STEP_PRESENCE_PENALTY: return penalise(process, process->n_prompt, presence, err);
    case COP_STEP_FREQUENCY_PENALTY:
        return penalise(process, process->n_prompt, frequency, err);
    case COP_STEP_LOGIT_BIAS: add_bias(process); return COP_OK;
    case COP_STEP_BANNED:
        ban(&process->logits, how->banned, (size_t)how->n_banned);
        return COP_OK;
    case COP_STEP_PROCESSOR: return call_processor(process, err);
    case COP_STEP_MIN_TOKENS:
    case COP_STEP_TEMPERATURE:
    case COP_STEP_TOP_K:
    case COP_STEP_TOP_P:
    case COP_STEP_MIN_P:
    case COP_STEP_COUNT: break;
    }
    return COP_OK;
}

/* NaN counts as a token: the row is then refused for what it is. */
static bool is_empty(const struct cop_logits *logits)
{
    for (int32_t i = 0; i < logits->vocab; i++) {
        if (get(logits, i) != -HUGE_VAL) {
            return false;
        }
    }
    return true;
}

enum cop_status cop_process_apply(struct cop_process *process, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int step = 0; step < COP_STEP_FIRST_SHAPING && status == COP_OK; step++) {
        status = cop_process_step(process, (enum cop_step)step, err);
    }
    if (status == COP_OK && is_empty(&process->logits)) {
        return cop_fail(err, COP_ERR_NUMERIC,
                        "no token left: banned, logit_bias, min_tokens and the processor "
                        "exclude every one");
    }
    return status;
}
