/* A DFlash drafter beside its target: weights on the target's device, its ends, the chain. */
#include "algorithms/heads/masked/dflash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Loading ----------------------------------------------------------------------------- */

static enum cop_status check_target(struct cop_dflash *dflash, struct cop_error *err)
{
    const struct cop_model_info *target = cop_model_info(dflash->target);
    const char *name = dflash->files.name;
    if (dflash->drafted.vocab == 0) { /* a GGUF file that does not say */
        dflash->drafted.vocab = dflash->drafted.n_ids = target->vocab_size;
    }
    if (dflash->mask_token >= target->vocab_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the mask is token %d; the target has %d tokens", name,
                        dflash->mask_token, target->vocab_size);
    }
    if (dflash->width != target->hidden_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the head was made for a target of hidden size %d; this one has %d",
                        name, dflash->width, target->hidden_size);
    }
    if (dflash->n_layers > 0 && dflash->n_layers != target->layers) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the head was made for a target of %d layers; this one has %d",
                        name, dflash->n_layers, target->layers);
    }
    return cop_reduced_fit(&dflash->drafted, name, dflash->tensors.head || dflash->tensors.w2,
                           dflash->target, err);
}

static enum cop_status load_vectors(struct cop_dflash *dflash, struct cop_error *err)
{
    const struct cop_dflash_tensors *t = &dflash->tensors;
    const struct {
        const struct cop_tensor *tensor;
        float **out;
    } vectors[] = {{t->hidden_norm, &dflash->hidden_norm},
                   {t->norm, &dflash->norm},
                   {t->gate_bias, &dflash->gate_bias},
                   {t->trust, &dflash->trust}, /* a matrix of one row */
                   {t->trust_bias, &dflash->trust_bias}};
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof vectors / sizeof *vectors; i++) {
        if (vectors[i].tensor) {
            status =
                cop_checkpoint_vector(&dflash->files, vectors[i].tensor, vectors[i].out, err);
        }
    }
    return status;
}

static enum cop_status load_matrices(struct cop_dflash *dflash, struct cop_error *err)
{
    const struct cop_dflash_tensors *t = &dflash->tensors;
    const struct {
        const struct cop_tensor *tensor;
        struct cop_weight **out;
    } weights[] = {{t->fc, &dflash->fc}, {t->gate, &dflash->gate}};
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof weights / sizeof *weights; i++) {
        if (weights[i].tensor) {
            status = cop_checkpoint_weight(&dflash->files, weights[i].tensor, dflash->target,
                                           weights[i].out, err);
        }
    }
    if (status == COP_OK) {
        status = cop_reduced_weight(&dflash->drafted, &dflash->files, t->head, dflash->target,
                                    &dflash->head, err);
    }
    if (status == COP_OK && t->w2) {
        status = cop_reduced_weight(&dflash->drafted, &dflash->files, t->w2, dflash->target,
                                    &dflash->w2, err);
    }
    if (status == COP_OK && t->embedding) {
        status = cop_checkpoint_table(&dflash->files, t->embedding, &dflash->embedding, err);
    }
    return status == COP_OK && t->w1
               ? cop_checkpoint_table(&dflash->files, t->w1, &dflash->w1, err)
               : status;
}

enum cop_status cop_dflash_load(struct cop_dflash *dflash, const struct cop_model *target,
                                const struct cop_vocabulary_option *vocabulary,
                                struct cop_error *err)
{
    dflash->target = target;
    enum cop_status status = check_target(dflash, err);
    if (status == COP_OK) {
        status =
            cop_reduced_narrow(&dflash->drafted, dflash->files.name, vocabulary, target, err);
    }
    if (status == COP_OK) {
        status = cop_block_load(dflash->block, dflash->files.weights, target, err);
    }
    if (status == COP_OK) {
        status = load_vectors(dflash, err);
    }
    return status == COP_OK ? load_matrices(dflash, err) : status;
}

/* ---- Ends -------------------------------------------------------------------------------- */

static enum cop_status fail_memory(int32_t n, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory for %d rows of a DFlash drafter", n);
}

static bool multiply(const struct cop_dflash *dflash, const struct cop_weight *weight,
                     const float *x, int32_t n, const float *bias, bool adds, float *out)
{
    return cop_model_ops(dflash->target)
        ->matmul(cop_model_device(dflash->target), weight, x, n, bias, adds, out);
}

static void norm(const struct cop_dflash *dflash, const float *gain, float *rows, int32_t n)
{
    cop_model_ops(dflash->target)
        ->rms_norm(cop_model_device(dflash->target), rows, gain,
                   (float)cop_block_info(dflash->block)->norm_epsilon, n, dflash->width,
                   dflash->width, rows);
}

enum cop_status cop_dflash_fuse(const struct cop_dflash *dflash, const float *states, int32_t n,
                                float *g, struct cop_error *err)
{
    if (!multiply(dflash, dflash->fc, states, n, NULL, false, g)) {
        return fail_memory(n, err);
    }
    norm(dflash, dflash->hidden_norm, g, n);
    return COP_OK;
}

