/* The enumerated answers: every question is a choice among options with probabilities. */
#include "core/cycle/law/enumerate.h"
#include "core/cycle/draws/choose.h"
#include "core/cycle/draws/shared_race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLIP, PICK, RACE, SECOND_RACE };
enum { VOCAB_LIMIT = 4096, QUESTION_LIMIT = 16384 };

static const char *const IMPURE =
    "the rule is not a function of its inputs: run again with the "
    "same answers it asks different questions";

void cop_enumeration_init(struct cop_enumeration *e, struct cop_error *error)
{
    *e = (struct cop_enumeration){.error = error, .probability = 1};
}

void cop_enumeration_release(struct cop_enumeration *e)
{
    free(e->answers);
    free(e->probabilities);
    *e = (struct cop_enumeration){0};
}

/* The next option of positive probability from `from` on, or -1. */
static int32_t next_option(const double *options, int32_t n, int32_t from)
{
    for (int32_t i = from; i < n; i++) {
        if (options[i] > 0) {
            return i;
        }
    }
    return -1;
}

bool cop_enumeration_next(struct cop_enumeration *e)
{
    if (e->n_asked < e->n_answers) {
        cop_draws_refuse(e->error, IMPURE);
        return false;
    }
    while (e->n_answers > 0) {
        struct cop_answer *last = &e->answers[e->n_answers - 1];
        int32_t choice =
            next_option(e->probabilities + last->first, last->n_options, last->choice + 1);
        if (choice >= 0) {
            last->choice = choice;
            return true;
        }
        e->n_probabilities = last->first;
        e->n_answers--;
    }
    return false;
}

static void *grow_to(void *items, int32_t *capacity, int32_t wanted, size_t size)
{
    if (wanted <= *capacity) {
        return items;
    }
    int32_t bigger = *capacity < 64 ? 64 : *capacity;
    while (bigger < wanted) {
        bigger *= 2;
    }
    void *moved = realloc(items, (size_t)bigger * size);
    if (moved) {
        *capacity = bigger;
    }
    return moved;
}

static struct cop_answer *record(struct cop_enumeration *e, const struct cop_answer *question,
                                 const double *options)
{
    struct cop_answer *answers =
        grow_to(e->answers, &e->answers_capacity, e->n_answers + 1, sizeof *answers);
    if (answers) {
        e->answers = answers;
    }
    double *probabilities =
        grow_to(e->probabilities, &e->probabilities_capacity,
                e->n_probabilities + question->n_options, sizeof *probabilities);
    if (probabilities) {
        e->probabilities = probabilities;
    }
    if (!answers || !probabilities) {
        cop_draws_refuse(e->error, "no memory to record an enumeration");
        return NULL;
    }
    memcpy(probabilities + e->n_probabilities, options,
           (size_t)question->n_options * sizeof *options);
    struct cop_answer *answer = &e->answers[e->n_answers++];
    *answer = *question;
    answer->first = e->n_probabilities;
    answer->choice = next_option(options, question->n_options, 0);
    e->n_probabilities += question->n_options;
    return answer;
}

static bool is_same(const struct cop_enumeration *e, const struct cop_answer *a,
                    const struct cop_answer *b, const double *options)
{
    return a->purpose == b->purpose && a->key == b->key && a->index == b->index &&
           a->kind == b->kind && a->n_options == b->n_options &&
           memcmp(e->probabilities + a->first, options,
                  (size_t)a->n_options * sizeof *options) == 0;
}

static bool was_asked(const struct cop_enumeration *e, const struct cop_answer *question)
{
    for (int32_t i = 0; i < e->n_asked; i++) {
        if (e->answers[i].purpose == question->purpose && e->answers[i].key == question->key &&
            e->answers[i].index >= question->index) {
            return true;
        }
    }
    return false;
}

/* The answer to a question with these options (at least one of positive probability): from the
 * record while it lasts, then the first possible one. -1 after an error. */
static int32_t answer(struct cop_enumeration *e, const struct cop_answer *question,
                      const double *options)
{
    if (e->error->code != COP_OK) {
        return -1;
    }
    if (e->n_asked >= QUESTION_LIMIT) {
        (void)cop_fail(e->error, COP_ERR_LIMIT, "more than %d questions in one cycle",
                       QUESTION_LIMIT);
        return -1;
    }
    if (was_asked(e, question)) {
        (void)cop_fail(e->error, COP_ERR_ARGUMENT,
                       "asked twice for the coin (purpose %08x, node key %08x) in one cycle",
                       question->purpose, question->key);
        return -1;
    }
    struct cop_answer *a = NULL;
    if (e->n_asked < e->n_answers) {
        a = &e->answers[e->n_asked];
        if (!is_same(e, a, question, options)) {
            cop_draws_refuse(e->error, IMPURE);
            return -1;
        }
    } else {
        a = record(e, question, options);
    }
    if (!a) {
        return -1;
    }
    e->n_asked++;
    e->probability *= options[a->choice];
    return a->choice;
}

