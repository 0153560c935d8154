/* Modules of multi-token prediction, which stand behind a model's own layers:
 *
 *     x = project [norm(E(t)); norm(h)]      h: the target's states, or the module's before
 *     y = layer(x)                           an ordinary decoder layer
 *     logits = head(norm(y))
 *
 * Module k reads the states of position j and token j + k + 1, and says what token j + k + 2
 * may be: stages of one session (algorithms/heads/carried/carry.h). The last one goes on alone.
 *
 *     DeepSeek     model.layers.{L + k}. enorm, hnorm, eh_proj, shared_head.norm, and copies of
 *                  the target's own: embed_tokens, shared_head.head
 *     GGUF         blk.{L + k}.nextn. enorm, hnorm, eh_proj, shared_head_norm, embed_tokens,
 *                  shared_head_head
 *     Qwen         mtp. pre_fc_norm_embedding, pre_fc_norm_hidden, fc, norm; mtp.layers.0.
 *     speculators  mtp_layers.0. token_layernorm, hidden_layernorm, input_proj, final_layernorm
 *
 * Without an embedding or a head of its own a module has the target's. */
#ifndef COP_ALGORITHMS_MTP_H
#define COP_ALGORITHMS_MTP_H

#include "algorithms/heads/carried/carry.h"
#include "algorithms/heads/reduced.h"
#include "core/model/checkpoint.h"

struct cop_mtp_module {
    struct cop_block *block;
    const struct cop_tensor *token_norm, *state_norm, *project, *norm;
    const struct cop_tensor *embedding, *head; /* or NULL */
    /* On the target's device. */
    struct cop_weight *project_weight, *head_weight;
    float *token_gain, *state_gain, *gain;
    struct cop_matrix table; /* data NULL: the target's */
};

struct cop_mtp {
    struct cop_checkpoint files;
    int32_t n_modules;
    int32_t width, vocab; /* of the target that they were made for */
    int32_t n_layers;     /* of that target, which they stand behind; 0: the names do not say */
    struct cop_mtp_module modules[COP_CARRY_STAGES];

    struct cop_reduced drafted;     /* all of vocab, or what an option leaves of it */
    const struct cop_model *target; /* borrowed; NULL until loaded */
    float *scratch;                 /* grown by need */
    size_t scratch_capacity;
};

/* mtp_files.c. A folder, or a GGUF file; every tensor of a module is checked for name, shape
 * and format. Empty after failure. Warns where the configuration has another number of
 * modules. */
enum cop_status cop_mtp_open(struct cop_mtp *out, const char *path, struct cop_error *err);
void cop_mtp_close(struct cop_mtp *mtp); /* idempotent; before the target */

/* mtp_step.c. Onto the target's device. COP_ERR_ARGUMENT: made for another target. */
enum cop_status cop_mtp_load(struct cop_mtp *mtp, const struct cop_model *target,
                             const struct cop_vocabulary_option *vocabulary,
                             struct cop_error *err);
/* As in struct cop_carry. */
enum cop_status cop_mtp_step(struct cop_mtp *mtp, int32_t module, struct cop_cache *cache,
                             const struct cop_pair_rows *rows, struct cop_error *err);
enum cop_status cop_mtp_logits(struct cop_mtp *mtp, int32_t module, const float *y, int32_t n,
                               float *logits, struct cop_error *err);

#endif
