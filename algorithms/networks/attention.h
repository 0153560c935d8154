/* Attention of a decoder layer, window by window and head by head. */
#ifndef COP_NETWORKS_ATTENTION_H
#define COP_NETWORKS_ATTENTION_H

#include "algorithms/networks/llama.h"

/* passes[step].mixed of the queries of that step. */
void cop_attention_forward(struct cop_llama *decoder, struct cop_products *products,
                           const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                           int32_t step);
/* decoder->d_mixed becomes decoder->d_q, and adds to d_k and d_v of this step and those before
 * it. */
void cop_attention_backward(struct cop_llama *decoder, struct cop_products *products,
                            const struct cop_train_batch *batch, struct cop_llama_pass *passes,
                            int32_t step);

#endif
