/* Surpluses as weights; see surplus.h. */
#include "algorithms/accept/surplus.h"

#include "kernels/ops.h"

bool cop_is_same_row(const struct cop_row *a, const struct cop_row *b)
{
    return a == b || (a->kind == b->kind && a->logits == b->logits && a->dense == b->dense &&
                      a->ids == b->ids && a->mask == b->mask && a->best == b->best &&
                      a->inverse_temperature == b->inverse_temperature);
}

int32_t cop_surplus_subtract(struct cop_surplus *surplus, const struct cop_row *row,
                             double scale)
{
    int32_t k = 0;
    while (k < surplus->n_terms && !cop_is_same_row(surplus->terms[k].row, row)) {
        k++;
    }
    if (k == surplus->n_terms) {
        surplus->terms[surplus->n_terms++] = (struct cop_surplus_term){.row = row};
    }
    surplus->terms[k].scale += scale;
    return k;
}

double cop_surplus_at(const struct cop_surplus *surplus, cop_token token)
{
    double left = surplus->target_scale * cop_row_probability(surplus->target, token);
    for (int32_t k = 0; k < surplus->n_terms; k++) {
        left -= surplus->terms[k].scale * cop_row_probability(surplus->terms[k].row, token);
    }
    return left > 0 ? left : 0.0;
}

static void fill_block(const struct cop_surplus *s, int32_t first, int32_t count, double *out)
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
    }
    for (int32_t i = 0; i < count; i++) {
        out[i] = out[i] > 0 ? out[i] : 0.0;
    }
}

static void fill(const void *context, int32_t first, int32_t count, double *out)
{
    for (int32_t done = 0; done < count; done += COP_SUM_BLOCK) {
        int32_t n = count - done < COP_SUM_BLOCK ? count - done : COP_SUM_BLOCK;
        fill_block(context, first + done, n, out + done);
    }
}

struct cop_weights cop_surplus_weights(struct cop_surplus *s)
{
    if (s->n_terms < 2) {
        s->one = (struct cop_residual){.target = s->target,
                                       .draft = s->n_terms ? s->terms[0].row : NULL,
                                       .target_scale = s->target_scale,
                                       .draft_scale = s->n_terms ? s->terms[0].scale : 0};
        return cop_residual_weights(&s->one);
    }
    return (struct cop_weights){.vocab = s->target->vocab, .fill = fill, .context = s};
}
