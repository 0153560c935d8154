/* What is stored of residual blocks: all of a head's, or those that were repeated. */
#include "algorithms/heads/several/stacked.h"

int32_t cop_stacked_blocks(int32_t stored, int32_t base, int32_t said)
{
    return stored == base && said > stored ? said : stored;
}

static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_stacked *stacked = context;
    const struct cop_heads *heads = &stacked->heads;
    bool is_own = tensor == heads->map.tensor;
    for (int32_t i = 0; i < heads->n_heads && !is_own; i++) {
        is_own = tensor == heads->output[i] || tensor == heads->output_bias[i];
        for (int32_t j = 0; j < stacked->n_blocks && !is_own; j++) {
            const struct cop_skip_tensors *block = &stacked->blocks[i][j];
            is_own = tensor == block->linear || tensor == block->bias ||
                     tensor == block->skip || tensor == block->skip_bias;
        }
    }
    return is_own;
}

static int32_t count_stored(const struct cop_stacked *stacked, int32_t head)
{
    int32_t n = 0;
    for (int32_t j = 0; j < stacked->n_blocks; j++) {
        n += stacked->blocks[head][j].linear != NULL;
    }
    return n;
}

/* Whether what has a bias in the first head has one in this. */
static bool has_biases(const struct cop_stacked *stacked, int32_t head)
{
    const struct cop_skip_tensors *first = &stacked->blocks[0][0];
    bool is_alike = !stacked->heads.output_bias[head] == !stacked->heads.output_bias[0];
    for (int32_t j = 0; j < stacked->n_blocks; j++) {
        const struct cop_skip_tensors *block = &stacked->blocks[head][j];
        is_alike &= !block->linear || !block->bias == !first->bias;
        is_alike &= !block->skip || !block->skip_bias == !first->skip_bias;
    }
    return is_alike;
}

enum cop_status cop_stacked_check(const struct cop_stacked *stacked, int32_t base,
                                  const char *const *stems, struct cop_error *err)
{
    const struct cop_heads *heads = &stacked->heads;
    int32_t all = stacked->n_blocks, first = count_stored(stacked, 0);
    for (int32_t i = 0; i < heads->n_heads; i++) {
        int32_t stored = count_stored(stacked, i);
        if (stored != first || (stored != all && stored != base)) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: head %d has tensors of %d blocks and head 0 of %d: expected "
                            "%d of each%s",
                            cop_source_name(&heads->files.source), i, stored, first, all,
                            all > base ? ", or those that the others repeat" : "");
        }
        if (!has_biases(stacked, i)) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: some layers of the heads have a bias, and one like them in "
                            "head %d or head 0 has none: a tensor is missing",
                            cop_source_name(&heads->files.source), i);
        }
    }
    return cop_heads_refuse_strangers(heads, stems, owns, stacked, err);
}
