/* Beginnings of texts in a tokenizer's pieces. */
#include "algorithms/propose/pieces.h"

#include "algorithms/propose/draft_text.h"
#include "core/base/utf8.h"
#include <stdlib.h>
#include <string.h>

static int compare(struct cop_string a, struct cop_string b)
{
    int order = memcmp(a.bytes, b.bytes, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_pieces(const void *a, const void *b)
{
    return compare(*(const struct cop_string *)a, *(const struct cop_string *)b);
}

static bool is_text(const struct cop_tokenizer *tokenizer, cop_token id)
{
    return !cop_tokenizer_is_padding(tokenizer, id) &&
           cop_tokenizer_kind(tokenizer, id) != COP_PIECE_CONTROL;
}

enum cop_status cop_pieces_init(struct cop_pieces *pieces,
                                const struct cop_tokenizer *tokenizer, int32_t size,
                                struct cop_error *err)
{
    int32_t known = cop_tokenizer_size(tokenizer);
    *pieces = (struct cop_pieces){.tokenizer = tokenizer,
                                  .size = known < size ? known : size,
                                  .before = cop_tokenizer_id(tokenizer, "\n", 1)};
    pieces->sorted = malloc(((size_t)pieces->size + 1) * sizeof *pieces->sorted);
    if (!pieces->sorted) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an index of %d pieces",
                        pieces->size);
    }
    for (cop_token id = 0; id < pieces->size; id++) {
        if (is_text(tokenizer, id)) {
            pieces->sorted[pieces->count++] = cop_tokenizer_piece(tokenizer, id);
        }
    }
    qsort(pieces->sorted, (size_t)pieces->count, sizeof *pieces->sorted, compare_pieces);
    return COP_OK;
}

void cop_pieces_release(struct cop_pieces *pieces)
{
    free(pieces->sorted);
    cop_ids_release(&pieces->ids);
    *pieces = (struct cop_pieces){0};
}

static bool ends_inside_a_character(const char *text, size_t length)
{
    size_t valid = cop_utf8_valid_prefix(text, length), used;
    return valid < length &&
           cop_utf8_next(text + valid, length - valid, &used) == COP_UTF8_UNFINISHED;
}

/* Whatever begins with a text follows it in the order. */
bool cop_pieces_go_on(const struct cop_pieces *pieces, const char *text, size_t length)
{
    if (ends_inside_a_character(text, length)) {
        return true;
    }
    struct cop_string wanted = {text, length};
    int32_t low = 0, high = pieces->count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        bool is_above = compare(pieces->sorted[middle], wanted) > 0;
        low = is_above ? low : middle + 1;
        high = is_above ? middle : high;
    }
    return low < pieces->count && pieces->sorted[low].length > length &&
           memcmp(pieces->sorted[low].bytes, text, length) == 0;
}

/* Part of a character, or bytes that the tokenizer would replace. */
static cop_token longest(const struct cop_pieces *pieces, const char *text, size_t length)
{
    cop_token found = -1;
    for (; length > 0 && found < 0; length--) {
        cop_token id = cop_tokenizer_id(pieces->tokenizer, text, length);
        found = is_text(pieces->tokenizer, id) ? id : -1;
    }
    return found;
}

enum cop_status cop_pieces_first(struct cop_pieces *pieces, const char *text, size_t length,
                                 cop_token *first, struct cop_error *err)
{
    enum cop_status status =
        cop_draft_text_cut(pieces->tokenizer, pieces->before, (struct cop_string){text, length},
                           &pieces->ids, err);
    *first = pieces->ids.count > 0 ? pieces->ids.items[0] : longest(pieces, text, length);
    *first = *first < pieces->size ? *first : -1;
    return status;
}
