/* Feeding a draft model and reading its rows. */
#include "algorithms/propose/drafter.h"
#include "core/model/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening ----------------------------------------------------------------------------- */

static bool have_tokenizers(const struct cop_drafter *drafter, const struct cop_model *target)
{
    return target && cop_model_tokenizer(target) && cop_model_tokenizer(drafter->model);
}

static enum cop_status make_map(struct cop_drafter *drafter,
                                enum cop_draft_vocabulary vocabulary,
                                const struct cop_model *target, struct cop_error *err)
{
    const char *name = vocabulary == COP_DRAFT_TEXT     ? "text"
                       : vocabulary == COP_DRAFT_STRING ? "string"
                                                        : "intersection";
    if (!have_tokenizers(drafter, target)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "vocabulary = \"%s\" needs the tokenizers of target and draft, and "
                        "there is none of the %s; vocabulary = \"same\" goes without",
                        name, cop_model_tokenizer(drafter->model) ? "target" : "draft");
    }
    enum cop_status status =
        cop_glossary_init(&drafter->map, cop_model_tokenizer(target), drafter->vocab_size,
                          cop_model_tokenizer(drafter->model), drafter->draft_vocab, err);
    if (status == COP_OK && drafter->map.n_shared == 0 && vocabulary != COP_DRAFT_TEXT &&
        vocabulary != COP_DRAFT_STRING) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "draft and target share no token at all, so that nothing can be "
                        "drafted; use vocabulary = \"text\" or \"string\"");
    }
    return status;
}

/* A folder without a tokenizer may say whose answers it learnt. */
static enum cop_status check_teacher(const struct cop_drafter *drafter,
                                     const struct cop_model *target, struct cop_error *err)
{
    struct cop_checkpoint files;
    struct cop_error ignored;
    if (cop_model_tokenizer(drafter->model) ||
        cop_checkpoint_open(&files, cop_model_info(drafter->model)->path, &ignored) != COP_OK) {
        return COP_OK;
    }
    enum cop_status status = cop_checkpoint_check_tokenizer(&files, target, err);
    cop_checkpoint_close(&files);
    return status;
}

static enum cop_status check_same(const struct cop_drafter *drafter,
                                  const struct cop_model *target, struct cop_error *err)
{
    if (!target) {
        return drafter->draft_vocab == drafter->vocab_size
                   ? COP_OK
                   : cop_fail(err, COP_ERR_ARGUMENT,
                              "the draft's vocabulary has %d tokens, the target's %d",
                              drafter->draft_vocab, drafter->vocab_size);
    }
    struct cop_error reason;
    enum cop_status status = cop_model_match(target, drafter->model, &reason);
    if (status == COP_OK) {
        return check_teacher(drafter, target, err);
    }
    return cop_fail(err, status, "%s%s", reason.text,
                    have_tokenizers(drafter, target)
                        ? "; vocabulary = \"intersection\" drafts with the tokens that they "
                          "share, \"text\" and \"string\" with the text"
                        : "");
}

static enum cop_status match_vocabularies(struct cop_drafter *drafter,
                                          enum cop_draft_vocabulary vocabulary,
                                          const struct cop_model *target, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    drafter->stride = drafter->vocab_size;
    if (vocabulary == COP_DRAFT_SAME || vocabulary == COP_DRAFT_AUTO) {
        status = check_same(drafter, target, err);
        if (status == COP_OK) {
            drafter->stride = drafter->draft_vocab > drafter->vocab_size ? drafter->draft_vocab
                                                                         : drafter->vocab_size;
            return COP_OK;
        }
        if (vocabulary == COP_DRAFT_SAME || !have_tokenizers(drafter, target)) {
            return status;
        }
    }
    return make_map(drafter, vocabulary, target, err);
}

