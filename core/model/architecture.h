/* Architectures as rows of a table: which tensors a model of a family has, how large they are,
 * and in which order its rotary pairs lie.
 *
 * All families here are the same decoder (norm, attention, norm, gated feed-forward) with small
 * differences, so a new one is a row of groups of tensors; the forward pass asks which of the
 * optional ones are there. Each tensor has two names, that of GGUF files and that of Hugging
 * Face checkpoints; shapes are the same in both. */
#ifndef COP_MODEL_ARCHITECTURE_H
#define COP_MODEL_ARCHITECTURE_H

#include "core/files/gguf.h"
#include <stdbool.h>

/* What a tensor is for. The first ones exist once per layer, named "blk.N." + name. */
enum cop_tensor_slot {
    COP_TENSOR_ATTENTION_NORM,
    COP_TENSOR_Q,
    COP_TENSOR_K,
    COP_TENSOR_V,
    COP_TENSOR_Q_BIAS,
    COP_TENSOR_K_BIAS,
    COP_TENSOR_V_BIAS,
    COP_TENSOR_Q_NORM,
    COP_TENSOR_K_NORM,
    COP_TENSOR_ATTENTION_OUT,
    COP_TENSOR_ATTENTION_OUT_BIAS,
    COP_TENSOR_POST_ATTENTION_NORM, /* of what attention adds to the stream */
    COP_TENSOR_FFN_NORM,
    COP_TENSOR_GATE,
    COP_TENSOR_UP,
    COP_TENSOR_DOWN,
    COP_TENSOR_GATE_BIAS,
    COP_TENSOR_UP_BIAS,
    COP_TENSOR_DOWN_BIAS,
    COP_TENSOR_POST_FFN_NORM,
    COP_TENSORS_PER_LAYER,
    COP_TENSOR_EMBEDDING = COP_TENSORS_PER_LAYER,
    COP_TENSOR_OUTPUT_NORM,
    COP_TENSOR_OUTPUT,       /* absent: the embedding is the output matrix too (tied) */
    COP_TENSOR_ROPE_FACTORS, /* divisors of the rotary frequencies */
    COP_TENSOR_COUNT
};

/* A side of a tensor, in words; its length follows from the metadata. */
enum cop_extent {
    COP_EXTENT_NONE, /* as rows: the tensor is a vector */
    COP_EXTENT_WIDTH,
    COP_EXTENT_INPUT, /* of q, k and v: the width, but for layers of a head */
    COP_EXTENT_QUERY, /* heads * head_dim */
    COP_EXTENT_KEY,   /* kv_heads * head_dim */
    COP_EXTENT_HEAD,  /* head_dim */
    COP_EXTENT_FFN,
    COP_EXTENT_VOCAB,
    COP_EXTENT_HALF_ROPE, /* rotated entries of a head, halved */
    COP_EXTENT_COUNT
};

/* When a tensor is there. A configuration may decide some of these; GGUF files say nothing, so
 * that there whatever is in the file is used. */
enum cop_condition {
    COP_ALWAYS,
    COP_MAYBE,
    COP_IF_ATTENTION_BIAS,
    COP_IF_MLP_BIAS,
    COP_IF_UNTIED,
    COP_CONDITION_COUNT
};

enum cop_naming { COP_NAMING_GGUF, COP_NAMING_FOLDER, COP_NAMING_COUNT };

struct cop_tensor_rule {
    enum cop_tensor_slot slot;           /* COP_TENSOR_COUNT ends a group */
    const char *names[COP_NAMING_COUNT]; /* NULL: it has no such tensor */
    enum cop_extent rows, cols;
    enum cop_condition condition;
};

/* Which layers of a checkpoint see only a window of keys. */
enum cop_window_rule {
    COP_WINDOW_NEVER,
    COP_WINDOW_STATED,   /* sliding_window says so */
    COP_WINDOW_SWITCHED, /* only where use_sliding_window is true */
    COP_WINDOW_PATTERN /* all but every n-th; those that have one turn by a base of their own */
};

/* What config.json means where it lacks a key. */
struct cop_config_defaults {
    int32_t kv_heads; /* 0: as many as heads */
    int32_t head_dim; /* 0: hidden size / heads */
    int32_t positions;
    int32_t window, first_window_layer;
    int32_t window_pattern; /* PATTERN: every n-th layer sees all */
    double rope_theta;      /* 0: 10000 */
    double query_scalar;    /* queries are divided by its root; 0: the entries of a head */
    bool is_tied;
};

struct cop_architecture {
    const char *name;         /* general.architecture and the prefix of its keys */
    const char *model_type;   /* of config.json; NULL: the name */
    const char *class_name;   /* what `architectures` of config.json says */
    bool is_in_gguf;          /* the name occurs in GGUF files */
    bool is_drafter;          /* layers that borrow the ends of a target: a block, no model */
    bool is_rope_interleaved; /* in GGUF: pairs (2i, 2i+1); else, and in folders, (i, i + dim/2)
                               */
    bool has_window;          /* honours attention.sliding_window of GGUF files */
    bool is_gelu;             /* the feed-forward part is gated by gelu, else by silu */
    bool is_embedding_scaled; /* by the root of the width */
    bool is_norm_offset;      /* in folders: norms multiply by 1 + weight */
    enum cop_window_rule window_rule;
    struct cop_config_defaults defaults;
    const struct cop_tensor_rule *groups[4]; /* NULL: no further group */
};

/* The row of a name, among those of GGUF files or of folders. For an unknown one
 * COP_ERR_UNSUPPORTED lists the known ones; `file` begins the message. */
enum cop_status cop_architecture_find(const struct cop_architecture **out,
                                      struct cop_string name, enum cop_naming naming,
                                      const char *file, struct cop_error *err);

/* The rule for a tensor of a model with so many layers, *layer -1 where it belongs to none;
 * NULL: the architecture has no such tensor. */
const struct cop_tensor_rule *cop_architecture_rule(const struct cop_architecture *architecture,
                                                    enum cop_naming naming,
                                                    struct cop_string name, int32_t n_layers,
                                                    int32_t *layer);

/* The whole name of a rule's tensor in a layer (-1: the model's). */
#define COP_TENSOR_NAME_SIZE 96
const char *cop_architecture_tensor_name(char buffer[COP_TENSOR_NAME_SIZE],
                                         const struct cop_tensor_rule *rule,
                                         enum cop_naming naming, int32_t layer);

#endif
