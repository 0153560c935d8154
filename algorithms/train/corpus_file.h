/* The bytes of a file of training data, for its reader and its writer. */
#ifndef COP_TRAIN_CORPUS_FILE_H
#define COP_TRAIN_CORPUS_FILE_H

#include "algorithms/train/corpus.h"

#define COP_CORPUS_MAGIC "CopTrain"
enum {
    COP_CORPUS_VERSION = 1,
    COP_CORPUS_MARK = 0x54584554, /* "TEXT" */
    COP_CORPUS_ROWS = 1 << 20     /* of a record, at most */
};

struct cop_corpus_mark {
    uint32_t mark;
    int32_t index, n, n_prompt;
};

size_t cop_corpus_record_bytes(const struct cop_corpus_header *header, int32_t n);
uint64_t cop_corpus_header_hash(const struct cop_corpus_header *header);

#endif
