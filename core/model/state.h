/* What a model holds: private to core/model. Shapes are [rows, cols], fastest index last. */
#ifndef COP_MODEL_STATE_H
#define COP_MODEL_STATE_H

#include "core/base/json_tree.h"
#include "core/model/architecture.h"
#include "core/model/model.h"
#include "core/model/source.h"

/* What no file may exceed. */
#define COP_MAX_LAYERS   1024
#define COP_MAX_HEADS    4096
#define COP_MAX_HEAD_DIM 1024
#define COP_MAX_WIDTH    (1 << 20)
#define COP_MAX_FFN      (1 << 22)
#define COP_MAX_VOCAB    (1 << 24)
#define COP_MAX_CONTEXT  (1 << 24)
#define COP_MAX_FACTOR   1e6
#define COP_MAX_THETA    1e12

/* How rotary frequencies are stretched beyond the positions of the first training (rope.c). */
enum cop_rope_kind { COP_ROPE_PLAIN, COP_ROPE_LINEAR, COP_ROPE_LLAMA3, COP_ROPE_YARN };

struct cop_rope_scaling {
    enum cop_rope_kind kind;
    double factor;
    double original;             /* llama3, yarn: positions of the first training */
    double low, high;            /* llama3: turns in them, below and above which all or nothing
                                    is stretched */
    double beta_fast, beta_slow; /* yarn: the same for the other ends */
    bool is_unrounded;           /* yarn: these borders are not moved to whole pairs */
    double attention;            /* yarn: cosines and sines are multiplied by it */
};

/* What is known of tensors that only some models of an architecture have. */
enum cop_presence { COP_PRESENCE_OPTIONAL, COP_PRESENCE_REQUIRED, COP_PRESENCE_REFUSED };

/* One layer. Pointers that may be NULL say so. */
struct cop_layer {
    float *attention_norm;  /* [width] */
    struct cop_weight *qkv; /* [(heads + 2 kv_heads) * head_dim, width] */
    struct cop_weight *kv;  /* the lower part alone, where a block's `has_context`, else NULL */
    float *qkv_bias;        /* [(heads + 2 kv_heads) * head_dim] or NULL */
    float *q_norm, *k_norm; /* [head_dim] or NULL */
    struct cop_weight *attention_out; /* [width, heads * head_dim] */
    float *attention_out_bias;        /* [width] or NULL */
    float *post_attention_norm;       /* [width] or NULL */
    float *ffn_norm;                  /* [width] */
    struct cop_weight *gate_up;       /* [2 ffn, width] */
    float *gate_up_bias;              /* [2 ffn] or NULL */
    struct cop_weight *down;          /* [width, ffn] */
    float *down_bias;                 /* [width] or NULL */
    float *post_ffn_norm;             /* [width] or NULL */
};

/* Buffers of the forward pass, for up to `tokens` tokens; grown by need, kept until the end. */
struct cop_workspace {
    int32_t tokens;
    float *stream; /* [tokens, width] the residual stream */
    float *inner;  /* [tokens, max(width, heads * head_dim, ffn)] inputs of products */
    float *wide;   /* [tokens, max(qkv rows, 2 ffn, width)] outputs of products */
    int32_t *positions, *slots;            /* [tokens] */
    struct cop_attention_token *attention; /* [tokens] by ancestors */
    /* [tokens] by the pass's visibility words, if it has any */
    struct cop_attention_token *seen;
    const int32_t **page_tables; /* [tokens] one for each sequence of the call */
    struct cop_group *groups;    /* [tokens] */
    int32_t n_groups;
    int32_t *paths; /* [paths_capacity] */
    size_t n_paths, paths_capacity;
};

/* How a weight is multiplied. */
enum cop_product {
    COP_PRODUCT_F32,
    COP_PRODUCT_INT8, /* where all parts are block-quantised and the device can; else f32 */
    COP_PRODUCT_Q8_0  /* the same of parts that were quantised first (quantise.h) */
};

/* The neighbouring tokens of one sequence. */
struct cop_group {
    int32_t sequence, first, count;
    int32_t speculative; /* slots that the sequence had before the call */
};

struct cop_model {
    atomic_int references;
    struct cop_model_info info;
    char *path;
    const struct cop_architecture *architecture;
    const struct cop_ops *ops;
    struct cop_device *device;
    enum cop_naming naming;
    const char *layer_prefix; /* of tensor names, in place of the naming's; NULL in models */
    bool is_numbered;         /* a layer's number and a dot stand behind layer_prefix */
    bool is_bare;        /* the first layer does not norm its input: a block's caller does */
    bool has_context;    /* keys and values come from outside too (block.h) */
    int32_t input_width; /* of the first layer's q, k and v; 0: the width */
    struct cop_weights_source source; /* open as long as the model: the embedding lies in it */
    struct cop_tokenizer *tokenizer;  /* NULL: none */

    enum cop_presence presence[COP_CONDITION_COUNT];
    int32_t *windows; /* [info.layers] keys that a layer's attention sees; 0: all */
    struct cop_rope_scaling rope_scaling;
    double *rope_factor; /* [rope.dim / 2] divisors of the frequencies, or NULL */
    double window_theta; /* base of the layers that have a window; 0: that of all */
    struct cop_rope rope, window_rope; /* angles lie in the tables */
    float *rope_table, *window_table;  /* [2][context, rope.dim / 2] cosines, then sines */
    double query_scalar;               /* queries are divided by its root */