static bool enumerated_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    struct cop_enumeration *e = state;
    if (isnan(probability)) {
        cop_draws_refuse(e->error, "a flip with probability NaN");
        return false;
    }
    probability = fmin(1, fmax(0, probability));
    const double options[2] = {probability, 1 - probability};
    struct cop_answer question = {.purpose = purpose, .key = key, .kind = FLIP, .n_options = 2};
    return answer(e, &question, options) == 0;
}

/* Scales weights to sum to 1; false (and a report) where that is impossible. */
static bool normalise(struct cop_enumeration *e, double *options, int32_t n)
{
    double total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += options[i] >= 0 ? options[i] : (double)NAN;
    }
    if (!(total > 0) || isinf(total)) {
        cop_draws_refuse(e->error, total <= 0
                                       ? "a pick from weights that are all zero"
                                       : "a pick from weights that are negative or not finite");
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        options[i] /= total;
    }
    return true;
}

static bool is_small(struct cop_enumeration *e, int32_t vocab)
{
    if (vocab > VOCAB_LIMIT) {
        cop_draws_refuse(e->error, "enumeration takes vocabularies of at most 4096 tokens");
    }
    return vocab <= VOCAB_LIMIT;
}

static cop_token enumerated_pick(void *state, uint32_t purpose, uint32_t key,
                                 const struct cop_weights *weights)
{
    struct cop_enumeration *e = state;
    double options[VOCAB_LIMIT];
    if (!is_small(e, weights->vocab)) {
        return -1;
    }
    weights->fill(weights->context, 0, weights->vocab, options);
    if (!normalise(e, options, weights->vocab)) {
        return -1;
    }
    struct cop_answer question = {
        .purpose = purpose, .key = key, .kind = PICK, .n_options = weights->vocab};
    return answer(e, &question, options);
}

/* The winner of the first race with this noise in this cycle; NULL: there was none yet, or the
 * question is wrong. */
static const struct cop_answer *first_race(struct cop_enumeration *e, uint32_t key, int32_t k)
{
    const struct cop_answer *first = NULL;
    for (int32_t i = 0; i < e->n_asked; i++) {
        const struct cop_answer *a = &e->answers[i];
        if (a->purpose != COP_PURPOSE_SHARED || a->key != key) {
            continue;
        }
        if (a->kind == SECOND_RACE) {
            cop_draws_refuse(e->error, "asked a third time for shared noise: one race is the "
                                       "draft's, one the target's");
        } else if (first || k != 1) {
            cop_draws_refuse(e->error,
                             "two races with shared noise are enumerated for one token "
                             "each");
        }
        first = a;
    }
    return e->error->code == COP_OK ? first : NULL;
}

static int32_t second_race(struct cop_enumeration *e, uint32_t key,
                           const struct cop_answer *first, double *row, int32_t vocab,
                           cop_token *ids)
{
    double options[VOCAB_LIMIT];
    if (first->n_options != vocab) {
        cop_draws_refuse(e->error, "two races with shared noise have different vocabularies");
        return 0;
    }
    if (!normalise(e, row, vocab)) {
        return 0;
    }
    if (!cop_shared_race(e->probabilities + first->first, row, vocab, first->choice, options)) {
        cop_draws_refuse(e->error, "no memory for a race with shared noise");
        return 0;
    }
    struct cop_answer question = {.purpose = COP_PURPOSE_SHARED,
                                  .key = key,
                                  .index = 1,
                                  .kind = SECOND_RACE,
                                  .n_options = vocab};
    ids[0] = answer(e, &question, options);
    return ids[0] >= 0;
}

static int32_t enumerated_race(void *state, uint32_t purpose, uint32_t key,
                               const struct cop_row *row, int32_t k, cop_token *ids, int32_t n)
{
    struct cop_enumeration *e = state;
    double options[VOCAB_LIMIT];
    if (!is_small(e, row->vocab)) {
        return n;
    }
    cop_row_fill(row, 0, row->vocab, options);
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < row->vocab) {
            options[ids[i]] = 0;
        }
    }
    if (purpose == COP_PURPOSE_SHARED) {
        const struct cop_answer *first = first_race(e, key, k);
        if (first || e->error->code != COP_OK) {
            return first ? second_race(e, key, first, options, row->vocab, ids) : 0;
        }
    }
    for (; n < k && next_option(options, row->vocab, 0) >= 0; n++) {
        struct cop_answer question = {
            .purpose = purpose, .key = key, .index = n, .kind = RACE, .n_options = row->vocab};
        int32_t id = normalise(e, options, row->vocab) ? answer(e, &question, options) : -1;
        if (id < 0) {
            return n;
        }
        ids[n] = id;
        options[id] = 0;
    }
    return n;
}

static const struct cop_draws_ops enumerated_ops = {
    .flip = enumerated_flip, .pick = enumerated_pick, .race = enumerated_race};

struct cop_draws cop_enumeration_start(struct cop_enumeration *e)
{
    e->n_asked = 0;
    e->probability = 1;
    return (struct cop_draws){.ops = &enumerated_ops, .state = e, .error = e->error};
}
