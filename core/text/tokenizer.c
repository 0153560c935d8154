/* The tokenizer's public face: encode, decode, and what is known about its pieces. */
#include "core/text/tokenizer.h"

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/parts.h"

#include <stdlib.h>
#include <string.h>

/* Longer texts are refused: places inside a text are 32-bit numbers in the merger. */
#define LONGEST_TEXT ((size_t)1 << 28)

struct cop_tokenizer *cop_tokenizer_new(void)
{
    struct cop_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer) {
        atomic_init(&tokenizer->n_references, 1);
        tokenizer->bos = -1;
        for (size_t i = 0; i < 256; i++) {
            tokenizer->byte_ids[i] = -1;
        }
    }
    return tokenizer;
}

struct cop_tokenizer *cop_tokenizer_share(struct cop_tokenizer *tokenizer)
{
    if (tokenizer) {
        atomic_fetch_add(&tokenizer->n_references, 1);
    }
    return tokenizer;
}

void cop_tokenizer_free(struct cop_tokenizer *tokenizer)
{
    if (!tokenizer || atomic_fetch_sub(&tokenizer->n_references, 1) > 1) {
        return;
    }
    cop_pretokenizer_free(tokenizer->pretokenizer);
    cop_merges_release(&tokenizer->merges);
    cop_vocabulary_release(&tokenizer->vocabulary);
    cop_ids_release(&tokenizer->eos);
    cop_text_release(&tokenizer->chat_template);
    free(tokenizer);
}

enum cop_status cop_tokenizer_open(struct cop_tokenizer **out, const char *path,
                                   struct cop_error *err)
{
    *out = NULL;
    struct cop_gguf *file;
    enum cop_status status = cop_gguf_open(&file, path, err);
    if (status != COP_OK) {
        return status;
    }
    status = cop_tokenizer_from_gguf(out, file, err);
    cop_gguf_close(file);
    if (status == COP_OK && !*out) {
        status =
            cop_fail(err, COP_ERR_FORMAT, "%s: holds no tokenizer", cop_path_tail(path, 300));
    }
    return status;
}

/* ---- End tokens ------------------------------------------------------------------------- */

/* Control tokens that end an answer under any of the published templates. A file names one or
 * two of them; a chat model that ends with the other must stop there too. */
static const char *const known_ends[] = {
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>",
    "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>",
};

enum cop_status cop_tokenizer_add_eos(struct cop_tokenizer *tokenizer, cop_token id,
                                      struct cop_error *err)
{
    for (size_t i = 0; i < tokenizer->eos.count; i++) {
        if (tokenizer->eos.items[i] == id) {
            return COP_OK;
        }
    }
    return cop_ids_push(&tokenizer->eos, id, err);
}

enum cop_status cop_tokenizer_add_known_ends(struct cop_tokenizer *tokenizer,
                                             struct cop_error *err)
{
    for (size_t i = 0; i < sizeof known_ends / sizeof known_ends[0]; i++) {
        cop_token id =
            cop_names_find(&tokenizer->vocabulary.others, known_ends[i], strlen(known_ends[i]));
        enum cop_piece_kind kind = cop_tokenizer_kind(tokenizer, id);
        if (id < 0 || (kind != COP_PIECE_CONTROL && kind != COP_PIECE_ADDED)) {
            continue;
        }
        enum cop_status status = cop_tokenizer_add_eos(tokenizer, id, err);
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}

/* ---- Encoding --------------------------------------------------------------------------- */

/* Valid text, cut at the special tokens, each stretch between them encoded. */
static enum cop_status encode_valid(const struct cop_tokenizer *tokenizer, const char *text,
                                    size_t length, bool special, struct cop_bpe_work *work,
                                    struct cop_ids *ids, struct cop_error *err)
{
    const struct cop_marks *marks =
        special ? &tokenizer->vocabulary.specials : &tokenizer->vocabulary.added;
    size_t from = 0;
    while (from < length) {
        size_t at = from;
        const struct cop_mark *mark = cop_marks_find(marks, text, length, &at);
        enum cop_status status =
            cop_byte_level_encode(tokenizer, text + from, at - from, work, ids, err);
        if (status == COP_OK && mark) {
            status = cop_ids_push(ids, mark->id, err);
        }
        if (status != COP_OK) {
            return status;
        }
        from = mark ? at + mark->length : length;
    }
    return COP_OK;
}

static enum cop_status encode_any(const struct cop_tokenizer *tokenizer, const char *text,
                                  size_t length, bool special, struct cop_ids *ids,
                                  struct cop_error *err)
{
    struct cop_bpe_work work = {0};
    struct cop_text repaired = {0};
    enum cop_status status = COP_OK;
    if (cop_utf8_valid_prefix(text, length) < length) {
        struct cop_stream stream = {0};
        status = cop_stream_push(&stream, text, length, &repaired, err);
        if (status == COP_OK) {
            status = cop_stream_flush(&stream, &repaired, err);
        }
        text = repaired.bytes;
        length = repaired.length;
    }
    if (status == COP_OK) {
        status = encode_valid(tokenizer, text, length, special, &work, ids, err);
    }
    cop_text_release(&repaired);
    cop_bpe_work_release(&work);
    return status;
}

enum cop_status cop_tokenizer_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                     size_t length, struct cop_encode_options options,
                                     struct cop_ids *ids, struct cop_error *err)
{
    if (length > LONGEST_TEXT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "a text of %zu bytes is longer than %zu, the most that is encoded at "
                        "once; encode it in parts",
                        length, LONGEST_TEXT);
    }
    size_t start = ids->count;
    bool wants_bos = options.bos && tokenizer->bos >= 0;
    enum cop_status status = wants_bos ? cop_ids_push(ids, tokenizer->bos, err) : COP_OK;
    if (status == COP_OK) {
        status = encode_any(tokenizer, text, length, options.special, ids, err);
    }
    if (status != COP_OK) {
        ids->count = start;
        return status;
    }
    /* Templates begin with the token themselves: it stands there once, not twice. */
    if (wants_bos && ids->count > start + 1 && ids->items[start + 1] == tokenizer->bos) {
        ids->count--;
        memmove(ids->items + start, ids->items + start + 1,
                (ids->count - start) * sizeof *ids->items);
    }
    return COP_OK;
}

