/* The layer around its attention: products, norm, gate. */
#include "algorithms/networks/llama.h"
#include "algorithms/networks/attention.h"
#include "algorithms/networks/layers.h"
#include "kernels/large.h"

#include <stdlib.h>
#include <string.h>

static struct cop_parameter *add_matrix(struct cop_parameters *parameters, const char *prefix,
                                        const char *name, int32_t rows, int32_t cols,
                                        double scale, uint64_t seed)
{
    struct cop_parameter *p =
        cop_parameters_add(parameters, rows, cols, "%s%s.weight", prefix, name);
    if (p) {
        cop_parameter_normal(p, scale / sqrt((double)cols), seed);
    }
    return p;
}

bool cop_llama_add(struct cop_llama *decoder, struct cop_parameters *parameters,
                   const char *prefix, uint64_t seed)
{
    struct cop_llama *d = decoder;
    int32_t queries = d->heads * d->head_dim, keys = d->kv_heads * d->head_dim;
    const double small = 0.1;
    d->q = add_matrix(parameters, prefix, "self_attn.q_proj", queries, d->inputs, 1, seed);
    d->k = add_matrix(parameters, prefix, "self_attn.k_proj", keys, d->inputs, 1, seed);
    d->v = add_matrix(parameters, prefix, "self_attn.v_proj", keys, d->inputs, 1, seed);
    d->o = add_matrix(parameters, prefix, "self_attn.o_proj", d->width, queries, small, seed);
    d->gate = add_matrix(parameters, prefix, "mlp.gate_proj", d->ffn, d->width, 1, seed);
    d->up = add_matrix(parameters, prefix, "mlp.up_proj", d->ffn, d->width, 1, seed);
    d->down = add_matrix(parameters, prefix, "mlp.down_proj", d->width, d->ffn, small, seed);
    d->norm = cop_parameters_add(parameters, 0, d->width, "%spost_attention_layernorm.weight",
                                 prefix);
    if (d->norm) {
        cop_parameter_fill(d->norm, 1);
    }
    return d->q && d->k && d->v && d->o && d->gate && d->up && d->down && d->norm;
}

/* ---- Memory --------------------------------------------------------------------------------
 */

static cop_real *room(size_t rows, size_t cols, bool *is_whole)
{
    cop_real *memory = cop_large_new(rows * cols * sizeof *memory);
    *is_whole &= memory != NULL;
    return memory;
}

bool cop_llama_reserve(struct cop_llama *decoder, int32_t n, int32_t longest, int32_t steps)
{
    struct cop_llama *d = decoder;
    size_t rows = (size_t)n, half = (size_t)d->head_dim / 2, side = (size_t)longest;
    bool is_whole = true;
    d->longest = longest;
    d->capacity = n;
    d->cosines = room(side + (size_t)steps, half, &is_whole);
    d->sines = room(side + (size_t)steps, half, &is_whole);
    d->wide = room(rows, (size_t)d->ffn, &is_whole);
    d->wide2 = room(rows, (size_t)d->ffn, &is_whole);
    d->d_mixed = room(rows, (size_t)(d->heads * d->head_dim), &is_whole);
    d->d_q = room(rows, (size_t)(d->heads * d->head_dim), &is_whole);
    d->d_row = room(rows, (size_t)d->width, &is_whole);
    d->scores = room(rows * (size_t)d->heads, side, &is_whole);
    d->d_scores = room(rows * (size_t)d->heads, side, &is_whole);
    d->extra = room((size_t)steps * (size_t)d->heads, rows, &is_whole);
    d->d_extra = room((size_t)steps * (size_t)d->heads, rows, &is_whole);
    for (size_t position = 0; is_whole && position < side + (size_t)steps; position++) {
        for (size_t i = 0; i < half; i++) {
            double turn = pow(d->theta, -2.0 * (double)i / d->head_dim);
            d->cosines[position * half + i] = (cop_real)cos((double)position * turn);
            d->sines[position * half + i] = (cop_real)sin((double)position * turn);
        }
    }
    return is_whole;
}

