/* Text to token ids and back, exactly as the model was trained to see it.
 *
 * A tokenizer is a table of pieces plus four steps: cut the text at special tokens (control
 * tokens only when asked), normalise each stretch as the file says, cut it into words, and
 * merge the symbols of each word by rank. Symbols are bytes (byte-level BPE) or characters
 * (SentencePiece's BPE, where a character without a piece is spelt in bytes). Time is
 * near-linear in the text, also for one word of 100,000 characters. */
#ifndef COP_TEXT_TOKENIZER_H
#define COP_TEXT_TOKENIZER_H

#include "core/base/error.h"
#include "core/files/gguf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t cop_token;

struct cop_tokenizer;

enum cop_piece_kind {
    COP_PIECE_NORMAL,
    COP_PIECE_CONTROL, /* "<|im_end|>": matched only when special tokens are asked for */
    COP_PIECE_ADDED,   /* user-defined: matched always */
    COP_PIECE_BYTE,    /* byte fallback "<0x0A>" */
    COP_PIECE_UNUSED
};

/* A growing list of ids, owned by whoever declared it; release with cop_ids_release. */
struct cop_ids {
    cop_token *items;
    size_t count, capacity;
};
void cop_ids_release(struct cop_ids *ids);
enum cop_status cop_ids_push(struct cop_ids *ids, cop_token id, struct cop_error *err);

/* A growing string of bytes, kept zero-terminated after `length`. */
struct cop_text {
    char *bytes;
    size_t length, capacity;
};
void cop_text_release(struct cop_text *text);
enum cop_status cop_text_append(struct cop_text *text, const char *bytes, size_t length,
                                struct cop_error *err);

/* From the metadata of a GGUF file; copies what it needs, so the file may be closed. A file
 * that says tokenizer.ggml.model = "no_vocab", or nothing, gives COP_OK and *out = NULL. An
 * unknown model or pre-tokenizer is COP_ERR_UNSUPPORTED and the message lists the known ones.
 */
enum cop_status cop_tokenizer_from_gguf(struct cop_tokenizer **out, const struct cop_gguf *file,
                                        struct cop_error *err);

/* From a Hugging Face folder, or from the path of its tokenizer.json: BPE models, byte-level or
 * in SentencePiece's manner. The files beside it count too, where they are there:
 *     tokenizer_config.json     bos_token, eos_token, add_bos_token, chat_template
 *     special_tokens_map.json   bos_token, eos_token (where the other does not say)
 *     chat_template.jinja       the template
 *     generation_config.json    bos_token_id, eos_token_id (one or a list)
 *     config.json               the same two
 * All end tokens that any of them names end an answer. A folder without tokenizer.json gives
 * COP_OK and *out = NULL. A message names file and field; a part of a tokenizer that is not
 * built is COP_ERR_UNSUPPORTED. */
enum cop_status cop_tokenizer_from_folder(struct cop_tokenizer **out, const char *path,
                                          struct cop_error *err);

/* From a path: a GGUF file, a file named *.json, or a folder that holds a tokenizer.json. */
enum cop_status cop_tokenizer_open(struct cop_tokenizer **out, const char *path,
                                   struct cop_error *err);

/* Reference-counted: models and Lua objects share one. */
struct cop_tokenizer *cop_tokenizer_share(struct cop_tokenizer *tokenizer);
void cop_tokenizer_free(
    struct cop_tokenizer *tokenizer); /* drops one reference; NULL is fine */

struct cop_encode_options {
    bool special; /* recognise the strings of control tokens in the text */
    bool bos;     /* put the beginning token in front (if the vocabulary has one), once: not
                     again where the text begins with it */
};

/* Appends the ids of text[0..length). Ill-formed UTF-8 is replaced by U+FFFD, one for each
 * maximal ill-formed part. Bytes without a token vanish where the model has no unknown token.
 */
enum cop_status cop_tokenizer_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                     size_t length, struct cop_encode_options options,
                                     struct cop_ids *ids, struct cop_error *err);

/* The bytes of one token as they stand in text; ids outside the vocabulary give length 0.
 * Control tokens give their string. Borrowed from the tokenizer. */
struct cop_string cop_tokenizer_piece(const struct cop_tokenizer *tokenizer, cop_token id);
enum cop_piece_kind cop_tokenizer_kind(const struct cop_tokenizer *tokenizer, cop_token id);
/* Whether an id never stands in a text: it is unused, or has no piece. */
bool cop_tokenizer_is_padding(const struct cop_tokenizer *tokenizer, cop_token id);

