/* Loading a tokenizer from the metadata of a GGUF file.
 *
 * Byte-level vocabularies write their pieces in byte symbols, SentencePiece's write U+2581 for
 * a space; the loader turns them into the bytes that they stand for. Control and added pieces
 * are plain text. */
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/byte_symbols.h"
#include "core/text/gguf/gguf_source.h"

#include <stdlib.h>
#include <string.h>

/* ---- Single keys ------------------------------------------------------------------------ */

/* The id under a key, -1 if the key is absent; an id outside the vocabulary is an error. */
static enum cop_status read_id(const struct cop_gguf_source *source, const char *key,
                               cop_token *id, struct cop_error *err)
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

static enum cop_status read_ends(const struct cop_gguf_source *source,
                                 struct cop_tokenizer *tokenizer, struct cop_error *err)
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

static enum cop_status read_template(const struct cop_gguf_source *source,
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

static enum cop_status read_pretokenizer(const struct cop_gguf_source *source,
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

static enum cop_status read_byte_level(struct cop_gguf_source *source,
                                       struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char symbol[4];
        size_t length = cop_utf8_write(cop_byte_symbol((uint8_t)byte), symbol);
        tokenizer->byte_ids[byte] = cop_names_find(&source->ids, symbol, length);
    }
    enum cop_status status =
        cop_gguf_source_vocabulary(source, cop_byte_symbols_decode, tokenizer, err);
    return status == COP_OK ? cop_gguf_source_merges(source, &tokenizer->merges, err) : status;
}

/* Pieces as words spell them, which are those that may be merged to. */
static enum cop_status index_words(const struct cop_gguf_source *source,
                                   struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < source->n_pieces; i++) {
        n_bytes += source->pieces[i].length;
    }
    struct cop_text *text = &tokenizer->word_text;
    text->bytes = malloc(n_bytes + 1);
    text->capacity = text->bytes ? n_bytes + 1 : 0;
    if (!text->bytes || !cop_names_init(&tokenizer->words, source->n_pieces)) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for %zu tokens", source->name,
                        source->n_pieces);
    }
    for (size_t i = 0; i < source->n_pieces; i++) {
        struct cop_string piece = source->pieces[i];
        enum cop_piece_kind kind = cop_gguf_source_kind(source, i);
        if (piece.length == 0 || (kind != COP_PIECE_NORMAL && kind != COP_PIECE_ADDED)) {
            continue;
        }
        char *kept = text->bytes + text->length;
        memcpy(kept, piece.bytes, piece.length);
        text->length += piece.length;
        (void)cop_names_add(&tokenizer->words, kept, piece.length, (int32_t)i);
    }
    return COP_OK;
}

static size_t decode_spaces(const char *piece, size_t length, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        bool is_space = length - at >= 3 && memcmp(piece + at, COP_SPACE_SYMBOL, 3) == 0;
        out[written++] = is_space ? ' ' : piece[at];
        at += is_space ? 3 : 1;
    }
    return written;
}

/* A space in front of each stretch, unless the file says otherwise; spaces as their symbol. */
static enum cop_status set_spaces(const struct cop_gguf_source *source,
                                  struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    int64_t has_prefix = 1;
    enum cop_status status = cop_gguf_int(source->file, "tokenizer.ggml.add_space_prefix", 0, 1,
                                          &has_prefix, &has_prefix, err);
    struct cop_normalizer *normalizer = &tokenizer->normalizer;
    if (status == COP_OK && has_prefix) {
        struct cop_normalize_step *step = &normalizer->steps[normalizer->n_steps++];
        step->kind = COP_NORMALIZE_PREPEND;
        status = cop_text_append(&step->to, " ", 1, err);
        tokenizer->decoding.strip[0] = ' ';
        tokenizer->decoding.n_leading = 1;
    }
    struct cop_normalize_step *step = &normalizer->steps[normalizer->n_steps++];
    step->kind = COP_NORMALIZE_REPLACE;
    status = status == COP_OK ? cop_text_append(&step->from, " ", 1, err) : status;
    return status == COP_OK ? cop_text_append(&step->to, COP_SPACE_SYMBOL, 3, err) : status;
}

static enum cop_status read_sentence_pieces(struct cop_gguf_source *source,
                                            struct cop_tokenizer *tokenizer,
                                            struct cop_error *err)
{
    tokenizer->symbols = COP_SYMBOLS_LETTERS;
    tokenizer->decoding.byte_runs = true;
    cop_find_fallback(&source->ids, tokenizer->fallback_ids);
    enum cop_status status = cop_gguf_source_vocabulary(source, decode_spaces, tokenizer, err);
    if (status == COP_OK) {
        status = cop_gguf_source_scores(source, &tokenizer->merges, err);
    }
    if (status == COP_OK) {
        status = index_words(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_id(source, "tokenizer.ggml.unknown_token_id", &tokenizer->unknown, err);
    }
    if (status == COP_OK) {
        status = set_spaces(source, tokenizer, err);
    }
    if (status != COP_OK) {
        return status;
    }
    tokenizer->pretokenizer = cop_pretokenizer_empty();
    int64_t adds_bos = 1;
    status = cop_gguf_int(source->file, "tokenizer.ggml.add_bos_token", 0, 1, &adds_bos,
                          &adds_bos, err);
    tokenizer->adds_bos = adds_bos != 0;
    return status == COP_OK && !tokenizer->pretokenizer
               ? cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source->name)
               : status;
}

/* Values of tokenizer.ggml.model. */
static const struct {
    const char *name;
    enum cop_status (*read)(struct cop_gguf_source *source, struct cop_tokenizer *tokenizer,
                            struct cop_error *err);
    bool has_pretokenizer;
} models[] = {
    {"no_vocab", NULL, false}, /* a model that speaks in ids alone */
    {"gpt2", read_byte_level, true},
    {"llama", read_sentence_pieces, false},
};
#define N_MODELS (sizeof models / sizeof models[0])

static enum cop_status load(struct cop_gguf_source *source, size_t model,
                            struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    enum cop_status status = cop_gguf_source_read(source, err);
    if (status == COP_OK) {
        status = models[model].read(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_ends(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_template(source, tokenizer, err);
    }
    return status == COP_OK && models[model].has_pretokenizer
               ? read_pretokenizer(source, tokenizer, err)
               : status;
}

enum cop_status cop_tokenizer_from_gguf(struct cop_tokenizer **out, const struct cop_gguf *file,
                                        struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.model";
    *out = NULL;
    if (!cop_gguf_has(file, key)) {
        return COP_OK;
    }
    struct cop_gguf_source source = {.file = file,
                                     .name = cop_path_tail(cop_gguf_path(file), 150)};
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
                        "%s: key \"%s\" is \"%s\"; known are gpt2 (byte-level BPE), llama "
                        "(SentencePiece's BPE), no_vocab",
                        source.name, key, cop_quote(text, name.bytes, name.length));
    }
    if (!models[row].read) {
        return COP_OK;
    }
    struct cop_tokenizer *tokenizer = cop_tokenizer_new();
    status = tokenizer ? load(&source, row, tokenizer, err)
                       : cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source.name);
    cop_gguf_source_release(&source);
    if (status != COP_OK) {
        cop_tokenizer_free(tokenizer);
        return status;
    }
    *out = tokenizer;
    return COP_OK;
}