void cop_llama_release(struct cop_llama *decoder)
{
    cop_real **all[] = {&decoder->cosines,  &decoder->sines, &decoder->wide,   &decoder->wide2,
                        &decoder->d_mixed,  &decoder->d_q,   &decoder->d_row,  &decoder->scores,
                        &decoder->d_scores, &decoder->extra, &decoder->d_extra};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(*all[i]);
        *all[i] = NULL;
    }
}

bool cop_llama_pass_new(struct cop_llama_pass *pass, const struct cop_llama *decoder, int32_t n)
{
    size_t rows = (size_t)n, width = (size_t)decoder->width, ffn = (size_t)decoder->ffn;
    size_t queries = (size_t)(decoder->heads * decoder->head_dim);
    size_t keys = (size_t)(decoder->kv_heads * decoder->head_dim);
    bool is_whole = true;
    pass->input = room(rows, (size_t)decoder->inputs, &is_whole);
    pass->q = room(rows, queries, &is_whole);
    pass->k = room(rows, keys, &is_whole);
    pass->v = room(rows, keys, &is_whole);
    pass->mixed = room(rows, queries, &is_whole);
    pass->residual = room(rows, width, &is_whole);
    pass->normed = room(rows, width, &is_whole);
    pass->gate = room(rows, ffn, &is_whole);
    pass->up = room(rows, ffn, &is_whole);
    pass->d_k = room(rows, keys, &is_whole);
    pass->d_v = room(rows, keys, &is_whole);
    return is_whole;
}

