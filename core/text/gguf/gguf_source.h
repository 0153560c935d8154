/* The tokenizer's lists in a GGUF file, while a tokenizer is being made from them; private to
 * core/text. */
#ifndef COP_TEXT_GGUF_SOURCE_H
#define COP_TEXT_GGUF_SOURCE_H

#include "core/text/parts.h"

struct cop_gguf_source {
    const struct cop_gguf *file;
    const char *name; /* the file's name, for messages */
    struct cop_string *pieces;
    size_t n_pieces;
    int64_t *types; /* NULL: all pieces are normal */
    struct cop_string *merges;
    size_t n_merges;
    double *scores;
    struct cop_names ids; /* the pieces as the file writes them */
};
void cop_gguf_source_release(struct cop_gguf_source *source);

/* Reads pieces and types, and indexes them. */
enum cop_status cop_gguf_source_read(struct cop_gguf_source *source, struct cop_error *err);

enum cop_piece_kind cop_gguf_source_kind(const struct cop_gguf_source *source, size_t id);

/* The vocabulary, the marks and the fingerprint, with normal pieces in the text that their
 * `decode` writes: it gets room for as many bytes as the piece has. */
typedef size_t (*cop_piece_decode)(const char *piece, size_t length, char *out);
enum cop_status cop_gguf_source_vocabulary(const struct cop_gguf_source *source,
                                           cop_piece_decode decode,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err);

/* Merges by the file's list, and by its scores. */
enum cop_status cop_gguf_source_merges(struct cop_gguf_source *source,
                                       struct cop_merges *merges, struct cop_error *err);
enum cop_status cop_gguf_source_scores(struct cop_gguf_source *source,
                                       struct cop_merges *merges, struct cop_error *err);

#endif
