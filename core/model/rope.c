/* Rotary angles, computed in double once per model and rounded once.
 *
 * Pair i of d turns by theta^(-2i/d) each position. Four ways to stretch that to more positions
 * than a model was first trained on:
 *     linear    every pair turns `factor` times slower
 *     factors   a tensor of divisors, one for each pair (GGUF files of Llama 3)
 *     llama3    pairs that turn less than `low` times within the original positions are
 *               stretched, those above `high` turns are not; between them it is a mixture
 *     yarn      the same with borders at beta_slow and beta_fast turns and a ramp over pairs
 *               (not over turns); queries and keys grow by `attention` (arXiv:2309.00071)
 * Layers with a window may have a base of their own; nothing is stretched there. */
#include "core/model/state.h"
#include <math.h>
#include <stdlib.h>

static double llama3(const struct cop_rope_scaling *scaling, double frequency)
{
    double turns = scaling->original * frequency / (2 * M_PI);
    double share = (turns - scaling->low) / (scaling->high - scaling->low);
    share = fmin(fmax(share, 0), 1);
    return (1 - share) * frequency / scaling->factor + share * frequency;
}

/* The pair that makes so many turns within the original positions, as a real number. */
static double pair_of_turns(const struct cop_model *model, double turns)
{
    const struct cop_rope_scaling *scaling = &model->rope_scaling;
    return model->rope.dim * log(scaling->original / (turns * 2 * M_PI)) /
           (2 * log(model->info.rope_theta));
}

static double yarn(const struct cop_model *model, double frequency, size_t pair)
{
    const struct cop_rope_scaling *scaling = &model->rope_scaling;
    double low = pair_of_turns(model, scaling->beta_fast);
    double high = pair_of_turns(model, scaling->beta_slow);
    if (!scaling->is_unrounded) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, model->rope.dim - 1);
    high = low == high ? high + 0.001 : high;
    double share = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return share * frequency / scaling->factor + (1 - share) * frequency;
}

static double frequency_of(const struct cop_model *model, size_t pair)
{
    double exponent = -2.0 * (double)pair / model->rope.dim;
    double frequency = pow(model->info.rope_theta, exponent);
    if (model->rope_factor) {
        frequency /= model->rope_factor[pair];
    }
    switch (model->rope_scaling.kind) {
    case COP_ROPE_LINEAR: return frequency / model->rope_scaling.factor;
    case COP_ROPE_LLAMA3: return llama3(&model->rope_scaling, frequency);
    case COP_ROPE_YARN: return yarn(model, frequency, pair);
    case COP_ROPE_PLAIN: break;
    }
    return frequency;
}

/* Cosines and sines of all positions, `size` times. */
static enum cop_status fill_table(const struct cop_model *model, const double *frequencies,
                                  double size, float **table, struct cop_rope *rope,
                                  struct cop_error *err)
{
    size_t half = (size_t)model->rope.dim / 2, positions = (size_t)model->info.context;
    *table = malloc(2 * half * positions * sizeof **table);
    if (!*table) {
        return cop_fail(err, COP_ERR_MEMORY,
                        "no memory for the rotary angles of %zu positions; lower `context`",
                        positions);
    }
    float *cosines = *table, *sines = cosines + half * positions;
    for (size_t position = 0; position < positions; position++) {
        for (size_t i = 0; i < half; i++) {
            double angle = (double)position * frequencies[i];
            cosines[position * half + i] = (float)(size * cos(angle));
            sines[position * half + i] = (float)(size * sin(angle));
        }
    }
    *rope = (struct cop_rope){cosines, sines, model->rope.dim, model->rope.is_interleaved};
    return COP_OK;
}

enum cop_status cop_model_make_rope(struct cop_model *model, struct cop_error *err)
{
    size_t half = (size_t)model->rope.dim / 2;
    double size = model->rope_scaling.kind == COP_ROPE_YARN ? model->rope_scaling.attention : 1;
    double *frequencies = calloc(half, sizeof *frequencies);
    if (!frequencies) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu rotary frequencies", half);
    }
    for (size_t i = 0; i < half; i++) {
        frequencies[i] = frequency_of(model, i);
    }
    enum cop_status status =
        fill_table(model, frequencies, size, &model->rope_table, &model->rope, err);
    if (status == COP_OK && model->window_theta > 0) {
        for (size_t i = 0; i < half; i++) {
            frequencies[i] = pow(model->window_theta, -2.0 * (double)i / model->rope.dim);
        }
        status =
            fill_table(model, frequencies, 1, &model->window_table, &model->window_rope, err);
    }
    free(frequencies);
    return status;
}
