/* What a trainer holds; for the files that make it up. */
#ifndef COP_TRAIN_TRAINER_STATE_H
#define COP_TRAIN_TRAINER_STATE_H

#include "algorithms/train/trainer.h"

struct cop_trainer {
    struct cop_trainer_options options;
    struct cop_model *model;
    struct cop_products products;
    struct cop_train_target target;
    cop_real *lm_head, *embedding; /* [vocab, width] */
    cop_token *ids;                /* a reduced vocabulary: of options.network */
    struct cop_corpus corpus;
    struct cop_windows windows;
    struct cop_network network;
    struct cop_choice choice;
    int64_t step, steps;
    double rate;
    int32_t capacity;
    /* Of measuring: of each row. */
    cop_real *said; /* [capacity, inner] */
    bool *is_alive; /* the others [capacity] */
    int32_t *best;
    cop_real *best_logit, *logits; /* logits of a slice of the vocabulary */
};

#endif