void cop_llama_pass_release(struct cop_llama_pass *pass)
{
    cop_real *all[] = {pass->input, pass->q,        pass->k,      pass->v,
                       pass->mixed, pass->residual, pass->normed, pass->gate,
                       pass->up,    pass->d_k,      pass->d_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    *pass = (struct cop_llama_pass){0};
}

/* ---- Forward and backward ------------------------------------------------------------------
 */

/* rows [n, heads * head_dim] by the positions of a step; back: the other way round. */
static void rotate(const struct cop_llama *decoder, const struct cop_train_batch *batch,
                   int32_t step, int32_t heads, bool back, cop_real *rows)
{
    size_t half = (size_t)decoder->head_dim / 2;
    const struct cop_train_batch *of_step = cop_train_rows(batch, step);
    for (int32_t w = 0; w < batch->n_windows; w++) {
        size_t place = (size_t)(cop_train_from(batch, step, w) + step);
        for (int32_t r = 0; r < of_step->lengths[w]; r++, place++) {
            cop_real *at = rows + (size_t)(of_step->starts[w] + r) * (size_t)heads * 2 * half;
            const cop_real *cosines = decoder->cosines + place * half;
            const cop_real *sines = decoder->sines + place * half;
            for (int32_t h = 0; h < heads; h++, at += 2 * half) {
                for (size_t i = 0; i < half; i++) {
                    cop_real a = at[i], b = at[i + half], s = back ? -sines[i] : sines[i];
                    at[i] = a * cosines[i] - b * s;
                    at[i + half] = b * cosines[i] + a * s;
                }
            }
        }
    }
}

static void project(struct cop_products *products, const struct cop_parameter *weight,
                    const cop_real *x, int32_t n, bool accumulate, cop_real *out)
{
    cop_product_forward(products, weight->value, weight->rows, weight->cols, x, n, NULL,
                        accumulate, out);
}

/* d_x (+)= the gradient by x; the weight's own is added to it. */
static void project_back(struct cop_products *products, struct cop_parameter *weight,
                         const cop_real *x, const cop_real *d_out, int32_t n, bool accumulate,
                         cop_real *d_x)
{
    cop_product_weights(products, d_out, weight->rows, x, weight->cols, n, weight->gradient);
    cop_product_inputs(products, weight->value, weight->rows, weight->cols, d_out, n,
                       accumulate, d_x);
}

void cop_llama_forward(struct cop_llama *decoder, struct cop_products *products,
                       const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                       int32_t step, const cop_real *x, cop_real *y)
{
    struct cop_llama_pass *pass = &passes[step];
    int32_t n = cop_train_rows(batch, step)->n;
    size_t rows = (size_t)n, width = (size_t)decoder->width;
    size_t keys = (size_t)(decoder->kv_heads * decoder->head_dim);
    project(products, decoder->q, pass->input, n, false, pass->q);
    project(products, decoder->k, pass->input, n, false, pass->k);
    project(products, decoder->v, pass->input, n, false, pass->v);
    rotate(decoder, batch, step, decoder->heads, false, pass->q);
    rotate(decoder, batch, step, decoder->kv_heads, false, pass->k);
    memset(pass->d_k, 0, rows * keys * sizeof(cop_real));
    memset(pass->d_v, 0, rows * keys * sizeof(cop_real));
    cop_attention_forward(decoder, products, batch, passes, step);
    memcpy(pass->residual, x, rows * width * sizeof(cop_real));
    project(products, decoder->o, pass->mixed, n, true, pass->residual);
    const struct cop_norm norm = {
        .gain = decoder->norm->value, .epsilon = decoder->epsilon, .width = decoder->width};
    cop_norm_forward(&norm, pass->residual, n, pass->normed);
    project(products, decoder->gate, pass->normed, n, false, pass->gate);
    project(products, decoder->up, pass->normed, n, false, pass->up);
    cop_swiglu(products, pass->gate, pass->up, rows * (size_t)decoder->ffn, decoder->wide);
    memcpy(y, pass->residual, rows * width * sizeof(cop_real));
    project(products, decoder->down, decoder->wide, n, true, y);
}

/* d_x = the gradient by the residual stream before the gate. */
static void gate_back(struct cop_llama *decoder, struct cop_products *products,
                      const struct cop_llama_pass *pass, int32_t n, const cop_real *d_y,
                      cop_real *d_x)
{
    size_t rows = (size_t)n, wide = rows * (size_t)decoder->ffn;
    cop_swiglu(products, pass->gate, pass->up, wide, decoder->wide);
    cop_product_weights(products, d_y, decoder->width, decoder->wide, decoder->ffn, n,
                        decoder->down->gradient);
    cop_product_inputs(products, decoder->down->value, decoder->width, decoder->ffn, d_y, n,
                       false, decoder->wide);
    /* what swiglu_back reads of d_out at a place it has read before it writes there */
    cop_swiglu_back(products, pass->gate, pass->up, decoder->wide, wide, decoder->wide2,
                    decoder->wide);
    project_back(products, decoder->gate, pass->normed, decoder->wide2, n, false,
                 decoder->d_row);
    project_back(products, decoder->up, pass->normed, decoder->wide, n, true, decoder->d_row);
    memcpy(d_x, d_y, rows * (size_t)decoder->width * sizeof(cop_real));
    const struct cop_norm norm = {
        .gain = decoder->norm->value, .epsilon = decoder->epsilon, .width = decoder->width};
    cop_norm_back(&norm, pass->residual, decoder->d_row, n, d_x, decoder->norm->gradient, NULL);
}

void cop_llama_backward(struct cop_llama *decoder, struct cop_products *products,
                        const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                        int32_t step, const cop_real *d_y, cop_real *d_input, cop_real *d_x)
{
    struct cop_llama_pass *pass = &passes[step];
    int32_t n = cop_train_rows(batch, step)->n;
    gate_back(decoder, products, pass, n, d_y, d_x);
    project_back(products, decoder->o, pass->mixed, d_x, n, false, decoder->d_mixed);
    cop_attention_backward(decoder, products, batch, passes, step);
    rotate(decoder, batch, step, decoder->heads, true, decoder->d_q);
    rotate(decoder, batch, step, decoder->kv_heads, true, pass->d_k);
    project_back(products, decoder->q, pass->input, decoder->d_q, n, false, d_input);
    project_back(products, decoder->k, pass->input, pass->d_k, n, true, d_input);
    project_back(products, decoder->v, pass->input, pass->d_v, n, true, d_input);
}
