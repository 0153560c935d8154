/* Growing and shrinking the counting suffix tree. */
#include "algorithms/history/suffix_tree.h"
#include "algorithms/history/room.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

/* ---- The table of children -------------------------------------------------------------- */

static size_t home_of(const struct cop_suffix_tree *tree, int32_t parent, cop_token token)
{
    uint64_t key = (uint64_t)(uint32_t)parent << 32 | (uint32_t)token;
    return (size_t)cop_hash_u64(key, cop_hash_seed()) & (tree->n_slots - 1);
}

static size_t find_slot(const struct cop_suffix_tree *tree, int32_t parent, cop_token token)
{
    size_t at = home_of(tree, parent, token);
    while (tree->slots[at] >= 0) {
        const struct cop_suffix_node *node = &tree->nodes[tree->slots[at]];
        if (node->parent == parent && node->token == token) {
            break;
        }
        at = (at + 1) & (tree->n_slots - 1);
    }
    return at;
}

static int32_t find_child(const struct cop_suffix_tree *tree, int32_t parent, cop_token token)
{
    return tree->slots[find_slot(tree, parent, token)];
}

static void enter(struct cop_suffix_tree *tree, int32_t node)
{
    tree->slots[find_slot(tree, tree->nodes[node].parent, tree->nodes[node].token)] = node;
}

/* Entries behind the gap that a probe could no longer reach move into it. */
static void leave(struct cop_suffix_tree *tree, int32_t node)
{
    size_t mask = tree->n_slots - 1;
    size_t gap = find_slot(tree, tree->nodes[node].parent, tree->nodes[node].token);
    tree->slots[gap] = -1;
    for (size_t at = (gap + 1) & mask; tree->slots[at] >= 0; at = (at + 1) & mask) {
        const struct cop_suffix_node *other = &tree->nodes[tree->slots[at]];
        size_t home = home_of(tree, other->parent, other->token);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            tree->slots[gap] = tree->slots[at];
            tree->slots[at] = -1;
            gap = at;
        }
    }
}

static bool grow_table(struct cop_suffix_tree *tree, size_t n)
{
    int32_t *slots = malloc(n * sizeof *slots), *old = tree->slots;
    size_t n_old = tree->n_slots;
    if (!slots) {
        return false;
    }
    memset(slots, -1, n * sizeof *slots);
    tree->slots = slots;
    tree->n_slots = n;
    for (size_t i = 0; i < n_old; i++) {
        if (old[i] >= 0) {
            enter(tree, old[i]);
        }
    }
    free(old);
    return true;
}

/* Room for `more` nodes, so that a step cannot fail half-way. */
static bool reserve(struct cop_suffix_tree *tree, int32_t more)
{
    if (tree->n_nodes + more > tree->node_capacity) {
        int32_t capacity = tree->node_capacity + tree->node_capacity / 2 + more;
        struct cop_suffix_node *nodes =
            capacity > 0 ? realloc(tree->nodes, (size_t)capacity * sizeof *nodes) : NULL;
        if (!nodes) {
            return false;
        }
        tree->nodes = nodes;
        tree->node_capacity = capacity;
    }
    size_t n_slots = cop_room_slots((size_t)tree->n_used + (size_t)more, tree->n_slots);
    return n_slots == tree->n_slots || grow_table(tree, n_slots);
}

/* ---- Siblings ---------------------------------------------------------------------------- */

static int32_t *list_of(struct cop_suffix_tree *tree, int32_t node)
{
    struct cop_suffix_node *parent = &tree->nodes[tree->nodes[node].parent];
    return tree->nodes[node].is_heavy ? &parent->heavy : &parent->light;
}

static void link_child(struct cop_suffix_tree *tree, int32_t node)
{
    int32_t *first = list_of(tree, node);
    tree->nodes[node].previous = -1;
    tree->nodes[node].next = *first;
    if (*first >= 0) {
        tree->nodes[*first].previous = node;
    }
    *first = node;
}

static void unlink_child(struct cop_suffix_tree *tree, int32_t node)
{
    const struct cop_suffix_node *gone = &tree->nodes[node];
    if (gone->previous >= 0) {
        tree->nodes[gone->previous].next = gone->next;
    } else {
        *list_of(tree, node) = gone->next;
    }
    if (gone->next >= 0) {
        tree->nodes[gone->next].previous = gone->previous;
    }
}

