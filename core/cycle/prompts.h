/* Prompts that engines of one target have read: what one of them read, the others copy.
 *
 *     place 0   ids of a prompt, keys and values of its positions, seconds that reading took
 *     place 1   …                                  the place that nobody asked for longest goes
 *
 * Keys and values of a position depend on the tokens up to it alone, bit for bit, so a copy is
 * what reading would give. Private to core/cycle. */
#ifndef COP_CYCLE_PROMPTS_H
#define COP_CYCLE_PROMPTS_H

#include "core/model/model.h"

struct cop_prompts;

/* Room for n_places prompts of the target, which is shared. *out is NULL after failure. */
enum cop_status cop_prompts_new(struct cop_prompts **out, struct cop_model *target,
                                int32_t n_places, struct cop_error *err);
struct cop_prompts *cop_prompts_share(struct cop_prompts *prompts); /* one more owner */
void cop_prompts_free(struct cop_prompts *prompts);                 /* one less; NULL is fine */

/* Copies the longest known beginning of ids[0..n) into the empty `sequence` of `cache`, a cache
 * of the target. Returns its length, 0 where nothing is known or there is no room; *seconds is
 * what reading it took. */
int32_t cop_prompts_take(struct cop_prompts *prompts, const cop_token *ids, int32_t n,
                         struct cop_cache *cache, int32_t sequence, double *seconds);

/* Remembers the n committed positions of `sequence`, whose tokens are ids[0..n), unless they
 * are known. Without memory nothing is remembered. */
void cop_prompts_keep(struct cop_prompts *prompts, const cop_token *ids, int32_t n,
                      const struct cop_cache *cache, int32_t sequence, double seconds);

#endif
