/* Byte-level BPE: words, their bytes as symbols, merges. */
#include "core/text/parts.h"

struct encoding {
    const struct cop_tokenizer *tokenizer;
    struct cop_bpe_work *work;
    struct cop_ids *ids;
};

/* One word. Its symbols are pushed first and merged where they lie. A byte without a piece
 * vanishes, and what stood beside it may merge. */
static enum cop_status encode_word(void *context, const char *bytes, size_t length,
                                   struct cop_error *err)
{
    const struct encoding *encoding = context;
    const struct cop_tokenizer *tokenizer = encoding->tokenizer;
    struct cop_ids *ids = encoding->ids;
    if (tokenizer->ignore_merges) {
        cop_token whole = cop_names_find(&tokenizer->vocabulary.normal, bytes, length);
        if (whole >= 0) {
            return cop_ids_push(ids, whole, err);
        }
    }
    size_t start = ids->count;
    for (size_t i = 0; i < length; i++) {
        cop_token id = tokenizer->byte_ids[(unsigned char)bytes[i]];
        enum cop_status status = id < 0 ? COP_OK : cop_ids_push(ids, id, err);
        if (status != COP_OK) {
            return status;
        }
    }
    size_t count = ids->count - start;
    if (count == 0) {
        return COP_OK;
    }
    enum cop_status status =
        cop_bpe_merge(&tokenizer->merges, ids->items + start, &count, encoding->work, err);
    ids->count = start + count;
    return status;
}

enum cop_status cop_byte_level_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                      size_t length, struct cop_bpe_work *work,
                                      struct cop_ids *ids, struct cop_error *err)
{
    struct encoding encoding = {tokenizer, work, ids};
    return cop_pretokenizer_cut(tokenizer->pretokenizer, text, length, encode_word, &encoding,
                                err);
}
