/* The map between two tokenizers, and the spelling of what it lacks. */
#include "algorithms/propose/glossary.h"

#include "core/base/utf8.h"
#include <math.h>
#include <stdlib.h>

static bool is_control(const struct cop_tokenizer *tokenizer, cop_token id)
{
    return cop_tokenizer_kind(tokenizer, id) == COP_PIECE_CONTROL;
}

static void pair(struct cop_glossary *glossary, cop_token target, cop_token draft)
{
    if (target < 0 || target >= glossary->target_size || draft < 0 ||
        draft >= glossary->draft_size || glossary->to_draft[target] >= 0 ||
        glossary->to_target[draft] >= 0) {
        return;
    }
    glossary->to_draft[target] = draft;
    glossary->to_target[draft] = target;
    glossary->n_shared++;
}

static void pair_pieces(struct cop_glossary *glossary)
{
    int32_t size = cop_tokenizer_size(glossary->target);
    for (cop_token id = 0; id < size; id++) {
        if (cop_tokenizer_is_padding(glossary->target, id)) {
            continue;
        }
        struct cop_string piece = cop_tokenizer_piece(glossary->target, id);
        cop_token twin = cop_tokenizer_id(glossary->draft, piece.bytes, piece.length);
        if (twin >= 0 && !cop_tokenizer_is_padding(glossary->draft, twin) &&
            is_control(glossary->target, id) == is_control(glossary->draft, twin)) {
            pair(glossary, id, twin);
        }
    }
}

static void pair_ends(struct cop_glossary *glossary)
{
    size_t n_target, n_draft;
    const cop_token *target = cop_tokenizer_eos(glossary->target, &n_target);
    const cop_token *draft = cop_tokenizer_eos(glossary->draft, &n_draft);
    for (size_t i = 0; i < n_target && i < n_draft; i++) {
        pair(glossary, target[i], draft[i]);
    }
}

enum cop_status cop_glossary_init(struct cop_glossary *glossary,
                                  const struct cop_tokenizer *target, int32_t target_size,
                                  const struct cop_tokenizer *draft, int32_t draft_size,
                                  struct cop_error *err)
{
    *glossary = (struct cop_glossary){
        .target = target, .draft = draft, .target_size = target_size, .draft_size = draft_size};
    glossary->to_draft = malloc((size_t)target_size * sizeof *glossary->to_draft);
    glossary->to_target = malloc((size_t)draft_size * sizeof *glossary->to_target);
    if (!glossary->to_draft || !glossary->to_target) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a map of %d tokens", target_size);
    }
    for (int32_t id = 0; id < target_size; id++) {
        glossary->to_draft[id] = -1;
    }
    for (int32_t id = 0; id < draft_size; id++) {
        glossary->to_target[id] = -1;
    }
    pair_pieces(glossary);
    pair_ends(glossary);
    return COP_OK;
}

void cop_glossary_release(struct cop_glossary *glossary)
{
    free(glossary->to_draft);
    free(glossary->to_target);
    *glossary = (struct cop_glossary){0};
}

/* Part of a character: one byte after the other, as far as the draft has tokens for them. */
static enum cop_status spell_bytes(const struct cop_glossary *glossary, struct cop_string piece,
                                   struct cop_ids *ids, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (size_t i = 0; i < piece.length && status == COP_OK; i++) {
        cop_token id = cop_tokenizer_id(glossary->draft, piece.bytes + i, 1);
        if (id >= 0 && id < glossary->draft_size) {
            status = cop_ids_push(ids, id, err);
        }
    }
    return status;
}

enum cop_status cop_glossary_spell(const struct cop_glossary *glossary, cop_token token,
                                   struct cop_ids *ids, struct cop_error *err)
{
    if (token < 0 || token >= glossary->target_size) {
        return COP_OK;
    }
    if (glossary->to_draft[token] >= 0) {
        return cop_ids_push(ids, glossary->to_draft[token], err);
    }
    struct cop_string piece = cop_tokenizer_piece(glossary->target, token);
    if (cop_utf8_valid_prefix(piece.bytes, piece.length) < piece.length) {
        return spell_bytes(glossary, piece, ids, err);
    }
    size_t first = ids->count;
    enum cop_status status =
        cop_tokenizer_encode(glossary->draft, piece.bytes, piece.length,
                             (struct cop_encode_options){.special = false}, ids, err);
    for (size_t i = first; status == COP_OK && i < ids->count; i++) {
        if (ids->items[i] >= glossary->draft_size) { /* a tokenizer larger than its model */
            ids->count = first;
        }
    }
    return status;
}

void cop_glossary_row(const struct cop_glossary *glossary, const float *draft, float *target)
{
    for (int32_t id = 0; id < glossary->target_size; id++) {
        int32_t twin = glossary->to_draft[id];
        target[id] = twin < 0 ? -INFINITY : draft[twin];
    }
}
