/* Batches out of training data: texts cut into windows, shuffled anew for each epoch, taken in
 * order until a batch has enough rows. Texts whose index falls on the last of `held_out` are
 * kept back for measuring. The order is a function of seed and epoch alone. */
#ifndef COP_TRAIN_WINDOWS_H
#define COP_TRAIN_WINDOWS_H

#include "algorithms/networks/network.h"
#include "algorithms/train/corpus.h"

struct cop_window {
    int32_t record, first, length;
};

/* Rows of windows with the memory that they lie in. */
struct cop_window_rows {
    struct cop_train_batch batch; /* of what follows */
    int32_t *starts, *lengths;
    cop_token *tokens, *label_ids;
    float *label_probs, *weights;
    cop_real *embedded;
};

struct cop_windows {
    const struct cop_corpus *corpus;
    const struct cop_train_target *target;
    int32_t layers[COP_TRAIN_TAPS], n_layers; /* places among the corpus' layers */
    int32_t rows, labels;                     /* of a batch, at least one window */
    float prompt_weight;
    bool one_hot; /* labels are the text's own tokens */
    uint64_t seed;
    struct cop_window *trained, *held;
    int32_t n_trained, n_held;
    int64_t trained_rows, held_rows;
    /* Where it is. */
    int32_t epoch, at;
    int32_t *order; /* [n_trained] of order_epoch */
    int32_t order_epoch;
    /* The batch; and of its rows those from the end of each prompt on, where a network is
     * unrolled. */
    bool is_unrolled;
    struct cop_window_rows all, deep;
    int32_t *froms;
    cop_real *states[COP_TRAIN_TAPS];
};

struct cop_windows_options {
    int32_t rows, window, labels, held_out; /* every held_out-th text; 0: none */
    double prompt_weight;
    bool one_hot, is_unrolled; /* batches of training name the rows of answers */
    uint64_t seed;
    const int32_t *layers; /* [n_layers] as in cop_score */
    int32_t n_layers;
};
/* COP_ERR_ARGUMENT: a layer that the corpus lacks, or nothing to train on. */
enum cop_status cop_windows_init(struct cop_windows *windows, const struct cop_corpus *corpus,
                                 const struct cop_train_target *target,
                                 const struct cop_windows_options *options,
                                 struct cop_error *err);
void cop_windows_release(struct cop_windows *windows);

/* The next batch of training, and moves on. */
const struct cop_train_batch *cop_windows_next(struct cop_windows *windows);
/* A batch of held-out windows from *at on, and moves it; NULL at the end. */
const struct cop_train_batch *cop_windows_held(struct cop_windows *windows, int32_t *at);
/* Batches of an epoch, as the windows lie; shuffled ones are as many, give or take a few. */
int64_t cop_windows_batches(const struct cop_windows *windows);

#endif
