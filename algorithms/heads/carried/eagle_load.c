/* An EAGLE head beside its target: whether they fit, and weights on the target's device. */
#include "algorithms/heads/carried/eagle.h"

#include <stdlib.h>

/* ---- Whether it was made for this target ------------------------------------------------- */

static enum cop_status check_width(const struct cop_eagle *eagle,
                                   const struct cop_model_info *target, struct cop_error *err)
{
    if (eagle->target_width != target->hidden_size) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: the head was made for a target of hidden size %d; this one has %d",
                        eagle->files.name, eagle->target_width, target->hidden_size);
    }
    const char *lacks = !eagle->tensors.embedding ? "embed_tokens.weight"
                        : !eagle->tensors.head    ? "lm_head.weight"
                                                  : NULL;
    return eagle->width == target->hidden_size || !lacks
               ? COP_OK
               : cop_fail(err, COP_ERR_FORMAT,
                          "%s: tensor \"%s\" is missing: the head is %d wide, and the "
                          "target's are %d",
                          eagle->files.name, lacks, eagle->width, target->hidden_size);
}

/* ---- Weights ----------------------------------------------------------------------------- */

static enum cop_status load_vectors(struct cop_eagle *eagle, struct cop_error *err)
{
    const struct cop_eagle_tensors *t = &eagle->tensors;
    struct cop_eagle_weights *w = &eagle->weights;
    const struct {
        const struct cop_tensor *tensor;
        float **out;
    } vectors[] = {{t->fc_bias, &w->fc_bias},
                   {t->input_norm, &w->input_norm},
                   {t->hidden_norm, &w->hidden_norm},
                   {t->tap_norm, &w->tap_norm},
                   {t->norm, &w->norm},
                   {t->mask_states, &w->mask_states}};
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof vectors / sizeof *vectors; i++) {
        if (vectors[i].tensor) {
            status =
                cop_checkpoint_vector(&eagle->files, vectors[i].tensor, vectors[i].out, err);
        }
    }
    for (size_t i = 0; status == COP_OK && i < COP_EAGLE_TAPS && t->tap_norms[i]; i++) {
        status = cop_checkpoint_vector(&eagle->files, t->tap_norms[i], &w->tap_norms[i], err);
    }
    return status;
}

static enum cop_status load_matrices(struct cop_eagle *eagle, struct cop_error *err)
{
    const struct cop_eagle_tensors *t = &eagle->tensors;
    struct cop_eagle_weights *w = &eagle->weights;
    enum cop_status status =
        cop_checkpoint_weight(&eagle->files, t->fc, eagle->target, &w->fc, err);
    if (status == COP_OK) {
        status = cop_reduced_weight(&eagle->drafted, &eagle->files, t->head, eagle->target,
                                    &w->head, err);
    }
    if (status == COP_OK && t->embedding) {
        status = cop_checkpoint_table(&eagle->files, t->embedding, &w->embedding, err);
    }
    return status;
}

enum cop_status cop_eagle_load(struct cop_eagle *eagle, const struct cop_model *target,
                               const struct cop_vocabulary_option *vocabulary,
                               struct cop_error *err)
{
    eagle->target = target;
    enum cop_status status = check_width(eagle, cop_model_info(target), err);
    if (status == COP_OK) {
        status = cop_checkpoint_check_tokenizer(&eagle->files, target, err);
    }
    if (status == COP_OK) {
        status = cop_reduced_fit(&eagle->drafted, eagle->files.name, eagle->tensors.head,
                                 target, err);
    }
    if (status == COP_OK) {
        status =
            cop_reduced_narrow(&eagle->drafted, eagle->files.name, vocabulary, target, err);
    }
    if (status == COP_OK) {
        status = cop_block_load(eagle->block, eagle->files.weights, target, err);
    }
    if (status == COP_OK) {
        status = load_vectors(eagle, err);
    }
    return status == COP_OK ? load_matrices(eagle, err) : status;
}

void cop_eagle_close(struct cop_eagle *eagle)
{
    struct cop_eagle_weights *w = &eagle->weights;
    float *vectors[] = {w->mask_states, w->fc_bias,  w->input_norm,
                        w->hidden_norm, w->tap_norm, w->norm};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        free(vectors[i]);
    }
    for (size_t i = 0; i < COP_EAGLE_TAPS; i++) {
        free(w->tap_norms[i]);
    }
    if (eagle->target) {
        cop_checkpoint_free_weight(eagle->target, w->fc);
        cop_checkpoint_free_weight(eagle->target, w->head);
    }
    cop_block_free(eagle->block);
    cop_checkpoint_close(&eagle->files);
    cop_reduced_release(&eagle->drafted);
    free(eagle->scratch);
    *eagle = (struct cop_eagle){0};
}
