/* The lists of a GGUF file: pieces, their types, and merges. */
#include "core/base/quote.h"
#include "core/text/gguf/gguf_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type, by its number less one. An unknown token is cut out of text like
 * a control token. */
static const enum cop_piece_kind kinds[] = {COP_PIECE_NORMAL,  COP_PIECE_CONTROL,
                                            COP_PIECE_CONTROL, COP_PIECE_ADDED,
                                            COP_PIECE_UNUSED,  COP_PIECE_BYTE};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

void cop_gguf_source_release(struct cop_gguf_source *source)
{
    free(source->pieces);
    free(source->types);
    free(source->merges);
    free(source->scores);
    cop_names_release(&source->ids);
}

enum cop_piece_kind cop_gguf_source_kind(const struct cop_gguf_source *source, size_t id)
{
    return source->types ? kinds[source->types[id] - 1] : COP_PIECE_NORMAL;
}

/* ---- Pieces ----------------------------------------------------------------------------- */

static enum cop_status read_types(struct cop_gguf_source *source, struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    if (!cop_gguf_has(source->file, key)) {
        return COP_OK;
    }
    size_t count;
    enum cop_status status = cop_gguf_ints(source->file, key, &source->types, &count, err);
    if (status != COP_OK) {
        return status;
    }
    if (count != source->n_pieces) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: key \"%s\" has %zu items for %zu tokens",
                        source->name, key, count, source->n_pieces);
    }
    for (size_t i = 0; i < count; i++) {
        if (source->types[i] < 1 || source->types[i] > (int64_t)N_KINDS) {
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: key \"%s\": token %zu has type %" PRId64 ", outside [1, %zu]",
                            source->name, key, i, source->types[i], N_KINDS);
        }
    }
    return COP_OK;
}

static enum cop_status read_pieces(struct cop_gguf_source *source, struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.tokens";
    enum cop_status status =
        cop_gguf_strings(source->file, key, &source->pieces, &source->n_pieces, err);
    if (status != COP_OK) {
        return status;
    }
    if (source->n_pieces < 1 || source->n_pieces > INT32_MAX / 4) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: key \"%s\" has %zu items", source->name, key,
                        source->n_pieces);
    }
    return read_types(source, err);
}

/* Enters all pieces as the file writes them; two equal ones would make text ambiguous. Empty
 * pieces fill gaps in some files and are never found. */
static enum cop_status index_pieces(struct cop_gguf_source *source, struct cop_error *err)
{
    if (!cop_names_init(&source->ids, source->n_pieces)) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for %zu tokens", source->name,
                        source->n_pieces);
    }
    for (size_t i = 0; i < source->n_pieces; i++) {
        struct cop_string piece = source->pieces[i];
        if (piece.length > UINT32_MAX) {
            return cop_fail(err, COP_ERR_FORMAT, "%s: token %zu has %zu bytes", source->name, i,
                            piece.length);
        }
        if (piece.length == 0) {
            continue;
        }
        int32_t holder = cop_names_add(&source->ids, piece.bytes, piece.length, (int32_t)i);
        if (holder != (int32_t)i) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_FORMAT, "%s: tokens %d and %zu are both \"%s\"",
                            source->name, holder, i,
                            cop_quote(text, piece.bytes, piece.length));
        }
    }
    return COP_OK;
}

enum cop_status cop_gguf_source_read(struct cop_gguf_source *source, struct cop_error *err)
{
    enum cop_status status = read_pieces(source, err);
    return status == COP_OK ? index_pieces(source, err) : status;
}

static void add_pieces(const struct cop_gguf_source *source, cop_piece_decode decode,
                       char *decoded, struct cop_vocabulary *vocabulary)
{
    for (size_t i = 0; i < source->n_pieces; i++) {
        struct cop_string piece = source->pieces[i];
        enum cop_piece_kind kind = cop_gguf_source_kind(source, i);
        if (kind == COP_PIECE_NORMAL) {
            piece.length = decode(piece.bytes, piece.length, decoded);
            piece.bytes = decoded;
        } else if (kind == COP_PIECE_BYTE && cop_is_byte_piece(piece, decoded)) {
            piece = (struct cop_string){decoded, 1};
        }
        cop_vocabulary_add(vocabulary, piece.bytes, piece.length, kind);
    }
}

