/* Streaming: bytes in, whole characters out.
 *
 * Invariant between calls: held[0..n_held) begins a legal character and does not complete one,
 * or is the first two bytes of an encoded surrogate: no legal character begins so, but Python's
 * decoder, whose streams ours equal, shows the three bytes' replacements together.
 * Decoding a list of ids is the same machine run to its end, so both agree by construction. */
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"

#include <string.h>

static bool is_half_surrogate(const struct cop_stream *stream)
{
    return stream->n_held == 2 && stream->held[0] == 0xED && stream->held[1] >= 0xA0 &&
           stream->held[1] <= 0xBF;
}

/* Emits what held[0..n_held) has become certain of; what remains begins a character. */
static enum cop_status settle(struct cop_stream *stream, struct cop_text *text,
                              struct cop_error *err)
{
    while (stream->n_held > 0) {
        const char *held = (const char *)stream->held;
        size_t used;
        enum cop_utf8 kind = cop_utf8_next(held, (size_t)stream->n_held, &used);
        if (kind == COP_UTF8_UNFINISHED || is_half_surrogate(stream)) {
            break;
        }
        enum cop_status status = kind == COP_UTF8_WHOLE
                                     ? cop_text_append(text, held, used, err)
                                     : cop_text_append(text, COP_UTF8_REPLACEMENT, 3, err);
        if (status != COP_OK) {
            return status;
        }
        stream->n_held -= (int32_t)used;
        memmove(stream->held, stream->held + used, (size_t)stream->n_held);
    }
    return COP_OK;
}

enum cop_status cop_stream_push(struct cop_stream *stream, const char *bytes, size_t length,
                                struct cop_text *text, struct cop_error *err)
{
    size_t at = 0;
    while (at < length) {
        /* Whole characters pass by without being held. */
        size_t whole = stream->n_held == 0 ? cop_utf8_valid_prefix(bytes + at, length - at) : 0;
        enum cop_status status = cop_text_append(text, bytes + at, whole, err);
        at += whole;
        if (status == COP_OK && at < length) {
            stream->held[stream->n_held++] = (uint8_t)bytes[at++];
            status = settle(stream, text, err);
        }
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}

/* How many U+FFFD the held bytes would be: an unfinished character is one part, half a
 * surrogate is two. */
static size_t held_parts(const struct cop_stream *stream)
{
    return is_half_surrogate(stream) ? 2 : stream->n_held > 0 ? 1 : 0;
}

size_t cop_stream_pending(const struct cop_stream *stream, const char *next)
{
    char bytes[5];
    size_t used, n_held = (size_t)stream->n_held;
    memcpy(bytes, stream->held, n_held);
    bytes[n_held] = next ? *next : '\0';
    return n_held == 0 || cop_utf8_next(bytes, n_held + 1, &used) == COP_UTF8_ILL
               ? 3 * held_parts(stream)
               : n_held;
}

enum cop_status cop_stream_flush(struct cop_stream *stream, struct cop_text *text,
                                 struct cop_error *err)
{
    size_t n_parts = held_parts(stream);
    stream->n_held = 0;
    return cop_text_append(text, COP_UTF8_REPLACEMENT COP_UTF8_REPLACEMENT, 3 * n_parts, err);
}
