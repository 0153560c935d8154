/* The output layers of multi-draft heads: the target's LM head or layers of their own, all rows
 * of them or those of a reduced vocabulary. */
#include "algorithms/heads/several/heads_session.h"

#include <stdlib.h>
#include <string.h>

/* The ids of the files' map. */
static enum cop_status follow_map(struct cop_reduced *drafted, const struct cop_token_map *map,
                                  struct cop_error *err)
{
    size_t n = (size_t)map->n;
    drafted->n_ids = map->n;
    drafted->ids = malloc(n * sizeof *drafted->ids);
    drafted->rows = malloc(n * sizeof *drafted->rows);
    if (!drafted->ids || !drafted->rows) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a map of %d ids", map->n);
    }
    memcpy(drafted->ids, map->ids, n * sizeof *drafted->ids);
    memcpy(drafted->rows, map->columns, n * sizeof *drafted->rows);
    return COP_OK;
}

enum cop_status cop_heads_choose_ids(struct heads_session *session,
                                     const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    struct cop_reduced *drafted = &session->drafted;
    int32_t vocab = heads->vocab > 0 ? heads->vocab : env->vocab_size;
    *drafted = (struct cop_reduced){.vocab = vocab, .n_ids = vocab};
    enum cop_status status = heads->map.ids ? follow_map(drafted, &heads->map, err) : COP_OK;
    if (status == COP_OK) {
        status =
            cop_reduced_fit(drafted, heads->files.name, heads->output[0], env->target, err);
    }
    return status == COP_OK ? cop_reduced_narrow(drafted, heads->files.name, &heads->vocabulary,
                                                 env->target, err)
                            : status;
}

/* Where the ids are in an output layer of `rows` rows: of a map's, or of every token. */
static const int32_t *rows_in(const struct heads_session *session, int64_t rows)
{
    const struct cop_token_map *map = &session->heads->map;
    return map->ids && rows != map->n ? session->drafted.ids : session->drafted.rows;
}

static enum cop_status load_output(struct heads_session *session, int32_t i,
                                   struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    const struct cop_reduced *drafted = &session->drafted;
    const struct cop_tensor *tensor = heads->output[i];
    struct cop_weight **out = &session->output[i];
    return tensor && drafted->rows
               ? cop_checkpoint_weight_rows(&heads->files, tensor,
                                            rows_in(session, tensor->dims[1]), drafted->n_ids,
                                            session->target, out, err)
               : cop_reduced_weight(drafted, &heads->files, tensor, session->target, out, err);
}

static enum cop_status load_bias(struct heads_session *session, int32_t i,
                                 struct cop_error *err)
{
    const struct cop_tensor *tensor = session->heads->output_bias[i];
    const struct cop_reduced *drafted = &session->drafted;
    float *all, **out = &session->output_bias[i];
    enum cop_status status = cop_checkpoint_vector(&session->heads->files, tensor, &all, err);
    if (status != COP_OK || !drafted->rows) {
        *out = all;
        return status;
    }
    *out = malloc((size_t)drafted->n_ids * sizeof **out);
    const int32_t *rows = rows_in(session, tensor->dims[0]);
    for (int32_t j = 0; *out && j < drafted->n_ids; j++) {
        (*out)[j] = all[rows[j]];
    }
    free(all);
    return *out ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for the bias of a head");
}

/* Equal layers (one that all heads share, the target's) are made once. */
enum cop_status cop_heads_load_outputs(struct heads_session *session, struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        if (i > 0 && heads->output[i] == heads->output[0]) {
            session->output[i] = session->output[0];
        } else {
            status = load_output(session, i, err);
        }
        if (status == COP_OK && heads->output_bias[i]) {
            status = load_bias(session, i, err);
        }
    }
    return status;
}

/* Whether all heads can be multiplied at once. */
bool cop_heads_can_look_ahead(const struct heads_session *session)
{
    const struct cop_heads *heads = session->heads;
    bool is_one = session->family->is_independent;
    for (int32_t i = 0; i < heads->n_heads; i++) {
        is_one &= heads->output[i] == heads->output[0] && !heads->output_bias[i];
    }
    return is_one;
}

/* logits [n, vocab] of what the output layer of a head reads, n rows of session->inner; of a
 * reduced vocabulary those of its ids. */
enum cop_status cop_heads_multiply(struct heads_session *session, int32_t head, int32_t n,
                                   float *logits, struct cop_error *err)
{
    const struct cop_reduced *drafted = &session->drafted;
    const struct cop_weight *output = session->output[head];
    if (!output) {
        return cop_model_head(session->target, session->inner, n, logits, err);
    }
    if (!cop_model_ops(session->target)
             ->matmul(cop_model_device(session->target), output, session->inner, n,
                      session->output_bias[head], false,
                      drafted->ids ? session->own : logits)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    if (drafted->ids) {
        cop_reduced_place(drafted, session->own, n, session->maker.vocab, logits);
    }
    return COP_OK;
}
