/* The ids of a reduced vocabulary, and rows over them. */
#include "algorithms/propose/subset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *left, const void *right)
{
    cop_token a = *(const cop_token *)left, b = *(const cop_token *)right;
    return a < b ? -1 : a > b;
}

static enum cop_status check(const struct cop_subset *reduced, int32_t vocab,
                             struct cop_error *err)
{
    for (int32_t i = 0; i < reduced->n; i++) {
        if (reduced->ids[i] >= vocab) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "vocabulary holds token id %d; the target's ids are 0 to %d",
                            reduced->ids[i], vocab - 1);
        }
        if (i > 0 && reduced->ids[i] == reduced->ids[i - 1]) {
            return cop_fail(err, COP_ERR_ARGUMENT, "vocabulary holds token id %d twice",
                            reduced->ids[i]);
        }
    }
    return COP_OK;
}

static bool is_among(const cop_token *ids, size_t n, cop_token id)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        found |= ids[i] == id;
    }
    return found;
}

/* The first ids; ends behind them replace the last ones that are no ends. */
static void take_first(struct cop_subset *out, const struct cop_tokenizer *tokenizer,
                       int32_t vocab)
{
    size_t n_ends = 0;
    const cop_token *ends = tokenizer ? cop_tokenizer_eos(tokenizer, &n_ends) : NULL;
    int32_t place = out->n - 1;
    for (int32_t i = 0; i < out->n; i++) {
        out->ids[i] = i;
    }
    for (size_t i = 0; i < n_ends; i++) {
        while (place >= 0 && is_among(ends, n_ends, out->ids[place])) {
            place--;
        }
        if (ends[i] >= out->n && ends[i] < vocab && place >= 0) {
            out->ids[place--] = ends[i];
        }
    }
}

enum cop_status cop_subset_init(struct cop_subset *out,
                                const struct cop_vocabulary_option *option,
                                const struct cop_tokenizer *tokenizer, int32_t vocab,
                                struct cop_error *err)
{
    int32_t n = option->ids.count > 0 ? option->ids.count : option->size;
    *out = (struct cop_subset){0};
    if (n > vocab) {
        return cop_fail(err, COP_ERR_ARGUMENT, "vocabulary has %d tokens; the target has %d", n,
                        vocab);
    }
    if (n == 0) {
        return COP_OK;
    }
    *out = (struct cop_subset){.ids = malloc((size_t)n * sizeof *out->ids), .n = n};
    if (!out->ids) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a vocabulary of %d tokens", n);
    }
    if (option->ids.count > 0) {
        memcpy(out->ids, option->ids.items, (size_t)n * sizeof *out->ids);
    } else {
        take_first(out, tokenizer, vocab);
    }
    qsort(out->ids, (size_t)n, sizeof *out->ids, ascending);
    enum cop_status status = check(out, vocab, err);
    if (status != COP_OK) {
        cop_subset_release(out);
    }
    return status;
}

void cop_subset_release(struct cop_subset *reduced)
{
    free(reduced->ids);
    *reduced = (struct cop_subset){0};
}

bool cop_subset_reserve(const cop_token *ids, struct cop_floats *rows, size_t n)
{
    size_t before = rows->capacity;
    bool is_whole = cop_floats_reserve(rows, n);
    for (size_t i = 0; ids && rows->capacity != before && i < rows->capacity; i++) {
        rows->items[i] = -INFINITY;
    }
    return is_whole;
}

enum { RUN = 64 }; /* ids that follow one another, as the first of a vocabulary do */

void cop_subset_place(const cop_token *ids, int32_t n_ids, int32_t stride, const float *own,
                      int32_t n, int32_t vocab, float *logits)
{
    for (size_t row = 0; row < (size_t)n; row++) {
        const float *from = own + row * (size_t)stride;
        float *to = logits + row * (size_t)vocab;
        for (int32_t i = 0; i < n_ids;) {
            if (i + RUN <= n_ids && ids[i + RUN - 1] - ids[i] == RUN - 1) {
                memcpy(to + ids[i], from + i, RUN * sizeof *to);
                i += RUN;
            } else {
                to[ids[i]] = from[i];
                i++;
            }
        }
    }
}
