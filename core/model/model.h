/* A language model: weights from a file, a forward pass over token trees, a tokenizer.
 *
 * Architectures are rows of a table (core/model/architecture.c): key prefix, rotary order,
 * which biases and norms exist. The forward pass is one function whose stages carry the names
 * of the layers' parts, over the operations of kernels/ops.h. A model is read-only after
 * opening and reference-counted; keys and values live in caches (core/cache) that the users of
 * the model own, one for each role. */
#ifndef COP_MODEL_MODEL_H
#define COP_MODEL_MODEL_H

#include "core/base/error.h"
#include "core/cache/cache.h"
#include "core/text/tokenizer.h"
#include "kernels/ops.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cop_precision_choice {
    COP_PRECISION_AUTO,
    COP_PRECISION_CHOOSE_F32,
    COP_PRECISION_CHOOSE_INT8
};

struct cop_model_options {
    const char *path;
    const char *device;                  /* "cpu", "reference" */
    enum cop_precision_choice precision; /* auto: int8 for block-quantised weights, else f32 */
    bool kv_f32;                         /* cache format; default f16 */
    int32_t context; /* positions of one sequence; 0: min(4096, the model's own) */
    int32_t pages;   /* of each cache made for this model; 0: enough */
    int32_t threads;
    const char *level; /* instruction-set limit, NULL: the best */
};

struct cop_model_info {
    const char *architecture; /* "llama" */
    const char *path;
    const char *device, *level;
    int32_t vocab_size, hidden_size, ffn_size, layers, heads, kv_heads, head_dim;
    int32_t context; /* of this opening */
    int32_t trained_context;
    int32_t mask_token; /* stands for a token that is not known yet; -1: the files name none */
    int32_t threads, pages;
    enum cop_precision precision; /* INT8: of every product of block-quantised weights */
    bool kv_f32;
    double norm_epsilon, rope_theta;
    size_t weight_bytes; /* repacked, in memory; the embedding table stays in the file */
    size_t file_bytes;
    double load_seconds;
};

struct cop_model;

/* What can be said of options without the file: device, numbers. Opening checks it first. */
enum cop_status cop_model_check_options(const struct cop_model_options *options,
                                        struct cop_error *err);
/* Opens, checks every tensor's name, shape and format against the architecture's table (a
 * missing or misshapen one is named with expected and found shape), repacks. *out is NULL after
 * failure, nothing half-loaded. */
enum cop_status cop_model_open(struct cop_model **out, const struct cop_model_options *options,
                               struct cop_error *err);
struct cop_model *cop_model_share(struct cop_model *model);
void cop_model_free(struct cop_model *model); /* drops one reference; NULL is fine */

const struct cop_model_info *cop_model_info(const struct cop_model *model);
struct cop_tokenizer *
cop_model_tokenizer(const struct cop_model *model); /* borrowed; NULL: none */
const struct cop_ops *cop_model_ops(const struct cop_model *model);
struct cop_device *cop_model_device(const struct cop_model *model);

/* A cache for this model: its layout, context and pages. */
enum cop_status cop_model_cache_new(const struct cop_model *model, int32_t n_sequences,
                                    int32_t speculative, struct cop_cache **out,
                                    struct cop_error *err);

#define COP_HIDDEN_NORMED (-1) /* as a layer of hidden states: what the LM head reads */

enum { COP_SKIP_ATTENTION = 1, COP_SKIP_MLP = 2 };

/* One forward pass. Tokens of one sequence are neighbours; each gets the next speculative slot
 * of its sequence. */
