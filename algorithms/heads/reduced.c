/* Maps of reduced vocabularies. */
#include "algorithms/heads/reduced.h"

#include <stdlib.h>
#include <string.h>

static enum cop_status find_map(const struct cop_weights_source *source, const char *name,
                                const char *type, int32_t length, const struct cop_tensor **out,
                                struct cop_error *err)
{
    const struct cop_tensor *tensor = cop_source_tensor(source, name);
    *out = tensor;
    if (!tensor) {
        return COP_OK;
    }
    if (tensor->rank != 1 || tensor->dims[0] != length ||
        strcmp(cop_source_type(source, tensor), type) != 0) {
        char shape[COP_SHAPE_SIZE];
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\" has shape %s and type %s, expected [%d] and %s",
                        cop_source_name(source), name, cop_source_shape(shape, tensor),
                        cop_source_type(source, tensor), length, type);
    }
    return COP_OK;
}

/* Each id above the one before. */
static enum cop_status read_ids(struct cop_reduced *out,
                                const struct cop_weights_source *source, struct cop_error *err)
{
    bool is_distance = source->gguf == NULL;
    out->ids = malloc((size_t)out->n_ids * sizeof *out->ids);
    if (!out->ids) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a map of %d ids", out->n_ids);
    }
    int64_t last = -1;
    for (int32_t i = 0; i < out->n_ids; i++) {
        int64_t item, start = is_distance ? i : 0;
        memcpy(&item, (const uint8_t *)out->d2t->data + (size_t)i * sizeof item, sizeof item);
        bool is_near = item >= -start && item < out->vocab;
        if (!is_near || start + item <= last || start + item >= out->vocab) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: \"d2t\" has %s %lld at %d: ids must rise and stay below %d",
                            cop_source_name(source), is_distance ? "offset" : "id",
                            (long long)item, i, out->vocab);
        }
        last = start + item;
        out->ids[i] = (cop_token)last;
    }
    return COP_OK;
}

static enum cop_status check_marks(const struct cop_reduced *out,
                                   const struct cop_weights_source *source,
                                   struct cop_error *err)
{
    const uint8_t *marks = out->t2d->data;
    for (int32_t id = 0, i = 0; id < out->vocab; id++) {
        bool is_drafted = i < out->n_ids && out->ids[i] == id;
        i += is_drafted;
        if ((marks[id] != 0) != is_drafted) {
            return cop_fail(err, COP_ERR_FORMAT, "%s: \"t2d\" and \"d2t\" disagree about id %d",
                            cop_source_name(source), id);
        }
    }
    return COP_OK;
}

enum cop_status cop_reduced_read(struct cop_reduced *out,
                                 const struct cop_weights_source *source, struct cop_error *err)
{
    enum cop_status status = find_map(source, "d2t", "I64", out->n_ids, &out->d2t, err);
    if (status == COP_OK) {
        status = find_map(source, "t2d", "BOOL", out->vocab, &out->t2d, err);
    }
    if (status == COP_OK && !out->d2t && (out->t2d || out->n_ids != out->vocab)) {
        status =
            cop_fail(err, COP_ERR_FORMAT,
                     "%s: tensor \"d2t\" is missing: %d of %d ids are drafted, and it says "
                     "which (expected shape [%d])",
                     cop_source_name(source), out->n_ids, out->vocab, out->n_ids);
    }
    if (status == COP_OK && out->d2t) {
        status = read_ids(out, source, err);
    }
    if (status == COP_OK && out->t2d) {
        status = check_marks(out, source, err);
    }
    if (out->n_ids == out->vocab) { /* a map of all ids, as they rise, is none */
        free(out->ids);
        out->ids = NULL;
    }
    return status;
}

static enum cop_status leave_first(struct cop_reduced *reduced, int32_t n,
                                   struct cop_error *err)
{
    reduced->n_ids = n;
    reduced->ids = malloc((size_t)n * sizeof *reduced->ids);
    reduced->rows = malloc((size_t)n * sizeof *reduced->rows);
    if (!reduced->ids || !reduced->rows) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d ids", n);
    }
    for (int32_t id = 0; id < n; id++) {
        reduced->ids[id] = reduced->rows[id] = id;
    }
    return COP_OK;
}

