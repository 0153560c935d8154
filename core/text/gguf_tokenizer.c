/* Loading a tokenizer from the metadata of a GGUF file.
 *
 * The pieces of a byte-level vocabulary are written in byte symbols; the loader turns them into
 * the bytes that they stand for. Control and added pieces are plain text. */
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/files/gguf.h"
#include "core/text/byte_symbols.h"
#include "core/text/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type, by its number less one. An unknown token is cut out of text like
 * a control token. */
static const enum cop_piece_kind kinds[] = {COP_PIECE_NORMAL,  COP_PIECE_CONTROL,
                                            COP_PIECE_CONTROL, COP_PIECE_ADDED,
                                            COP_PIECE_UNUSED,  COP_PIECE_BYTE};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* The arrays of the file while the tokenizer is being made from them. */
struct source {
    const struct cop_gguf *file;
    const char *name; /* the file's name, for messages */
    struct cop_string *pieces;
    size_t n_pieces;
    int64_t *types; /* NULL: all pieces are normal */
    struct cop_string *merges;
    size_t n_merges;
    struct cop_names ids; /* the pieces as the file writes them */
};

static void release(struct source *source)
{
    free(source->pieces);
    free(source->types);
    free(source->merges);
    cop_names_release(&source->ids);
}

/* ---- Pieces ----------------------------------------------------------------------------- */

static enum cop_status read_types(struct source *source, struct cop_error *err)
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

static enum cop_status read_pieces(struct source *source, struct cop_error *err)
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
static enum cop_status index_pieces(struct source *source, struct cop_error *err)
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

/* "<0x0A>" as the byte that it stands for; false: another string. */
static bool is_byte_piece(struct cop_string piece, char *byte)
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

static enum cop_status build_vocabulary(const struct source *source,
                                        struct cop_vocabulary *vocabulary,
                                        struct cop_error *err)
{
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
    for (size_t i = 0; status == COP_OK && i < source->n_pieces; i++) {
        struct cop_string piece = source->pieces[i];
        enum cop_piece_kind kind =
            source->types ? kinds[source->types[i] - 1] : COP_PIECE_NORMAL;
        if (kind == COP_PIECE_NORMAL) {
            piece.length = cop_byte_symbols_decode(piece.bytes, piece.length, decoded);
            piece.bytes = decoded;
        } else if (kind == COP_PIECE_BYTE && is_byte_piece(piece, decoded)) {
            piece = (struct cop_string){decoded, 1};
        }
        cop_vocabulary_add(vocabulary, piece.bytes, piece.length, kind);
    }
    free(decoded);
    return status == COP_OK ? cop_vocabulary_finish(vocabulary, err) : status;
}

static void find_byte_ids(const struct source *source, cop_token byte_ids[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char symbol[4];
        size_t length = cop_utf8_write(cop_byte_symbol((uint8_t)byte), symbol);
        byte_ids[byte] = cop_names_find(&source->ids, symbol, length);
    }
}

/* ---- Merges ----------------------------------------------------------------------------- */

static enum cop_status bad_merge(const struct source *source, size_t number, const char *what,
                                 struct cop_error *err)
{
    char text[COP_QUOTE_SIZE];
    struct cop_string merge = source->merges[number];
    return cop_fail(err, COP_ERR_FORMAT, "%s: merge %zu, \"%s\", %s", source->name, number,
                    cop_quote(text, merge.bytes, merge.length), what);
}

/* "he ll" to the ids of "he", "ll" and "hell", each of which must be a token. */
static enum cop_status add_merge(const struct source *source, size_t number, char *joined,
                                 struct cop_merges *merges, struct cop_error *err)
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

static enum cop_status build_merges(struct source *source, struct cop_merges *merges,
                                    struct cop_error *err)
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

/* ---- Single keys ------------------------------------------------------------------------ */

/* The id under a key, -1 if the key is absent; an id outside the vocabulary is an error. */
static enum cop_status read_id(const struct source *source, const char *key, cop_token *id,
                               struct cop_error *err)
{
    int64_t value = -1;
    enum cop_status status = COP_OK;
    if (cop_gguf_has(source->file, key)) {
        status = cop_gguf_int(source->file, key, 0, (int64_t)source->n_pieces - 1, NULL, &value,
                              err);
    }
    *id = status == COP_OK ? (cop_token)value : -1;
    return status;
}

