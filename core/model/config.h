/* A config.json while it is read: private to core/model. */
#ifndef COP_MODEL_CONFIG_H
#define COP_MODEL_CONFIG_H

#include "core/base/json_tree.h"
#include "core/base/quote.h"
#include "core/model/state.h"

struct cop_config {
    struct cop_model *model;
    const char *name; /* of the file, for messages */
    struct cop_error *err;
    bool is_head; /* it describes the layer of a head */
    struct cop_json_tree tree;
    const struct cop_json_node *root;
};

/* config_fields.c. A member of `of`; NULL where it is absent or null. */
const struct cop_json_node *cop_config_get(const struct cop_config *in,
                                           const struct cop_json_node *of, const char *key);
/* What stands there, in words for a message. */
const char *cop_config_text(char buffer[COP_QUOTE_SIZE], const struct cop_json_node *node);
/* "… is X, expected …", and "… is missing". */
enum cop_status cop_config_refuse(const struct cop_config *in, const char *key,
                                  const struct cop_json_node *node, const char *expected);
enum cop_status cop_config_lacks(const struct cop_config *in, const char *key);
/* An integer of the root from 1 to `max`; a number above 0 of any object. Fallback 0: the key
 * must be there. */
enum cop_status cop_config_int(const struct cop_config *in, const char *key, int32_t max,
                               int32_t fallback, int32_t *out);
enum cop_status cop_config_positive(const struct cop_config *in, const struct cop_json_node *of,
                                    const char *key, double max, double fallback, double *out);
enum cop_status cop_config_bool(const struct cop_config *in, const struct cop_json_node *of,
                                const char *key, bool fallback, bool *out);

/* config_positions.c: which layers see a window of keys, and how positions turn. */
enum cop_status cop_config_windows(struct cop_config *in);
enum cop_status cop_config_rope(struct cop_config *in);

#endif