/* Appends the text of ids. Ill-formed UTF-8 comes out as U+FFFD for each maximal ill-formed
 * part; where a tokenizer spells characters in bytes, one U+FFFD for each byte token of a run
 * of them that is not UTF-8. A tokenizer that puts a space in front of a text takes it off
 * here. Without `special`, control tokens are dropped. An id outside the vocabulary is
 * COP_ERR_ARGUMENT. */
enum cop_status cop_tokenizer_decode(const struct cop_tokenizer *tokenizer,
                                     const cop_token *ids, size_t count, bool special,
                                     struct cop_text *text, struct cop_error *err);

/* The id whose piece is exactly this string (control tokens included), or -1. */
cop_token cop_tokenizer_id(const struct cop_tokenizer *tokenizer, const char *text,
                           size_t length);

int32_t cop_tokenizer_size(const struct cop_tokenizer *tokenizer);
cop_token cop_tokenizer_bos(const struct cop_tokenizer *tokenizer); /* -1: none */
/* Whether the model expects it in front of a plain prompt (add_bos_token; where a file does not
 * say: true for Llama 3's family). */
bool cop_tokenizer_adds_bos(const struct cop_tokenizer *tokenizer);
/* All ids that end an answer (eos, eot and their kin); *count may be 0. Borrowed. */
const cop_token *cop_tokenizer_eos(const struct cop_tokenizer *tokenizer, size_t *count);
/* The chat template's source as the file has it; length 0: none. */
struct cop_string cop_tokenizer_template(const struct cop_tokenizer *tokenizer);
/* Equal for two tokenizers with the same pieces: how a draft is matched to its target. */
uint64_t cop_tokenizer_fingerprint(const struct cop_tokenizer *tokenizer);

/* ---- Streaming -------------------------------------------------------------------------- */

/* Bytes in, whole characters out: holds back an unfinished character; 4 bytes suffice.
 * Zero-initialise to start. */
struct cop_stream {
    uint8_t held[4];
    int32_t n_held;
};
/* Appends what may be shown once `bytes` have arrived: whole characters only, U+FFFD for each
 * maximal ill-formed part as soon as it is certain. */
enum cop_status cop_stream_push(struct cop_stream *stream, const char *bytes, size_t length,
                                struct cop_text *text, struct cop_error *err);
/* Appends what remains at the end (an unfinished character becomes U+FFFD). */
enum cop_status cop_stream_flush(struct cop_stream *stream, struct cop_text *text,
                                 struct cop_error *err);
/* What is held before `next` comes counts this many bytes of text: its own where `next` goes on
 * with the character, three for each U+FFFD where it does not (NULL: never does). */
size_t cop_stream_pending(const struct cop_stream *stream, const char *next);

/* Ids in, text out: what decoding a list is made of, so that the text of a stream, joined, is
 * the decoded text, whatever the file asks for. Held back until it is certain: an unfinished
 * character; a run of byte pieces, which are replaced all together if they are not UTF-8;
 * characters that the end of the text would lose. Initialise, push, flush; release. */
struct cop_decoder {
    const struct cop_tokenizer *tokenizer; /* lent */
    bool special;                          /* control tokens are text */
    struct cop_stream stream;
    struct cop_text run; /* of byte pieces, not yet ended */
    size_t n_pieces;     /* so far */
    int32_t n_stripped;  /* characters taken off the beginning */
    bool has_begun;      /* no more are taken off */
    int32_t n_withheld;  /* characters that the end would lose */
    size_t n_replaced;   /* byte pieces that the last push or flush turned into U+FFFD each */
};
void cop_decoder_init(struct cop_decoder *decoder, const struct cop_tokenizer *tokenizer,
                      bool special);
void cop_decoder_release(struct cop_decoder *decoder);
/* Appends to `text` what may be shown once the token has arrived. `text` is the same one, and
 * nobody else changes it, from the first push to the flush. An id outside the vocabulary has
 * no text. */
enum cop_status cop_decoder_push(struct cop_decoder *decoder, cop_token id,
                                 struct cop_text *text, struct cop_error *err);
enum cop_status cop_decoder_flush(struct cop_decoder *decoder, struct cop_text *text,
                                  struct cop_error *err);
/* Where the first byte of a token that is pushed now goes: in the text with all that was taken
 * off or is held back, a run of byte pieces as if it were UTF-8. */
size_t cop_decoder_place(const struct cop_decoder *decoder, cop_token id,
                         const struct cop_text *text);
/* Bytes that were taken off the beginning. */
size_t cop_decoder_stripped(const struct cop_decoder *decoder);

#endif
