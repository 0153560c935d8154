/* A decoder layer between the target and its heads (Hydra++): it reads the target's states of
 * the committed text, and heads read what it makes of the last one.
 *
 *     states of the text     f0  f1  f2 …  f(root - 1)
 *     layer, its own norm    y0  y1  y2 …  y(root - 1)  ─► heads
 *
 * Its keys and values are those of true states only, each read once. It is like the target's
 * own layers: the files say nothing of its geometry. */
#ifndef COP_ALGORITHMS_PREFIX_H
#define COP_ALGORITHMS_PREFIX_H

#include "core/cycle/contract/proposer.h"
#include "core/model/checkpoint.h"

struct cop_prefix;
/* Tensors "<stem>layers.0.…" and "<stem>norm.weight". *out is NULL after failure. */
enum cop_status cop_prefix_open(struct cop_prefix **out, const struct cop_checkpoint *files,
                                const char *stem, const struct cop_proposer_env *env,
                                struct cop_error *err);
void cop_prefix_close(struct cop_prefix *prefix); /* NULL is fine; before the target */

/* Forgets the text of a sequence, what waits of it too. */
void cop_prefix_reset(struct cop_prefix *prefix, int32_t sequence);
/* States that will be read; *is_full: they should be now. */
enum cop_status cop_prefix_prefilled(struct cop_prefix *prefix,
                                     const struct cop_prefilled *chunk, struct cop_error *err);
enum cop_status cop_prefix_observe(struct cop_prefix *prefix,
                                   const struct cop_observed *observed, bool *is_full,
                                   struct cop_error *err);
/* Reads what waits of n sequences; what heads read of each goes to its place of states
 * [n_sequences, width], which stays as it is where nothing waits. */
enum cop_status cop_prefix_read(struct cop_prefix *prefix, const int32_t *sequences, int32_t n,
                                float *states, struct cop_error *err);

#endif
