/* Heads that draft some ids of the target only: the map in their files, and whether a head and
 * a target mean the same ids. */
#ifndef COP_ALGORITHMS_REDUCED_H
#define COP_ALGORITHMS_REDUCED_H

#include "algorithms/propose/subset.h"
#include "core/model/checkpoint.h"
#include "core/model/model.h"
#include "core/model/source.h"

struct cop_reduced {
    int32_t vocab;  /* of the target that the head was made for */
    int32_t n_ids;  /* rows of its LM head: all of vocab, or those of ids */
    cop_token *ids; /* [n_ids] ascending, to be freed; NULL: all */
    int32_t *rows;  /* [n_ids] of the LM head that are read; NULL: all of them */
    const struct cop_tensor *d2t, *t2d; /* NULL: the files have none */
};

/* vocab and n_ids are set. "d2t" holds distances in checkpoints, the ids themselves in GGUF
 * files; "t2d" marks the same ids. */
enum cop_status cop_reduced_read(struct cop_reduced *out,
                                 const struct cop_weights_source *source,
                                 struct cop_error *err);

/* COP_ERR_ARGUMENT: made for another vocabulary; `name` begins the message. Ids that no text
 * has are padding, and may be more or fewer: of an LM head of its own (has_head) that differs
 * so, the rows that the target has too are left. */
enum cop_status cop_reduced_fit(struct cop_reduced *reduced, const char *name, bool has_head,
                                const struct cop_model *target, struct cop_error *err);

/* Leaves of a head that fits what a reduced vocabulary holds. COP_ERR_ARGUMENT: nothing. */
enum cop_status cop_reduced_narrow(struct cop_reduced *reduced, const char *name,
                                   const struct cop_vocabulary_option *option,
                                   const struct cop_model *target, struct cop_error *err);
void cop_reduced_release(struct cop_reduced *reduced); /* idempotent */

/* An output layer over its ids, on the target's device: of the files, or (NULL) those rows of
 * the target's LM head; *out stays NULL where that is all of it. */
enum cop_status cop_reduced_weight(const struct cop_reduced *reduced,
                                   const struct cop_checkpoint *files,
                                   const struct cop_tensor *tensor,
                                   const struct cop_model *target, struct cop_weight **out,
                                   struct cop_error *err);

/* Logits of the head's own ids, [n, n_ids], to those of the target [n, vocab]; the others stay
 * as they are. */
void cop_reduced_place(const struct cop_reduced *reduced, const float *own, int32_t n,
                       int32_t vocab, float *logits);

#endif
