/* Architectures as rows of a table: which tensors a model of a family has, how large they are,
 * and in which order its rotary pairs lie.
 *
 * All families here are the same decoder (norm, attention, norm, gated feed-forward) with small
 * differences, so a new one is a row of groups of tensors; the forward pass asks which of the
 * optional ones are there. Names and shapes are those of GGUF files. */
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
    COP_TENSOR_FFN_NORM,
    COP_TENSOR_GATE,
    COP_TENSOR_UP,
    COP_TENSOR_DOWN,
    COP_TENSOR_GATE_BIAS,
    COP_TENSOR_UP_BIAS,
    COP_TENSOR_DOWN_BIAS,
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
    COP_EXTENT_QUERY, /* heads * head_dim */
    COP_EXTENT_KEY,   /* kv_heads * head_dim */
    COP_EXTENT_HEAD,  /* head_dim */
    COP_EXTENT_FFN,
    COP_EXTENT_VOCAB,
    COP_EXTENT_HALF_ROPE, /* rotated entries of a head, halved */
    COP_EXTENT_COUNT
};

struct cop_tensor_rule {
    enum cop_tensor_slot slot;
    const char *name; /* NULL ends a group */
    enum cop_extent rows, cols;
    bool is_optional;
};

struct cop_architecture {
    const char *name;         /* general.architecture, and the prefix of its keys */
    bool is_rope_interleaved; /* pairs (2i, 2i+1); else (i, i + dim/2) */
    bool has_window;          /* honours attention.sliding_window */
    const struct cop_tensor_rule *groups[4]; /* NULL: no further group */
};

/* The row of general.architecture. A missing key is COP_ERR_FORMAT; for an unknown name
 * COP_ERR_UNSUPPORTED lists the known ones. */
enum cop_status cop_architecture_find(const struct cop_architecture **out,
                                      const struct cop_gguf *file, struct cop_error *err);

/* The rule for a tensor of a model with so many layers, *layer -1 where it belongs to none;
 * NULL: the architecture has no such tensor. */
const struct cop_tensor_rule *cop_architecture_rule(const struct cop_architecture *architecture,
                                                    struct cop_string name, int32_t n_layers,
                                                    int32_t *layer);

#endif