static void set_heavy(struct cop_suffix_tree *tree, int32_t node, bool is_heavy)
{
    unlink_child(tree, node);
    tree->nodes[node].is_heavy = is_heavy;
    link_child(tree, node);
}

/* Suffixes that passed the whole label. */
static int32_t passed(const struct cop_suffix_node *node)
{
    return node->count - node->n_waiting;
}

static bool weighs(const struct cop_suffix_tree *tree, int32_t node)
{
    int32_t whole = passed(&tree->nodes[tree->nodes[node].parent]);
    return (double)tree->nodes[node].count >= tree->share * (double)whole;
}

/* ---- Nodes ------------------------------------------------------------------------------- */

/* From reserved room. */
static int32_t new_node(struct cop_suffix_tree *tree, const struct cop_suffix_node *what)
{
    int32_t node = tree->free;
    if (node >= 0) {
        tree->free = tree->nodes[node].next;
    } else {
        node = tree->n_nodes++;
    }
    tree->nodes[node] = *what;
    tree->n_used++;
    return node;
}

static void free_node(struct cop_suffix_tree *tree, int32_t node)
{
    tree->nodes[node].next = tree->free;
    tree->nodes[node].count = 0;
    tree->free = node;
    tree->n_used--;
}

static int32_t new_leaf(struct cop_suffix_tree *tree, int32_t parent, int32_t start,
                        int32_t depth)
{
    struct cop_suffix_node what = {.parent = parent,
                                   .start = start,
                                   .length = tree->max_depth - depth,
                                   .token = tree->text.items[start],
                                   .count = 1,
                                   .birth = tree->n_born++,
                                   .heavy = -1,
                                   .light = -1};
    int32_t leaf = new_node(tree, &what);
    tree->nodes[leaf].is_heavy = weighs(tree, leaf);
    link_child(tree, leaf);
    enter(tree, leaf);
    return leaf;
}

/* Cursors on a node's label that end before `offset`. */
static int32_t count_before(const struct cop_suffix_tree *tree, int32_t node, int32_t offset)
{
    int32_t n = 0;
    for (int32_t i = 0; tree->nodes[node].n_waiting > 0 && i < tree->n_cursors; i++) {
        n += tree->cursors[i].node == node && tree->cursors[i].offset < offset;
    }
    return n;
}

/* The cursors on the label of `lower` from number `first` on when `upper` takes its first
 * `offset` tokens; counts those that end before and at `offset`. */
static void share_cursors(struct cop_suffix_tree *tree, int32_t first, int32_t lower,
                          int32_t upper, int32_t offset, int32_t *before, int32_t *at)
{
    *before = *at = 0;
    for (int32_t i = first; i < tree->n_cursors; i++) {
        struct cop_suffix_place *cursor = &tree->cursors[i];
        if (cursor->node != lower) {
            continue;
        }
        *before += cursor->offset < offset;
        *at += cursor->offset == offset;
        cursor->node = cursor->offset <= offset ? upper : lower;
        cursor->offset -= cursor->offset <= offset ? 0 : offset;
    }
}

/* `upper`, a copy of `lower`, stands where that stood: in the table and among its siblings. */
static void stand_in(struct cop_suffix_tree *tree, int32_t upper, int32_t lower)
{
    const struct cop_suffix_node *node = &tree->nodes[upper];
    tree->slots[find_slot(tree, node->parent, node->token)] = upper;
    if (node->previous >= 0) {
        tree->nodes[node->previous].next = upper;
    } else {
        *list_of(tree, lower) = upper;
    }
    if (node->next >= 0) {
        tree->nodes[node->next].previous = upper;
    }
}

/* Divides a label after `offset` tokens; a suffix that was read up to there ends at text[end),
 * and so may those of the cursors from number `first` on. The upper part is a new node. */
static int32_t split(struct cop_suffix_tree *tree, int32_t first, int32_t lower, int32_t offset,
                     int32_t end)
{
    int32_t before, at;
    int32_t upper = new_node(tree, &tree->nodes[lower]);
    stand_in(tree, upper, lower);
    share_cursors(tree, first, lower, upper, offset, &before, &at);
    struct cop_suffix_node *node = &tree->nodes[upper];
    node->start = end - offset;
    node->length = offset;
    node->n_waiting = before;
    node->heavy = lower;
    node->light = -1;
    node = &tree->nodes[lower];
    node->parent = upper;
    node->start += offset;
    node->length -= offset;
    node->token = tree->text.items[node->start];
    node->count -= before + at;
    node->n_waiting -= before + at;
    node->is_heavy = true;
    node->next = node->previous = -1;
    enter(tree, lower);
    return upper;
}

