/* A counting suffix tree: how often each string of up to max_depth tokens occurs in a set of
 * texts, and what followed it. Texts are added token by token and forgotten oldest first.
 *
 *     text  1 2 3 1 2 4         root ─ 1 2 (2) ─┬─ 3 1 2 4 (1)
 *                                               └─ 4 (1)                …
 *
 * An edge's label is a stretch of the text; its count is the number of suffixes that entered
 * it. In the text that is being written, a suffix that occurred before has no leaf yet: a
 * cursor stands where it ends (Ukkonen's implicit suffixes), and the strings below it in its
 * edge occur once less per cursor. So counts are exact after every token, at the price of one
 * comparison a cursor, and the cursors are what the text's own end matches.
 *
 * Every suffix that passes an edge moves the label to its own place, so a label lies in the
 * newest text that has it and forgetting the oldest text leaves no label behind.
 *
 * Children whose share of their parent reached `share` are on a list of their own, the heavy
 * ones: what a draft looks at, however many children there are.
 *
 * Memory: 48 bytes a node, 8 to 16 of table, room to grow; a token brings two nodes at most and
 * 1.5 in ordinary text: 90 to 200 bytes a token. */
#ifndef ALGORITHMS_HISTORY_SUFFIX_TREE_H
#define ALGORITHMS_HISTORY_SUFFIX_TREE_H

#include "core/text/tokenizer.h"

#define COP_SUFFIX_LIMIT (1 << 24) /* tokens of texts that are not forgotten */

struct cop_suffix_node {
    int32_t parent;
    int32_t start, length;  /* label in the text; a leaf of the text that is written reaches to
                               max_depth, the text may end before it */
    cop_token token;        /* the label's first */
    int32_t count;          /* suffixes that entered */
    int32_t n_waiting;      /* cursors within the label: entered, not yet at its end */
    int32_t birth;          /* older branches have smaller ones */
    int32_t heavy, light;   /* first children; -1: none */
    int32_t next, previous; /* siblings on the same list; free nodes: the next free one */
    bool is_heavy;
    bool is_shrunk; /* lost suffixes: light children may have become heavy */
};
/* Where a string ends: `offset` tokens into a node's label; its length is `depth`. */
struct cop_suffix_place {
    int32_t node, offset, depth;
};
struct cop_suffix_tree {
    int32_t max_depth;
    double share;
    struct cop_ids text; /* all texts, forgotten ones at its beginning until it is compacted */
    int32_t *ends;       /* [n_texts] where finished texts end; they begin at the one before */
    int32_t n_texts, text_capacity, first_start;
    struct cop_suffix_node *nodes; /* 0 is the root */
    int32_t n_nodes, node_capacity, free;
    int32_t *slots; /* numbers of nodes by parent and token, -1: free; at most half full */
    size_t n_slots;
    int32_t n_used, n_born;
    /* Of the text that is written: */
    struct cop_suffix_place *cursors; /* [n_cursors, of max_depth] longest first */
    int32_t n_cursors;
    int32_t *leaves;  /* [max_depth] by start modulo max_depth */
    uint32_t version; /* changes when places from outside become invalid */
};

enum cop_status cop_suffix_tree_init(struct cop_suffix_tree *tree, int32_t max_depth,
                                     double share, struct cop_error *err);
void cop_suffix_tree_release(struct cop_suffix_tree *tree);
/* Without a text, with room for n tokens; keeps what room it has. */
enum cop_status cop_suffix_tree_clear(struct cop_suffix_tree *tree, int32_t n,
                                      struct cop_error *err);
/* One more token of the text that is written. After a failure the tree is only good to be
 * released. */
enum cop_status cop_suffix_tree_push(struct cop_suffix_tree *tree, cop_token token,
                                     struct cop_error *err);
/* Ends the text. */
enum cop_status cop_suffix_tree_finish(struct cop_suffix_tree *tree, struct cop_error *err);
/* Forgets the oldest finished text; no text is being written. */
void cop_suffix_tree_forget(struct cop_suffix_tree *tree);

#define COP_SUFFIX_ROOT ((struct cop_suffix_place){0, 0, 0})
/* Moves a place on by one token; false where the string does not occur. */
bool cop_suffix_advance(const struct cop_suffix_tree *tree, struct cop_suffix_place *place,
                        cop_token token);
/* How often the string that ends at a place occurs. */
int32_t cop_suffix_count(const struct cop_suffix_tree *tree,
                         const struct cop_suffix_place *place);
/* The next token inside the label, or -1 at its end. */
cop_token cop_suffix_inside(const struct cop_suffix_tree *tree,
                            const struct cop_suffix_place *place);
/* The most frequent children of a node, equal ones older first, that occur `least` times or
 * more, which is at least share times the node's own count: nodes to children[0..most).
 * Returns how many. */
int32_t cop_suffix_children(struct cop_suffix_tree *tree, int32_t node, int32_t least,
                            int32_t *children, int32_t most);

#endif
