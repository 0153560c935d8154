/* Modules beside their target: weights on its device, one step over the rows of many sequences.
 */
#include "algorithms/heads/carried/mtp.h"

#include <stdlib.h>

/* ---- Loading ----------------------------------------------------------------------------- */

static enum cop_status check_target(const struct cop_mtp *mtp,
                                    const struct cop_model_info *target, struct cop_error *err)
{
    if (mtp->width != target->hidden_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the modules were made for a target of hidden size %d; this one "
                        "has %d",
                        mtp->files.name, mtp->width, target->hidden_size);
    }
    if (mtp->n_layers > 0 && mtp->n_layers != target->layers) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the modules stand behind %d layers of a target; this one has %d",
                        mtp->files.name, mtp->n_layers, target->layers);
    }
    return COP_OK;
}

static bool has_head(const struct cop_mtp *mtp)
{
    bool has = false;
    for (int32_t k = 0; k < mtp->n_modules; k++) {
        has |= mtp->modules[k].head != NULL;
    }
    return has;
}

static enum cop_status load_module(const struct cop_mtp *mtp, struct cop_mtp_module *module,
                                   struct cop_error *err)
{
    const struct cop_checkpoint *files = &mtp->files;
    enum cop_status status = cop_block_load(module->block, files->weights, mtp->target, err);
    if (status == COP_OK) {
        status = cop_checkpoint_vector(files, module->token_norm, &module->token_gain, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_vector(files, module->state_norm, &module->state_gain, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_vector(files, module->norm, &module->gain, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_weight(files, module->project, mtp->target,
                                       &module->project_weight, err);
    }
    if (status == COP_OK) {
        status = cop_reduced_weight(&mtp->drafted, files, module->head, mtp->target,
                                    &module->head_weight, err);
    }
    return status == COP_OK && module->embedding
               ? cop_checkpoint_table(files, module->embedding, &module->table, err)
               : status;
}

enum cop_status cop_mtp_load(struct cop_mtp *mtp, const struct cop_model *target,
                             const struct cop_vocabulary_option *vocabulary,
                             struct cop_error *err)
{
    enum cop_status status = check_target(mtp, cop_model_info(target), err);
    mtp->target = target;
    mtp->drafted = (struct cop_reduced){.vocab = mtp->vocab, .n_ids = mtp->vocab};
    if (status == COP_OK) {
        status = cop_reduced_fit(&mtp->drafted, mtp->files.name, has_head(mtp), target, err);
    }
    if (status == COP_OK) {
        status = cop_reduced_narrow(&mtp->drafted, mtp->files.name, vocabulary, target, err);
    }
    for (int32_t k = 0; k < mtp->n_modules && status == COP_OK; k++) {
        status = load_module(mtp, &mtp->modules[k], err);
    }
    return status;
}

void cop_mtp_close(struct cop_mtp *mtp)
{
    for (int32_t k = 0; k < COP_CARRY_STAGES; k++) {
        struct cop_mtp_module *module = &mtp->modules[k];
        if (mtp->target) {
            cop_checkpoint_free_weight(mtp->target, module->project_weight);
            cop_checkpoint_free_weight(mtp->target, module->head_weight);
        }
        free(module->token_gain);
        free(module->state_gain);
        free(module->gain);
        cop_block_free(module->block);
    }
    cop_checkpoint_close(&mtp->files);
    cop_reduced_release(&mtp->drafted);
    free(mtp->scratch);
    *mtp = (struct cop_mtp){0};
}

/* ---- Running ----------------------------------------------------------------------------- */

static enum cop_status fail_memory(int32_t n, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "no memory for %d rows of an MTP module", n);
}

/* [n, cols]; the next call may give the same memory. */
static float *reserve(struct cop_mtp *mtp, int32_t n, size_t cols)
{
    size_t count = (size_t)n * cols;
    if (count > mtp->scratch_capacity) {
        free(mtp->scratch);
        mtp->scratch = malloc(count * sizeof *mtp->scratch);
        mtp->scratch_capacity = mtp->scratch ? count : 0;
    }
    return mtp->scratch;
}

static bool multiply(const struct cop_mtp *mtp, const struct cop_weight *weight, const float *x,
                     int32_t n, float *out)
{
    return cop_model_ops(mtp->target)
        ->matmul(cop_model_device(mtp->target), weight, x, n, NULL, false, out);
}

enum cop_status cop_mtp_step(struct cop_mtp *mtp, int32_t k, struct cop_cache *cache,
                             const struct cop_pair_rows *rows, struct cop_error *err)
{
    const struct cop_mtp_module *module = &mtp->modules[k];
    const struct cop_pair pair = {.target = mtp->target,
                                  .embedding = module->table,
                                  .token_norm = module->token_gain,
                                  .state_norm = module->state_gain,
                                  .epsilon = cop_block_info(module->block)->norm_epsilon,
                                  .width = mtp->width};
    size_t size = (size_t)rows->n * (size_t)mtp->width;
    float *joined = reserve(mtp, rows->n, 3 * (size_t)mtp->width);
    if (!joined) {
        return fail_memory(rows->n, err);
    }
    enum cop_status status = cop_pair_join(&pair, rows, joined + 2 * size, joined, err);
    if (status != COP_OK) {
        return status;
    }
    if (!multiply(mtp, module->project_weight, joined, rows->n, rows->x)) {
        return fail_memory(rows->n, err);
    }
    const struct cop_block_pass pass = {.n = rows->n,
                                        .sequences = rows->sequences,
                                        .parents = rows->parents,
                                        .stream = rows->x};
    return cop_block_run(module->block, cache, &pass, err);
}

enum cop_status cop_mtp_logits(struct cop_mtp *mtp, int32_t k, const float *y, int32_t n,
                               float *logits, struct cop_error *err)
{
    const struct cop_mtp_module *module = &mtp->modules[k];
    float *normed = reserve(mtp, n, (size_t)mtp->width + (size_t)mtp->drafted.n_ids);
    if (!normed) {
        return fail_memory(n, err);
    }
    cop_model_ops(mtp->target)
        ->rms_norm(cop_model_device(mtp->target), y, module->gain,
                   (float)cop_block_info(module->block)->norm_epsilon, n, mtp->width,
                   mtp->width, normed);
    if (!module->head_weight) {
        return cop_model_head(mtp->target, normed, n, logits, err);
    }
    float *own = mtp->drafted.ids ? normed + (size_t)n * (size_t)mtp->width : logits;
    if (!multiply(mtp, module->head_weight, normed, n, own)) {
        return fail_memory(n, err);
    }
    if (mtp->drafted.ids) {
        cop_reduced_place(&mtp->drafted, own, n, cop_model_info(mtp->target)->vocab_size,
                          logits);
    }
    return COP_OK;
}
