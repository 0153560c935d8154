/* Soft-max attention over the keys of step 0 and a row's own of later steps. The weights are
 * made again on the way back instead of being kept. */
#include "algorithms/networks/attention.h"

#include <string.h>

/* A head of a window. */
struct place {
    struct cop_llama *decoder;
    struct cop_products *products;
    struct cop_llama_pass *passes;
    int32_t step, first, length, head, kv_head;
};

enum { Q, K, V, D_Q, OUT, D_OUT };

static size_t stride(const struct place *p, bool is_kv)
{
    return (size_t)((is_kv ? p->decoder->kv_heads : p->decoder->heads) * p->decoder->head_dim);
}

static cop_real *row(const struct place *p, cop_real *table, bool is_kv, int32_t r)
{
    int32_t head = is_kv ? p->kv_head : p->head;
    return table + (size_t)(p->first + r) * stride(p, is_kv) +
           (size_t)head * (size_t)p->decoder->head_dim;
}

static void take(const struct place *p, cop_real *table, bool is_kv, cop_real *out)
{
    size_t dim = (size_t)p->decoder->head_dim;
    for (int32_t r = 0; r < p->length; r++) {
        memcpy(out + (size_t)r * dim, row(p, table, is_kv, r), dim * sizeof *out);
    }
}

static void give(const struct place *p, const cop_real *from, bool is_kv, bool adds,
                 cop_real *table)
{
    size_t dim = (size_t)p->decoder->head_dim;
    for (int32_t r = 0; r < p->length; r++) {
        cop_real *to = row(p, table, is_kv, r);
        for (size_t i = 0; i < dim; i++) {
            to[i] = (adds ? to[i] : 0) + from[(size_t)r * dim + i];
        }
    }
}

static cop_real dot(const cop_real *a, const cop_real *b, int32_t n)
{
    cop_real sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add_scaled(cop_real *to, const cop_real *from, cop_real scale, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] += scale * from[i];
    }
}

/* scores[r][0 .. r] and extra[u][r] become weights, the rest of a row zero. */
static void weigh(const struct place *p)
{
    struct cop_llama *d = p->decoder;
    int32_t dim = d->head_dim, n = p->length;
    cop_real scale = (cop_real)(1 / sqrt((double)dim));
    take(p, p->passes[p->step].q, false, d->one[Q]);
    take(p, p->passes[0].k, true, d->one[K]);
    cop_product_forward(p->products, d->one[K], n, dim, d->one[Q], n, NULL, false, d->scores);
    for (int32_t r = 0; r < n; r++) {
        cop_real *scores = d->scores + (size_t)r * (size_t)n;
        cop_real most = scores[0];
        for (int32_t j = 1; j <= r; j++) {
            most = scores[j] > most ? scores[j] : most;
        }
        for (int32_t u = 0; u < p->step; u++) {
            cop_real *extra = &d->extra[(size_t)u * (size_t)d->longest + (size_t)r];
            *extra = dot(d->one[Q] + (size_t)r * (size_t)dim,
                         row(p, p->passes[u + 1].k, true, r), dim);
            most = *extra > most ? *extra : most;
        }
        cop_real sum = 0;
        for (int32_t j = 0; j <= r; j++) {
            sum += scores[j] = cop_real_exp(scale * (scores[j] - most));
        }
        for (int32_t u = 0; u < p->step; u++) {
            cop_real *extra = &d->extra[(size_t)u * (size_t)d->longest + (size_t)r];
            sum += *extra = cop_real_exp(scale * (*extra - most));
        }
        for (int32_t j = 0; j < n; j++) {
            scores[j] = j <= r ? scores[j] / sum : 0;
        }
        for (int32_t u = 0; u < p->step; u++) {
            d->extra[(size_t)u * (size_t)d->longest + (size_t)r] /= sum;
        }
    }
}

static void mix(const struct place *p)
{
    struct cop_llama *d = p->decoder;
    int32_t dim = d->head_dim, n = p->length;
    weigh(p);
    take(p, p->passes[0].v, true, d->one[V]);
    cop_product_inputs(p->products, d->one[V], n, dim, d->scores, n, false, d->one[OUT]);
    for (int32_t u = 0; u < p->step; u++) {
        for (int32_t r = 0; r < n; r++) {
            add_scaled(d->one[OUT] + (size_t)r * (size_t)dim,
                       row(p, p->passes[u + 1].v, true, r),
                       d->extra[(size_t)u * (size_t)d->longest + (size_t)r], dim);
        }
    }
    give(p, d->one[OUT], false, false, p->passes[p->step].mixed);
}