    struct cop_matrix embedding; /* [vocab, width] in the file */
    struct cop_layer *layers;    /* [info.layers] */
    float *output_norm;          /* [width] */
    struct cop_weight *head;     /* [vocab, width] */
    struct cop_matrix output;    /* the same in the file */
    struct cop_workspace work;
};

static inline int32_t cop_model_query_rows(const struct cop_model *model)
{
    return model->info.heads * model->info.head_dim;
}
static inline int32_t cop_model_key_rows(const struct cop_model *model)
{
    return model->info.kv_heads * model->info.head_dim;
}

/* Two readers that fill the same fields: architecture, info's geometry, presence, windows, rope
 * and rope_scaling. metadata.c: from the keys of the GGUF file that is open; config.c: from the
 * text of a config.json, whose name begins messages (the tensors need not be there yet). */
enum cop_status cop_model_read_metadata(struct cop_model *model, struct cop_error *err);
enum cop_status cop_model_read_config(struct cop_model *model, const char *name,
                                      const char *text, size_t length, struct cop_error *err);

/* config.c: the same of an object that describes the layer of a head: its class is not asked.
 */
enum cop_status cop_model_read_head(struct cop_model *model, const char *name,
                                    const struct cop_json_tree *tree,
                                    const struct cop_json_node *root, struct cop_error *err);

/* geometry.c: what both check of sizes that fit their ranges; and one window for all layers. */
enum cop_status cop_model_check_heads(const struct cop_model *model, const char *name,
                                      struct cop_error *err);
enum cop_status cop_model_check_head_dim(const struct cop_model *model, const char *name,
                                         struct cop_error *err);
enum cop_status cop_model_set_windows(struct cop_model *model, int32_t window,
                                      struct cop_error *err);

/* tensors.c: the tensors of one layer (-1: of the whole model) by the architecture's rules,
 * into found[slot], checked; NULL where an optional one is absent. A tensor that no rule asks
 * for is refused: it would be left out of the sums in silence. */
enum cop_status cop_model_find_tensors(const struct cop_model *model, int32_t layer,
                                       const struct cop_tensor **found, struct cop_error *err);
enum cop_status cop_model_refuse_strangers(const struct cop_model *model,
                                           struct cop_error *err);
/* Whether a layer is one of multi-token prediction, which stand behind a model's own: it joins
 * states and a token first. */
bool cop_model_is_further(const struct cop_model *model, int32_t layer);
int32_t cop_model_extent(const struct cop_model *model, enum cop_extent extent);

/* finite.c: names the first weight of a matrix that is infinite or no number. */
enum cop_status cop_model_check_finite(const char *file, const struct cop_tensor *tensor,
                                       struct cop_error *err);

/* load.c: finds, checks, stacks and repacks every tensor. What it made before a failure is
 * released with the model. */
enum cop_status cop_model_load_tensors(struct cop_model *model,
                                       enum cop_precision_choice precision,
                                       struct cop_error *err);
void cop_model_release_tensors(struct cop_model *model);
/* One layer from tensors that were found; the same of what it made. */
enum cop_status cop_model_load_layer(struct cop_model *model,
                                     const struct cop_tensor *const *found,
                                     enum cop_product product, struct cop_layer *layer,
                                     struct cop_error *err);

/* rope.c: the table of rotary angles for `context` positions. */
enum cop_status cop_model_make_rope(struct cop_model *model, struct cop_error *err);

/* ends.c: ids inside the vocabulary; and what such ids enter the first layer as. */
enum cop_status cop_model_check_ids(const struct cop_model *model, const cop_token *tokens,
                                    int32_t n, struct cop_error *err);
void cop_model_enter(const struct cop_model *model, const cop_token *tokens, int32_t n,
                     float *out);

/* stack.c: at most COP_STACK_LIMIT parts, stacked by rows, as a weight (free it with
 * weight_free); *is_int8 (NULL: not asked for) is how it is multiplied. NULL: no memory. */
enum { COP_STACK_LIMIT = 4 };
struct cop_weight *cop_model_stack(const struct cop_model *model,
                                   const struct cop_matrix *parts, int32_t n_parts,
                                   enum cop_product product, bool *is_int8);

/* rows.c: the same of rows[0..n) of a matrix, each inside it. */
enum cop_status cop_model_weight_rows(const struct cop_model *model,
                                      const struct cop_matrix *matrix, const int32_t *rows,
                                      int32_t n, enum cop_product product,
                                      struct cop_weight **out, struct cop_error *err);

/* plan.c: gives every token of a pass its slot, position and path, in the workspace; the cache
 * is extended. After failure it is as before. retract takes the slots back. */
enum cop_status cop_model_plan(struct cop_model *model, struct cop_cache *cache,
                               const struct cop_score *score, struct cop_error *err);
void cop_model_retract(const struct cop_model *model, struct cop_cache *cache);

/* forward.c: the layers of a block, planned for the tokens of a pass, over what stands in the
 * workspace: `stream` is the residual stream, and where the first layer is bare `inner` feeds
 * its q, k and v. False: no memory. */
bool cop_model_run_block(struct cop_model *model, struct cop_cache *cache,
                         const struct cop_score *score);
/* Keys and values of `stream` for every layer, and nothing else. */
bool cop_model_store_context(struct cop_model *model, struct cop_cache *cache, int32_t n);

/* workspace.c: room for n tokens. False: no memory, what was there is released. */
bool cop_workspace_reserve(struct cop_model *model, int32_t n);
bool cop_workspace_reserve_paths(struct cop_workspace *work,
                                 size_t n_paths); /* keeps contents */
void cop_workspace_release(struct cop_workspace *work);

#endif
