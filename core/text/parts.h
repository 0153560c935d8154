/* What a tokenizer is made of; private to core/text. Loaders fill it, tokenizer.c runs it. */
#ifndef COP_TEXT_PARTS_H
#define COP_TEXT_PARTS_H

#include "core/text/bpe.h"
#include "core/text/pretokenize.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary.h"

#include <stdatomic.h>

struct cop_tokenizer {
    atomic_int n_references;
    struct cop_vocabulary vocabulary;
    struct cop_merges merges;
    struct cop_pretokenizer *pretokenizer;
    bool ignore_merges;
    cop_token byte_ids[256]; /* the piece that is one byte, or -1 */
    cop_token bos;           /* -1: none */
    bool adds_bos;           /* the model expects it in front of a plain prompt */
    struct cop_ids eos;
    struct cop_text chat_template;
    uint64_t fingerprint;
};

/* A zeroed tokenizer with one reference, and bos and all byte_ids -1; NULL: no memory. */
struct cop_tokenizer *cop_tokenizer_new(void);

/* Byte-level BPE: appends the ids of one stretch of valid text without special tokens. */
enum cop_status cop_byte_level_encode(const struct cop_tokenizer *tokenizer, const char *text,
                                      size_t length, struct cop_bpe_work *work,
                                      struct cop_ids *ids, struct cop_error *err);

/* Ends the list of end tokens: adds the control and added pieces that are known by name to end
 * an answer. Ids are listed once. */
enum cop_status cop_tokenizer_add_eos(struct cop_tokenizer *tokenizer, cop_token id,
                                      struct cop_error *err);
enum cop_status cop_tokenizer_add_known_ends(struct cop_tokenizer *tokenizer,
                                             struct cop_error *err);

#endif
