/* What a model holds: private to core/model. Shapes are [rows, cols], fastest index last. */
#ifndef COP_MODEL_STATE_H
#define COP_MODEL_STATE_H

#include "core/model/architecture.h"
#include "core/model/model.h"

/* One layer. Pointers that may be NULL say so. */
struct cop_layer {
    float *attention_norm;            /* [width] */
    struct cop_weight *qkv;           /* [(heads + 2 kv_heads) * head_dim, width] */
    float *qkv_bias;                  /* [(heads + 2 kv_heads) * head_dim] or NULL */
    float *q_norm, *k_norm;           /* [head_dim] or NULL */
    struct cop_weight *attention_out; /* [width, heads * head_dim] */
    float *attention_out_bias;        /* [width] or NULL */
    float *ffn_norm;                  /* [width] */
    struct cop_weight *gate_up;       /* [2 ffn, width] */
    float *gate_up_bias;              /* [2 ffn] or NULL */
    struct cop_weight *down;          /* [width, ffn] */
    float *down_bias;                 /* [width] or NULL */
};

/* Buffers of the forward pass, for up to `tokens` tokens; grown by need, kept until the end. */
struct cop_workspace {
    int32_t tokens;
    float *stream; /* [tokens, width] the residual stream */
    float *inner;  /* [tokens, max(width, heads * head_dim, ffn)] inputs of products */
    float *wide;   /* [tokens, max(qkv rows, 2 ffn)] outputs of stacked products */
    int32_t *positions, *slots;            /* [tokens] */
    struct cop_attention_token *attention; /* [tokens] */
    const int32_t **page_tables;           /* [tokens] one for each sequence of the call */
    struct cop_group *groups;              /* [tokens] */
    int32_t n_groups;
    int32_t *paths; /* [paths_capacity] */
    size_t n_paths, paths_capacity;
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
    struct cop_gguf *file; /* open as long as the model: the embedding table lies in it */
    struct cop_tokenizer *tokenizer; /* NULL: none */

    int32_t window;      /* of attention; 0: all */
    double rope_scale;   /* positions are multiplied by it (linear scaling) */
    double *rope_factor; /* [rope.dim / 2] divisors of the frequencies, or NULL */
    float *rope_table;   /* [2][context, rope.dim / 2] cosines, then sines */
    struct cop_rope rope;

    struct cop_matrix embedding; /* [vocab, width] in the file */
    struct cop_layer *layers;    /* [info.layers] */
    float *output_norm;          /* [width] */
    struct cop_weight *head;     /* [vocab, width] */
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

/* metadata.c: fills info's geometry, window, rope and rope_scale from the keys of the file. */
enum cop_status cop_model_read_metadata(struct cop_model *model, struct cop_error *err);

/* tensors.c: the tensors of one layer (-1: of the whole model) by the architecture's rules,
 * into found[slot], checked; NULL where an optional one is absent. A tensor that no rule asks
 * for is refused: it would be left out of the sums in silence. */
enum cop_status cop_model_find_tensors(const struct cop_model *model, int32_t layer,
                                       const struct cop_tensor **found, struct cop_error *err);
enum cop_status cop_model_refuse_strangers(const struct cop_model *model,
                                           struct cop_error *err);
int32_t cop_model_extent(const struct cop_model *model, enum cop_extent extent);

/* load.c: finds, checks, stacks and repacks every tensor. What it made before a failure is
 * released with the model. */
enum cop_status cop_model_load_tensors(struct cop_model *model,
                                       enum cop_precision_choice precision,
                                       struct cop_error *err);
void cop_model_release_tensors(struct cop_model *model);

/* rope.c: the table of rotary angles for `context` positions. */
enum cop_status cop_model_make_rope(struct cop_model *model, struct cop_error *err);

/* plan.c: gives every token of a pass its slot, position and path, in the workspace; the cache
 * is extended. After failure it is as before. retract takes the slots back. */
enum cop_status cop_model_plan(struct cop_model *model, struct cop_cache *cache,
                               const struct cop_score *score, struct cop_error *err);
void cop_model_retract(const struct cop_model *model, struct cop_cache *cache);

/* workspace.c: room for n tokens. False: no memory, what was there is released. */
bool cop_workspace_reserve(struct cop_model *model, int32_t n);
bool cop_workspace_reserve_paths(struct cop_workspace *work,
                                 size_t n_paths); /* keeps contents */
void cop_workspace_release(struct cop_workspace *work);

#endif