/* ---- Life -------------------------------------------------------------------------------- */

enum cop_status cop_suffix_tree_init(struct cop_suffix_tree *tree, int32_t max_depth,
                                     double share, struct cop_error *err)
{
    *tree = (struct cop_suffix_tree){.max_depth = max_depth, .share = share, .free = -1};
    tree->cursors = malloc((size_t)max_depth * sizeof *tree->cursors);
    tree->leaves = malloc((size_t)max_depth * sizeof *tree->leaves);
    if (!tree->cursors || !tree->leaves || !reserve(tree, 64)) {
        cop_suffix_tree_release(tree);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix tree");
    }
    struct cop_suffix_node root = {.parent = -1, .token = -1, .heavy = -1, .light = -1};
    (void)new_node(tree, &root);
    return COP_OK;
}

enum cop_status cop_suffix_tree_clear(struct cop_suffix_tree *tree, int32_t n,
                                      struct cop_error *err)
{
    struct cop_suffix_node root = tree->nodes[0];
    tree->text.count = 0;
    tree->n_texts = tree->first_start = tree->n_cursors = 0;
    tree->n_nodes = tree->n_used = tree->n_born = 0;
    tree->free = -1;
    tree->version++;
    memset(tree->slots, -1, tree->n_slots * sizeof *tree->slots);
    root.count = 0;
    root.heavy = root.light = -1;
    root.is_shrunk = false;
    (void)new_node(tree, &root);
    enum cop_status status = cop_room_ids(&tree->text, n, err);
    int32_t most = n < COP_SUFFIX_LIMIT ? 2 * n : 2 * COP_SUFFIX_LIMIT;
    return status != COP_OK || reserve(tree, most + 2 * tree->max_depth)
               ? status
               : cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix tree");
}

void cop_suffix_tree_release(struct cop_suffix_tree *tree)
{
    cop_ids_release(&tree->text);
    free(tree->ends);
    free(tree->nodes);
    free(tree->slots);
    free(tree->cursors);
    free(tree->leaves);
    *tree = (struct cop_suffix_tree){.free = -1};
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* Moves a cursor on by the text's last token, at `end` - 1. False: the suffix has become a
 * leaf.
 */
static bool step(struct cop_suffix_tree *tree, int32_t i, int32_t end)
{
    struct cop_suffix_place *cursor = &tree->cursors[i];
    cop_token token = tree->text.items[end - 1];
    struct cop_suffix_node *node = &tree->nodes[cursor->node];
    if (cursor->offset == node->length) {
        int32_t child = find_child(tree, cursor->node, token);
        if (child < 0) {
            tree->leaves[(end - 1 - cursor->depth) % tree->max_depth] =
                new_leaf(tree, cursor->node, end - 1, cursor->depth);
            return false;
        }
        node = &tree->nodes[child];
        node->count++;
        node->n_waiting++;
        cursor->node = child;
        cursor->offset = 0;
        if (!node->is_heavy && weighs(tree, child)) {
            set_heavy(tree, child, true);
        }
    } else if (tree->text.items[node->start + cursor->offset] != token) {
        int32_t upper = split(tree, i, cursor->node, cursor->offset, end - 1);
        tree->leaves[(end - 1 - cursor->depth) % tree->max_depth] =
            new_leaf(tree, upper, end - 1, cursor->depth);
        return false;
    }
    cursor->offset++;
    cursor->depth++;
    if (cursor->offset == node->length) {
        node->n_waiting--;
        node->start = end - node->length;
    }
    return true;
}

/* Asks for the memory that the steps of all cursors are going to read. When a long match ends,
 * each of its suffixes becomes a leaf somewhere else; one after another they would wait for it.
 */
static void fetch(const struct cop_suffix_tree *tree, cop_token token)
{
    for (int32_t i = 0; i < tree->n_cursors; i++) {
        const struct cop_suffix_place *cursor = &tree->cursors[i];
        const struct cop_suffix_node *node = &tree->nodes[cursor->node];
        if (cursor->offset == node->length) {
            __builtin_prefetch(&tree->slots[home_of(tree, cursor->node, token)]);
            __builtin_prefetch(&tree->nodes[node->light < 0 ? 0 : node->light]);
        } else if (tree->text.items[node->start + cursor->offset] != token) {
            __builtin_prefetch(&tree->slots[home_of(tree, node->parent, node->token)]);
            __builtin_prefetch(&tree->nodes[node->previous < 0 ? 0 : node->previous]);
            __builtin_prefetch(&tree->nodes[node->next < 0 ? 0 : node->next]);
        }
    }
}

enum cop_status cop_suffix_tree_push(struct cop_suffix_tree *tree, cop_token token,
                                     struct cop_error *err)
{
    if (tree->text.count >= 2 * COP_SUFFIX_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT, "a suffix tree indexes at most %d tokens",
                        COP_SUFFIX_LIMIT);
    }
    enum cop_status status = cop_ids_push(&tree->text, token, err);
    if (status == COP_OK && !reserve(tree, 2 * tree->max_depth)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix tree");
    }
    if (status != COP_OK) {
        return status;
    }
    int32_t end = (int32_t)tree->text.count;
    fetch(tree, token);
    tree->cursors[tree->n_cursors++] = COP_SUFFIX_ROOT;
    tree->nodes[0].count++;
    int32_t gone = 0; /* the longest ones become leaves first */
    while (gone < tree->n_cursors && !step(tree, gone, end)) {
        tree->cursors[gone].node = -1;
        gone++;
    }
    for (int32_t i = gone + 1; i < tree->n_cursors; i++) {
        (void)step(tree, i, end);
    }
    if (gone < tree->n_cursors && tree->cursors[gone].depth == tree->max_depth) {
        gone++;
    }
    tree->n_cursors -= gone;
    memmove(tree->cursors, tree->cursors + gone,
            (size_t)tree->n_cursors * sizeof *tree->cursors);
    return COP_OK;
}

