/* Multi-draft heads: several small networks on one hidden state of the target, the i-th of
 * which guesses the token i + 2 positions behind it.
 *
 *     committed      … t4   t5 = root
 *     state          h4 ──► head 0: the token after t5 ──► head 1: the one after that ──► …
 *
 * h4 is what the LM head read at t4's position when t5 was chosen; it comes from prefill, or
 * from the accepted node before the last token. What all heads share is here: the states of
 * sequences, one call of a head per level for the frontiers of all of them, output layers,
 * rows. Heads whose rows depend on nothing below the root, and that read one output layer, are
 * multiplied with it together, on the first level, and its weights are read once for all. A
 * family says how a node's vector is computed. Below the last head, and where no state
 * is known yet (a prompt of one token), nothing is drafted. */
#ifndef COP_ALGORITHMS_HEADS_H
#define COP_ALGORITHMS_HEADS_H

#include "algorithms/heads/token_map.h"
#include "algorithms/heads/weights.h"
#include "algorithms/propose/draft_law.h"
#include "algorithms/propose/subset.h"
#include "core/cycle/contract/proposer.h"
#include "core/model/checkpoint.h"

enum {
    COP_HEADS_LIMIT = 32,      /* heads of a checkpoint */
    COP_HEADS_NAME_LIMIT = 128 /* bytes of a tensor's name */
};

/* The state of a family's part begins with it. */
struct cop_heads {
    char *path;      /* of the folder; an option */
    int32_t weights; /* an option */
    struct cop_draft_law law;
    struct cop_vocabulary_option vocabulary; /* an option */
    struct cop_checkpoint files;
    int32_t n_heads;
    int32_t width;      /* of the target's states */
    int32_t inner;      /* of what an output layer reads */
    const char *prefix; /* of a decoder layer that reads the states before the heads do
                           (Hydra++; prefix.h); NULL: none */
    int32_t vocab;      /* of the target that they were made for; 0: the files do not say */
    struct cop_token_map map; /* of a reduced vocabulary */
    /* Output layers; NULL weight: the target's LM head. Bias NULL: none. */
    const struct cop_tensor *output[COP_HEADS_LIMIT], *output_bias[COP_HEADS_LIMIT];
};

#define COP_HEADS_OPTIONS(state)                                                               \
    {.name = "path",                                                                           \
     .type = COP_OPTION_STRING,                                                                \
     .offset = offsetof(state, heads.path),                                                    \
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,                                     \
     .help =                                                                                   \
         "the folder of the checkpoint: config.json beside safetensors or a PyTorch file"},    \
        COP_HEAD_WEIGHTS_OPTION(state, heads.weights),                                         \
        COP_SUBSET_OPTION(state, heads.vocabulary), COP_DRAFT_LAW_OPTIONS(state, heads.law)

/* A node whose row is asked for. */
struct cop_heads_node {
    int32_t sequence, node;
    const struct cop_tree *tree;
    const float *state; /* [width] before the root */
};

struct cop_heads_family {
    bool is_independent; /* a row depends on the depth of its node alone */
    /* Repacks what nodes need for env->target; *run is freed by close, also after failure. */
    enum cop_status (*open)(const void *state, const struct cop_proposer_env *env, void **run,
                            struct cop_error *err);
    void (*close)(void *run); /* NULL is fine; before the target */
    /* out [n, inner]: what the output layer of head `depth` reads for n nodes of that depth */
    enum cop_status (*nodes)(void *run, int32_t depth, const struct cop_heads_node *nodes,
                             int32_t n, float *out, struct cop_error *err);
};

/* ---- Preparing: files and tensors ---------------------------------------------------------
 */

/* The checkpoint of heads->path, whose tensors are in `file` or under a usual name. What was
 * opened is the part's to close, also after failure. */
enum cop_status cop_heads_open_files(struct cop_heads *heads, const char *file,
                                     struct cop_error *err);
/* The tensor of a name made as by printf; NULL: absent. */
const struct cop_tensor *cop_heads_look(const struct cop_heads *heads, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Rows of a matrix that an output layer may be; 0: none is. */
int32_t cop_heads_rows(const struct cop_tensor *tensor);
/* The tensor of a name, checked; rows 0: a vector. Missing, misshapen or not finite: named. */
enum cop_status cop_heads_find(const struct cop_heads *heads, const char *name, int32_t rows,
                               int32_t cols, const struct cop_tensor **out,
                               struct cop_error *err);
/* The same of "<stem>.weight", and of "<stem>.bias" where it is there. */
enum cop_status cop_heads_find_linear(const struct cop_heads *heads, const char *stem,
                                      int32_t rows, int32_t cols,
                                      const struct cop_tensor **weight,
                                      const struct cop_tensor **bias, struct cop_error *err);
/* 1 + the greatest number n of names "<stem>n.…"; 0: there is none. So a list with a gap is
 * found out, where counting from its beginning would end early. */
int32_t cop_heads_count(const struct cop_heads *heads, const char *stem);
/* Refuses the first tensor behind one of the stems (the last is NULL) that owns(context,
 * tensor) does not know. Of other tensors nothing is asked: a whole model may be around the
 * heads. */
enum cop_status
cop_heads_refuse_strangers(const struct cop_heads *heads, const char *const *stems,
                           bool (*owns)(const void *context, const struct cop_tensor *tensor),
                           const void *context, struct cop_error *err);
/* Of heads that lend the target's LM head: the vocabulary that the configuration says, if it
 * does. */
enum cop_status cop_heads_read_vocab(struct cop_heads *heads, struct cop_error *err);

/* ---- What nodes leave for their children ----------------------------------------------------
 */

struct cop_heads_kept {
    float *rows; /* [n_sequences, n_nodes, width] */
    size_t n_nodes, width;
};
/* False: no memory. Freed by free(kept->rows). */
bool cop_heads_kept_init(struct cop_heads_kept *kept, const struct cop_proposer_env *env,
                         int32_t width);
float *cop_heads_kept_at(const struct cop_heads_kept *kept, int32_t sequence, int32_t node);

/* ---- Slots of the contract that families share ----------------------------------------------
 */

int32_t cop_heads_layers(const void *state, const struct cop_model_info *target,
                         int32_t *layers);
int32_t cop_heads_own_depth(const void *state);
enum cop_status cop_heads_open(const struct cop_heads_family *family, const void *state,
                               const struct cop_proposer_env *env, void **session,
                               struct cop_error *err);
void cop_heads_close(void *session);
enum cop_status cop_heads_begin(void *session, int32_t sequence, const cop_token *ids,
                                int32_t n, struct cop_error *err);
enum cop_status cop_heads_prefilled(void *session, const struct cop_prefilled *chunk,
                                    struct cop_error *err);
enum cop_status cop_heads_expand(void *session, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, struct cop_error *err);
enum cop_status cop_heads_observe(void *session, const struct cop_observed *observed,
                                  struct cop_error *err);
void cop_heads_end(void *session, int32_t sequence);
void cop_heads_release(void *state);

#define COP_HEADS_SLOTS                                                                        \
    .supply = COP_SUPPLY_DENSE, .hidden_layers = cop_heads_layers,                             \
    .own_depth = cop_heads_own_depth, .close = cop_heads_close, .begin = cop_heads_begin,      \
    .expand = cop_heads_expand, .observe = cop_heads_observe, .end = cop_heads_end,            \
    .prefilled = cop_heads_prefilled

#endif
