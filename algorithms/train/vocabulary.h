/* Which ids a head of a reduced vocabulary drafts. */
#ifndef COP_TRAIN_VOCABULARY_H
#define COP_TRAIN_VOCABULARY_H

#include "algorithms/train/corpus.h"

/* *out: n ids, ascending; free, also after failure. */
enum cop_status cop_train_vocabulary(const struct cop_corpus *corpus, int32_t n,
                                     cop_token **out, struct cop_error *err);

#endif