/* Gradients by the weights become those by the scores (before scaling). */
static void soften(const struct place *p)
{
    struct cop_llama *d = p->decoder;
    int32_t dim = d->head_dim, n = p->length;
    cop_real scale = (cop_real)(1 / sqrt((double)dim));
    for (int32_t r = 0; r < n; r++) {
        const cop_real *weights = d->scores + (size_t)r * (size_t)n;
        cop_real *slopes = d->d_scores + (size_t)r * (size_t)n;
        cop_real mean = dot(weights, slopes, r + 1);
        for (int32_t u = 0; u < p->step; u++) {
            size_t at = (size_t)u * (size_t)d->longest + (size_t)r;
            d->d_extra[at] = dot(d->one[D_OUT] + (size_t)r * (size_t)dim,
                                 row(p, p->passes[u + 1].v, true, r), dim);
            mean += d->extra[at] * d->d_extra[at];
        }
        for (int32_t j = 0; j < n; j++) {
            slopes[j] = j <= r ? scale * weights[j] * (slopes[j] - mean) : 0;
        }
        for (int32_t u = 0; u < p->step; u++) {
            size_t at = (size_t)u * (size_t)d->longest + (size_t)r;
            d->d_extra[at] = scale * d->extra[at] * (d->d_extra[at] - mean);
        }
    }
}

static void unmix(const struct place *p)
{
    struct cop_llama *d = p->decoder;
    int32_t dim = d->head_dim, n = p->length;
    size_t table = (size_t)n * (size_t)dim * sizeof(cop_real);
    weigh(p);
    take(p, p->passes[0].v, true, d->one[V]);
    take(p, d->d_mixed, false, d->one[D_OUT]);
    cop_product_forward(p->products, d->one[V], n, dim, d->one[D_OUT], n, NULL, false,
                        d->d_scores);
    memset(d->one[OUT], 0, table);
    cop_product_weights(p->products, d->scores, n, d->one[D_OUT], dim, n, d->one[OUT]);
    give(p, d->one[OUT], true, true, p->passes[0].d_v);
    soften(p);
    cop_product_inputs(p->products, d->one[K], n, dim, d->d_scores, n, false, d->one[D_Q]);
    memset(d->one[OUT], 0, table);
    cop_product_weights(p->products, d->d_scores, n, d->one[Q], dim, n, d->one[OUT]);
    give(p, d->one[OUT], true, true, p->passes[0].d_k);
    for (int32_t u = 0; u < p->step; u++) {
        struct cop_llama_pass *pass = &p->passes[u + 1];
        for (int32_t r = 0; r < n; r++) {
            size_t at = (size_t)u * (size_t)d->longest + (size_t)r,
                   line = (size_t)r * (size_t)dim;
            add_scaled(row(p, pass->d_v, true, r), d->one[D_OUT] + line, d->extra[at], dim);
            add_scaled(row(p, pass->d_k, true, r), d->one[Q] + line, d->d_extra[at], dim);
            add_scaled(d->one[D_Q] + line, row(p, pass->k, true, r), d->d_extra[at], dim);
        }
    }
    give(p, d->one[D_Q], false, false, d->d_q);
}

static void each(struct cop_llama *decoder, struct cop_products *products,
                 const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                 int32_t step, void (*work)(const struct place *place))
{
    for (int32_t w = 0; w < batch->n_windows; w++) {
        for (int32_t h = 0; h < decoder->heads && !products->failed; h++) {
            const struct place place = {.decoder = decoder,
                                        .products = products,
                                        .passes = passes,
                                        .step = step,
                                        .first = batch->starts[w],
                                        .length = batch->lengths[w],
                                        .head = h,
                                        .kv_head = h / (decoder->heads / decoder->kv_heads)};
            work(&place);
        }
    }
}

void cop_attention_forward(struct cop_llama *decoder, struct cop_products *products,
                           const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                           int32_t step)
{
    each(decoder, products, batch, passes, step, mix);
}

void cop_attention_backward(struct cop_llama *decoder, struct cop_products *products,
                            const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                            int32_t step)
{
    each(decoder, products, batch, passes, step, unmix);
}
