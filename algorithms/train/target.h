/* Reading of a target what training needs of it. */
#ifndef COP_TRAIN_TARGET_H
#define COP_TRAIN_TARGET_H

#include "algorithms/networks/network.h"

void cop_train_target_shape(const struct cop_model *model, struct cop_train_target *target);
/* The tables are the caller's to free, also after failure. */
enum cop_status cop_train_target_read(struct cop_model *model, struct cop_train_target *target,
                                      cop_real **lm_head, cop_real **embedding,
                                      struct cop_error *err);

#endif
