/* What is trained, as the trainer sees it: a network that reads a batch of windows of text and
 * says, depth by depth, what an output layer is to read.
 *
 *     a window   row r = position r of the text        t0  t1  t2  t3  t4 …
 *     row r, depth i:  of the states of row r and the tokens t(r+1) … t(r+1+i),
 *                      says what follows; its label is the target's own row r + 1 + i
 *     a model:   of t0 … t(r), depth 0 alone; its label is the target's row r
 *
 * The trainer calls forward for depths 0, 1, …, finds the loss of each and its gradient, and
 * calls backward for the same depths from the last to the first. */
#ifndef COP_NETWORKS_NETWORK_H
#define COP_NETWORKS_NETWORK_H

#include "algorithms/networks/parameters.h"
#include "algorithms/networks/product.h"
#include "core/model/model.h"

enum { COP_TRAIN_TAPS = 4, COP_TRAIN_DEPTHS = 16 };

struct cop_train_batch {
    int32_t n_windows, n;            /* rows of all windows together */
    const int32_t *starts, *lengths; /* [n_windows] in rows */
    const cop_token *tokens;         /* [n] */
    const cop_real *embedded;        /* [n, width] the target's embeddings of the tokens */
    const cop_real *states[COP_TRAIN_TAPS]; /* [n, width] in the order that the head named */
    int32_t n_labels;                       /* k */
    const cop_token *label_ids; /* [n, k] likeliest tokens behind a row, best first */
    const float *label_probs;   /* [n, k] */
    const float *weights;       /* [n] of a row's label in the loss */
    /* Optional: the rows at which a network is unrolled on its own output, each window's from
     * row froms[w] to its end; without states. */
    const struct cop_train_batch *deep;
    const int32_t *froms; /* [n_windows] */
};

/* The rows of a step of a network that is unrolled, and where they begin in their window. */
static inline const struct cop_train_batch *cop_train_rows(const struct cop_train_batch *batch,
                                                           int32_t step)
{
    return step > 0 && batch->deep ? batch->deep : batch;
}
static inline int32_t cop_train_from(const struct cop_train_batch *batch, int32_t step,
                                     int32_t window)
{
    return step > 0 && batch->deep ? batch->froms[window] : 0;
}

/* What stands at the end of a head. */
struct cop_train_output {
    const cop_real *matrix;        /* [rows, inner] */
    struct cop_parameter *trained; /* whose value it is; NULL: frozen */
    int32_t rows, inner;
    const int32_t *row_of; /* [vocab] of a token, -1: not among them; NULL: its id */
};

/* The target as a network sees it. Borrowed. */
struct cop_train_target {
    int32_t width, vocab, layers, heads, kv_heads, head_dim, ffn, trained_context;
    double norm_epsilon, rope_theta;
    const cop_real *lm_head;   /* [vocab, width] */
    const cop_real *embedding; /* [vocab, width] */
};

struct cop_network_options {
    int32_t depths;      /* heads, or steps that are unrolled */
    int32_t blocks;      /* of a Medusa or Hydra head; layers of a model */
    int32_t inner;       /* width inside an MLP speculator; of a model */
    int32_t version;     /* of EAGLE */
    bool tied, scaled;   /* an MLP speculator */
    bool copies_lm_head; /* Medusa, Hydra: it is published as the output layer of each head */
    bool shares_lm_head; /* EAGLE-3: the target's LM head is the head's, of all tokens */
    double noise;        /* of EAGLE-1's features, in their standard deviations */
    double feature_weight;
    const cop_token *ids; /* [n_ids] ascending: a reduced vocabulary; NULL: all */
    int32_t n_ids;        /* a trainer chooses so many, 0: all */
    int32_t window;       /* the longest */
    uint64_t seed;
};

struct cop_network {
    const struct cop_network_ops *ops;
    const struct cop_train_target *target;
    struct cop_products *products;
    struct cop_network_options options;
    struct cop_parameters parameters;
    int32_t depths;                                            /* that are trained */
    int32_t inner;                                             /* of what output layers read */
    int64_t step;                                              /* names the noise of a step */
    bool evaluates;                                            /* no noise */
    cop_real *out[COP_TRAIN_DEPTHS], *d_out[COP_TRAIN_DEPTHS]; /* [capacity, inner] */
    void *state;
};

struct cop_network_ops {
    const char *name;
    /* Layers whose states it reads, as in cop_score; returns how many. */
    int32_t (*layers)(const struct cop_network_options *options,
                      const struct cop_train_target *target, int32_t *layers);
    /* Adds and initialises the parameters. */
    enum cop_status (*open)(struct cop_network *network, struct cop_error *err);
    void (*close)(struct cop_network *network);
    /* Room for batches of n rows; once, before the first. */
    enum cop_status (*reserve)(struct cop_network *network, int32_t n, struct cop_error *err);
    int32_t label_shift; /* 1: heads; 0: a model */
    bool is_unrolled;    /* depths after the first have the rows of cop_train_rows */
    int32_t (*eval_depths)(const struct cop_network *network);
    /* out [n, inner] */
    void (*forward)(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *out);
    /* optional: a loss beyond that of the rows, of the last forward; adds its gradient to d_out
     * (NULL: not wanted) */
    double (*extra)(struct cop_network *network, const struct cop_train_batch *batch,
                    int32_t depth, cop_real *d_out);
    /* d_out [n, inner] is the gradient by what forward said; adds to the parameters' */
    void (*backward)(struct cop_network *network, const struct cop_train_batch *batch,
                     int32_t depth, cop_real *d_out);
    void (*output)(const struct cop_network *network, int32_t depth,
                   struct cop_train_output *out);
    /* The lines of config.json between its braces, and the file of the tensors. */
    void (*describe)(const struct cop_network *network, const char *target_name, char *config,
                     size_t size);
    const char *file;
    /* optional: the tensor that a copy of the target's LM head is published as */
    void (*output_name)(const struct cop_network *network, int32_t depth, char *name,
                        size_t size);
};

extern const struct cop_network_ops cop_network_medusa, cop_network_hydra, cop_network_mlp,
    cop_network_eagle, cop_network_model;
/* NULL: unknown. */
const struct cop_network_ops *cop_network_find(const char *name);

enum cop_status cop_network_open(struct cop_network *network, const struct cop_network_ops *ops,
                                 const struct cop_train_target *target,
                                 struct cop_products *products,
                                 const struct cop_network_options *options,
                                 struct cop_error *err);
void cop_network_close(struct cop_network *network); /* idempotent */
/* Room for batches of n rows; once, before the first. */
enum cop_status cop_network_reserve(struct cop_network *network, int32_t n,
                                    struct cop_error *err);

struct cop_choice;
/* The loss of a batch over all depths, the weight of each `depth_decay` times that of the one
 * before; candidates are those of (key, network->step). with_gradient: the parameters'
 * gradients are made anew. Means nothing once network->products has failed. */
double cop_network_loss(struct cop_network *network, struct cop_choice *choice,
                        const struct cop_train_batch *batch, double depth_decay,
                        const uint32_t key[2], bool with_gradient);

#endif
