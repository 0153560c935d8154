/* What a tokenizer is made of; private to core/text. Loaders fill it, tokenizer.c runs it.
 *
 *     text -> stretches between marks -> normalised -> stretches between late marks
 *          -> words -> symbols -> merged ids */
#ifndef COP_TEXT_PARTS_H
#define COP_TEXT_PARTS_H

#include "core/text/bpe.h"
#include "core/text/split/normalize.h"
#include "core/text/split/pretokenize.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary.h"

#include <stdatomic.h>

#define COP_SPACE_SYMBOL "\xE2\x96\x81" /* U+2581, a space in SentencePiece's pieces */

enum cop_symbols {                     /* what a word is made of before anything merges */
                   COP_SYMBOLS_BYTES,  /* byte-level BPE */
                   COP_SYMBOLS_LETTERS /* characters; SentencePiece's BPE */
};

/* What turns the pieces of a list of ids into text, beyond putting them together. */
struct cop_decoding {
    bool byte_runs; /* byte pieces that together are not UTF-8 give one U+FFFD each */
    bool is_spaced; /* a space between pieces */
    char strip[5];  /* a character that is taken off the ends, terminated */
    int32_t n_leading, n_trailing; /* how many at most */
};

struct cop_tokenizer {
    atomic_int n_references;
    struct cop_vocabulary vocabulary;

    struct cop_marks marks, late; /* looked for in the text, and in what is normalised */
    struct cop_text mark_text;    /* what marks are made of that are no pieces' text */
    struct cop_normalizer normalizer;
    struct cop_pretokenizer *pretokenizer;

    enum cop_symbols symbols;
    struct cop_merges merges;
    bool ignore_merges;          /* a word that is a piece is taken whole */
    struct cop_names words;      /* LETTERS and ignore_merges: pieces as words spell them */
    struct cop_text word_text;   /* what `words` borrows, unless the vocabulary lends it */
    cop_token byte_ids[256];     /* BYTES: the piece that is one byte, or -1 */
    cop_token fallback_ids[256]; /* "<0x0A>": what a symbol without a piece is spelt with */
    cop_token unknown;           /* what stands for any other symbol; -1: it vanishes */
    bool fuses_unknown;          /* neighbours share one */

    struct cop_decoding decoding;
    cop_token bos; /* -1: none */
    bool adds_bos; /* the model expects it in front of a plain prompt */
    struct cop_ids eos;
    struct cop_text chat_template;
    uint64_t fingerprint;
};

/* A zeroed tokenizer with one reference, and bos, unknown and all ids of bytes -1; NULL: no
 * memory. */
struct cop_tokenizer *cop_tokenizer_new(void);

/* What encoding needs; zero-initialise. */
struct cop_encode_work {
    struct cop_bpe_work bpe;
    struct cop_normalize_work normalize;
};

/* Appends the ids of a stretch of normalised text without marks. */
enum cop_status cop_words_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                 size_t length, bool at_start, struct cop_bpe_work *work,
                                 struct cop_ids *ids, struct cop_error *err);

/* "<0x0A>" as the byte that it stands for; false: another string. */
bool cop_is_byte_piece(struct cop_string piece, char *byte);
/* Enters the ids of the byte pieces among a file's pieces. */
void cop_find_fallback(const struct cop_names *pieces, cop_token ids[256]);

/* Ends the list of end tokens: adds the control and added pieces that are known by name to end
 * an answer. Ids are listed once. */
enum cop_status cop_tokenizer_add_eos(struct cop_tokenizer *tokenizer, cop_token id,
                                      struct cop_error *err);
enum cop_status cop_tokenizer_add_known_ends(struct cop_tokenizer *tokenizer,
                                             struct cop_error *err);

#endif
