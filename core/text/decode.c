/* Ids to text.
 *
 * For byte-level pieces this is streaming run to its end (core/text/stream.c). Files of other
 * kinds may ask for more, which needs the whole list: see struct cop_decoding. */
#include "core/base/utf8.h"
#include "core/text/parts.h"

#include <string.h>

struct decode {
    const struct cop_tokenizer *tokenizer;
    struct cop_stream stream;
    struct cop_text *text;
    struct cop_text run; /* of byte pieces */
    size_t n_pieces;     /* so far */
    struct cop_error *err;
};

/* Ends a run of byte pieces: its text, or one U+FFFD for each of them. */
static enum cop_status end_run(struct decode *decode)
{
    struct cop_text *run = &decode->run;
    size_t length = run->length;
    run->length = 0;
    if (length == 0) {
        return COP_OK;
    }
    enum cop_status status = cop_stream_flush(&decode->stream, decode->text, decode->err);
    if (cop_utf8_valid_prefix(run->bytes, length) == length) {
        return status == COP_OK ? cop_text_append(decode->text, run->bytes, length, decode->err)
                                : status;
    }
    for (size_t i = 0; status == COP_OK && i < length; i++) {
        status = cop_text_append(decode->text, COP_UTF8_REPLACEMENT, 3, decode->err);
    }
    return status;
}

static enum cop_status push_piece(struct decode *decode, cop_token id)
{
    const struct cop_decoding *how = &decode->tokenizer->decoding;
    const struct cop_vocabulary *vocabulary = &decode->tokenizer->vocabulary;
    struct cop_string piece = cop_vocabulary_text(vocabulary, id);
    bool is_first = decode->n_pieces++ == 0;
    if (how->byte_runs && vocabulary->kinds[id] == COP_PIECE_BYTE) {
        return cop_text_append(&decode->run, piece.bytes, piece.length, decode->err);
    }
    enum cop_status status = end_run(decode);
    if (status == COP_OK && how->is_spaced && !is_first) {
        status = cop_stream_push(&decode->stream, " ", 1, decode->text, decode->err);
    }
    return status == COP_OK ? cop_stream_push(&decode->stream, piece.bytes, piece.length,
                                              decode->text, decode->err)
                            : status;
}

static enum cop_status push_all(struct decode *decode, const cop_token *ids, size_t count,
                                bool special)
{
    const struct cop_vocabulary *vocabulary = &decode->tokenizer->vocabulary;
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < count; i++) {
        if (ids[i] < 0 || ids[i] >= vocabulary->size) {
            return cop_fail(decode->err, COP_ERR_ARGUMENT,
                            "token id %d (at index %zu) is outside the vocabulary of %d",
                            ids[i], i, vocabulary->size);
        }
        if (special || vocabulary->kinds[ids[i]] != COP_PIECE_CONTROL) {
            status = push_piece(decode, ids[i]);
        }
    }
    if (status == COP_OK) {
        status = end_run(decode);
    }
    return status == COP_OK ? cop_stream_flush(&decode->stream, decode->text, decode->err)
                            : status;
}

/* Takes characters off the ends of text[start..). */
static void strip(const struct cop_decoding *how, struct cop_text *text, size_t start)
{
    size_t width = strlen(how->strip);
    size_t first = start;
    size_t last = text->length;
    for (int32_t i = 0; i < how->n_leading && last - first >= width && width > 0; i++) {
        if (memcmp(text->bytes + first, how->strip, width) != 0) {
            break;
        }
        first += width;
    }
    for (int32_t i = 0; i < how->n_trailing && last - first >= width && width > 0; i++) {
        if (memcmp(text->bytes + last - width, how->strip, width) != 0) {
            break;
        }
        last -= width;
    }
    if (last - first < text->length - start) {
        memmove(text->bytes + start, text->bytes + first, last - first);
        text->length = start + last - first;
        text->bytes[text->length] = '\0';
    }
}

enum cop_status cop_tokenizer_decode(const struct cop_tokenizer *tokenizer,
                                     const cop_token *ids, size_t count, bool special,
                                     struct cop_text *text, struct cop_error *err)
{
    size_t start = text->length;
    struct decode decode = {.tokenizer = tokenizer, .text = text, .err = err};
    enum cop_status status = push_all(&decode, ids, count, special);
    cop_text_release(&decode.run);
    if (status == COP_OK) {
        strip(&tokenizer->decoding, text, start);
    } else if (text->bytes) {
        text->length = start;
        text->bytes[start] = '\0';
    }
    return status;
}
