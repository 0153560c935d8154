/* A JSON document kept in memory, for files that are read piece by piece: configurations.
 *
 *     {"a": [1, "x"]}   ->   OBJECT { a: LIST { INTEGER 1, STRING x } }
 *
 * The reader is that of core/base/json.h, with its limits; a document has at most a million
 * values. Of members with the same key the last counts. */
#ifndef COP_BASE_JSON_TREE_H
#define COP_BASE_JSON_TREE_H

#include "core/base/json.h"

struct cop_json_node {
    enum cop_json_kind kind; /* NULL to STRING, LIST or OBJECT */
    int32_t first, last;     /* children of a list or object: places in nodes, -1: none */
    int32_t next;            /* the sibling behind this one, or -1 */
    int64_t integer;         /* INTEGER */
    double number;           /* INTEGER, NUMBER */
    const char *key;         /* of a member: not terminated, may hold zero bytes */
    size_t key_length;
    const char *text; /* STRING; the same */
    size_t length;
};

struct cop_json_tree {
    struct cop_json_node *nodes; /* nodes[0] is the document */
    size_t n_nodes, capacity;
    char *text; /* all strings, one after another */
    size_t n_text;
};

/* After failure the tree is empty. COP_ERR_FORMAT names the byte, COP_ERR_LIMIT the limit. */
enum cop_status cop_json_tree_read(struct cop_json_tree *tree, const char *bytes, size_t length,
                                   struct cop_error *err);
void cop_json_tree_release(struct cop_json_tree *tree); /* idempotent */

/* All of them take NULL for a node and answer NULL; what is no object has no members. */
const struct cop_json_node *cop_json_root(const struct cop_json_tree *tree);
const struct cop_json_node *cop_json_first(const struct cop_json_tree *tree,
                                           const struct cop_json_node *node);
const struct cop_json_node *cop_json_after(const struct cop_json_tree *tree,
                                           const struct cop_json_node *node);
const struct cop_json_node *cop_json_get(const struct cop_json_tree *tree,
                                         const struct cop_json_node *node, const char *key);

/* Whether a node is the string. */
bool cop_json_is(const struct cop_json_node *node, const char *string);

#endif
