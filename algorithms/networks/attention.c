/* Soft-max attention over the keys of step 0 and a row's own of later steps. The weights are
 * made again on the way back instead of being kept.
 *
 * All windows and heads go through a stage together: products of tables, which the device
 * shares out whole, or rows by loops. Query heads that share a key head add to one gradient, so
 * those products run a member of each group at a time. */
#include "algorithms/networks/attention.h"
#include "algorithms/networks/layers.h"

#include <string.h>

struct pass {
    struct cop_llama *decoder;
    struct cop_products *products;
    const struct cop_train_batch *batch;
    struct cop_llama_pass *passes;
    int32_t step;
};

/* A query head of a window: n rows that ask, of which row r sees keys 0 … from + r. */
struct place {
    int32_t head, kv_head;
    int32_t first, n, from;      /* of the rows of this step */
    int32_t first_key, n_keys;   /* of step 0 */
    cop_real *scores, *d_scores; /* [n, n_keys] */
};

static struct place place_at(const struct pass *p, int32_t window, int32_t head)
{
    const struct cop_llama *d = p->decoder;
    const struct cop_train_batch *rows = cop_train_rows(p->batch, p->step);
    int32_t first = rows->starts[window], n = rows->lengths[window];
    int32_t n_keys = p->batch->lengths[window];
    size_t at = (size_t)first * (size_t)d->longest * (size_t)d->heads +
                (size_t)head * (size_t)n * (size_t)n_keys;
    return (struct place){.head = head,
                          .kv_head = head / (d->heads / d->kv_heads),
                          .first = first,
                          .n = n,
                          .from = cop_train_from(p->batch, p->step, window),
                          .first_key = p->batch->starts[window],
                          .n_keys = n_keys,
                          .scores = d->scores + at,
                          .d_scores = d->d_scores + at};
}

/* Row r of a place in a table of query heads, or of its own keys of a later step. */
static cop_real *query(const struct pass *p, cop_real *table, const struct place *at, int32_t r)
{
    const struct cop_llama *d = p->decoder;
    return table + ((size_t)(at->first + r) * (size_t)d->heads + (size_t)at->head) *
                       (size_t)d->head_dim;
}

static cop_real *own_key(const struct pass *p, cop_real *table, const struct place *at,
                         int32_t r)
{
    const struct cop_llama *d = p->decoder;
    return table + ((size_t)(at->first + r) * (size_t)d->kv_heads + (size_t)at->kv_head) *
                       (size_t)d->head_dim;
}

/* The keys of step 0. */
static cop_real *keys(const struct pass *p, cop_real *table, const struct place *at)
{
    const struct cop_llama *d = p->decoder;
    return table + ((size_t)at->first_key * (size_t)d->kv_heads + (size_t)at->kv_head) *
                       (size_t)d->head_dim;
}

