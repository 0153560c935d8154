/* The two ends of a forward pass: token ids to the states that enter the first layer, and
 * normed states to logits. A pass begins and ends with them, and drafters borrow them. */
#include "core/model/state.h"
#include <math.h>

enum cop_status cop_model_check_ids(const struct cop_model *model, const cop_token *tokens,
                                    int32_t n, struct cop_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= model->info.vocab_size) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "token id %d is outside the vocabulary of %d", tokens[i],
                            model->info.vocab_size);
        }
    }
    return COP_OK;
}

void cop_model_enter(const struct cop_model *model, const cop_token *tokens, int32_t n,
                     float *out)
{
    size_t count = (size_t)n * (size_t)model->info.hidden_size;
    model->ops->embed(model->device, &model->embedding, tokens, n, out);
    float root = (float)sqrt(model->info.hidden_size);
    for (size_t i = 0; model->architecture->is_embedding_scaled && i < count; i++) {
        out[i] *= root;
    }
}

enum cop_status cop_model_embed(const struct cop_model *model, const cop_token *tokens,
                                int32_t n, float *out, struct cop_error *err)
{
    enum cop_status status = cop_model_check_ids(model, tokens, n, err);
    if (status == COP_OK) {
        cop_model_enter(model, tokens, n, out);
    }
    return status;
}

enum cop_status cop_model_head(const struct cop_model *model, const float *states, int32_t n,
                               float *logits, struct cop_error *err)
{
    return model->ops->matmul(model->device, model->head, states, n, NULL, false, logits)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for the logits of %d tokens", n);
}
