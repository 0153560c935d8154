/* A reduced vocabulary: the ids that answers of the training data use most. An id counts once
 * for each answer token that it is, and by its probability in every row of an answer. */
#include "algorithms/train/vocabulary.h"

#include <stdlib.h>

struct score {
    double value;
    cop_token id;
};

/* The largest first, ties to the lowest id. */
static int by_score(const void *a, const void *b)
{
    const struct score *x = a, *y = b;
    if (x->value > y->value || x->value < y->value) {
        return x->value > y->value ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_id(const void *a, const void *b)
{
    cop_token x = *(const cop_token *)a, y = *(const cop_token *)b;
    return x < y ? -1 : x > y;
}

static void count_record(const struct cop_corpus_record *record, int32_t labels,
                         struct score *scores)
{
    for (int32_t r = record->n_prompt > 0 ? record->n_prompt - 1 : 0; r < record->n; r++) {
        const cop_token *ids = record->ids + (size_t)r * (size_t)labels;
        const float *logits = record->logits + (size_t)r * (size_t)labels;
        double sum = 0;
        for (int32_t k = 0; k < labels; k++) {
            sum += cop_exp((double)logits[k]);
        }
        for (int32_t k = 0; k < labels; k++) {
            scores[ids[k]].value += cop_exp((double)logits[k]) / sum;
        }
        if (r + 1 < record->n) {
            scores[record->tokens[r + 1]].value += 1;
        }
    }
}

enum cop_status cop_train_vocabulary(const struct cop_corpus *corpus, int32_t n,
                                     cop_token **out, struct cop_error *err)
{
    int32_t vocab = corpus->header.vocab;
    struct score *scores = calloc((size_t)vocab, sizeof *scores);
    *out = malloc((size_t)n * sizeof **out);
    if (!scores || !*out || n > vocab) {
        free(scores);
        return n > vocab ? cop_fail(err, COP_ERR_ARGUMENT,
                                    "a vocabulary of %d tokens of the target's %d", n, vocab)
                         : cop_fail(err, COP_ERR_MEMORY, "no memory for %d ids", n);
    }
    for (cop_token id = 0; id < vocab; id++) {
        scores[id].id = id;
    }
    for (int32_t i = 0; i < corpus->n; i++) {
        count_record(&corpus->records[i], corpus->header.labels, scores);
    }
    qsort(scores, (size_t)vocab, sizeof *scores, by_score);
    for (int32_t i = 0; i < n; i++) {
        (*out)[i] = scores[i].id;
    }
    qsort(*out, (size_t)n, sizeof **out, by_id);
    free(scores);
    return COP_OK;
}
