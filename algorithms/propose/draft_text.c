/* Text from a draft model, cut into the target's tokens.
 *
 * The target's ids of what is committed stay as they are; only what follows is cut. Tokenizers
 * look at what stands before a piece (a space at the beginning of a text, a run of digits), so
 * the text is cut together with the piece before it, and alone where no border of tokens lies
 * between the two. The last token may be half of a longer one: then it is not accepted, and
 * nothing else happens. */
#include "algorithms/propose/draft_text.h"

#include "core/base/utf8.h"
#include "kernels/ops.h"
#include <stdlib.h>

enum cop_status cop_draft_text_open(struct cop_draft_text *text, struct cop_drafter *drafter,
                                    int32_t depth, struct cop_error *err)
{
    *text = (struct cop_draft_text){.drafter = drafter, .depth = depth};
    text->writings = calloc((size_t)drafter->n_sequences, sizeof *text->writings);
    return text->writings ? COP_OK
                          : cop_fail(err, COP_ERR_MEMORY, "no memory for a draft's text");
}

void cop_draft_text_close(struct cop_draft_text *text)
{
    for (int32_t i = 0; text->writings && i < text->drafter->n_sequences; i++) {
        cop_text_release(&text->writings[i].text);
        cop_ids_release(&text->writings[i].tokens);
    }
    free(text->writings);
    *text = (struct cop_draft_text){0};
}

/* ---- Cutting ----------------------------------------------------------------------------- */

/* The first of ids[0..n) from which on their pieces make up `length` bytes; n + 1: no border.
 */
static size_t find_border(const struct cop_tokenizer *tokenizer, const struct cop_ids *ids,
                          size_t length)
{
    size_t i = ids->count, sum = 0;
    while (i > 0 && sum < length) {
        sum += cop_tokenizer_piece(tokenizer, ids->items[--i]).length;
    }
    return sum == length ? i : ids->count + 1;
}

enum cop_status cop_draft_text_cut(const struct cop_tokenizer *target, cop_token before,
                                   struct cop_string text, struct cop_ids *ids,
                                   struct cop_error *err)
{
    const struct cop_encode_options plain = {.special = false};
    size_t length = cop_utf8_valid_prefix(text.bytes, text.length);
    struct cop_string piece = cop_tokenizer_piece(target, before);
    struct cop_text both = {0};
    enum cop_status status = cop_text_append(&both, piece.bytes, piece.length, err);
    if (status == COP_OK) {
        status = cop_text_append(&both, text.bytes, length, err);
    }
    ids->count = 0;
    if (status == COP_OK) {
        status = cop_tokenizer_encode(target, both.bytes, both.length, plain, ids, err);
    }
    cop_text_release(&both);
    size_t border = status == COP_OK ? find_border(target, ids, length) : 0;
    if (status == COP_OK && border > ids->count) {
        ids->count = 0;
        return cop_tokenizer_encode(target, text.bytes, length, plain, ids, err);
    }
    for (size_t i = border; status == COP_OK && i < ids->count; i++) {
        ids->items[i - border] = ids->items[i];
    }
    ids->count -= border;
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------- */

static enum cop_status take_token(const struct cop_drafter *drafter,
                                  struct cop_draft_writing *writing, const float *logits,
                                  struct cop_error *err)
{
    const struct cop_tokenizer *tokenizer = drafter->map.draft;
    writing->last = cop_argmax(logits, drafter->draft_vocab);
    if (writing->last < 0 ||
        cop_tokenizer_kind(tokenizer, writing->last) == COP_PIECE_CONTROL) {
        writing->goes_on = false;
        return COP_OK;
    }
    struct cop_string piece = cop_tokenizer_piece(tokenizer, writing->last);
    return cop_text_append(&writing->text, piece.bytes, piece.length, err);
}

static enum cop_status feed_step(struct cop_draft_text *text, int32_t sequence, int32_t step,
                                 struct cop_error *err)
{
    struct cop_draft_writing *writing = &text->writings[sequence];
    if (step == 0) {
        writing->text.length = 0;
        writing->last = -1;
        return cop_drafter_feed_root(text->drafter, sequence, &writing->goes_on, err);
    }
    writing->goes_on =
        writing->goes_on && cop_drafter_feed_own(text->drafter, sequence, step, step - 1, step,
                                                 writing->last, true);
    return COP_OK;
}

/* One more token of everyone who goes on. */
static enum cop_status write_step(struct cop_draft_text *text,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  int32_t step, struct cop_error *err)
{
    struct cop_drafter *drafter = text->drafter;
    enum cop_status status = cop_drafter_start(drafter, n_frontiers, n_frontiers, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = feed_step(text, frontiers[f].sequence, step, err);
    }
    if (status == COP_OK) {
        status = cop_drafter_run_own(drafter, err);
    }
    const float *logits = drafter->own.items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        struct cop_draft_writing *writing = &text->writings[frontiers[f].sequence];
        if (writing->goes_on) {
            status = take_token(drafter, writing, logits, err);
            logits += drafter->draft_vocab;
        }
    }
    return status;
}

/* The target's tokens of what was written, and its own token where the draft ended the answer.
 */
static enum cop_status cut(struct cop_draft_text *text, const struct cop_frontier *frontier,
                           struct cop_error *err)
{
    const struct cop_glossary *map = &text->drafter->map;
    struct cop_draft_writing *writing = &text->writings[frontier->sequence];
    struct cop_string written = {writing->text.bytes, writing->text.length};
    enum cop_status status = cop_draft_text_cut(map->target, frontier->tree->token[0], written,
                                                &writing->tokens, err);
    bool has_ended =
        !writing->goes_on && writing->last >= 0 && map->to_target[writing->last] >= 0;
    if (status == COP_OK && has_ended) {
        status = cop_ids_push(&writing->tokens, map->to_target[writing->last], err);
    }
    return status;
}

static enum cop_status write_all(struct cop_draft_text *text,
                                 const struct cop_frontier *frontiers, int32_t n_frontiers,
                                 struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int32_t step = 0; step < text->depth && status == COP_OK; step++) {
        status = write_step(text, frontiers, n_frontiers, step, err);
    }
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        cop_drafter_forget_nodes(text->drafter, frontiers[f].sequence);
        status = cut(text, &frontiers[f], err);
    }
    return status;
}

/* ---- Handing out ------------------------------------------------------------------------- */

/* Whether the path to a node is the beginning of the drafted tokens. */
static bool is_on(const struct cop_ids *tokens, const struct cop_tree *tree, int32_t node,
                  int32_t depth)
{
    bool is_same = true;
    for (int32_t i = node; i > 0 && is_same; i = tree->parent[i]) {
        is_same = tree->token[i] == tokens->items[--depth];
    }
    return is_same;
}

enum cop_status cop_draft_text_expand(struct cop_draft_text *text,
                                      struct cop_frontier *frontiers, int32_t n_frontiers,
                                      struct cop_error *err)
{
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    enum cop_status status = depth == 0 ? write_all(text, frontiers, n_frontiers, err) : COP_OK;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        const struct cop_ids *tokens = &text->writings[frontier->sequence].tokens;
        for (int32_t i = 0; i < frontier->count && (size_t)depth < tokens->count; i++) {
            if (is_on(tokens, frontier->tree, frontier->nodes[i], depth)) {
                frontier->rows[i] = (struct cop_row){.kind = COP_ROW_POINTS,
                                                     .vocab = text->drafter->vocab_size,
                                                     .ids = tokens->items + depth,
                                                     .count = 1};
            }
        }
    }
    return status;
}
