/* The trie of sequences: children of a sequence are allocated together, rows on demand. */
#include "core/cycle/law/prefixes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_LIMIT = 1000000 };

static enum cop_status no_memory(struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory for the sequences of an enumeration");
}

enum cop_status cop_prefixes_init(struct cop_prefixes *prefixes,
                                  const struct cop_law_case *what, struct cop_error *err)
{
    *prefixes = (struct cop_prefixes){.what = what,
                                      .vocab = what->vocab,
                                      .n_drafters = what->n_drafters > 1 ? what->n_drafters : 1,
                                      .capacity = 256};
    prefixes->items = calloc((size_t)prefixes->capacity, sizeof *prefixes->items);
    if (!prefixes->items) {
        return no_memory(err);
    }
    prefixes->items[0].parent = -1;
    prefixes->count = 1;
    return COP_OK;
}

void cop_prefixes_release(struct cop_prefixes *prefixes)
{
    for (int32_t i = 0; i < prefixes->count; i++) {
        free(prefixes->items[i].target);
        free(prefixes->items[i].draft);
    }
    free(prefixes->items);
    free(prefixes->tokens);
    *prefixes = (struct cop_prefixes){0};
}

static enum cop_status add_children(struct cop_prefixes *prefixes, int32_t prefix,
                                    struct cop_error *err)
{
    int32_t count = prefixes->count + prefixes->vocab;
    if (count > PREFIX_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "the enumeration meets more than %d sequences; take a smaller "
                        "vocabulary, depth or horizon",
                        PREFIX_LIMIT);
    }
    if (count > prefixes->capacity) {
        int32_t capacity = count > 2 * prefixes->capacity ? count : 2 * prefixes->capacity;
        struct cop_prefix *items = realloc(prefixes->items, (size_t)capacity * sizeof *items);
        if (!items) {
            return no_memory(err);
        }
        prefixes->items = items;
        prefixes->capacity = capacity;
    }
    struct cop_prefix *parent = &prefixes->items[prefix];
    parent->first_child = prefixes->count;
    for (int32_t i = prefixes->count; i < count; i++) {
        prefixes->items[i] =
            (struct cop_prefix){.parent = prefix, .length = parent->length + 1};
    }
    prefixes->count = count;
    return COP_OK;
}

int32_t cop_prefixes_child(struct cop_prefixes *prefixes, int32_t prefix, cop_token token,
                           struct cop_error *err)
{
    if (token < 0 || token >= prefixes->vocab) {
        (void)cop_fail(err, COP_ERR_ARGUMENT, "token %d is outside the vocabulary of %d",
                       (int)token, (int)prefixes->vocab);
        return -1;
    }
    if (prefixes->items[prefix].first_child == 0 &&
        add_children(prefixes, prefix, err) != COP_OK) {
        return -1;
    }
    return prefixes->items[prefix].first_child + token;
}

const cop_token *cop_prefixes_tokens(struct cop_prefixes *prefixes, int32_t prefix,
                                     struct cop_error *err)
{
    int32_t length = prefixes->items[prefix].length;
    if (length >= prefixes->tokens_capacity) {
        int32_t capacity = 2 * length + 16;
        cop_token *tokens = realloc(prefixes->tokens, (size_t)capacity * sizeof *tokens);
        if (!tokens) {
            (void)no_memory(err);
            return NULL;
        }
        prefixes->tokens = tokens;
        prefixes->tokens_capacity = capacity;
    }
    for (int32_t i = length - 1; i >= 0; i--) {
        int32_t parent = prefixes->items[prefix].parent;
        prefixes->tokens[i] = prefix - prefixes->items[parent].first_child;
        prefix = parent;
    }
    return prefixes->tokens;
}

/* "{0, 1}" for messages. */
static void print_tokens(const cop_token *tokens, int32_t length, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "{");
    for (int32_t i = 0; i < length && used < size; i++) {
        int n = snprintf(text + used, size - used, i ? ", %d" : "%d", (int)tokens[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < size) {
        (void)snprintf(text + used, size - used, "}");
    }
}

static enum cop_status ask_row(struct cop_prefixes *prefixes, int32_t prefix, bool is_target,
                               int32_t drafter, double *row, struct cop_error *err)
{
    const struct cop_law_case *what = prefixes->what;
    int32_t length = prefixes->items[prefix].length;
    const cop_token *tokens = cop_prefixes_tokens(prefixes, prefix, err);
    if (!tokens) {
        return COP_ERR_MEMORY;
    }
    enum cop_status status =
        is_target ? what->target(what->target_context, tokens, length, 0, row, err)
                  : what->draft(what->draft_context, tokens, length, drafter, row, err);
    if (status != COP_OK) {
        return status;
    }
    double sum = 0;
    for (int32_t i = 0; i < prefixes->vocab; i++) {
        sum += row[i] >= 0 ? row[i] : (double)NAN;
    }
    if (!(fabs(sum - 1) < 1e-9)) {
        char text[96];
        print_tokens(tokens, length, text, sizeof text);
        return cop_fail(err, COP_ERR_ARGUMENT,
                        isnan(sum) ? "the %s row after %s has an entry that is negative or NaN"
                                   : "the %s row after %s sums to %.12g, not to 1",
                        is_target ? "target" : "draft", text, sum);
    }
    return COP_OK;
}

static void make_one_hot(double *row, int32_t vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++) {
        best = row[i] > row[best] ? i : best;
    }
    memset(row, 0, (size_t)vocab * sizeof *row);
    row[best] = 1;
}

const double *cop_prefixes_target(struct cop_prefixes *prefixes, int32_t prefix,
                                  struct cop_error *err)
{
    if (prefixes->items[prefix].target) {
        return prefixes->items[prefix].target;
    }
    double *row = malloc(2 * (size_t)prefixes->vocab * sizeof *row);
    if (!row) {
        (void)no_memory(err);
        return NULL;
    }
    if (ask_row(prefixes, prefix, true, 0, row, err) != COP_OK) {
        free(row);
        return NULL;
    }
    memcpy(row + prefixes->vocab, row, (size_t)prefixes->vocab * sizeof *row);
    if (prefixes->what->is_zero_temperature) {
        make_one_hot(row, prefixes->vocab);
    }
    return prefixes->items[prefix].target = row;
}

const double *cop_prefixes_draft(struct cop_prefixes *prefixes, int32_t prefix,
                                 struct cop_error *err)
{
    if (prefixes->items[prefix].draft) {
        return prefixes->items[prefix].draft;
    }
    size_t vocab = (size_t)prefixes->vocab;
    double *rows = malloc((size_t)prefixes->n_drafters * vocab * sizeof *rows);
    if (!rows) {
        (void)no_memory(err);
        return NULL;
    }
    for (int32_t j = 0; j < prefixes->n_drafters; j++) {
        if (ask_row(prefixes, prefix, false, j, rows + (size_t)j * vocab, err) != COP_OK) {
            free(rows);
            return NULL;
        }
    }
    return prefixes->items[prefix].draft = rows;
}
