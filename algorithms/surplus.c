/* Surpluses, block by block; see surplus.h. */
#include "algorithms/surplus.h"

#include "kernels/ops.h"

/* Mass of a block of a row without the tokens that are gone. */
static double sum_left(const struct cop_rest *rest, int32_t first, int32_t count, double *row)
{
    for (int32_t i = 0; i < rest->n_gone; i++) {
        int32_t at = rest->gone[i] - first;
        if (at >= 0 && at < count) {
            row[at] = 0;
        }
    }
    return cop_sum_block(row, count);
}

/* target - terms, with its sign. *left, if not NULL, grows by what is watched. */
static void fill_difference(const struct cop_surplus *s, int32_t first, int32_t count,
                            double *out, double *left)
{
    double draft[COP_SUM_BLOCK];
    cop_row_fill(s->target, first, count, out);
    for (int32_t i = 0; i < count; i++) {
        out[i] *= s->target_scale;
    }
    for (int32_t k = 0; k < s->n_terms; k++) {
        cop_row_fill(s->terms[k].row, first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            out[i] -= s->terms[k].scale * draft[i];
        }
        if (left && s->terms[k].row == s->watched.row) {
            *left += sum_left(&s->watched, first, count, draft);
        }
    }
}

static int32_t count_from(const struct cop_surplus *s, int32_t first)
{
    int32_t left = s->target->vocab - first;
    return left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
}

void cop_surplus_measure(struct cop_surplus *s)
{
    s->above = s->below = s->left = 0;
    for (int32_t first = 0; first < s->target->vocab; first += COP_SUM_BLOCK) {
        double values[COP_SUM_BLOCK], lack[COP_SUM_BLOCK];
        int32_t count = count_from(s, first);
        fill_difference(s, first, count, values, &s->left);
        for (int32_t i = 0; i < count; i++) {
            lack[i] = values[i] < 0 ? -values[i] : 0.0;
            values[i] = values[i] > 0 ? values[i] : 0.0;
        }
        double sum = cop_sum_block(values, count);
        s->above += sum;
        s->below += cop_sum_block(lack, count);
        if (first / COP_SUM_BLOCK < COP_WEIGHT_BLOCKS) {
            s->sums[first / COP_SUM_BLOCK] = sum;
        }
    }
}

static void fill(const void *context, int32_t first, int32_t count, double *out)
{
    for (int32_t done = 0; done < count; done += COP_SUM_BLOCK) {
        int32_t n = count - done < COP_SUM_BLOCK ? count - done : COP_SUM_BLOCK;
        fill_difference(context, first + done, n, out + done, NULL);
        for (int32_t i = done; i < done + n; i++) {
            out[i] = out[i] > 0 ? out[i] : 0.0;
        }
    }
}

cop_token cop_surplus_pick(const struct cop_surplus *surplus, const struct cop_draws *draws,
                           uint32_t purpose, uint32_t key)
{
    int32_t vocab = surplus->target->vocab;
    struct cop_weights weights = {
        .vocab = vocab,
        .fill = fill,
        .context = surplus,
        .block_sums = vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK ? surplus->sums : NULL};
    if (!(surplus->above > 0)) {
        weights = cop_row_weights(surplus->target);
    }
    return cop_pick(draws, purpose, key, &weights);
}

double cop_surplus_at(const struct cop_surplus *surplus, cop_token token)
{
    double value = surplus->target_scale * cop_row_probability(surplus->target, token);
    for (int32_t k = 0; k < surplus->n_terms; k++) {
        value -= surplus->terms[k].scale * cop_row_probability(surplus->terms[k].row, token);
    }
    return value > 0 ? value : 0.0;
}
