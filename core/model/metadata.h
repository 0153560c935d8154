/* The keys of a GGUF file while they are read: private to core/model. */
#ifndef COP_MODEL_METADATA_H
#define COP_MODEL_METADATA_H

#include "core/model/state.h"

struct cop_metadata {
    struct cop_model *model;
    struct cop_error *err;
    char key[128]; /* the last one that was asked for */
};

/* metadata.c. A key of the model's architecture by its end, and the file's name. */
const char *cop_metadata_key(struct cop_metadata *in, const char *suffix);
const char *cop_metadata_file(const struct cop_metadata *in);
/* An integer up to `max`, 0 only where that is the fallback (-1: the key must be there); a
 * number above 0 (fallback NULL: the key must be there). */
enum cop_status cop_metadata_int(struct cop_metadata *in, const char *suffix, int64_t max,
                                 int64_t fallback, int32_t *out);
enum cop_status cop_metadata_positive(struct cop_metadata *in, const char *suffix,
                                      const double *fallback, double max, double *out);

/* metadata_positions.c: how positions turn, and which layers see a window of keys. */
enum cop_status cop_metadata_rope(struct cop_metadata *in);
enum cop_status cop_metadata_windows(struct cop_metadata *in);

#endif
