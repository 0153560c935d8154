/* The pieces of a tokenizer: their text, what kind they are, and how to find them. */
#ifndef COP_TEXT_VOCABULARY_H
#define COP_TEXT_VOCABULARY_H

#include "core/base/hash.h"
#include "core/text/marks.h"
#include "core/text/tokenizer.h"

struct cop_vocabulary {
    int32_t size;
    char *bytes;             /* the text of all pieces, one after another */
    size_t *starts;          /* [size + 1]: piece i is bytes[starts[i] .. starts[i + 1]) */
    uint8_t *kinds;          /* enum cop_piece_kind */
    struct cop_names normal; /* text to id, normal pieces only */
    struct cop_names others; /* text to id, the other kinds */
};

/* Room for `limit` pieces of `n_bytes` bytes together; then add them in the order of their ids,
 * then finish, which builds the tables. Release is idempotent, also in the middle. Several
 * pieces may have the same text; the first of a kind is the one that is found. */
enum cop_status cop_vocabulary_init(struct cop_vocabulary *vocabulary, size_t limit,
                                    size_t n_bytes, struct cop_error *err);
void cop_vocabulary_add(struct cop_vocabulary *vocabulary, const char *text, size_t length,
                        enum cop_piece_kind kind);
enum cop_status cop_vocabulary_finish(struct cop_vocabulary *vocabulary, struct cop_error *err);
void cop_vocabulary_release(struct cop_vocabulary *vocabulary);

/* The control and added pieces as marks that borrow their text. */
enum cop_status cop_vocabulary_marks(const struct cop_vocabulary *vocabulary,
                                     struct cop_marks *marks, struct cop_error *err);

/* ids outside the vocabulary give length 0. */
struct cop_string cop_vocabulary_text(const struct cop_vocabulary *vocabulary, cop_token id);

/* The id of a text, or -1; where several kinds share it: control and added pieces first. */
cop_token cop_vocabulary_find(const struct cop_vocabulary *vocabulary, const char *text,
                              size_t length);

/* A hash of all pieces in order; their kinds do not count. */
uint64_t cop_vocabulary_fingerprint(const struct cop_vocabulary *vocabulary);

#endif