struct cop_score {
    int32_t n;                /* tokens, >= 1 */
    const cop_token *tokens;  /* [n] */
    const int32_t *sequences; /* [n] cache slots; NULL: all 0 */
    const int32_t *parents;   /* [n] speculative index of the parent in its sequence, or -1 */
    const uint64_t *visible;  /* [n, cop_visible_words(n)] bit j of token i's words: it sees
                                 token  j of the call, which is of its own sequence, in layers
                                 without  a window, where this stands for its ancestors among the
                                 speculative slots; NULL: ancestors and itself everywhere */
    const uint8_t *skip; /* [layers] COP_SKIP_…: sub-layers that are left out, their K and V
                            too; NULL: none */
    const bool *wanted;  /* [n] whose logits are computed; NULL: all */
    float *logits;       /* out [number wanted, vocab_size], in order; NULL: none computed */
    const struct cop_weight *head; /* of cop_model_head_rows: logits of its rows only, as many
                                      for each token; NULL: all */
    const int32_t *hidden_layers; /* [n_hidden]: 0 embeddings, l after layer l, before the final
                                     norm; COP_HIDDEN_NORMED: after it */
    int32_t n_hidden;
    float *hidden;             /* out [n_hidden, n, hidden_size] */
    const atomic_bool *cancel; /* looked at between layers; NULL: never */
};

static inline size_t cop_visible_words(int32_t n)
{
    return ((size_t)n + 63) / 64;
}

/* Scores all tokens: K/V go to the cache's speculative slots, logits and hidden states to the
 * caller's buffers. Fails before computing anything on ids outside the vocabulary (ARGUMENT), a
 * full context or pool (LIMIT, MEMORY); the cache is then as before. CANCELLED: the new slots
 * exist but hold no values; roll back. Bit-identical for a token whatever else is in the call
 * (see kernels/ops.h). Logits are not looked at: whoever reads a row checks that it is finite.
 * Not reentrant for one model: one call at a time. */
enum cop_status cop_model_score(struct cop_model *model, struct cop_cache *cache,
                                const struct cop_score *score, struct cop_error *err);

#define COP_PREFILL_CHUNK 256
/* Scores tokens[0..n) after the committed positions of a sequence and commits them, in chunks
 * of `chunk` (0: COP_PREFILL_CHUNK), without logits. n = 0 does nothing. After failure the
 * chunks done stay committed. */
enum cop_status cop_model_prefill(struct cop_model *model, struct cop_cache *cache,
                                  int32_t sequence, const cop_token *tokens, int32_t n,
                                  int32_t chunk, const atomic_bool *cancel,
                                  struct cop_error *err);

/* The same in one chunk, with the hidden states of every token. */
struct cop_states {
    const int32_t *layers; /* [n_layers] as in a forward pass */
    int32_t n_layers;
    float *out; /* [n_layers, n, hidden_size] */
};
enum cop_status cop_model_prefill_states(struct cop_model *model, struct cop_cache *cache,
                                         int32_t sequence, const cop_token *tokens, int32_t n,
                                         const struct cop_states *states,
                                         const atomic_bool *cancel, struct cop_error *err);

/* The two ends of a forward pass, for drafters that borrow them. A token's values are those of
 * a pass, bit for bit, whatever else is in the call. Like a pass: one call at a time. */
/* out [n, hidden_size]: the states that enter the first layer. COP_ERR_ARGUMENT: an id outside
 * the vocabulary. */
enum cop_status cop_model_embed(const struct cop_model *model, const cop_token *tokens,
                                int32_t n, float *out, struct cop_error *err);
/* logits [n, vocab_size] of states [n, hidden_size] that have passed the final norm. */
enum cop_status cop_model_head(const struct cop_model *model, const float *states, int32_t n,
                               float *logits, struct cop_error *err);

/* Those rows of the LM head that belong to ids[0..n), for reduced vocabularies: products with
 * them are, bit for bit, the logits of these ids. *out is freed with the operation weight_free,
 * before the model; NULL after failure. */
enum cop_status cop_model_head_rows(const struct cop_model *model, const cop_token *ids,
                                    int32_t n, struct cop_weight **out, struct cop_error *err);

/* Whether a draft speaks the target's language. Where both have a tokenizer: the same piece for
 * every id that one of them uses; sizes may then differ by unused ids. Else the same size, or
 * up to 128 more where a tokenizer shows that they are padding: every id that a text can hold
 * is known to both. COP_ERR_ARGUMENT says what differs. */
enum cop_status cop_model_match(const struct cop_model *target, const struct cop_model *draft,
                                struct cop_error *err);

/* Whether a vocabulary of `size` ids is the model's but for padding, by its own tokenizer. */
bool cop_model_fits_vocab(const struct cop_model *model, int32_t size);

#endif
