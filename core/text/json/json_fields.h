/* Typed fields of JSON files, with messages that name file and field; private to core/text. */
#ifndef COP_TEXT_JSON_FIELDS_H
#define COP_TEXT_JSON_FIELDS_H

#include "core/base/json_tree.h"
#include "core/text/tokenizer.h"

/* Where a reader is: its messages begin with "file: field: ". */
struct cop_json_place {
    const char *file;
    const char *field;
    const struct cop_json_tree *tree;
    struct cop_error *err;
};

enum cop_status cop_json_refuse(const struct cop_json_place *place, enum cop_status code,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts file and field in front of a message. */
enum cop_status cop_json_relay(const struct cop_json_place *place,
                               const struct cop_error *inner);

/* Members of an object. Absent or null ones leave *value alone; wrong types are refused. */
enum cop_status cop_json_bool(const struct cop_json_place *place,
                              const struct cop_json_node *node, const char *key, bool *value);
enum cop_status cop_json_string(const struct cop_json_place *place,
                                const struct cop_json_node *node, const char *key,
                                struct cop_string *value);
enum cop_status cop_json_count(const struct cop_json_place *place,
                               const struct cop_json_node *node, const char *key, int32_t most,
                               int32_t *value);

static inline bool cop_json_is_null(const struct cop_json_node *node)
{
    return !node || node->kind == COP_JSON_NULL;
}

/* One of `names` (the last is NULL): its index. */
enum cop_status cop_json_choice(const struct cop_json_place *place,
                                const struct cop_json_node *node, const char *key,
                                const char *const *names, int32_t *index);

#endif
