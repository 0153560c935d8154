/* What the draft writes behind a beginning: a text that ends, and counts for its first token,
 * or a longer beginning. */
#include "algorithms/propose/draft_string.h"

#include <stdlib.h>

enum cop_status cop_beginnings_push(struct cop_beginnings *list, struct cop_beginning begun,
                                    struct cop_error *err)
{
    if (list->count == list->capacity) {
        int32_t capacity = list->capacity ? 2 * list->capacity : 64;
        void *grown = realloc(list->items, (size_t)capacity * sizeof *list->items);
        if (!grown) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for %d spellings", capacity);
        }
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = begun;
    return COP_OK;
}

static void count_first(struct cop_string_row *row, cop_token first, double probability)
{
    if (first >= 0) {
        row->psi[first] += (float)probability;
    }
}

/* The text of a beginning, valid until more are written. */
static const char *text_of(const struct cop_draft_string *string,
                           const struct cop_beginning *begun)
{
    return begun->length > 0 ? string->texts.bytes + begun->text : "";
}

enum cop_status cop_draft_string_end(struct cop_draft_string *string,
                                     const struct cop_beginning *begun, struct cop_error *err)
{
    cop_token first;
    enum cop_status status = cop_pieces_first(&string->pieces, text_of(string, begun),
                                              (size_t)begun->length, &first, err);
    count_first(&string->rows[begun->row], first, begun->probability);
    return status;
}

/* The same of one own token, looked up once. */
static enum cop_status end_alone(struct cop_draft_string *string,
                                 const struct cop_beginning *begun, struct cop_error *err)
{
    cop_token *first = &string->first_of[begun->own];
    enum cop_status status = COP_OK;
    if (*first == -2) {
        status = cop_pieces_first(&string->pieces, text_of(string, begun),
                                  (size_t)begun->length, first, err);
    }
    count_first(&string->rows[begun->row], *first, begun->probability);
    return status;
}

/* A control token ends what was begun, or is the first token itself. */
static enum cop_status end_by_control(struct cop_draft_string *string,
                                      const struct cop_beginning *begun, cop_token own,
                                      double probability, struct cop_error *err)
{
    struct cop_beginning ended = *begun;
    ended.probability = probability;
    if (begun->length > 0) {
        return cop_draft_string_end(string, &ended, err);
    }
    count_first(&string->rows[begun->row], string->drafter->map.to_target[own], probability);
    return COP_OK;
}

/* `begun` and one more own token, whose text is behind all others then. */
static enum cop_status join(struct cop_draft_string *string, const struct cop_beginning *begun,
                            struct cop_string piece, struct cop_error *err)
{
    string->text.length = 0;
    enum cop_status status =
        cop_text_append(&string->text, text_of(string, begun), (size_t)begun->length, err);
    if (status == COP_OK) {
        status = cop_text_append(&string->text, piece.bytes, piece.length, err);
    }
    return status == COP_OK
               ? cop_text_append(&string->texts, string->text.bytes, string->text.length, err)
               : status;
}

enum cop_status cop_draft_string_write(struct cop_draft_string *string,
                                       const struct cop_beginning *begun, cop_token own,
                                       double probability, struct cop_error *err)
{
    const struct cop_tokenizer *draft = string->drafter->map.draft;
    if (cop_tokenizer_kind(draft, own) == COP_PIECE_CONTROL) {
        return end_by_control(string, begun, own, probability, err);
    }
    struct cop_string piece = cop_tokenizer_piece(draft, own);
    struct cop_beginning next = {.row = begun->row,
                                 .parent = begun->number,
                                 .own = own,
                                 .probability = probability,
                                 .text = (int32_t)string->texts.length,
                                 .length = begun->length + (int32_t)piece.length};
    enum cop_status status = join(string, begun, piece, err);
    if (status == COP_OK && string->rows[begun->row].rest > 0 &&
        cop_pieces_go_on(&string->pieces, string->text.bytes, string->text.length)) {
        return cop_beginnings_push(&string->next, next, err);
    }
    if (status == COP_OK) {
        status = begun->length > 0 ? cop_draft_string_end(string, &next, err)
                                   : end_alone(string, &next, err);
    }
    string->texts.length = (size_t)next.text;
    return status;
}
