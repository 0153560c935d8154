/* EAGLE heads: a decoder layer (or few) that carries the target's hidden states on, step by
 * step.
 *
 * A row of the head stands for position j of the text: it joins the states of position j with
 * the token behind it, t(j+1), and says what token j + 2 may be. Its own position is j.
 *
 *     version 1 (and 2, whose weights are the same)      version 3
 *     x = f_j: the target's last states, normed          x = fc(states that enter some layers)
 *     s = fc([E(t); x])                                  g = norm(x)
 *     y = layer(s), q k v of s as it is                  y = layer(x or g),
 *                                                            q k v of [norm(E(t)); g]
 *     logits: the target's LM head on y                  logits: an LM head of its own on
 *         (or a copy in the files)                           norm(y), over some of the ids
 *
 * Where the target has not been yet, x is the y of the row before (or norm(y), where the
 * configuration says so): a guess, good for drafting only. P-EAGLE is version 3 with a token
 * and states that stand for what is not known yet, so that all guesses come from one pass. */
#ifndef COP_ALGORITHMS_EAGLE_H
#define COP_ALGORITHMS_EAGLE_H

#include "algorithms/heads/carried/pair.h"
#include "algorithms/heads/reduced.h"
#include "core/model/block.h"
#include "core/model/checkpoint.h"

enum { COP_EAGLE_TAPS = 8 }; /* layers whose states an x is made of, at most */

/* What the files hold. NULL: the head has none. */
struct cop_eagle_tensors {
    const struct cop_tensor *fc, *fc_bias, *embedding;
    const struct cop_tensor *input_norm;                /* of E(t) */
    const struct cop_tensor *hidden_norm;               /* of x */
    const struct cop_tensor *tap_norm;                  /* of all taps together, before fc */
    const struct cop_tensor *tap_norms[COP_EAGLE_TAPS]; /* of each */
    const struct cop_tensor *norm, *head;
    const struct cop_tensor *mask_states;  /* in place of all taps */
    const struct cop_tensor *rope_factors; /* of a GGUF file */
};

/* The same on a device. */
struct cop_eagle_weights {
    struct cop_weight *fc, *head;
    float *mask_states, *fc_bias, *input_norm, *hidden_norm, *tap_norm,
        *tap_norms[COP_EAGLE_TAPS], *norm;
    struct cop_matrix embedding; /* data NULL: the target's */
};

struct cop_eagle {
    struct cop_checkpoint files;
    struct cop_eagle_tensors tensors;
    struct cop_block *block;
    int32_t version;      /* 1 or 3 */
    int32_t width;        /* of the head */
    int32_t target_width; /* of a tap */
    struct cop_reduced drafted;
    int32_t n_taps,
        taps[COP_EAGLE_TAPS]; /* layers as in cop_score; n_taps 0: the usual three */
    bool norm_before_residual, norm_output;
    cop_token mask_token; /* P-EAGLE: in place of a token; -1: another head */
    int32_t n_positions;  /* P-EAGLE: drafted in one pass, as the files say */

    const struct cop_model *target; /* borrowed; NULL until loaded */
    struct cop_eagle_weights weights;
    float *scratch; /* grown by need */
    size_t scratch_capacity;
};

/* eagle_gguf.c. llama.cpp's file with the names and the configuration of a checkpoint. Empty
 * after failure. */
enum cop_status cop_eagle_open_gguf(struct cop_checkpoint *out, const char *path,
                                    struct cop_error *err);
/* eagle_files.c. Reads the folder, or that file; every tensor is checked for name, shape and
 * format. Empty after failure. */
enum cop_status cop_eagle_open(struct cop_eagle *out, const char *folder,
                               struct cop_error *err);
void cop_eagle_close(struct cop_eagle *eagle); /* idempotent; before the target */
/* The layers that it taps in a target; returns how many. */
int32_t cop_eagle_taps(const struct cop_eagle *eagle, const struct cop_model_info *target,
                       int32_t *layers);

/* eagle_load.c. Onto the target's device. Of a reduced vocabulary the head drafts what it can
 * draft at all. COP_ERR_ARGUMENT: it was made for another target, or nothing is left. */
enum cop_status cop_eagle_load(struct cop_eagle *eagle, const struct cop_model *target,
                               const struct cop_vocabulary_option *vocabulary,
                               struct cop_error *err);

/* eagle_step.c. x [n, width] of the target's states [n, taps * target_width]. */
enum cop_status cop_eagle_fuse(struct cop_eagle *eagle, const float *states, int32_t n,
                               float *x, struct cop_error *err);

/* Adds a speculative slot for each row. */
enum cop_status cop_eagle_step(struct cop_eagle *eagle, struct cop_cache *cache,
                               const struct cop_pair_rows *rows, struct cop_error *err);
/* logits [n, vocabulary of the target] of y [n, width], those of the ids that it drafts; y
 * becomes the x of the next row. */
enum cop_status cop_eagle_logits(struct cop_eagle *eagle, float *y, int32_t n, float *logits,
                                 struct cop_error *err);

#endif