/* The score of a row's own key of step u + 1. */
static cop_real *own(const struct pass *p, cop_real *table, const struct place *at, int32_t u,
                     int32_t r)
{
    const struct cop_llama *d = p->decoder;
    return table + ((size_t)u * (size_t)d->heads + (size_t)at->head) * (size_t)d->capacity +
           (size_t)(at->first + r);
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

/* ---- Stages --------------------------------------------------------------------------------
 */

typedef struct cop_product product_of(const struct pass *p, const struct place *at);

/* Products of the heads [first, heads) that lie `every` apart. */
static void run_products(const struct pass *p, product_of *product, int32_t first,
                         int32_t every)
{
    enum { AT_ONCE = 64 };
    struct cop_product list[AT_ONCE];
    int32_t n = 0;
    for (int32_t w = 0; w < p->batch->n_windows; w++) {
        for (int32_t h = first; h < p->decoder->heads; h += every) {
            const struct place at = place_at(p, w, h);
            if (at.n == 0) {
                continue;
            }
            list[n++] = product(p, &at);
            if (n == AT_ONCE) {
                cop_products_run(p->products, list, n);
                n = 0;
            }
        }
    }
    cop_products_run(p->products, list, n);
}

/* Products that add to what belongs to a key head. */
static void run_grouped(const struct pass *p, product_of *product)
{
    int32_t group = p->decoder->heads / p->decoder->kv_heads;
    for (int32_t member = 0; member < group; member++) {
        run_products(p, product, member, group);
    }
}

/* work(arg, first, end) over all heads of all windows. */
static void run_rows(struct pass *p, void (*work)(void *arg, size_t first, size_t end))
{
    cop_products_spread(p->products, (size_t)p->batch->n_windows * (size_t)p->decoder->heads,
                        work, p);
}

static struct place place_of(const struct pass *p, size_t index)
{
    size_t heads = (size_t)p->decoder->heads;
    return place_at(p, (int32_t)(index / heads), (int32_t)(index % heads));
}

static struct cop_table lines(const cop_real *data, ptrdiff_t stride)
{
    return (struct cop_table){data, stride, 1};
}

static struct cop_table columns(const cop_real *data, ptrdiff_t stride)
{
    return (struct cop_table){data, 1, stride};
}

static ptrdiff_t query_stride(const struct pass *p)
{
    return (ptrdiff_t)p->decoder->heads * p->decoder->head_dim;
}

static ptrdiff_t key_stride(const struct pass *p)
{
    return (ptrdiff_t)p->decoder->kv_heads * p->decoder->head_dim;
}

/* ---- Weights -------------------------------------------------------------------------------
 */

static struct cop_product score(const struct pass *p, const struct place *at)
{
    return (struct cop_product){
        .left = lines(keys(p, p->passes[0].k, at), key_stride(p)),
        .right = lines(query(p, p->passes[p->step].q, at, 0), query_stride(p)),
        .rows = at->n_keys,
        .n = at->n,
        .depth = p->decoder->head_dim,
        .out = at->scores,
        .out_stride = at->n_keys};
}

/* Row r of the scores becomes weights over keys 0 … r and its own. */
static void weigh_row(const struct pass *p, const struct place *at, int32_t r)
{
    const struct cop_llama *d = p->decoder;
    cop_real *scores = at->scores + (size_t)r * (size_t)at->n_keys;
    const int32_t last = at->from + r;
    const double scale = 1 / sqrt((double)d->head_dim);
    cop_real most = scores[0];
    for (int32_t j = 1; j <= last; j++) {
        most = scores[j] > most ? scores[j] : most;
    }
    for (int32_t u = 0; u < p->step; u++) {
        cop_real *extra = own(p, d->extra, at, u, r);
        *extra = dot(query(p, p->passes[p->step].q, at, r),
                     own_key(p, p->passes[u + 1].k, at, r), d->head_dim);
        most = *extra > most ? *extra : most;
    }
    double sum = cop_exponentials(scores, last + 1, most, scale);
    for (int32_t u = 0; u < p->step; u++) {
        sum += cop_exponentials(own(p, d->extra, at, u, r), 1, most, scale);
    }
    const cop_real share = (cop_real)(1 / sum);
    for (int32_t j = 0; j <= last; j++) {
        scores[j] *= share;
    }
    memset(scores + last + 1, 0, (size_t)(at->n_keys - last - 1) * sizeof *scores);
    for (int32_t u = 0; u < p->step; u++) {
        *own(p, d->extra, at, u, r) *= share;
    }
}

static void weigh(void *arg, size_t first, size_t end)
{
    const struct pass *p = arg;
    for (size_t i = first; i < end; i++) {
        const struct place at = place_of(p, i);
        for (int32_t r = 0; r < at.n; r++) {
            weigh_row(p, &at, r);
        }
    }
}

/* ---- Forward -------------------------------------------------------------------------------
 */

static struct cop_product mix(const struct pass *p, const struct place *at)
{
    return (struct cop_product){.left = columns(keys(p, p->passes[0].v, at), key_stride(p)),
                                .right = lines(at->scores, at->n_keys),
                                .rows = p->decoder->head_dim,
                                .n = at->n,
                                .depth = at->n_keys,
                                .out = query(p, p->passes[p->step].mixed, at, 0),
                                .out_stride = query_stride(p)};
}

static void mix_own(void *arg, size_t first, size_t end)
{
    const struct pass *p = arg;
    for (size_t i = first; i < end; i++) {
        const struct place at = place_of(p, i);
        for (int32_t u = 0; u < p->step; u++) {
            for (int32_t r = 0; r < at.n; r++) {
                add_scaled(query(p, p->passes[p->step].mixed, &at, r),
                           own_key(p, p->passes[u + 1].v, &at, r),
                           *own(p, p->decoder->extra, &at, u, r), p->decoder->head_dim);
            }
        }
    }
}

void cop_attention_forward(struct cop_llama *decoder, struct cop_products *products,
                           const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                           int32_t step)
{
    struct pass p = {decoder, products, batch, passes, step};
    run_products(&p, score, 0, 1);
    run_rows(&p, weigh);
    run_products(&p, mix, 0, 1);
    run_rows(&p, mix_own);
}

/* ---- Backward ------------------------------------------------------------------------------
 */

static struct cop_product slope(const struct pass *p, const struct place *at)
{
    return (struct cop_product){
        .left = lines(keys(p, p->passes[0].v, at), key_stride(p)),
        .right = lines(query(p, p->decoder->d_mixed, at, 0), query_stride(p)),
        .rows = at->n_keys,
        .n = at->n,
        .depth = p->decoder->head_dim,
        .out = at->d_scores,
        .out_stride = at->n_keys};
}

static struct cop_product to_value(const struct pass *p, const struct place *at)
{
    return (struct cop_product){
        .left = columns(query(p, p->decoder->d_mixed, at, 0), query_stride(p)),
        .right = columns(at->scores, at->n_keys),
        .rows = p->decoder->head_dim,
        .n = at->n_keys,
        .depth = at->n,
        .accumulate = true,
        .out = keys(p, p->passes[0].d_v, at),
        .out_stride = key_stride(p)};
}

static struct cop_product to_query(const struct pass *p, const struct place *at)
{
    return (struct cop_product){.left = columns(keys(p, p->passes[0].k, at), key_stride(p)),
                                .right = lines(at->d_scores, at->n_keys),
                                .rows = p->decoder->head_dim,
                                .n = at->n,
                                .depth = at->n_keys,
                                .out = query(p, p->decoder->d_q, at, 0),
                                .out_stride = query_stride(p)};
}

static struct cop_product to_key(const struct pass *p, const struct place *at)
{
    return (struct cop_product){
        .left = columns(query(p, p->passes[p->step].q, at, 0), query_stride(p)),
        .right = columns(at->d_scores, at->n_keys),
        .rows = p->decoder->head_dim,
        .n = at->n_keys,
        .depth = at->n,
        .accumulate = true,
        .out = keys(p, p->passes[0].d_k, at),
        .out_stride = key_stride(p)};
}

/* Gradients by the weights of a row become those by its scores (before scaling). */
static void soften_row(const struct pass *p, const struct place *at, int32_t r)
{
    const struct cop_llama *d = p->decoder;
    const int32_t last = at->from + r;
    const cop_real *weights = at->scores + (size_t)r * (size_t)at->n_keys;
    cop_real *slopes = at->d_scores + (size_t)r * (size_t)at->n_keys;
    cop_real scale = (cop_real)(1 / sqrt((double)d->head_dim));
    cop_real mean = dot(weights, slopes, last + 1);
    for (int32_t u = 0; u < p->step; u++) {
        cop_real *d_extra = own(p, d->d_extra, at, u, r);
        *d_extra = dot(query(p, d->d_mixed, at, r), own_key(p, p->passes[u + 1].v, at, r),
                       d->head_dim);
        mean += *own(p, d->extra, at, u, r) * *d_extra;
    }
    for (int32_t j = 0; j <= last; j++) {
        slopes[j] = scale * weights[j] * (slopes[j] - mean);
    }
    memset(slopes + last + 1, 0, (size_t)(at->n_keys - last - 1) * sizeof *slopes);
    for (int32_t u = 0; u < p->step; u++) {
        cop_real *d_extra = own(p, d->d_extra, at, u, r);
        *d_extra = scale * *own(p, d->extra, at, u, r) * (*d_extra - mean);
    }
}

static void soften(void *arg, size_t first, size_t end)
{
    const struct pass *p = arg;
    for (size_t i = first; i < end; i++) {
        const struct place at = place_of(p, i);
        for (int32_t r = 0; r < at.n; r++) {
            soften_row(p, &at, r);
        }
    }
}

/* What goes through a row's own keys and values of later steps; [first, end) of key heads. */
static void back_own(void *arg, size_t first, size_t end)
{
    const struct pass *p = arg;
    const struct cop_llama *d = p->decoder;
    size_t group = (size_t)(d->heads / d->kv_heads);
    for (size_t i = first * group; i < end * group; i++) {
        const struct place at = place_of(p, i);
        for (int32_t u = 0; u < p->step; u++) {
            const struct cop_llama_pass *pass = &p->passes[u + 1];
            for (int32_t r = 0; r < at.n; r++) {
                cop_real slope_here = *own(p, d->d_extra, &at, u, r);
                add_scaled(own_key(p, pass->d_v, &at, r), query(p, d->d_mixed, &at, r),
                           *own(p, d->extra, &at, u, r), d->head_dim);
                add_scaled(own_key(p, pass->d_k, &at, r),
                           query(p, p->passes[p->step].q, &at, r), slope_here, d->head_dim);
                add_scaled(query(p, d->d_q, &at, r), own_key(p, pass->k, &at, r), slope_here,
                           d->head_dim);
            }
        }
    }
}

void cop_attention_backward(struct cop_llama *decoder, struct cop_products *products,
                            const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                            int32_t step)
{
    struct pass p = {decoder, products, batch, passes, step};
    run_products(&p, score, 0, 1);
    run_rows(&p, weigh);
    run_products(&p, slope, 0, 1);
    run_grouped(&p, to_value);
    run_rows(&p, soften);
    run_products(&p, to_query, 0, 1);
    run_grouped(&p, to_key);
    cop_products_spread(products, (size_t)batch->n_windows * (size_t)decoder->kv_heads,
                        back_own, &p);
}