enum cop_status cop_dflash_embed(const struct cop_dflash *dflash, const cop_token *tokens,
                                 int32_t n, float *out, struct cop_error *err)
{
    if (!dflash->embedding.data) {
        return cop_model_embed(dflash->target, tokens, n, out, err);
    }
    cop_checkpoint_embed(&dflash->embedding, dflash->target, tokens, n, out);
    return COP_OK;
}

void cop_dflash_norm(const struct cop_dflash *dflash, float *rows, int32_t n)
{
    norm(dflash, dflash->norm, rows, n);
}

enum cop_status cop_dflash_logits(const struct cop_dflash *dflash, const float *rows, int32_t n,
                                  float *own, struct cop_error *err)
{
    if (!dflash->head) {
        return cop_model_head(dflash->target, rows, n, own, err);
    }
    return multiply(dflash, dflash->head, rows, n, NULL, false, own) ? COP_OK
                                                                     : fail_memory(n, err);
}

/* ---- The chain --------------------------------------------------------------------------- */

static float sigmoid(float x)
{
    return (float)(1 / (1 + exp(-(double)x)));
}

/* What the gate reads: [before; e; row] when recurrent, [row; e] when gated. */
static void join(const struct cop_dflash *dflash, const struct cop_dflash_link *link,
                 const float *e, float *out)
{
    size_t rank = (size_t)dflash->rank, width = (size_t)dflash->width;
    if (dflash->chain == COP_DFLASH_GATED) {
        memcpy(out, link->row, width * sizeof *out);
        memcpy(out + width, e, rank * sizeof *out);
        return;
    }
    for (size_t i = 0; i < rank; i++) {
        out[i] = link->before ? link->before[i] : 0;
    }
    memcpy(out + rank, e, rank * sizeof *out);
    memcpy(out + 2 * rank, link->row, width * sizeof *out);
}

/* e by the gate's outputs; a recurrent state goes on. */
static void pass_gate(const struct cop_dflash *dflash, const struct cop_dflash_link *link,
                      const float *gate, float *e)
{
    int32_t rank = dflash->rank;
    for (int32_t i = 0; i < rank; i++) {
        float open = sigmoid(gate[i]);
        if (dflash->chain == COP_DFLASH_GATED) {
            e[i] *= open;
            continue;
        }
        float before = link->before ? link->before[i] : 0;
        link->after[i] = open * before + (1 - open) * tanhf(gate[rank + i]);
        e[i] = tanhf(gate[2 * rank + i]);
    }
}

/* The estimate of one link, before its e is gated. */
static double estimate(const struct cop_dflash *dflash, const struct cop_dflash_link *link,
                       const float *e)
{
    double sum = dflash->trust_bias ? (double)dflash->trust_bias[0] : 0;
    for (int32_t i = 0; i < dflash->width; i++) {
        sum += (double)dflash->trust[i] * (double)link->row[i];
    }
    for (int32_t i = 0; dflash->trusts_token && i < dflash->rank; i++) {
        sum += (double)dflash->trust[dflash->width + i] * (double)e[i];
    }
    return 1 / (1 + exp(-sum));
}

enum cop_status cop_dflash_follow(const struct cop_dflash *dflash,
                                  struct cop_dflash_link *links, int32_t n, float *own,
                                  struct cop_floats *scratch, struct cop_error *err)
{
    int32_t rank = dflash->rank;
    size_t joined = (size_t)dflash->width + 2 * (size_t)rank, gates = 3 * (size_t)rank;
    size_t count = (size_t)n * (joined + gates + (size_t)rank);
    if (!cop_floats_reserve(scratch, count)) {
        return fail_memory(n, err);
    }
    float *e = scratch->items, *in = e + (size_t)n * (size_t)rank,
          *gate = in + (size_t)n * joined;
    bool is_gated = dflash->chain == COP_DFLASH_GATED;
    size_t in_width = (size_t)dflash->width + (size_t)(is_gated ? rank : 2 * rank);
    size_t gate_width = (size_t)(is_gated ? rank : 3 * rank);
    for (int32_t i = 0; i < n; i++) {
        float *own_e = e + (size_t)i * (size_t)rank;
        if (dflash->w1.data) {
            cop_checkpoint_embed(&dflash->w1, dflash->target, &links[i].token, 1, own_e);
        }
        links[i].trust = dflash->trust ? estimate(dflash, &links[i], own_e) : 1;
        if (dflash->gate) {
            join(dflash, &links[i], own_e, in + (size_t)i * in_width);
        }
    }
    if (dflash->gate &&
        !multiply(dflash, dflash->gate, in, n, dflash->gate_bias, false, gate)) {
        return fail_memory(n, err);
    }
    for (int32_t i = 0; dflash->gate && i < n; i++) {
        pass_gate(dflash, &links[i], gate + (size_t)i * gate_width,
                  e + (size_t)i * (size_t)rank);
    }
    return !dflash->w2 || multiply(dflash, dflash->w2, e, n, NULL, true, own)
               ? COP_OK
               : fail_memory(n, err);
}
