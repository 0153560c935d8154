/* Shapes of a drawn case: the engine's builders with drawn options, and one of our own whose
 * widths depend on the context and on the elder siblings, as an adaptive builder's may. */
#ifndef COP_PROOF_SHAPE_H
#define COP_PROOF_SHAPE_H

#include "core/cycle/contract/builder.h"

/* How large a case may be; a case that has too many branches is drawn again with less. */
struct cop_proof_size {
    int32_t vocab, depth, width;
};

/* A stream of numbers from a seed. */
struct cop_proof_dice {
    uint64_t seed, count;
};
uint64_t cop_proof_bits(struct cop_proof_dice *dice);
int32_t cop_proof_roll(struct cop_proof_dice *dice, int32_t low, int32_t high); /* inclusive */

struct cop_proof_wanted {
    enum cop_draw draw;
    enum cop_shape shape; /* at most */
    bool is_constant;     /* the same shape in every cycle */
};

/* A builder as wanted, into *out (prepared); `text` gets its
 * description. Builders are looked up in the registry by name; one that is not there, or cannot
 * draw so, is passed over. */
enum cop_status cop_proof_shape(struct cop_part **out, const struct cop_registry *registry,
                                const struct cop_proof_wanted *wanted,
                                const struct cop_proof_size *size, struct cop_proof_dice *dice,
                                char *text, size_t room, struct cop_error *err);

/* The builder "chain" (where all widths are 1 and it can draw so) or "widths"; and
 * "independent_paths". */
enum cop_status cop_proof_widths(struct cop_part **out, const struct cop_registry *registry,
                                 enum cop_draw draw, const int32_t *widths, int32_t depth,
                                 struct cop_error *err);
enum cop_status cop_proof_merged(struct cop_part **out, const struct cop_registry *registry,
                                 int32_t count, int32_t depth, struct cop_error *err);

#endif