enum cop_status cop_gguf_source_vocabulary(const struct cop_gguf_source *source,
                                           cop_piece_decode decode,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err)
{
    struct cop_vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t longest = 0;
    size_t n_bytes = 0;
    for (size_t i = 0; i < source->n_pieces; i++) {
        n_bytes += source->pieces[i].length;
        longest = source->pieces[i].length > longest ? source->pieces[i].length : longest;
    }
    char *decoded = malloc(longest + 1);
    enum cop_status status =
        decoded ? cop_vocabulary_init(vocabulary, source->n_pieces, n_bytes, err)
                : cop_fail(err, COP_ERR_MEMORY, "%s: no memory for a token", source->name);
    if (status == COP_OK) {
        add_pieces(source, decode, decoded, vocabulary);
        status = cop_vocabulary_finish(vocabulary, err);
    }
    free(decoded);
    if (status == COP_OK) {
        tokenizer->fingerprint = cop_vocabulary_fingerprint(vocabulary);
        status = cop_vocabulary_marks(vocabulary, &tokenizer->marks, err);
    }
    return status;
}

/* ---- Merges ----------------------------------------------------------------------------- */

static enum cop_status bad_merge(const struct cop_gguf_source *source, size_t number,
                                 const char *what, struct cop_error *err)
{
    char text[COP_QUOTE_SIZE];
    struct cop_string merge = source->merges[number];
    return cop_fail(err, COP_ERR_FORMAT,
                    "%s: key \"tokenizer.ggml.merges\": merge %zu, \"%s\", %s", source->name,
                    number, cop_quote(text, merge.bytes, merge.length), what);
}

/* "he ll" to the ids of "he", "ll" and "hell", each of which must be a token. */
static enum cop_status add_merge(const struct cop_gguf_source *source, size_t number,
                                 char *joined, struct cop_merges *merges, struct cop_error *err)
{
    struct cop_string merge = source->merges[number];
    const char *space = merge.length > 0 ? memchr(merge.bytes, ' ', merge.length) : NULL;
    size_t left_length = space ? (size_t)(space - merge.bytes) : 0;
    size_t right_length = space ? merge.length - left_length - 1 : 0;
    if (left_length == 0 || right_length == 0 || memchr(space + 1, ' ', right_length)) {
        return bad_merge(source, number, "is not two tokens with one space between", err);
    }
    memcpy(joined, merge.bytes, left_length);
    memcpy(joined + left_length, space + 1, right_length);
    cop_token left = cop_names_find(&source->ids, joined, left_length);
    cop_token right = cop_names_find(&source->ids, space + 1, right_length);
    cop_token whole = cop_names_find(&source->ids, joined, left_length + right_length);
    if (left < 0 || right < 0 || whole < 0) {
        return bad_merge(source, number,
                         left < 0    ? "begins with what is not a token"
                         : right < 0 ? "ends with what is not a token"
                                     : "makes what is not a token",
                         err);
    }
    return cop_merges_add(merges, left, right, whole) < 0
               ? COP_OK
               : bad_merge(source, number, "is there twice", err);
}

enum cop_status cop_gguf_source_merges(struct cop_gguf_source *source,
                                       struct cop_merges *merges, struct cop_error *err)
{
    enum cop_status status = cop_gguf_strings(source->file, "tokenizer.ggml.merges",
                                              &source->merges, &source->n_merges, err);
    if (status == COP_OK && source->n_merges > INT32_MAX / 4) {
        status =
            cop_fail(err, COP_ERR_FORMAT, "%s: %zu merges", source->name, source->n_merges);
    }
    if (status == COP_OK) {
        status = cop_merges_init(merges, source->n_merges, err);
    }
    size_t longest = 0;
    for (size_t i = 0; i < source->n_merges; i++) {
        longest = source->merges[i].length > longest ? source->merges[i].length : longest;
    }
    char *joined = status == COP_OK ? malloc(longest + 1) : NULL;
    if (status == COP_OK && !joined) {
        status = cop_fail(err, COP_ERR_MEMORY, "%s: no memory for a merge", source->name);
    }
    for (size_t i = 0; status == COP_OK && i < source->n_merges; i++) {
        status = add_merge(source, i, joined, merges, err);
    }
    free(joined);
    return status;
}
