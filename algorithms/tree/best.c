/* The k best by a heap whose top is the worst of them. */
#include "algorithms/tree/best.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum cop_status cop_best_init(struct cop_best *best, int32_t k, struct cop_error *err)
{
    *best = (struct cop_best){.k = k, .entries = malloc((size_t)k * sizeof *best->entries)};
    return best->entries
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory to choose %d nodes", (int)k);
}

void cop_best_release(struct cop_best *best)
{
    free(best->entries);
    *best = (struct cop_best){0};
}

static bool is_worse(const struct cop_best_entry *a, const struct cop_best_entry *b)
{
    return a->value < b->value || (a->value <= b->value && a->order > b->order);
}

static void sift_down(struct cop_best *best, int32_t at)
{
    struct cop_best_entry moved = best->entries[at];
    for (int32_t child; (child = 2 * at + 1) < best->count; at = child) {
        const struct cop_best_entry *entries = best->entries;
        if (child + 1 < best->count && is_worse(&entries[child + 1], &entries[child])) {
            child++;
        }
        if (!is_worse(&entries[child], &moved)) {
            break;
        }
        best->entries[at] = entries[child];
    }
    best->entries[at] = moved;
}

void cop_best_offer(struct cop_best *best, double value, double score, int32_t place,
                    cop_token token)
{
    struct cop_best_entry entry = {value, score, best->n_came++, place, token};
    if (best->count < best->k) { /* a heap once it is full */
        best->entries[best->count++] = entry;
        for (int32_t at = best->k / 2; best->count == best->k && at > 0; at--) {
            sift_down(best, at - 1);
        }
    } else if (is_worse(&best->entries[0], &entry)) {
        best->entries[0] = entry;
        sift_down(best, 0);
    }
}

double cop_best_bar(const struct cop_best *best)
{
    return best->count < best->k ? -HUGE_VAL : best->entries[0].value;
}

double cop_best_sum(const struct cop_best *best)
{
    double sum = 0;
    for (int32_t i = 0; i < best->count; i++) {
        sum += best->entries[i].value;
    }
    return sum;
}

static int compare_order(const void *a, const void *b)
{
    const struct cop_best_entry *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

void cop_best_add(struct cop_best *best, struct cop_grow *grow)
{
    int32_t n_new = 0;
    for (int32_t i = 0; i < best->count; i++) {
        if (best->entries[i].place >= 0) {
            best->entries[n_new++] = best->entries[i];
        }
    }
    qsort(best->entries, (size_t)n_new, sizeof *best->entries, compare_order);
    for (int32_t i = 0; i < n_new; i++) {
        const struct cop_best_entry *entry = &best->entries[i];
        int32_t node = cop_grow_add(grow, entry->place, entry->token);
        if (node > 0) {
            grow->scores[node] = entry->score;
        }
    }
}

enum cop_status cop_best_narrow(struct cop_grow *grow, int32_t k, struct cop_error *err)
{
    struct cop_best best;
    enum cop_status status = cop_best_init(&best, k, err);
    if (status != COP_OK) {
        return status;
    }
    for (int32_t i = 0; i < grow->n_next; i++) {
        double value = grow->scores[grow->next[i]];
        cop_best_offer(&best, value, value, -1, 0);
    }
    qsort(best.entries, (size_t)best.count, sizeof *best.entries, compare_order);
    for (int32_t i = 0; i < best.count; i++) {
        grow->next[i] = grow->next[best.entries[i].order];
    }
    grow->n_next = best.count;
    cop_best_release(&best);
    return COP_OK;
}

/* Children of one frontier node; none of them can be worth more than the node. */
static void offer_children(struct cop_best *best, const struct cop_grow *grow, int32_t i,
                           int32_t top_k, double decay)
{
    cop_token ids[COP_TREE_LIMIT];
    double most = cop_best_score(grow, grow->frontier[i]) * decay;
    double floor = most > 0 ? cop_best_bar(best) / most : 0;
    int32_t n = cop_grow_pick(grow, i, floor > 0 ? floor * (1 - 1e-9) : 0, top_k, ids, 0);
    for (int32_t j = 0; j < n; j++) {
        double value = cop_best_child(most, &grow->rows[i], ids[j]);
        cop_best_offer(best, value, value, i, ids[j]);
    }
}

void cop_best_offer_tree(struct cop_best *best, const struct cop_grow *grow)
{
    for (int32_t node = 1; node < grow->tree->size; node++) {
        cop_best_offer(best, grow->scores[node], grow->scores[node], -1, 0);
    }
}

void cop_best_offer_level(struct cop_best *best, const struct cop_grow *grow, int32_t top_k,
                          double decay)
{
    for (int32_t i = 0; i < grow->n_frontier; i++) {
        offer_children(best, grow, i, top_k, decay);
    }
}

enum cop_status cop_best_level(struct cop_grow *grow, int32_t k, struct cop_error *err)
{
    struct cop_best best;
    enum cop_status status = cop_best_init(&best, k, err);
    if (status == COP_OK) {
        cop_best_offer_level(&best, grow, k, 1);
        cop_best_add(&best, grow);
        cop_best_release(&best);
    }
    return status;
}

int32_t cop_best_candidates(int32_t k, int32_t depth)
{
    int64_t sum = 0;
    for (int32_t level = 0; level < depth && level < k; level++) {
        sum += k - level;
    }
    return sum < COP_DRAFT_LIMIT ? (int32_t)sum : COP_DRAFT_LIMIT;
}

void cop_best_keep(const double *values, int32_t size, int32_t k, uint8_t *keep)
{
    if (size - 1 <= k) {
        return;
    }
    struct cop_best best;
    struct cop_error err;
    if (cop_best_init(&best, k, &err) != COP_OK) {
        memset(keep + 1 + k, 0, (size_t)(size - 1 - k)); /* parents come first: still a tree */
        return;
    }
    for (int32_t node = 1; node < size; node++) {
        cop_best_offer(&best, values[node], values[node], -1, 0);
        keep[node] = 0;
    }
    for (int32_t i = 0; i < best.count; i++) {
        keep[best.entries[i].order + 1] = 1;
    }
    cop_best_release(&best);
}

/* ---- Builders of a size ---- */

int32_t cop_best_size_nodes(const void *state)
{
    return ((const struct cop_best_size *)state)->budget;
}

int32_t cop_best_size_depth(const void *state)
{
    const struct cop_best_size *size = state;
    return size->depth < size->budget ? size->depth : size->budget;
}

int32_t cop_best_size_candidates(const void *state)
{
    return cop_best_candidates(cop_best_size_nodes(state), cop_best_size_depth(state));
}

void cop_best_size_select(const void *state, const struct cop_tree *tree, const double *scores,
                          uint8_t *keep)
{
    cop_best_keep(scores, tree->size, cop_best_size_nodes(state), keep);
}
