/* What the keys of a GGUF file say of a DFlash or DSpark drafter, in llama.cpp's words. */
#include "algorithms/heads/masked/dflash.h"

#include <stdlib.h>

static enum cop_status read_int(const struct cop_dflash *dflash, const char *key, int64_t least,
                                int64_t most, int64_t fallback, int32_t *out,
                                struct cop_error *err)
{
    int64_t value = 0;
    enum cop_status status = cop_gguf_int(dflash->files.source.gguf, key, least, most,
                                          fallback < 0 ? NULL : &fallback, &value, err);
    *out = (int32_t)value;
    return status;
}

/* Layers whose inputs are read, counted from 0: the outputs of the ones before. */
static enum cop_status read_taps(struct cop_dflash *dflash, struct cop_error *err)
{
    static const char key[] = "dflash.target_layers";
    int64_t *layers = NULL;
    size_t count = 0;
    enum cop_status status =
        cop_gguf_ints(dflash->files.source.gguf, key, &layers, &count, err);
    bool are_fine = count >= 1 && count <= COP_DFLASH_TAPS;
    for (size_t i = 0; status == COP_OK && are_fine && i < count; i++) {
        are_fine = layers[i] >= 0 && layers[i] <= 1024;
        dflash->taps[i] = are_fine ? (int32_t)layers[i] : 0;
    }
    dflash->n_taps = (int32_t)count;
    free(layers);
    return status == COP_OK && !are_fine
               ? cop_fail(err, COP_ERR_FORMAT, "%s: key \"%s\" is not a list of 1 to 8 layers",
                          dflash->files.name, key)
               : status;
}

static enum cop_status read_layers(struct cop_dflash *dflash, struct cop_error *err)
{
    const struct cop_block_options options = {.name = dflash->files.name,
                                              .source = &dflash->files.source,
                                              .prefix = "blk.",
                                              .is_numbered = true,
                                              .has_context = true};
    enum cop_status status = cop_block_open(&dflash->block, &options, err);
    if (status == COP_OK) {
        const struct cop_model_info *info = cop_block_info(dflash->block);
        dflash->width = info->hidden_size;
        dflash->drafted.vocab = info->vocab_size;
        dflash->mask_token = info->mask_token;
    }
    return status == COP_OK && dflash->mask_token < 0
               ? cop_fail(
                     err, COP_ERR_FORMAT,
                     "%s: key \"tokenizer.ggml.mask_token_id\" is missing, or no id of the "
                     "vocabulary",
                     dflash->files.name)
               : status;
}

enum cop_status cop_dflash_read_keys(struct cop_dflash *dflash, struct cop_error *err)
{
    const struct cop_tensor *w1 = cop_source_tensor(&dflash->files.source, "markov_w1.weight");
    int32_t is_causal = 0, from_anchor = 0;
    if (!cop_gguf_has(dflash->files.source.gguf, "dflash.block_size")) {
        return cop_fail(
            err, COP_ERR_FORMAT,
            "%s: no drafter: key \"dflash.block_size\" is missing (a model is given "
            "as cop.propose.parallel { cop.model { path = … } })",
            dflash->files.name);
    }
    enum cop_status status = read_layers(dflash, err);
    if (status == COP_OK) {
        status = read_int(dflash, "dflash.block_size", 2, 256, -1, &dflash->block_size, err);
    }
    if (status == COP_OK) {
        status = read_int(dflash, "dflash.attention.causal", 0, 1, 0, &is_causal, err);
    }
    if (status == COP_OK) {
        status =
            read_int(dflash, "dflash.sample_from_anchor", 0, 1, w1 != NULL, &from_anchor, err);
    }
    dflash->is_causal = is_causal;
    dflash->from_anchor = from_anchor;
    if (w1) {
        dflash->chain = COP_DFLASH_VANILLA;
        dflash->rank = w1->dims[0] <= 1 << 16 ? (int32_t)w1->dims[0] : 0;
        dflash->trusts_token = true;
    }
    return status == COP_OK ? read_taps(dflash, err) : status;
}
