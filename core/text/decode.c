/* Ids to text, one by one or all at once.
 *
 * Files differ in what they ask for beyond joining the pieces, see struct cop_decoding. Every
 * push goes through three stages: bytes (pieces, runs of byte pieces), whole characters
 * (core/text/stream.c), and the ends of the text, which may lose characters. */
#include "core/base/utf8.h"
#include "core/text/parts.h"

#include <string.h>

void cop_decoder_init(struct cop_decoder *decoder, const struct cop_tokenizer *tokenizer,
                      bool special)
{
    *decoder = (struct cop_decoder){.tokenizer = tokenizer, .special = special};
}

void cop_decoder_release(struct cop_decoder *decoder)
{
    cop_text_release(&decoder->run);
}

/* ---- Bytes ------------------------------------------------------------------------------ */

/* Ends a run of byte pieces: its text, or one U+FFFD for each of them. */
static enum cop_status end_run(struct cop_decoder *decoder, struct cop_text *text,
                               struct cop_error *err)
{
    struct cop_text *run = &decoder->run;
    size_t length = run->length;
    run->length = 0;
    if (length == 0) {
        return COP_OK;
    }
    enum cop_status status = cop_stream_flush(&decoder->stream, text, err);
    if (cop_utf8_valid_prefix(run->bytes, length) == length) {
        return status == COP_OK ? cop_text_append(text, run->bytes, length, err) : status;
    }
    decoder->n_replaced = length;
    for (size_t i = 0; status == COP_OK && i < length; i++) {
        status = cop_text_append(text, COP_UTF8_REPLACEMENT, 3, err);
    }
    return status;
}

static enum cop_status push_piece(struct cop_decoder *decoder, cop_token id,
                                  struct cop_text *text, struct cop_error *err)
{
    const struct cop_decoding *how = &decoder->tokenizer->decoding;
    const struct cop_vocabulary *vocabulary = &decoder->tokenizer->vocabulary;
    struct cop_string piece = cop_vocabulary_text(vocabulary, id);
    bool is_first = decoder->n_pieces++ == 0;
    if (how->byte_runs && vocabulary->kinds[id] == COP_PIECE_BYTE) {
        return cop_text_append(&decoder->run, piece.bytes, piece.length, err);
    }
    enum cop_status status = end_run(decoder, text, err);
    if (status == COP_OK && how->is_spaced && !is_first) {
        status = cop_stream_push(&decoder->stream, " ", 1, text, err);
    }
    return status == COP_OK
               ? cop_stream_push(&decoder->stream, piece.bytes, piece.length, text, err)
               : status;
}

/* ---- The ends of the text --------------------------------------------------------------- */

/* Puts back what might have been the end and is not. */
static enum cop_status resume(struct cop_decoder *decoder, struct cop_text *text,
                              struct cop_error *err)
{
    const char *character = decoder->tokenizer->decoding.strip;
    enum cop_status status = COP_OK;
    for (; status == COP_OK && decoder->n_withheld > 0; decoder->n_withheld--) {
        status = cop_text_append(text, character, strlen(character), err);
    }
    return status;
}

/* Takes characters off the beginning, and for now off the end, of text[from..). */
static void strip(struct cop_decoder *decoder, struct cop_text *text, size_t from)
{
    const struct cop_decoding *how = &decoder->tokenizer->decoding;
    size_t width = strlen(how->strip), first = from, last = text->length;
    if (width == 0 || first == last) {
        return;
    }
    while (!decoder->has_begun && last - first >= width) {
        decoder->has_begun = decoder->n_stripped == how->n_leading ||
                             memcmp(text->bytes + first, how->strip, width) != 0;
        first += decoder->has_begun ? 0 : width;
        decoder->n_stripped += !decoder->has_begun;
    }
    decoder->has_begun |= first < last;
    while (decoder->n_withheld < how->n_trailing && last - first >= width &&
           memcmp(text->bytes + last - width, how->strip, width) == 0) {
        last -= width;
        decoder->n_withheld++;
    }
    memmove(text->bytes + from, text->bytes + first, last - first);
    text->length = from + last - first;
    text->bytes[text->length] = '\0';
}

enum cop_status cop_decoder_push(struct cop_decoder *decoder, cop_token id,
                                 struct cop_text *text, struct cop_error *err)
{
    const struct cop_vocabulary *vocabulary = &decoder->tokenizer->vocabulary;
    size_t from = text->length;
    decoder->n_replaced = 0;
    if (id < 0 || id >= vocabulary->size ||
        (!decoder->special && vocabulary->kinds[id] == COP_PIECE_CONTROL)) {
        return COP_OK;
    }
    enum cop_status status = resume(decoder, text, err);
    if (status == COP_OK) {
        status = push_piece(decoder, id, text, err);
    }
    strip(decoder, text, from);
    return status;
}

enum cop_status cop_decoder_flush(struct cop_decoder *decoder, struct cop_text *text,
                                  struct cop_error *err)
{
    size_t from = text->length;
    decoder->n_replaced = 0;
    enum cop_status status = resume(decoder, text, err);
    if (status == COP_OK) {
        status = end_run(decoder, text, err);
    }
    if (status == COP_OK) {
        status = cop_stream_flush(&decoder->stream, text, err);
    }
    strip(decoder, text, from);
    decoder->n_withheld = 0;
    return status;
}

size_t cop_decoder_stripped(const struct cop_decoder *decoder)
{
    return (size_t)decoder->n_stripped * strlen(decoder->tokenizer->decoding.strip);
}

size_t cop_decoder_place(const struct cop_decoder *decoder, cop_token id,
                         const struct cop_text *text)
{
    const struct cop_decoding *how = &decoder->tokenizer->decoding;
    struct cop_string piece = cop_tokenizer_piece(decoder->tokenizer, id);
    bool is_apart =
        decoder->run.length > 0 || piece.length == 0 || how->is_spaced ||
        (how->byte_runs && cop_tokenizer_kind(decoder->tokenizer, id) == COP_PIECE_BYTE);
    return text->length + decoder->run.length + cop_decoder_stripped(decoder) +
           (size_t)decoder->n_withheld * strlen(how->strip) +
           cop_stream_pending(&decoder->stream, is_apart ? NULL : piece.bytes);
}

/* ---- All at once ------------------------------------------------------------------------ */

static enum cop_status push_all(struct cop_decoder *decoder, const cop_token *ids, size_t count,
                                struct cop_text *text, struct cop_error *err)
{
    int32_t size = decoder->tokenizer->vocabulary.size;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= size) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "token id %d (at index %zu) is outside the vocabulary of %d",
                            ids[i], i, size);
        }
        enum cop_status status = cop_decoder_push(decoder, ids[i], text, err);
        if (status != COP_OK) {
            return status;
        }
    }
    return cop_decoder_flush(decoder, text, err);
}

enum cop_status cop_tokenizer_decode(const struct cop_tokenizer *tokenizer,
                                     const cop_token *ids, size_t count, bool special,
                                     struct cop_text *text, struct cop_error *err)
{
    size_t start = text->length;
    struct cop_decoder decoder;
    cop_decoder_init(&decoder, tokenizer, special);
    enum cop_status status = push_all(&decoder, ids, count, text, err);
    cop_decoder_release(&decoder);
    if (status != COP_OK && text->bytes) {
        text->length = start;
        text->bytes[start] = '\0';
    }
    return status;
}
