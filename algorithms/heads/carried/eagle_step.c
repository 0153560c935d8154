/* One step of an EAGLE head over the rows of many sequences (the formulas: eagle.h). */
#include "algorithms/heads/carried/eagle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum cop_status fail_memory(int32_t n, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory for %d rows of an EAGLE head", n);
}

/* [n, cols]; the next call may give the same memory. */
static float *reserve(struct cop_eagle *eagle, int32_t n, size_t cols)
{
    size_t count = (size_t)n * cols;
    if (count > eagle->scratch_capacity) {
        free(eagle->scratch);
        eagle->scratch = malloc(count * sizeof *eagle->scratch);
        eagle->scratch_capacity = eagle->scratch ? count : 0;
    }
    return eagle->scratch;
}

static void norm(const struct cop_eagle *eagle, const float *x, const float *gain, int32_t n,
                 int32_t width, int32_t stride, float *out)
{
    cop_model_ops(eagle->target)
        ->rms_norm(cop_model_device(eagle->target), x, gain,
                   (float)cop_block_info(eagle->block)->norm_epsilon, n, width, stride, out);
}

static bool multiply(const struct cop_eagle *eagle, const struct cop_weight *weight,
                     const float *x, int32_t n, const float *bias, float *out)
{
    return cop_model_ops(eagle->target)
        ->matmul(cop_model_device(eagle->target), weight, x, n, bias, false, out);
}

enum cop_status cop_eagle_fuse(struct cop_eagle *eagle, const float *states, int32_t n,
                               float *x, struct cop_error *err)
{
    const struct cop_eagle_weights *w = &eagle->weights;
    int32_t taps[COP_EAGLE_TAPS];
    int32_t width = eagle->target_width;
    if (eagle->version == 1) {
        memcpy(x, states, (size_t)n * (size_t)width * sizeof *x);
        return COP_OK;
    }
    int32_t n_taps = cop_eagle_taps(eagle, cop_model_info(eagle->target), taps);
    int32_t cols = n_taps * width;
    if (w->tap_norm || w->tap_norms[0]) {
        float *normed = reserve(eagle, n, (size_t)cols);
        if (!normed) {
            return fail_memory(n, err);
        }
        memcpy(normed, states, (size_t)n * (size_t)cols * sizeof *normed);
        for (int32_t i = 0; i < n_taps && w->tap_norms[i]; i++) {
            float *tap = normed + (size_t)i * (size_t)width;
            norm(eagle, tap, w->tap_norms[i], n, width, cols, tap);
        }
        if (w->tap_norm) {
            norm(eagle, normed, w->tap_norm, n, cols, cols, normed);
        }
        states = normed;
    }
    return multiply(eagle, w->fc, states, n, w->fc_bias, x) ? COP_OK : fail_memory(n, err);
}

enum cop_status cop_eagle_step(struct cop_eagle *eagle, struct cop_cache *cache,
                               const struct cop_pair_rows *rows, struct cop_error *err)
{
    const struct cop_eagle_weights *w = &eagle->weights;
    const struct cop_pair pair = {.target = eagle->target,
                                  .embedding = w->embedding,
                                  .token_norm = w->input_norm,
                                  .state_norm = w->hidden_norm,
                                  .epsilon = cop_block_info(eagle->block)->norm_epsilon,
                                  .width = eagle->width};
    int32_t n = rows->n;
    size_t width = (size_t)eagle->width;
    float *joined = reserve(eagle, n, 3 * width);
    if (!joined) {
        return fail_memory(n, err);
    }
    enum cop_status status =
        cop_pair_join(&pair, rows, joined + 2 * (size_t)n * width, joined, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_block_pass pass = {.n = n,
                                  .sequences = rows->sequences,
                                  .parents = rows->parents,
                                  .input = joined,
                                  .stream = rows->x};
    if (eagle->version == 1) {
        if (!multiply(eagle, w->fc, joined, n, w->fc_bias, rows->x)) {
            return fail_memory(n, err);
        }
        pass.input = rows->x;
    }
    for (size_t i = 0; eagle->norm_before_residual && i < (size_t)n; i++) {
        memcpy(rows->x + i * width, joined + (2 * i + 1) * width, width * sizeof *joined);
    }
    return cop_block_run(eagle->block, cache, &pass, err);
}

/* What the LM head reads of y, in scratch; y becomes the x of the next row. */
static const float *normed_output(struct cop_eagle *eagle, float *y, int32_t n, float *scratch)
{
    if (eagle->version == 1) {
        return y;
    }
    norm(eagle, y, eagle->weights.norm, n, eagle->width, eagle->width, scratch);
    if (eagle->norm_output) {
        memcpy(y, scratch, (size_t)n * (size_t)eagle->width * sizeof *y);
    }
    return scratch;
}

enum cop_status cop_eagle_logits(struct cop_eagle *eagle, float *y, int32_t n, float *logits,
                                 struct cop_error *err)
{
    const struct cop_weight *head = eagle->weights.head;
    size_t size = (size_t)n * (size_t)eagle->width;
    float *scratch = reserve(eagle, n, (size_t)eagle->width + (size_t)eagle->drafted.n_ids);
    if (!scratch) {
        return fail_memory(n, err);
    }
    float *own = eagle->drafted.ids ? scratch + size : logits;
    const float *read = normed_output(eagle, y, n, scratch);
    if (!head) {
        return cop_model_head(eagle->target, read, n, logits, err);
    }
    if (!multiply(eagle, head, read, n, NULL, own)) {
        return fail_memory(n, err);
    }
    if (eagle->drafted.ids) {
        cop_reduced_place(&eagle->drafted, own, n, cop_model_info(eagle->target)->vocab_size,
                          logits);
    }
    return COP_OK;
}