/* ---- Decoding --------------------------------------------------------------------------- */

static enum cop_status decode_all(const struct cop_tokenizer *tokenizer, const cop_token *ids,
                                  size_t count, bool special, struct cop_text *text,
                                  struct cop_error *err)
{
    struct cop_stream stream = {0};
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= tokenizer->vocabulary.size) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "token id %d (at index %zu) is outside the vocabulary of %d",
                            ids[i], i, tokenizer->vocabulary.size);
        }
        if (!special && tokenizer->vocabulary.kinds[ids[i]] == COP_PIECE_CONTROL) {
            continue;
        }
        struct cop_string piece = cop_vocabulary_text(&tokenizer->vocabulary, ids[i]);
        enum cop_status status = cop_stream_push(&stream, piece.bytes, piece.length, text, err);
        if (status != COP_OK) {
            return status;
        }
    }
    return cop_stream_flush(&stream, text, err);
}

enum cop_status cop_tokenizer_decode(const struct cop_tokenizer *tokenizer,
                                     const cop_token *ids, size_t count, bool special,
                                     struct cop_text *text, struct cop_error *err)
{
    size_t start = text->length;
    enum cop_status status = decode_all(tokenizer, ids, count, special, text, err);
    if (status != COP_OK && text->bytes) {
        text->length = start;
        text->bytes[start] = '\0';
    }
    return status;
}

/* ---- Facts ------------------------------------------------------------------------------ */

struct cop_string cop_tokenizer_piece(const struct cop_tokenizer *tokenizer, cop_token id)
{
    return cop_vocabulary_text(&tokenizer->vocabulary, id);
}

enum cop_piece_kind cop_tokenizer_kind(const struct cop_tokenizer *tokenizer, cop_token id)
{
    if (id < 0 || id >= tokenizer->vocabulary.size) {
        return COP_PIECE_UNUSED;
    }
    return (enum cop_piece_kind)tokenizer->vocabulary.kinds[id];
}

cop_token cop_tokenizer_id(const struct cop_tokenizer *tokenizer, const char *text,
                           size_t length)
{
    return cop_vocabulary_find(&tokenizer->vocabulary, text, length);
}

int32_t cop_tokenizer_size(const struct cop_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.size;
}

cop_token cop_tokenizer_bos(const struct cop_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

bool cop_tokenizer_adds_bos(const struct cop_tokenizer *tokenizer)
{
    return tokenizer->adds_bos && tokenizer->bos >= 0;
}

const cop_token *cop_tokenizer_eos(const struct cop_tokenizer *tokenizer, size_t *count)
{
    *count = tokenizer->eos.count;
    return tokenizer->eos.items;
}

struct cop_string cop_tokenizer_template(const struct cop_tokenizer *tokenizer)
{
    return (struct cop_string){tokenizer->chat_template.bytes, tokenizer->chat_template.length};
}

uint64_t cop_tokenizer_fingerprint(const struct cop_tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}