enum cop_status cop_reduced_fit(struct cop_reduced *reduced, const char *name, bool has_head,
                                const struct cop_model *target, struct cop_error *err)
{
    int32_t ours = reduced->vocab, theirs = cop_model_info(target)->vocab_size;
    if (!cop_model_fits_vocab(target, ours)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: made for a vocabulary of %d tokens; the target has %d, and what "
                        "differs is not known to be padding",
                        name, ours, theirs);
    }
    if (reduced->ids && reduced->ids[reduced->n_ids - 1] >= theirs) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: made for a target that has token %d; this one has %d tokens", name,
                        reduced->ids[reduced->n_ids - 1], theirs);
    }
    return reduced->ids || !has_head || ours == theirs
               ? COP_OK
               : leave_first(reduced, ours < theirs ? ours : theirs, err);
}

static enum cop_status narrow(struct cop_reduced *reduced, const char *name,
                              const struct cop_subset *vocabulary, struct cop_error *err)
{
    int32_t n = vocabulary->n, n_kept = 0;
    cop_token *ids = malloc((size_t)n * sizeof *ids);
    int32_t *rows = malloc((size_t)n * sizeof *rows);
    if (!ids || !rows) {
        free(ids);
        free(rows);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d ids", n);
    }
    for (int32_t i = 0, row = 0; i < n; i++) { /* both ascend */
        cop_token id = vocabulary->ids[i];
        while (reduced->ids && row < reduced->n_ids && reduced->ids[row] < id) {
            row++;
        }
        row = reduced->ids ? row : id;
        if (row < reduced->n_ids && (!reduced->ids || reduced->ids[row] == id)) {
            ids[n_kept] = id;
            rows[n_kept++] = reduced->rows ? reduced->rows[row] : row;
        }
    }
    free(reduced->ids);
    free(reduced->rows);
    reduced->ids = ids;
    reduced->rows = rows;
    reduced->n_ids = n_kept;
    return n_kept > 0 ? COP_OK
                      : cop_fail(err, COP_ERR_ARGUMENT,
                                 "%s: none of the %d tokens of vocabulary is drafted", name, n);
}

enum cop_status cop_reduced_narrow(struct cop_reduced *reduced, const char *name,
                                   const struct cop_vocabulary_option *option,
                                   const struct cop_model *target, struct cop_error *err)
{
    struct cop_subset vocabulary;
    enum cop_status status = cop_subset_init(&vocabulary, option, cop_model_tokenizer(target),
                                             cop_model_info(target)->vocab_size, err);
    if (status == COP_OK && vocabulary.n > 0) {
        status = narrow(reduced, name, &vocabulary, err);
    }
    cop_subset_release(&vocabulary);
    return status;
}

void cop_reduced_release(struct cop_reduced *reduced)
{
    free(reduced->ids);
    free(reduced->rows);
    *reduced = (struct cop_reduced){0};
}

enum cop_status cop_reduced_weight(const struct cop_reduced *reduced,
                                   const struct cop_checkpoint *files,
                                   const struct cop_tensor *tensor,
                                   const struct cop_model *target, struct cop_weight **out,
                                   struct cop_error *err)
{
    *out = NULL;
    if (!reduced->rows) {
        return tensor ? cop_checkpoint_weight(files, tensor, target, out, err) : COP_OK;
    }
    return tensor ? cop_checkpoint_weight_rows(files, tensor, reduced->rows, reduced->n_ids,
                                               target, out, err)
                  : cop_model_head_rows(target, reduced->ids, reduced->n_ids, out, err);
}

void cop_reduced_place(const struct cop_reduced *reduced, const float *own, int32_t n,
                       int32_t vocab, float *logits)
{
    cop_subset_place(reduced->ids, reduced->n_ids, reduced->n_ids, own, n, vocab, logits);
}
