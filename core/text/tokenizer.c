/* The tokenizer's public face: encode, and what is known about its pieces. */
#include "core/text/tokenizer.h"

#include "core/base/utf8.h"
#include "core/text/parts.h"

#include <stdlib.h>
#include <string.h>

struct cop_tokenizer *cop_tokenizer_new(void)
{
    struct cop_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (tokenizer) {
        atomic_init(&tokenizer->n_references, 1);
        tokenizer->bos = tokenizer->unknown = -1;
        for (size_t i = 0; i < 256; i++) {
            tokenizer->byte_ids[i] = tokenizer->fallback_ids[i] = -1;
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
    cop_marks_release(&tokenizer->marks);
    cop_marks_release(&tokenizer->late);
    cop_text_release(&tokenizer->mark_text);
    cop_normalizer_release(&tokenizer->normalizer);
    cop_pretokenizer_free(tokenizer->pretokenizer);
    cop_names_release(&tokenizer->words);
    cop_text_release(&tokenizer->word_text);
    cop_merges_release(&tokenizer->merges);
    cop_vocabulary_release(&tokenizer->vocabulary);
    cop_ids_release(&tokenizer->eos);
    cop_text_release(&tokenizer->chat_template);
    free(tokenizer);
}

/* ---- End tokens ------------------------------------------------------------------------- */

/* Control tokens that end an answer under any of the published templates. A file names one or
 * two of them; a chat model that ends with the other must stop there too. */
static const char *const known_ends[] = {
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>",
    "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>",
};

/* The same where a file names none at all. */
static const char *const usual_ends[] = {"</s>", "<eos>"};

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

static enum cop_status add_ends(struct cop_tokenizer *tokenizer, const char *const *names,
                                size_t count, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < count; i++) {
        cop_token id =
            cop_names_find(&tokenizer->vocabulary.others, names[i], strlen(names[i]));
        enum cop_piece_kind kind = cop_tokenizer_kind(tokenizer, id);
        if (id >= 0 && (kind == COP_PIECE_CONTROL || kind == COP_PIECE_ADDED)) {
            status = cop_tokenizer_add_eos(tokenizer, id, err);
        }
    }
    return status;
}

enum cop_status cop_tokenizer_add_known_ends(struct cop_tokenizer *tokenizer,
                                             struct cop_error *err)
{
    enum cop_status status = COP_OK;
    if (tokenizer->eos.count == 0) {
        status = add_ends(tokenizer, usual_ends, sizeof usual_ends / sizeof usual_ends[0], err);
    }
    return status == COP_OK
               ? add_ends(tokenizer, known_ends, sizeof known_ends / sizeof known_ends[0], err)
               : status;
}

/* ---- Encoding --------------------------------------------------------------------------- */

struct encode {
    const struct cop_tokenizer *tokenizer;
    bool special;
    struct cop_encode_work work;
    struct cop_ids *ids;
};

/* What lies between marks: normalised, and cut at the late marks. */
static enum cop_status encode_stretch(struct encode *encode, struct cop_string text,
                                      bool at_start, struct cop_error *err)
{
    const struct cop_tokenizer *tokenizer = encode->tokenizer;
    struct cop_marking marking = {0};
    struct cop_marked part;
    enum cop_status status =
        cop_normalize(&tokenizer->normalizer, text, &encode->work.normalize, &text, err);
    while (status == COP_OK && cop_marks_next(&tokenizer->late, text.bytes, text.length,
                                              encode->special, &marking, &part)) {
        status = part.mark
                     ? cop_ids_push(encode->ids, part.mark->id, err)
                     : cop_words_encode(tokenizer, text.bytes + part.start,
                                        part.end - part.start, at_start && part.start == 0,
                                        &encode->work.bpe, encode->ids, err);
    }
    return status;
}

/* Valid text, cut at the marks. */
static enum cop_status encode_valid(struct encode *encode, const char *text, size_t length,
                                    struct cop_error *err)
{
    struct cop_marking marking = {0};
    struct cop_marked part;
    enum cop_status status = COP_OK;
    while (status == COP_OK && cop_marks_next(&encode->tokenizer->marks, text, length,
                                              encode->special, &marking, &part)) {
        struct cop_string stretch = {text + part.start, part.end - part.start};
        status = part.mark ? cop_ids_push(encode->ids, part.mark->id, err)
                           : encode_stretch(encode, stretch, part.start == 0, err);
    }
    return status;
}

static enum cop_status encode_any(const struct cop_tokenizer *tokenizer, const char *text,
                                  size_t length, bool special, struct cop_ids *ids,
                                  struct cop_error *err)
{
    struct encode encode = {.tokenizer = tokenizer, .special = special, .ids = ids};
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
        status = encode_valid(&encode, text, length, err);
    }
    cop_text_release(&repaired);
    cop_bpe_work_release(&encode.work.bpe);
    cop_normalize_work_release(&encode.work.normalize);
    return status;
}

enum cop_status cop_tokenizer_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                     size_t length, struct cop_encode_options options,
                                     struct cop_ids *ids, struct cop_error *err)
{
    if (length > COP_LONGEST_TEXT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "a text of %zu bytes is longer than %zu, the most that is encoded at "
                        "once; encode it in parts",
                        length, COP_LONGEST_TEXT);
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

bool cop_tokenizer_is_padding(const struct cop_tokenizer *tokenizer, cop_token id)
{
    return cop_tokenizer_kind(tokenizer, id) == COP_PIECE_UNUSED ||
           cop_tokenizer_piece(tokenizer, id).length == 0;
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
