/* A model that drafts: its cache follows what the target commits, and its passes give rows.
 *
 *     committed by the target   t0 t1 t2 t3 t4 t5 | t6 = root
 *     draft's cache             t0 t1 t2 t3 t4    |              lacks t5 after full acceptance
 *     first pass of a cycle     feeds t5 t6 (catching up), and nodes below them if there are
 *     further passes            feed nodes; the tree hangs from t6
 *     observe                   commits t5 t6 and the accepted nodes that were fed
 *
 * So the draft's cache holds exactly the committed tokens that it was fed, and what is missing
 * waits in `pending`, whose last token is the root. Ids in pending are the draft's own: with a
 * map between two vocabularies a target token may be several of them, or none. One pass serves
 * many sequences. Past the end of the draft's own context nothing is drafted, nor where its
 * cache was given too few pages: the sequence that finds none gives its own back. */
#ifndef ALGORITHMS_PROPOSE_DRAFTER_H
#define ALGORITHMS_PROPOSE_DRAFTER_H

#include "algorithms/heads/pass.h"
#include "algorithms/propose/glossary.h"
#include "algorithms/propose/subset.h"
#include "core/cycle/contract/proposer.h"

enum { COP_DRAFTER_CATCH_UP = 64 }; /* more pending tokens than this are prefilled apart */

/* Which vocabulary a draft may have: choices of options in this order. */
#define COP_DRAFT_VOCABULARIES "same|auto|intersection|text|string"
enum cop_draft_vocabulary {
    COP_DRAFT_SAME,
    COP_DRAFT_AUTO, /* the same, else the intersection */
    COP_DRAFT_INTERSECTION,
    COP_DRAFT_TEXT,
    COP_DRAFT_STRING
};

struct cop_drafter_context {
    struct cop_ids pending; /* the draft's ids that the cache lacks; the last ends the root */
    int32_t length;         /* committed tokens, root included, in the draft's ids */
    bool is_off;            /* past the end of the draft's context */
    int32_t *slot_of;       /* [capacity + 1] node as drafted -> speculative slot; -1: not fed;
                               of node 0: the last of pending */
};

struct cop_drafter {
    struct cop_model *model;
    struct cop_cache *cache;
    struct cop_glossary map;   /* empty: the two vocabularies are one */
    struct cop_subset reduced; /* of one vocabulary, what is drafted */
    struct cop_weight *head;   /* the LM head's rows for that; NULL: all */
    int32_t vocab_size;        /* of the target, and so of the rows */
    int32_t draft_vocab;       /* of the model */
    int32_t stride;            /* from row to row */
    int32_t positions;         /* the model's context */
    int32_t n_sequences, capacity;
    const atomic_bool *cancel;
    struct cop_drafter_context *contexts; /* [n_sequences] */
    int32_t *path;                        /* [capacity + 1] scratch */
    struct cop_ids spelt;                 /* scratch */
    struct cop_floats own;                /* rows over the draft's ids, or the reduced ones */
    /* One pass; grown by need. */
    cop_token *tokens; /* owns the block that the other three lie in */
    int32_t *sequences, *parents;
    bool *wanted;
    int32_t n, n_wanted, pass_capacity;
    int32_t n_pages; /* that the pass takes */
};

/* For nodes numbered 0 to capacity and as many speculative slots; checks the vocabularies.
 * Closed also after failure. */
enum cop_status cop_drafter_open(struct cop_drafter *drafter, struct cop_model *model,
                                 enum cop_draft_vocabulary vocabulary,
                                 const struct cop_proposer_env *env, int32_t capacity,
                                 struct cop_error *err);
/* Drafts of a reduced vocabulary, once opened with the target's. */
enum cop_status cop_drafter_reduce(struct cop_drafter *drafter,
                                   const struct cop_vocabulary_option *option,
                                   const struct cop_proposer_env *env, struct cop_error *err);
void cop_drafter_close(struct cop_drafter *drafter);

/* A text of n tokens begins: the draft reads it in its own ids, all but the last. */
enum cop_status cop_drafter_begin(struct cop_drafter *drafter, int32_t sequence,
                                  const cop_token *ids, int32_t n, struct cop_error *err);
/* numbers: under which number a node, as it was drafted, was fed; NULL: its own. */
enum cop_status cop_drafter_observe(struct cop_drafter *drafter,
                                    const struct cop_observed *observed, const int32_t *numbers,
                                    struct cop_error *err);
void cop_drafter_end(struct cop_drafter *drafter, int32_t sequence);

/* Drafts nothing more in the sequence. */
void cop_drafter_switch_off(struct cop_drafter *drafter, int32_t sequence);
/* Nothing more is drafted in the sequence: it has outgrown the draft's context. */
bool cop_drafter_is_over(const struct cop_drafter *drafter, int32_t sequence);

/* drafter_pass.c. Whether there are pages for `count` tokens more of a sequence, besides those
 * of the pass so far; these are taken then. */
bool cop_drafter_take_pages(struct cop_drafter *drafter, int32_t sequence, int32_t count);
/* An empty pass with room for n_tokens besides what n_sequences may have to
 * catch up. */
enum cop_status cop_drafter_start(struct cop_drafter *drafter, int32_t n_tokens,
                                  int32_t n_sequences, struct cop_error *err);
/* The root, and before it what the draft has not seen yet; *is_fed: there is a row to come.
 * Once a cycle, before the nodes. */
enum cop_status cop_drafter_feed_root(struct cop_drafter *drafter, int32_t sequence,
                                      bool *is_fed, struct cop_error *err);
/* A node at `depth` whose parent was fed; false where the draft knows no such token, parent or
 * position. Its row is wanted. */
bool cop_drafter_feed_node(struct cop_drafter *drafter, int32_t sequence, int32_t node,
                           int32_t parent, int32_t depth, cop_token token);
/* The same with an id of the draft's own. */
bool cop_drafter_feed_own(struct cop_drafter *drafter, int32_t sequence, int32_t node,
                          int32_t parent, int32_t depth, cop_token own, bool is_wanted);
/* No node but the root is fed any more: what was drafted below it is not what the tree holds.
 */
void cop_drafter_forget_nodes(struct cop_drafter *drafter, int32_t sequence);
/* Rows of the wanted tokens, in the order in which they were fed, `stride` apart, over the
 * target's ids. */
enum cop_status cop_drafter_run(struct cop_drafter *drafter, struct cop_floats *rows,
                                struct cop_error *err);
/* Over the draft's ids, draft_vocab apart, in `own`. */
enum cop_status cop_drafter_run_own(struct cop_drafter *drafter, struct cop_error *err);
/* frontier->rows[i] from one of those rows; what is wrong with it goes where the frontier says.
 */
enum cop_status cop_drafter_hand_out(const struct cop_drafter *drafter,
                                     struct cop_frontier *frontier, int32_t i, float *logits,
                                     const struct cop_sampling *sampling,
                                     struct cop_row_arena *arena, struct cop_error *err);

#endif