static enum cop_status note_end(struct cop_suffix_tree *tree, struct cop_error *err)
{
    if (tree->n_texts == tree->text_capacity) {
        int32_t capacity = 2 * tree->text_capacity + 16;
        int32_t *ends = realloc(tree->ends, (size_t)capacity * sizeof *ends);
        if (!ends) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix tree");
        }
        tree->ends = ends;
        tree->text_capacity = capacity;
    }
    tree->ends[tree->n_texts++] = (int32_t)tree->text.count;
    return COP_OK;
}

enum cop_status cop_suffix_tree_finish(struct cop_suffix_tree *tree, struct cop_error *err)
{
    int32_t end = (int32_t)tree->text.count;
    int32_t begin = tree->n_texts > 0 ? tree->ends[tree->n_texts - 1] : tree->first_start;
    int32_t oldest = end - tree->max_depth + 1 > begin ? end - tree->max_depth + 1 : begin;
    for (int32_t start = oldest; start < end - tree->n_cursors; start++) {
        struct cop_suffix_node *leaf = &tree->nodes[tree->leaves[start % tree->max_depth]];
        if (leaf->start + leaf->length > end) {
            leaf->length = end - leaf->start;
        }
    }
    if (!reserve(tree, tree->max_depth)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix tree");
    }
    for (int32_t i = 0; i < tree->n_cursors; i++) {
        const struct cop_suffix_place *cursor = &tree->cursors[i];
        if (cursor->offset < tree->nodes[cursor->node].length) {
            (void)split(tree, 0, cursor->node, cursor->offset, end);
        }
    }
    tree->n_cursors = 0;
    tree->version++;
    return note_end(tree, err);
}

/* ---- Forgetting -------------------------------------------------------------------------- */

/* A node whose suffixes all go on into one child is no node: the child takes its place. */
static void fuse(struct cop_suffix_tree *tree, int32_t node)
{
    struct cop_suffix_node *upper = &tree->nodes[node];
    int32_t child = upper->heavy >= 0 ? upper->heavy : upper->light;
    if (node == 0 || child < 0 || tree->nodes[child].count != upper->count) {
        return;
    }
    struct cop_suffix_node *lower = &tree->nodes[child];
    leave(tree, child);
    leave(tree, node);
    unlink_child(tree, node);
    lower->parent = upper->parent;
    lower->token = upper->token;
    lower->start -= upper->length;
    lower->length += upper->length;
    lower->birth = upper->birth;
    lower->is_heavy = upper->is_heavy;
    link_child(tree, child);
    enter(tree, child);
    free_node(tree, node);
}

