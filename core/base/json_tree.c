/* Building the tree from events. Open containers are a stack of places, as deep as the reader
 * allows. */
#include "core/base/json_tree.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NODES ((size_t)1 << 20)

void cop_json_tree_release(struct cop_json_tree *tree)
{
    free(tree->nodes);
    free(tree->text);
    memset(tree, 0, sizeof *tree);
}

/* Room for one more node. */
static enum cop_status grow(struct cop_json_tree *tree, struct cop_error *err)
{
    if (tree->n_nodes < tree->capacity) {
        return COP_OK;
    }
    if (tree->n_nodes == MOST_NODES) {
        return cop_fail(err, COP_ERR_LIMIT, "JSON with more than %zu values", MOST_NODES);
    }
    size_t capacity = tree->capacity ? 2 * tree->capacity : 64;
    struct cop_json_node *nodes = realloc(tree->nodes, capacity * sizeof *nodes);
    if (!nodes) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu JSON values", capacity);
    }
    tree->nodes = nodes;
    tree->capacity = capacity;
    return COP_OK;
}

/* Strings are never longer than they are in the file, so all of them fit. */
static const char *keep(struct cop_json_tree *tree, const struct cop_json_event *event)
{
    char *kept = tree->text + tree->n_text;
    if (event->length > 0) {
        memcpy(kept, event->bytes, event->length);
    }
    tree->n_text += event->length;
    return kept;
}

struct building {
    struct cop_json_tree *tree;
    int32_t open[COP_JSON_DEPTH]; /* places of the containers around what comes */
    int32_t depth;
    const char *key; /* of the value that comes */
    size_t key_length;
};

static enum cop_status add(struct building *at, const struct cop_json_event *event,
                           struct cop_error *err)
{
    struct cop_json_tree *tree = at->tree;
    enum cop_status status = grow(tree, err);
    if (status != COP_OK) {
        return status;
    }
    int32_t place = (int32_t)tree->n_nodes++;
    struct cop_json_node *node = &tree->nodes[place];
    *node = (struct cop_json_node){.kind = event->kind,
                                   .first = -1,
                                   .last = -1,
                                   .next = -1,
                                   .integer = event->integer,
                                   .number = event->number,
                                   .key = at->key,
                                   .key_length = at->key_length};
    at->key = NULL;
    at->key_length = 0;
    if (event->kind == COP_JSON_STRING) {
        node->text = keep(tree, event);
        node->length = event->length;
    }
    if (at->depth > 0) {
        struct cop_json_node *parent = &tree->nodes[at->open[at->depth - 1]];
        if (parent->last >= 0) {
            tree->nodes[parent->last].next = place;
        } else {
            parent->first = place;
        }
        parent->last = place;
    }
    if (event->kind == COP_JSON_LIST || event->kind == COP_JSON_OBJECT) {
        at->open[at->depth++] = place;
    }
    return COP_OK;
}

enum cop_status cop_json_tree_read(struct cop_json_tree *tree, const char *bytes, size_t length,
                                   struct cop_error *err)
{
    memset(tree, 0, sizeof *tree);
    struct building at = {.tree = tree};
    struct cop_json json;
    struct cop_json_event event;
    tree->text = malloc(length + 1);
    enum cop_status status =
        tree->text ? COP_OK
                   : cop_fail(err, COP_ERR_MEMORY, "no memory for %zu bytes of JSON", length);
    cop_json_start(&json, bytes, length);
    while (status == COP_OK) {
        status = cop_json_next(&json, &event, err);
        if (status != COP_OK || event.kind == COP_JSON_END) {
            break;
        }
        if (event.kind == COP_JSON_KEY) {
            at.key = keep(tree, &event);
            at.key_length = event.length;
        } else if (event.kind == COP_JSON_LIST_END || event.kind == COP_JSON_OBJECT_END) {
            at.depth--;
        } else {
            status = add(&at, &event, err);
        }
    }
    cop_json_release(&json);
    if (status != COP_OK) {
        cop_json_tree_release(tree);
    }
    return status;
}

/* ---- Looking around --------------------------------------------------------------------- */

const struct cop_json_node *cop_json_root(const struct cop_json_tree *tree)
{
    return tree->n_nodes > 0 ? &tree->nodes[0] : NULL;
}

const struct cop_json_node *cop_json_first(const struct cop_json_tree *tree,
                                           const struct cop_json_node *node)
{
    return node && node->first >= 0 ? &tree->nodes[node->first] : NULL;
}

const struct cop_json_node *cop_json_after(const struct cop_json_tree *tree,
                                           const struct cop_json_node *node)
{
    return node && node->next >= 0 ? &tree->nodes[node->next] : NULL;
}

const struct cop_json_node *cop_json_get(const struct cop_json_tree *tree,
                                         const struct cop_json_node *node, const char *key)
{
    const struct cop_json_node *found = NULL;
    size_t length = strlen(key);
    if (!node || node->kind != COP_JSON_OBJECT) {
        return NULL;
    }
    for (const struct cop_json_node *member = cop_json_first(tree, node); member;
         member = cop_json_after(tree, member)) {
        if (member->key_length == length && memcmp(member->key, key, length) == 0) {
            found = member;
        }
    }
    return found;
}

bool cop_json_is(const struct cop_json_node *node, const char *string)
{
    size_t length = strlen(string);
    return node && node->kind == COP_JSON_STRING && node->length == length &&
           memcmp(node->text, string, length) == 0;
}
