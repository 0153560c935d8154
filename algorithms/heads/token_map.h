/* The tokens that heads of a reduced vocabulary draft, by the ids of their target. */
#ifndef COP_ALGORITHMS_TOKEN_MAP_H
#define COP_ALGORITHMS_TOKEN_MAP_H

#include "core/model/checkpoint.h"

struct cop_token_map {
    cop_token *ids;   /* [n] ascending; NULL: there is no map */
    int32_t *columns; /* [n] where an output layer of n rows has them */
    int32_t n;
    const struct cop_tensor *tensor; /* where it was read; NULL: there is no map */
};

/* Of a vector of 64-bit ids. COP_ERR_FORMAT: it is none, or names an id twice. */
enum cop_status cop_token_map_read(struct cop_token_map *map,
                                   const struct cop_checkpoint *files,
                                   const struct cop_tensor *tensor, struct cop_error *err);
void cop_token_map_release(struct cop_token_map *map); /* idempotent */

#endif
