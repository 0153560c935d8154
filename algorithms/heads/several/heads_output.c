/* The output layers of multi-draft heads: the target's LM head or layers of their own, all rows
 * of them or those of a reduced vocabulary. */
#include "algorithms/heads/several/heads_session.h"

#include <stdlib.h>

/* The ids of the files' map, or those of them that the script asks for. */
static enum cop_status follow_map(struct heads_session *session, struct cop_error *err)
{
    const struct cop_token_map *map = &session->heads->map;
    struct cop_subset *reduced = &session->reduced;
    cop_token *ids = malloc((size_t)map->n * sizeof *ids);
    session->columns = malloc((size_t)map->n * sizeof *session->columns);
    if (!ids || !session->columns) {
        free(ids);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a map of %d ids", map->n);
    }
    int32_t n = 0, asked = reduced->n;
    for (int32_t i = 0, at = 0; i < map->n; i++) { /* both ascend */
        while (at < asked && reduced->ids[at] < map->ids[i]) {
            at++;
        }
        if (asked == 0 || (at < asked && reduced->ids[at] == map->ids[i])) {
            ids[n] = map->ids[i];
            session->columns[n++] = map->columns[i];
        }
    }
    cop_subset_release(reduced);
    *reduced = (struct cop_subset){.ids = ids, .n = n};
    return n > 0 ? COP_OK
                 : cop_fail(err, COP_ERR_ARGUMENT,
                            "%s: the heads draft none of the %d tokens of vocabulary",
                            session->heads->files.name, asked);
}

enum cop_status cop_heads_choose_ids(struct heads_session *session,
                                     const struct cop_proposer_env *env, struct cop_error *err)
{
    enum cop_status status =
        cop_subset_init(&session->reduced, &session->heads->vocabulary,
                        cop_model_tokenizer(env->target), env->vocab_size, err);
    return status == COP_OK && session->heads->map.ids ? follow_map(session, err) : status;
}

/* Where the ids are in an output layer of `rows` rows. */
static const int32_t *rows_in(const struct heads_session *session, int64_t rows)
{
    return session->columns && rows == session->heads->map.n ? session->columns
                                                             : session->reduced.ids;
}

static enum cop_status load_output(struct heads_session *session, int32_t i,
                                   struct cop_error *err)
{
    const struct cop_heads *heads = session->heads;
    const struct cop_subset *reduced = &session->reduced;
    const struct cop_tensor *tensor = heads->output[i];
    struct cop_weight **out = &session->output[i];
    if (reduced->n == 0) {
        return tensor ? cop_checkpoint_weight(&heads->files, tensor, session->target, out, err)
                      : COP_OK;
    }
    return tensor ? cop_checkpoint_weight_rows(&heads->files, tensor,
                                               rows_in(session, tensor->dims[1]), reduced->n,
                                               session->target, out, err)
                  : cop_model_head_rows(session->target, reduced->ids, reduced->n, out, err);
}

static enum cop_status load_bias(struct heads_session *session, int32_t i,
                                 struct cop_error *err)
{
    const struct cop_tensor *tensor = session->heads->output_bias[i];
    const struct cop_subset *reduced = &session->reduced;
    float *all, **out = &session->output_bias[i];
    enum cop_status status = cop_checkpoint_vector(&session->heads->files, tensor, &all, err);
    if (status != COP_OK || reduced->n == 0) {
        *out = all;
        return status;
    }
    *out = malloc((size_t)reduced->n * sizeof **out);
    const int32_t *rows = rows_in(session, tensor->dims[0]);
    for (int32_t j = 0; *out && j < reduced->n; j++) {
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
    const struct cop_subset *reduced = &session->reduced;
    const struct cop_weight *output = session->output[head];
    if (!output) {
        return cop_model_head(session->target, session->inner, n, logits, err);
    }
    if (!cop_model_ops(session->target)
             ->matmul(cop_model_device(session->target), output, session->inner, n,
                      session->output_bias[head], false,
                      reduced->n > 0 ? session->own : logits)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    if (reduced->n > 0) {
        cop_subset_place(reduced->ids, reduced->n, reduced->n, session->own, n,
                         session->maker.vocab, logits);
    }
    return COP_OK;
}