static bool make_contexts(struct cop_drafter *drafter)
{
    size_t nodes = (size_t)drafter->capacity + 1;
    drafter->contexts = calloc((size_t)drafter->n_sequences, sizeof *drafter->contexts);
    drafter->path = malloc((nodes + COP_DRAFTER_CATCH_UP) * sizeof *drafter->path);
    bool is_whole = drafter->contexts && drafter->path;
    for (int32_t i = 0; is_whole && i < drafter->n_sequences; i++) {
        drafter->contexts[i].slot_of = malloc(nodes * sizeof(int32_t));
        is_whole = drafter->contexts[i].slot_of != NULL;
    }
    return is_whole;
}

enum cop_status cop_drafter_open(struct cop_drafter *drafter, struct cop_model *model,
                                 enum cop_draft_vocabulary vocabulary,
                                 const struct cop_proposer_env *env, int32_t capacity,
                                 struct cop_error *err)
{
    const struct cop_model_info *info = cop_model_info(model);
    *drafter = (struct cop_drafter){.model = cop_model_share(model),
                                    .vocab_size = env->vocab_size,
                                    .draft_vocab = info->vocab_size,
                                    .positions = info->context,
                                    .n_sequences = env->n_sequences,
                                    .capacity = capacity,
                                    .cancel = env->cancel};
    enum cop_status status = match_vocabularies(drafter, vocabulary, env->target, err);
    if (status == COP_OK && !make_contexts(drafter)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a draft model's session");
    }
    if (status == COP_OK) {
        status = cop_model_cache_new(model, env->n_sequences, capacity + COP_DRAFTER_CATCH_UP,
                                     &drafter->cache, err);
    }
    return status;
}

enum cop_status cop_drafter_reduce(struct cop_drafter *drafter,
                                   const struct cop_vocabulary_option *option,
                                   const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct cop_model *knows = env->target ? env->target : drafter->model;
    int32_t vocab =
        drafter->draft_vocab < drafter->vocab_size ? drafter->draft_vocab : drafter->vocab_size;
    struct cop_subset *reduced = &drafter->reduced;
    enum cop_status status =
        cop_subset_init(reduced, option, cop_model_tokenizer(knows), vocab, err);
    drafter->stride = reduced->n > 0 ? drafter->vocab_size : drafter->stride;
    return status == COP_OK && reduced->n > 0
               ? cop_model_head_rows(drafter->model, reduced->ids, reduced->n, &drafter->head,
                                     err)
               : status;
}

void cop_drafter_close(struct cop_drafter *drafter)
{
    if (drafter->head) {
        cop_model_ops(drafter->model)
            ->weight_free(cop_model_device(drafter->model), drafter->head);
    }
    cop_subset_release(&drafter->reduced);
    for (int32_t i = 0; drafter->contexts && i < drafter->n_sequences; i++) {
        cop_ids_release(&drafter->contexts[i].pending);
        free(drafter->contexts[i].slot_of);
    }
    free(drafter->contexts);
    free(drafter->path);
    free(drafter->tokens);
    free(drafter->own.items);
    cop_ids_release(&drafter->spelt);
    cop_glossary_release(&drafter->map);
    cop_cache_free(drafter->cache);
    cop_model_free(drafter->model);
    *drafter = (struct cop_drafter){0};
}

bool cop_drafter_is_over(const struct cop_drafter *drafter, int32_t sequence)
{
    const struct cop_drafter_context *context = &drafter->contexts[sequence];
    return context->is_off || context->length > drafter->positions;
}

/* ---- What the target commits ------------------------------------------------------------- */

/* Into `spelt`. *is_known: false where the draft lacks one of them, padding of the target. */
static enum cop_status spell(struct cop_drafter *drafter, const cop_token *ids, int32_t n,
                             bool *is_known, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    drafter->spelt.count = 0;
    *is_known = true;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        if (drafter->map.to_draft) {
            status = cop_glossary_spell(&drafter->map, ids[i], &drafter->spelt, err);
        } else {
            *is_known &= ids[i] < drafter->draft_vocab;
            status = cop_ids_push(&drafter->spelt, ids[i], err);
        }
    }
    return status;
}

