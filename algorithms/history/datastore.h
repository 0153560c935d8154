/* A text of tokens on disk with its sorted suffixes: what retrieval looks n-grams up in.
 *
 *     header    64 bytes, struct cop_datastore_header
 *     tokens    n_tokens ids of token_bytes (2 or 4) bytes each, padded to 8
 *     suffixes  n_tokens places, int32: sorted by their first `order` tokens, then by place
 *
 * Numbers are in the byte order of the machine that wrote it; another one refuses the version.
 * Six bytes a token for vocabularies up to 65,536, else eight. The file is mapped, so that only
 * what is looked up is read. Its header is checked against its size; ids and places are checked
 * where they are read, so a damaged file gives bad drafts and nothing worse. */
#ifndef ALGORITHMS_HISTORY_DATASTORE_H
#define ALGORITHMS_HISTORY_DATASTORE_H

#include "core/files/map.h"
#include "core/text/tokenizer.h"

/* Sixteen tokens to find and ten to read behind them. */
#define COP_DATASTORE_ORDER 26

struct cop_datastore_header {
    char magic[8]; /* "copstore" */
    uint32_t version, token_bytes;
    uint64_t n_tokens;
    uint64_t tokenizer; /* fingerprint; 0: lists of ids from anywhere */
    uint32_t vocab;     /* ids are below it */
    uint32_t order;
    uint64_t spare[2];
    uint64_t check; /* hash of all the above */
};

struct cop_datastore {
    struct cop_map map; /* data NULL: closed */
    const struct cop_datastore_header *header;
    const void *tokens;
    const int32_t *suffixes;
};

/* Sorts ids[0..n) (each in [0, vocab)) and writes the file, beside its path first, so that
 * whoever reads the path sees all of it or none. tokenizer: fingerprint or 0. */
enum cop_status cop_datastore_write(const char *path, const cop_token *ids, int64_t n,
                                    int32_t vocab, uint64_t tokenizer, struct cop_error *err);

/* COP_ERR_FORMAT for what is no datastore, or not all of one. */
enum cop_status cop_datastore_open(struct cop_datastore *store, const char *path,
                                   struct cop_error *err);
void cop_datastore_close(struct cop_datastore *store); /* idempotent */

/* -1 past the end (of the text or of the vocabulary). */
cop_token cop_datastore_token(const struct cop_datastore *store, int64_t at);

/* Neighbours in the sorted suffixes whose next tokens are equal. */
struct cop_range {
    int32_t low, high; /* [low, high) */
};
/* The suffixes that begin with ids[0..n), n <= order. */
struct cop_range cop_datastore_find(const struct cop_datastore *store, const cop_token *ids,
                                    int32_t n);
/* out[i]: the token `depth` places behind the start of suffix range.low + i; -1: it has ended.
 */
void cop_datastore_read(const struct cop_datastore *store, struct cop_range range,
                        int32_t depth, cop_token *out);

#endif
