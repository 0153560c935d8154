/* An EAGLE head beside its target: whether they fit, and weights on the target's device. */
#include "algorithms/heads/eagle.h"

#include <stdlib.h>

/* ---- Whether it was made for this target ------------------------------------------------- */

static enum cop_status check_width(const struct cop_eagle *eagle,
                                   const struct cop_model_info *target, struct cop_error *err)
{
    bool fits = eagle->target_width == target->hidden_size &&
                (eagle->width == target->hidden_size ||
                 (eagle->tensors.embedding && eagle->tensors.head));
    return fits ? COP_OK
                : cop_fail(err, COP_ERR_ARGUMENT,
                           "%s: the head was made for a target of hidden size %d; this one has "
                           "%d",
                           eagle->files.name, eagle->target_width, target->hidden_size);
}

/* Ids that no text has are padding, and may be more or fewer. */
static enum cop_status check_vocabulary(const struct cop_eagle *eagle,
                                        const struct cop_model *target, struct cop_error *err)
{
    int32_t ours = eagle->vocab, theirs = cop_model_info(target)->vocab_size;
    const struct cop_tokenizer *tokenizer = cop_model_tokenizer(target);
    int32_t used = tokenizer ? cop_tokenizer_size(tokenizer) : theirs;
    bool fits = ours == theirs || (used <= ours && used <= theirs && abs(ours - theirs) <= 128);
    if (fits && eagle->ids && eagle->ids[eagle->n_ids - 1] >= theirs) {
        fits = false;
    }
    return fits
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "%s: the head was made for a vocabulary of %d tokens; the target has "
                          "%d",
                          eagle->files.name, ours, theirs);
}

/* Where head and target differ by padding, rows of an LM head of its own are named too. */
static enum cop_status share_ids(struct cop_eagle *eagle, int32_t vocab, struct cop_error *err)
{
    if (!eagle->ids && eagle->tensors.head && eagle->n_ids != vocab) {
        eagle->ids = malloc((size_t)eagle->n_ids * sizeof *eagle->ids);
        if (!eagle->ids) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for %d ids", eagle->n_ids);
        }
        for (int32_t i = 0; i < eagle->n_ids; i++) {
            eagle->ids[i] = i;
        }
    }
    eagle->n_shared = eagle->n_ids < vocab ? eagle->n_ids : vocab;
    return COP_OK;
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
    if (status == COP_OK && t->head) {
        status = cop_checkpoint_weight(&eagle->files, t->head, eagle->target, &w->head, err);
    }
    if (status == COP_OK && t->embedding) {
        status = cop_checkpoint_table(&eagle->files, t->embedding, &w->embedding, err);
    }
    return status;
}

enum cop_status cop_eagle_load(struct cop_eagle *eagle, const struct cop_model *target,
                               struct cop_error *err)
{
    eagle->target = target;
    enum cop_status status = check_width(eagle, cop_model_info(target), err);
    if (status == COP_OK) {
        status = check_vocabulary(eagle, target, err);
    }
    if (status == COP_OK) {
        status = share_ids(eagle, cop_model_info(target)->vocab_size, err);
    }
    if (status == COP_OK) {
        status = cop_block_load(eagle->block, target, err);
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
    free(eagle->ids);
    free(eagle->scratch);
    *eagle = (struct cop_eagle){0};
}
