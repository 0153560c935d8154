/* Joining embeddings and states. */
#include "algorithms/heads/carried/pair.h"
#include "core/model/checkpoint.h"

#include <string.h>

static enum cop_status embed(const struct cop_pair *pair, const cop_token *tokens, int32_t n,
                             float *out, struct cop_error *err)
{
    if (!pair->embedding.data) {
        return cop_model_embed(pair->target, tokens, n, out, err);
    }
    cop_checkpoint_embed(&pair->embedding, pair->target, tokens, n, out);
    return COP_OK;
}

/* A half of each row, in place. */
static void norm(const struct cop_pair *pair, const float *gain, int32_t n, float *half)
{
    if (gain) {
        cop_model_ops(pair->target)
            ->rms_norm(cop_model_device(pair->target), half, gain, (float)pair->epsilon, n,
                       pair->width, 2 * pair->width, half);
    }
}

enum cop_status cop_pair_join(const struct cop_pair *pair, const struct cop_pair_rows *rows,
                              float *embedded, float *out, struct cop_error *err)
{
    size_t width = (size_t)pair->width;
    enum cop_status status = embed(pair, rows->tokens, rows->n, embedded, err);
    for (size_t i = 0; status == COP_OK && i < (size_t)rows->n; i++) {
        memcpy(out + 2 * i * width, embedded + i * width, width * sizeof *out);
        memcpy(out + (2 * i + 1) * width, rows->x + i * width, width * sizeof *out);
    }
    if (status == COP_OK) {
        norm(pair, pair->token_norm, rows->n, out);
        norm(pair, pair->state_norm, rows->n, out + width);
    }
    return status;
}
