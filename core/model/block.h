/* Decoder layers without ends, whose input comes from their caller: what heads that attend are
 * made of.
 *
 *     input  [n, input_width] ─► q, k, v ─► rotate, store ─► attention ─┐
 *                                                                       │
 *     stream [n, width] ──────────────────────────────────────────────► + ─┬─────────────► + ─►
 *                                                                          └► norm ─► ffn ─┘
 *
 * The stages are those of a model's own layers (core/model/forward.c), so everything said of
 * batch invariance holds here too. Norms in front of the first layer's q, k and v are the
 * caller's where it reads an input of its own; else the input is the stream's norm, as in the
 * layers above. A block runs on the target's device, and its keys and values lie in a paged
 * cache of its own; some can come from rows that go through no layer (cop_block_remember). */
#ifndef COP_MODEL_BLOCK_H
#define COP_MODEL_BLOCK_H

#include "core/base/json_tree.h"
#include "core/model/model.h"
#include "core/model/quantise.h"
#include "core/model/source.h"

struct cop_block;

struct cop_block_options {
    const char *name;                 /* of the configuration, for messages */
    const struct cop_json_tree *tree; /* the configuration … */
    const struct cop_json_node *node; /* … and its object that says what the layer is like */
    const struct cop_weights_source *source; /* borrowed as long as the block */
    const char *prefix; /* of its tensors: "midlayer.", of one layer; is_numbered: "layers.",
                           with number and dot to follow */
    bool is_numbered;
    int32_t inputs;   /* the first layer's q, k and v read so many times the width from `input`;
                         0: the stream's norm */
    bool has_context; /* cop_block_remember will be called */
    const struct cop_model *like; /* the layer is like this model's last one, by the names of
                                     folders: no configuration says more */
    bool is_further; /* the configuration is that of a whole model (tree NULL: the keys of the
                        GGUF file), and the block one layer behind it, like its last */
    bool is_interleaved;                   /* neighbours of q and k are rotated, as in GGUF */
    const struct cop_tensor *rope_factors; /* divisors of its rotary frequencies, or NULL */
};

enum { COP_BLOCK_LAYERS = 32 };

/* Reads the geometry and finds the tensors, each checked by name, shape and format. *out is
 * NULL after failure. */
enum cop_status cop_block_open(struct cop_block **out, const struct cop_block_options *options,
                               struct cop_error *err);
/* Repacks its tensors for the target's device. What the configuration does not say of rotary
 * angles is as in the target. */
enum cop_status cop_block_load(struct cop_block *block, enum cop_head_weights weights,
                               const struct cop_model *target, struct cop_error *err);
void cop_block_free(struct cop_block *block); /* before its target; NULL is fine */

/* Geometry, as far as a layer has one. */
const struct cop_model_info *cop_block_info(const struct cop_block *block);
bool cop_block_has_window(const struct cop_block *block); /* in any layer */
/* Whether a tensor of the source is one of its own. */
bool cop_block_owns(const struct cop_block *block, const struct cop_tensor *tensor);

/* A cache for a loaded block: format and context of the target's. */
enum cop_status cop_block_cache_new(const struct cop_block *block, int32_t n_sequences,
                                    int32_t speculative, struct cop_cache **out,
                                    struct cop_error *err);

struct cop_block_pass {
    int32_t n;                          /* rows, >= 1; as in struct cop_score: */
    const int32_t *sequences, *parents; /* [n] */
    const uint64_t *visible;            /* as there, or NULL */
    const float *input;                 /* [n, input_width]; NULL with inputs = 0 */
    float *stream;                      /* [n, width] in and out */
};
/* Adds a speculative slot for every row. After failure the cache is as before. */
enum cop_status cop_block_run(struct cop_block *block, struct cop_cache *cache,
                              const struct cop_block_pass *pass, struct cop_error *err);
/* The same of rows whose stream is what every layer's k and v read; it stays as it is. */
enum cop_status cop_block_remember(struct cop_block *block, struct cop_cache *cache,
                                   const struct cop_block_pass *pass, struct cop_error *err);

#endif