/* One suffix: tokens [start, end). */
static void forget_suffix(struct cop_suffix_tree *tree, int32_t start, int32_t end)
{
    int32_t node = 0;
    tree->nodes[0].count--;
    while (start < end) {
        int32_t child = find_child(tree, node, tree->text.items[start]);
        start += tree->nodes[child].length;
        tree->nodes[child].count--;
        tree->nodes[node].is_shrunk = true;
        node = child;
    }
    while (node > 0 && tree->nodes[node].count == 0) {
        int32_t parent = tree->nodes[node].parent;
        leave(tree, node);
        unlink_child(tree, node);
        free_node(tree, node);
        node = parent;
    }
    tree->nodes[node].is_shrunk = true;
    fuse(tree, node);
}

/* Drops the text before first_start once it is half of everything. */
static void compact(struct cop_suffix_tree *tree)
{
    int32_t gone = tree->first_start;
    if (gone < 1024 || 2 * (size_t)gone < tree->text.count) {
        return;
    }
    tree->text.count -= (size_t)gone;
    memmove(tree->text.items, tree->text.items + gone,
            tree->text.count * sizeof *tree->text.items);
    for (int32_t i = 1; i < tree->n_nodes; i++) {
        tree->nodes[i].start -= gone;
    }
    for (int32_t i = 0; i < tree->n_texts; i++) {
        tree->ends[i] -= gone;
    }
    tree->first_start = 0;
}

void cop_suffix_tree_forget(struct cop_suffix_tree *tree)
{
    if (tree->n_texts < 1 || tree->n_cursors > 0) {
        return;
    }
    int32_t end = tree->ends[0];
    for (int32_t start = tree->first_start; start < end; start++) {
        int32_t stop = end - start < tree->max_depth ? end : start + tree->max_depth;
        forget_suffix(tree, start, stop);
    }
    tree->n_texts--;
    memmove(tree->ends, tree->ends + 1, (size_t)tree->n_texts * sizeof *tree->ends);
    tree->first_start = end;
    tree->version++;
    compact(tree);
}

/* ---- Reading ----------------------------------------------------------------------------- */

cop_token cop_suffix_inside(const struct cop_suffix_tree *tree,
                            const struct cop_suffix_place *place)
{
    const struct cop_suffix_node *node = &tree->nodes[place->node];
    size_t at = (size_t)node->start + (size_t)place->offset;
    return place->offset < node->length && at < tree->text.count ? tree->text.items[at] : -1;
}

bool cop_suffix_advance(const struct cop_suffix_tree *tree, struct cop_suffix_place *place,
                        cop_token token)
{
    if (place->offset < tree->nodes[place->node].length) {
        if (cop_suffix_inside(tree, place) != token) {
            return false;
        }
        place->offset++;
    } else {
        int32_t child = find_child(tree, place->node, token);
        if (child < 0) {
            return false;
        }
        place->node = child;
        place->offset = 1;
    }
    place->depth++;
    return true;
}

int32_t cop_suffix_count(const struct cop_suffix_tree *tree,
                         const struct cop_suffix_place *place)
{
    return tree->nodes[place->node].count - count_before(tree, place->node, place->offset);
}

/* Brings the list of heavy children up to date. */
static void sort_out(struct cop_suffix_tree *tree, int32_t node)
{
    int32_t next;
    for (int32_t i = tree->nodes[node].heavy; i >= 0; i = next) {
        next = tree->nodes[i].next;
        if (!weighs(tree, i)) {
            set_heavy(tree, i, false);
        }
    }
    bool is_shrunk = tree->nodes[node].is_shrunk;
    for (int32_t i = is_shrunk ? tree->nodes[node].light : -1; i >= 0; i = next) {
        next = tree->nodes[i].next;
        if (weighs(tree, i)) {
            set_heavy(tree, i, true);
        }
    }
    tree->nodes[node].is_shrunk = false;
}

int32_t cop_suffix_children(struct cop_suffix_tree *tree, int32_t node, int32_t least,
                            int32_t *children, int32_t most)
{
    int32_t n = 0;
    sort_out(tree, node);
    for (int32_t i = tree->nodes[node].heavy; i >= 0; i = tree->nodes[i].next) {
        const struct cop_suffix_node *child = &tree->nodes[i];
        if (child->count < least) {
            continue;
        }
        int32_t place = n;
        for (; place > 0; place--) {
            const struct cop_suffix_node *other = &tree->nodes[children[place - 1]];
            if (other->count > child->count ||
                (other->count == child->count && other->birth < child->birth)) {
                break;
            }
            if (place < most) {
                children[place] = children[place - 1];
            }
        }
        if (place < most) {
            children[place] = i;
            n += n < most;
        }
    }
    return n;
}
