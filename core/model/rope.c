/* Rotary angles, computed in double once per model and rounded once. */
#include "core/model/state.h"
#include <math.h>
#include <stdlib.h>

enum cop_status cop_model_make_rope(struct cop_model *model, struct cop_error *err)
{
    size_t half = (size_t)model->rope.dim / 2, positions = (size_t)model->info.context;
    model->rope_table = malloc(2 * half * positions * sizeof *model->rope_table);
    double *frequencies = malloc(half * sizeof *frequencies);
    if (!model->rope_table || !frequencies) {
        free(frequencies);
        return cop_fail(err, COP_ERR_MEMORY,
                        "no memory for the rotary angles of %zu positions; lower `context`",
                        positions);
    }
    for (size_t i = 0; i < half; i++) {
        double exponent = -2.0 * (double)i / model->rope.dim;
        double divisor = model->rope_factor ? model->rope_factor[i] : 1;
        frequencies[i] = model->rope_scale * pow(model->info.rope_theta, exponent) / divisor;
    }
    float *cosines = model->rope_table, *sines = cosines + half * positions;
    for (size_t position = 0; position < positions; position++) {
        for (size_t i = 0; i < half; i++) {
            double angle = (double)position * frequencies[i];
            cosines[position * half + i] = (float)cos(angle);
            sines[position * half + i] = (float)sin(angle);
        }
    }
    free(frequencies);
    model->rope.cosines = cosines;
    model->rope.sines = sines;
    return COP_OK;
}
