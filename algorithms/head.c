/* Finding the head, and drawing from a residual that is given on it token by token. */
#include "algorithms/head.h"
#include "kernels/ops.h"

#include <math.h>

/* As little as this is summed, since of 1 minus the head rounding would be a part that matters
 * once the head has been drawn. */
static const double LITTLE = 1e-3;

/* Two views of one row. */
static bool is_same_row(const struct cop_row *a, const struct cop_row *b)
{
    return a == b || (a->kind == b->kind && a->vocab == b->vocab && a->logits == b->logits &&
                      a->mask == b->mask && a->dense == b->dense && a->ids == b->ids &&
                      a->weights == b->weights && a->count == b->count && a->best == b->best &&
                      a->inverse_temperature <= b->inverse_temperature &&
                      a->inverse_temperature >= b->inverse_temperature);
}

enum cop_status cop_siblings_read(struct cop_siblings *siblings, const struct cop_verify_in *in,
                                  int32_t node, int32_t *children,
                                  const struct cop_row **drafts, const char *rule,
                                  struct cop_error *err)
{
    int32_t n = cop_tree_children(in->tree, node);
    *siblings = (struct cop_siblings){
        .node = node, .n = n, .children = children, .drafts = drafts, .same_draft = true};
    for (int32_t j = 0; j < n; j++) {
        children[j] = cop_tree_child(in->tree, node, j);
        drafts[j] = cop_rows_at(&in->draft, children[j]);
        if (!drafts[j]) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.%s needs every draft row", rule);
        }
        if (in->tree->is_merged || is_same_row(drafts[0], drafts[j])) {
            drafts[j] = drafts[0];
        } else {
            siblings->same_draft = false;
        }
        siblings->n_draws += in->tree->is_merged ? in->tree->multiplicity[children[j]] : 1;
    }
    return COP_OK;
}

/* A token takes a free place, or that of the least likely one. */
static void enter(struct cop_head *head, double *best, int32_t limit, cop_token token,
                  double probability)
{
    int32_t least = 0;
    for (int32_t i = 0; i < head->n; i++) {
        if (head->ids[i] == token) {
            best[i] = fmax(best[i], probability);
            return;
        }
        least = best[i] < best[least] ? i : least;
    }
    if (head->n < limit) {
        least = head->n++;
    } else if (!(probability > best[least])) {
        return;
    }
    head->ids[least] = token;
    best[least] = probability;
}

void cop_head_fill(struct cop_head *head, const struct cop_siblings *siblings,
                   const struct cop_row *target, int32_t limit)
{
    double best[COP_HEAD_LIMIT];
    head->n = 0;
    for (int32_t j = 0; j < siblings->n; j++) {
        const struct cop_row *draft = siblings->drafts[j];
        if (j > 0 && draft == siblings->drafts[j - 1]) {
            continue;
        }
        cop_token top[COP_HEAD_LIMIT];
        int32_t n = cop_row_top(draft, limit, top);
        for (int32_t i = 0; i < n; i++) {
            enter(head, best, limit, top[i], cop_row_probability(draft, top[i]));
        }
    }
    cop_head_law(head, target, head->target);
}

/* The sum of a row outside the head, entry by entry. */
static double sum_rest(const struct cop_head *head, const struct cop_row *row)
{
    double total = 0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        double values[COP_SUM_BLOCK];
        int32_t left = row->vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        cop_row_fill(row, first, count, values);
        for (int32_t i = 0; i < head->n; i++) {
            int32_t at = head->ids[i] - first;
            if (at >= 0 && at < count) {
                values[at] = 0;
            }
        }
        total += cop_sum_block(values, count);
    }
    return total;
}

void cop_head_law(const struct cop_head *head, const struct cop_row *row, double *law)
{
    double rest = 1;
    for (int32_t i = 0; i < head->n; i++) {
        law[i] = cop_row_probability(row, head->ids[i]);
        rest -= law[i];
    }
    law[head->n] = rest > LITTLE ? rest : head->n < row->vocab ? sum_rest(head, row) : 0;
}

int32_t cop_head_item(const struct cop_head *head, cop_token token)
{
    int32_t i = 0;
    while (i < head->n && head->ids[i] != token) {
        i++;
    }
    return i;
}

/* ---- The residual
 * ----------------------------------------------------------------------------- */

static void fill_block(const struct cop_head_residual *r, int32_t first, int32_t count,
                       double *out)
{
    double draft[COP_SUM_BLOCK];
    cop_row_fill(r->target, first, count, out);
    for (int32_t j = 0; j < r->n_drafts; j++) {
        cop_row_fill(r->drafts[j], first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            out[i] -= r->scales[j] * draft[i];
        }
    }
    for (int32_t i = 0; i < count; i++) {
        out[i] = out[i] > 0 ? out[i] : 0.0;
    }
    for (int32_t i = 0; i < r->head->n; i++) {
        int32_t at = r->head->ids[i] - first;
        if (at >= 0 && at < count) {
            out[at] = r->left[i];
        }
    }
}

static void fill_residual(const void *context, int32_t first, int32_t count, double *out)
{
    for (int32_t done = 0; done < count; done += COP_SUM_BLOCK) {
        int32_t n = count - done < COP_SUM_BLOCK ? count - done : COP_SUM_BLOCK;
        fill_block(context, first + done, n, out + done);
    }
}

cop_token cop_head_pick(const struct cop_draws *draws, uint32_t purpose, uint32_t key,
                        const struct cop_head_residual *residual)
{
    struct cop_weights weights = {
        .vocab = residual->target->vocab, .fill = fill_residual, .context = residual};
    double sums[COP_WEIGHT_BLOCKS], total = 0;
    int32_t n_blocks = (weights.vocab + COP_SUM_BLOCK - 1) / COP_SUM_BLOCK;
    for (int32_t b = 0; b < n_blocks && b < COP_WEIGHT_BLOCKS; b++) {
        double values[COP_SUM_BLOCK];
        int32_t left = weights.vocab - b * COP_SUM_BLOCK;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        fill_block(residual, b * COP_SUM_BLOCK, count, values);
        sums[b] = cop_sum_block(values, count);
        total += sums[b];
    }
    weights.block_sums = n_blocks <= COP_WEIGHT_BLOCKS ? sums : NULL;
    if (!(total > 0) || isinf(total)) {
        weights = cop_row_weights(residual->target);
    }
    return cop_pick(draws, purpose, key, &weights);
}