void cop_drafter_switch_off(struct cop_drafter *drafter, int32_t sequence)
{
    drafter->contexts[sequence].is_off = true;
    cop_cache_reset(drafter->cache, sequence);
}

static void forget_slots(struct cop_drafter *drafter, int32_t sequence)
{
    memset(drafter->contexts[sequence].slot_of, -1,
           ((size_t)drafter->capacity + 1) * sizeof(int32_t));
}

void cop_drafter_forget_nodes(struct cop_drafter *drafter, int32_t sequence)
{
    int32_t root = drafter->contexts[sequence].slot_of[0];
    forget_slots(drafter, sequence);
    drafter->contexts[sequence].slot_of[0] = root;
}

enum cop_status cop_drafter_begin(struct cop_drafter *drafter, int32_t sequence,
                                  const cop_token *ids, int32_t n, struct cop_error *err)
{
    struct cop_drafter_context *context = &drafter->contexts[sequence];
    bool is_known;
    enum cop_status status = spell(drafter, ids, n, &is_known, err);
    if (status != COP_OK) {
        return status;
    }
    int32_t count = (int32_t)drafter->spelt.count;
    context->length = count;
    context->is_off = count > drafter->positions || !is_known;
    context->pending.count = 0;
    forget_slots(drafter, sequence);
    cop_cache_reset(drafter->cache, sequence);
    drafter->n = drafter->n_pages = 0;
    if (context->is_off || count == 0) {
        return COP_OK;
    }
    if (!cop_drafter_take_pages(drafter, sequence, count - 1)) {
        context->is_off = true;
        return COP_OK;
    }
    status = cop_ids_push(&context->pending, drafter->spelt.items[count - 1], err);
    return status == COP_OK
               ? cop_model_prefill(drafter->model, drafter->cache, sequence,
                                   drafter->spelt.items, count - 1, 0, drafter->cancel, err)
               : status;
}

void cop_drafter_end(struct cop_drafter *drafter, int32_t sequence)
{
    cop_cache_reset(drafter->cache, sequence);
    cop_ids_release(&drafter->contexts[sequence].pending);
}

/* Slots of what was pending and of the accepted nodes that were fed become committed; returns
 * the number of those nodes. */
static int32_t commit(struct cop_drafter *drafter, const struct cop_observed *observed,
                      const int32_t *numbers)
{
    int32_t sequence = observed->sequence, n = 0, n_nodes = 0;
    struct cop_drafter_context *context = &drafter->contexts[sequence];
    int32_t root = context->slot_of[0];
    for (int32_t slot = 0; slot <= root; slot++) {
        drafter->path[n++] = slot;
    }
    for (; root >= 0 && n_nodes < observed->n_accepted; n_nodes++) {
        int32_t node = observed->tree->drafted[observed->accepted[n_nodes]];
        int32_t slot = context->slot_of[numbers ? numbers[node] : node];
        if (slot < 0) {
            break;
        }
        drafter->path[n++] = slot;
    }
    context->pending.count = root >= 0 ? 0 : context->pending.count;
    cop_cache_commit(drafter->cache, sequence, drafter->path, n);
    forget_slots(drafter, sequence);
    return n_nodes;
}

enum cop_status cop_drafter_observe(struct cop_drafter *drafter,
                                    const struct cop_observed *observed, const int32_t *numbers,
                                    struct cop_error *err)
{
    struct cop_drafter_context *context = &drafter->contexts[observed->sequence];
    bool is_known;
    if (context->is_off) {
        return COP_OK;
    }
    int32_t n = commit(drafter, observed, numbers);
    enum cop_status status =
        spell(drafter, observed->committed + n, observed->n_accepted + 1 - n, &is_known, err);
    context->length += n + (int32_t)drafter->spelt.count;
    if (status == COP_OK && !is_known) {
        cop_drafter_switch_off(drafter, observed->sequence);
        return COP_OK;
    }
    for (size_t i = 0; i < drafter->spelt.count && status == COP_OK; i++) {
        status = cop_ids_push(&context->pending, drafter->spelt.items[i], err);
    }
    return status;
}
