/* The training data on disk: texts with what the target says at every position, so that it runs
 * once, however often a head is trained.
 *
 *     header    magic, version, the target's fingerprint and shape, layers, recipe, hash
 *     record    mark, index, n, n_prompt | tokens [n] | ids [n, k] | logits [n, k]
 *               | states [layers, n, width] f16 | hash
 *
 * ids are the target's k likeliest next tokens at a position, best first, logits theirs, the
 * best one's taken off. A record is whole or not there: what an interruption left behind the
 * last whole one is cut off when writing goes on. Numbers are little-endian. */
#ifndef COP_TRAIN_CORPUS_H
#define COP_TRAIN_CORPUS_H

#include "core/files/map.h"
#include "core/model/model.h"
#include <stdatomic.h>

enum { COP_CORPUS_LAYERS = 8, COP_CORPUS_LABELS = 16, COP_CORPUS_NAME = 65 };

struct cop_corpus_header {
    char magic[8];
    uint32_t version;
    int32_t width, vocab, labels, n_layers;
    int32_t layers[COP_CORPUS_LAYERS]; /* as in cop_score */
    char target[COP_CORPUS_NAME + 3];  /* a fingerprint */
    char recipe[COP_CORPUS_NAME + 3];  /* of where the texts come from */
    uint64_t hash;                     /* of what stands before it */
};

struct cop_corpus_record {
    int32_t index; /* of the prompt or text it was made from */
    int32_t n, n_prompt;
    const cop_token *tokens;
    const cop_token *ids;   /* [n, labels] */
    const float *logits;    /* [n, labels] */
    const uint16_t *states; /* [n_layers, n, width] */
};

struct cop_corpus {
    struct cop_map map;
    struct cop_corpus_header header;
    struct cop_corpus_record *records; /* [n] */
    int32_t n;
    size_t whole_bytes; /* that the header and whole records take */
};

/* Maps and checks a file. COP_ERR_FORMAT: no such file, or damaged before its last record.
 * Empty after failure. */
enum cop_status cop_corpus_open(struct cop_corpus *out, const char *path,
                                struct cop_error *err);
void cop_corpus_close(struct cop_corpus *corpus); /* idempotent */
/* The place of a layer among the states, or -1. */
int32_t cop_corpus_layer(const struct cop_corpus *corpus, int32_t layer);

struct cop_corpus_writer;
struct cop_corpus_source {
    struct cop_model *target; /* borrowed */
    const char *fingerprint, *recipe;
    int32_t layers[COP_CORPUS_LAYERS], n_layers;
};
/* Begins a file, or goes on behind the last whole record of one that was made of the same
 * target and recipe and holds the layers; *next is the index behind that of the last record. */
enum cop_status cop_corpus_writer_open(struct cop_corpus_writer **out, const char *path,
                                       const struct cop_corpus_source *source, int32_t *next,
                                       struct cop_error *err);
/* Runs the target over a text and writes its record. A text without room in the context is cut
 * there. */
enum cop_status cop_corpus_write(struct cop_corpus_writer *writer, const cop_token *tokens,
                                 int32_t n, int32_t n_prompt, int32_t index,
                                 const atomic_bool *cancel, struct cop_error *err);
enum cop_status cop_corpus_writer_close(struct cop_corpus_writer *writer,
                                        struct cop_error *err); /* NULL is fine */

#endif
