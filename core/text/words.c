/* Words to ids: symbols, what stands for those that have no piece, merges. */
#include "core/base/utf8.h"
#include "core/text/byte_symbols.h"
#include "core/text/parts.h"

#include <stdio.h>
#include <string.h>

struct encoding {
    const struct cop_tokenizer *tokenizer;
    struct cop_bpe_work *work;
    struct cop_ids *ids;
};

bool cop_is_byte_piece(struct cop_string piece, char *byte)
{
    static const char digits[] = "0123456789ABCDEF";
    if (piece.length != 6 || memcmp(piece.bytes, "<0x", 3) != 0 || piece.bytes[5] != '>') {
        return false;
    }
    const char *high = memchr(digits, piece.bytes[3], 16);
    const char *low = memchr(digits, piece.bytes[4], 16);
    if (!high || !low) {
        return false;
    }
    *byte = (char)((high - digits) * 16 + (low - digits));
    return true;
}

void cop_find_fallback(const struct cop_names *pieces, cop_token ids[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        (void)snprintf(piece, sizeof piece, "<0x%02X>", byte & 0xFF);
        ids[byte] = cop_names_find(pieces, piece, 6);
    }
}

/* Unknown symbols wait until it is clear whether the next is one too. */
static enum cop_status push_waiting(const struct encoding *encoding, bool *is_waiting,
                                    struct cop_error *err)
{
    bool was_waiting = *is_waiting;
    *is_waiting = false;
    return was_waiting ? cop_ids_push(encoding->ids, encoding->tokenizer->unknown, err)
                       : COP_OK;
}

/* A symbol without a piece: its bytes' pieces if all of them are there, else the unknown one,
 * else nothing, and what stood beside it may merge. */
static enum cop_status push_missing(const struct encoding *encoding, const char *symbol,
                                    size_t length, bool *is_waiting, struct cop_error *err)
{
    const struct cop_tokenizer *tokenizer = encoding->tokenizer;
    bool has_all = true;
    for (size_t i = 0; i < length; i++) {
        has_all = has_all && tokenizer->fallback_ids[(unsigned char)symbol[i]] >= 0;
    }
    enum cop_status status = COP_OK;
    for (size_t i = 0; has_all && status == COP_OK && i < length; i++) {
        status =
            cop_ids_push(encoding->ids, tokenizer->fallback_ids[(unsigned char)symbol[i]], err);
    }
    if (has_all || tokenizer->unknown < 0) {
        return status;
    }
    if (!tokenizer->fuses_unknown) {
        status = push_waiting(encoding, is_waiting, err);
    }
    *is_waiting = true;
    return status;
}

/* The next symbol of a word: its id or -1, and what it spells in the file's alphabet. */
static cop_token read_symbol(const struct cop_tokenizer *tokenizer, const char *bytes,
                             size_t length, char symbol[4], size_t *symbol_length, size_t *used)
{
    if (tokenizer->symbols == COP_SYMBOLS_BYTES) {
        uint8_t byte = (uint8_t)bytes[0];
        *used = 1;
        *symbol_length = cop_utf8_write(cop_byte_symbol(byte), symbol);
        return tokenizer->byte_ids[byte];
    }
    (void)cop_utf8_next(bytes, length, used);
    *symbol_length = *used;
    memcpy(symbol, bytes, *used);
    return cop_names_find(&tokenizer->words, bytes, *used);
}

static enum cop_status push_symbols(const struct encoding *encoding, const char *bytes,
                                    size_t length, struct cop_error *err)
{
    bool is_waiting = false;
    size_t at = 0;
    while (at < length) {
        char symbol[4];
        size_t symbol_length;
        size_t used;
        cop_token id = read_symbol(encoding->tokenizer, bytes + at, length - at, symbol,
                                   &symbol_length, &used);
        enum cop_status status = COP_OK;
        if (id < 0) {
            status = push_missing(encoding, symbol, symbol_length, &is_waiting, err);
        } else {
            status = push_waiting(encoding, &is_waiting, err);
            status = status == COP_OK ? cop_ids_push(encoding->ids, id, err) : status;
        }
        if (status != COP_OK) {
            return status;
        }
        at += used;
    }
    return push_waiting(encoding, &is_waiting, err);
}

/* The piece that is the whole word, or -1. */
static cop_token whole_word(const struct cop_tokenizer *tokenizer, const char *bytes,
                            size_t length)
{
    const struct cop_names *own = &tokenizer->words;
    return cop_names_find(own->n_slots ? own : &tokenizer->vocabulary.normal, bytes, length);
}

/* One word. Its symbols are pushed first and merged where they lie. */
static enum cop_status encode_word(void *context, const char *bytes, size_t length,
                                   struct cop_error *err)
{
    const struct encoding *encoding = context;
    const struct cop_tokenizer *tokenizer = encoding->tokenizer;
    struct cop_ids *ids = encoding->ids;
    cop_token whole = tokenizer->ignore_merges ? whole_word(tokenizer, bytes, length) : -1;
    if (whole >= 0) {
        return cop_ids_push(ids, whole, err);
    }
    size_t start = ids->count;
    enum cop_status status = push_symbols(encoding, bytes, length, err);
    size_t count = ids->count - start;
    if (status != COP_OK || count == 0) {
        return status;
    }
    status = cop_bpe_merge(&tokenizer->merges, ids->items + start, &count, encoding->work, err);
    ids->count = start + count;
    return status;
}

enum cop_status cop_words_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                 size_t length, bool at_start, struct cop_bpe_work *work,
                                 struct cop_ids *ids, struct cop_error *err)
{
    struct encoding encoding = {tokenizer, work, ids};
    return cop_pretokenizer_cut(tokenizer->pretokenizer, text, length, at_start, encode_word,
                                &encoding, err);
}