static enum cop_status read_ends(const struct source *source, struct cop_tokenizer *tokenizer,
                                 struct cop_error *err)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id",
                                       "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    enum cop_status status =
        read_id(source, "tokenizer.ggml.bos_token_id", &tokenizer->bos, err);
    for (size_t i = 0; status == COP_OK && i < sizeof keys / sizeof keys[0]; i++) {
        cop_token id;
        status = read_id(source, keys[i], &id, err);
        if (status == COP_OK && id >= 0) {
            status = cop_tokenizer_add_eos(tokenizer, id, err);
        }
    }
    return status == COP_OK ? cop_tokenizer_add_known_ends(tokenizer, err) : status;
}

static enum cop_status read_template(const struct source *source,
                                     struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    static const char key[] = "tokenizer.chat_template";
    if (!cop_gguf_has(source->file, key)) {
        return COP_OK;
    }
    struct cop_string text;
    enum cop_status status = cop_gguf_string(source->file, key, &text, err);
    return status == COP_OK
               ? cop_text_append(&tokenizer->chat_template, text.bytes, text.length, err)
               : status;
}

static enum cop_status read_pretokenizer(const struct source *source,
                                         struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.pre";
    char known[160];
    (void)cop_pretoken_family_names(known, sizeof known);
    if (!cop_gguf_has(source->file, key)) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: key \"%s\" is absent; known pre-tokenizers are %s", source->name,
                        key, known);
    }
    struct cop_string name;
    enum cop_status status = cop_gguf_string(source->file, key, &name, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_pretoken_family *family =
        cop_pretoken_family_find(name.bytes, name.length);
    if (!family) {
        char text[COP_QUOTE_SIZE];
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: key \"%s\" is \"%s\", a pre-tokenizer that is not known; known "
                        "are %s",
                        source->name, key, cop_quote(text, name.bytes, name.length), known);
    }
    tokenizer->ignore_merges = family->ignore_merges;
    int64_t adds_bos = family->adds_bos;
    status = cop_gguf_int(source->file, "tokenizer.ggml.add_bos_token", 0, 1, &adds_bos,
                          &adds_bos, err);
    tokenizer->adds_bos = adds_bos != 0;
    return status == COP_OK ? cop_pretokenizer_new(&tokenizer->pretokenizer, family, err)
                            : status;
}

/* ---- Models of tokenizers --------------------------------------------------------------- */

static enum cop_status load_byte_level(struct source *source, struct cop_tokenizer *tokenizer,
                                       struct cop_error *err)
{
    enum cop_status status = read_pieces(source, err);
    if (status == COP_OK) {
        status = index_pieces(source, err);
    }
    if (status == COP_OK) {
        status = build_vocabulary(source, &tokenizer->vocabulary, err);
    }
    if (status == COP_OK) {
        find_byte_ids(source, tokenizer->byte_ids);
        tokenizer->fingerprint = cop_vocabulary_fingerprint(&tokenizer->vocabulary);
        status = build_merges(source, &tokenizer->merges, err);
    }
    if (status == COP_OK) {
        status = read_ends(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_template(source, tokenizer, err);
    }
    return status == COP_OK ? read_pretokenizer(source, tokenizer, err) : status;
}

/* Values of tokenizer.ggml.model. */
static const struct {
    const char *name;
    enum cop_status (*load)(struct source *source, struct cop_tokenizer *tokenizer,
                            struct cop_error *err);
} models[] = {
    {"no_vocab", NULL}, /* a model that speaks in ids alone */
    {"gpt2", load_byte_level},
};
#define N_MODELS (sizeof models / sizeof models[0])

enum cop_status cop_tokenizer_from_gguf(struct cop_tokenizer **out, const struct cop_gguf *file,
                                        struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.model";
    *out = NULL;
    if (!cop_gguf_has(file, key)) {
        return COP_OK;
    }
    struct source source = {.file = file, .name = cop_path_tail(cop_gguf_path(file), 150)};
    struct cop_string name;
    enum cop_status status = cop_gguf_string(file, key, &name, err);
    if (status != COP_OK) {
        return status;
    }
    size_t row = 0;
    while (row < N_MODELS && (strlen(models[row].name) != name.length ||
                              memcmp(models[row].name, name.bytes, name.length) != 0)) {
        row++;
    }
    if (row == N_MODELS) {
        char text[COP_QUOTE_SIZE];
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s: key \"%s\" is \"%s\"; known are gpt2 (byte-level BPE), no_vocab",
                        source.name, key, cop_quote(text, name.bytes, name.length));
    }
    if (!models[row].load) {
        return COP_OK;
    }
    struct cop_tokenizer *tokenizer = cop_tokenizer_new();
    status = tokenizer ? models[row].load(&source, tokenizer, err)
                       : cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source.name);
    release(&source);
    if (status != COP_OK) {
        cop_tokenizer_free(tokenizer);
        return status;
    }
    *out = tokenizer;
    return COP_OK;
}
