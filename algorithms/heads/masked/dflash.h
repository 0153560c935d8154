/* DFlash: a few decoder layers fill in a block of masks at once, looking at what the target
 * thought of the text so far. DSpark is the same with a chain through the block.
 *
 *     context, position i    g_i = norm(fc(states of some layers at i)): every layer takes keys
 *                            and values from it, and nothing else
 *     block                  [root] [M] [M] [M]: embeddings through the layers; its rows see
 *                            the context and each other, both ways
 *     logits                 LM head of norm(row): of the target, or their own
 *
 * Row k of the block stands for position k itself (the root's is spent), or, where drafting
 * begins at the anchor, for the position behind it. DSpark's rows are corrected for the token
 * before theirs, x: logits += W2 e, where e = W1[x], or gated by the row, or carried on in a
 * recurrent state; and an estimate says how likely the next token is to be kept. */
#ifndef COP_ALGORITHMS_DFLASH_H
#define COP_ALGORITHMS_DFLASH_H

#include "algorithms/heads/pass.h"
#include "algorithms/heads/reduced.h"
#include "core/model/block.h"
#include "core/model/checkpoint.h"

enum { COP_DFLASH_TAPS = 8 };

enum cop_dflash_chain { /* what e is made of */
                        COP_DFLASH_NO_CHAIN,
                        COP_DFLASH_VANILLA,
                        COP_DFLASH_GATED,
                        COP_DFLASH_RECURRENT
};

struct cop_dflash_tensors { /* NULL: there is none */
    const struct cop_tensor *fc, *hidden_norm, *norm, *head, *embedding;
    const struct cop_tensor *w1, *w2;            /* [vocab, rank], [ids, rank] */
    const struct cop_tensor *gate, *gate_bias;   /* of GATED, RECURRENT */
    const struct cop_tensor *trust, *trust_bias; /* the estimate's */
};

struct cop_dflash {
    struct cop_checkpoint files;
    struct cop_dflash_tensors tensors;
    struct cop_block *block;
    struct cop_reduced drafted;
    int32_t width;                         /* of the drafter and of the target */
    int32_t n_layers;                      /* of the target; 0: the files do not say */
    int32_t n_taps, taps[COP_DFLASH_TAPS]; /* layers as in cop_score */
    int32_t block_size;
    cop_token mask_token;
    bool from_anchor; /* the root's row drafts too */
    bool is_causal;   /* rows of the block see only what is before them */
    enum cop_dflash_chain chain;
    int32_t rank;
    bool trusts_token; /* the estimate reads W1[x] too */

    const struct cop_model *target; /* borrowed; NULL until loaded */
    struct cop_weight *fc, *head, *w2, *gate;
    float *hidden_norm, *norm, *gate_bias, *trust, *trust_bias;
    struct cop_matrix embedding, w1; /* data NULL: the target's; none */
};

/* Whether a path holds one: a config.json that names a block, or a GGUF file. */
bool cop_dflash_is(const char *path);

/* dflash_gguf.c: the fields that a GGUF file's keys say, its layers among them. */
enum cop_status cop_dflash_read_keys(struct cop_dflash *dflash, struct cop_error *err);

/* dflash_files.c. A folder or a GGUF file. Every tensor is checked for name, shape and format.
 * Empty after failure. */
enum cop_status cop_dflash_open(struct cop_dflash *out, const char *path,
                                struct cop_error *err);
void cop_dflash_close(struct cop_dflash *dflash); /* idempotent; before the target */

/* dflash_run.c. Onto the target's device. COP_ERR_ARGUMENT: it was made for another target. */
enum cop_status cop_dflash_load(struct cop_dflash *dflash, const struct cop_model *target,
                                const struct cop_vocabulary_option *vocabulary,
                                struct cop_error *err);
/* g [n, width] of states [n, taps * width]. */
enum cop_status cop_dflash_fuse(const struct cop_dflash *dflash, const float *states, int32_t n,
                                float *g, struct cop_error *err);
enum cop_status cop_dflash_embed(const struct cop_dflash *dflash, const cop_token *tokens,
                                 int32_t n, float *out, struct cop_error *err);
void cop_dflash_norm(const struct cop_dflash *dflash, float *rows, int32_t n);
/* own [n, ids that it drafts] of rows that were normed. */
enum cop_status cop_dflash_logits(const struct cop_dflash *dflash, const float *rows, int32_t n,
                                  float *own, struct cop_error *err);

/* One node of the chain. */
struct cop_dflash_link {
    cop_token token;     /* x, of the target */
    const float *row;    /* [width] normed */
    const float *before; /* [rank] RECURRENT: the state that x's row left; NULL: none */
    float *after;        /* out [rank] RECURRENT */
    double trust;        /* out; 1 without an estimate */
};
static inline bool cop_dflash_has_chain(const struct cop_dflash *dflash)
{
    return dflash->chain != COP_DFLASH_NO_CHAIN || dflash->tensors.trust;
}
/* own [n, ids] += what the tokens change. */
enum cop_status cop_dflash_follow(const struct cop_dflash *dflash,
                                  struct cop_dflash_link *links, int32_t n, float *own,
                                  struct cop_floats *scratch, struct cop_error *err);

#endif
