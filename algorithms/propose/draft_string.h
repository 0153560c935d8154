/* Rows over the target's tokens from a draft of any vocabulary (string-level rejection
 * sampling): psi(t) is the probability that the text which the draft writes begins with the
 * target's token t. All ways of spelling it are summed.
 *
 *     draft    " th" .5 · " t" .3 · " a" .2           then "e" .6, "o" .4
 *     target   " the" " th" " t" " a" "he"
 *     texts    " the" .5·.6    " th"+"o" .5·.4 → " th"    " t"+"e" .3·.6 → " t" …
 *     psi      " the" .30      " th" .20                  " t" .30               " a" .20
 *
 * The draft writes until its text can no longer become a longer token of the target and ends
 * with a whole character; such a beginning (" th") has to be read before it is known how it
 * goes on, and `spellings` of them are read for a row, the likeliest first. What is not read
 * counts as it stands. When a text is cut is a function of the context alone, so psi is the law
 * of what comes out, and every rule and draw is exact with it. Control tokens end a text; a
 * lone one is its partner. Padding has no share of any of its rows. */
#ifndef ALGORITHMS_PROPOSE_DRAFT_STRING_H
#define ALGORITHMS_PROPOSE_DRAFT_STRING_H

#include "algorithms/propose/drafter.h"
#include "algorithms/propose/pieces.h"

enum {
    COP_STRING_TEXTS = 16384, /* that are summed up for a row, at most */
    COP_STRING_SPELT = 16, /* own tokens of a node at most; nothing is drafted below others */
    COP_STRING_OWN = 65536 /* own tokens of one cycle */
};

/* A beginning of a target token, or the node itself: its own row says how it goes on. */
struct cop_beginning {
    int32_t row;    /* of the level that it belongs to */
    int32_t parent; /* number of what it follows */
    int32_t number;
    cop_token own;
    double probability;
    int32_t text, length; /* in `texts` */
};
struct cop_beginnings {
    struct cop_beginning *items;
    int32_t count, capacity;
};
struct cop_string_row {
    struct cop_frontier *frontier;
    int32_t i;
    int32_t rest; /* beginnings that may still be read */
    float *psi;   /* [vocab] sums, then logits */
    bool is_over; /* proposes nothing: not fed, or failed */
};
struct cop_string_writing { /* of one sequence; own tokens have numbers, that of the root is 0
                             */
    int32_t count;
    int32_t *number_of; /* [n_nodes] of a node's last own token; -1: it has none */
    int32_t *depth_of;  /* [n_own + 1] by number */
};

struct cop_draft_string {
    struct cop_drafter *drafter; /* lent; has a map */
    struct cop_sampling sampling;
    int32_t spellings, n_nodes, n_own;
    struct cop_pieces pieces;
    cop_token *first_of;                 /* [draft_vocab] of own tokens alone; -2: not known */
    struct cop_string_writing *writings; /* [n_sequences] */
    struct cop_row_arena *arena;         /* of own rows */
    struct cop_string_row *rows;         /* [n_rows] of a level */
    int32_t n_rows, rows_capacity;
    struct cop_beginnings now, next;
    struct cop_text texts, text;
};

/* How many own tokens may be fed in a cycle: the drafter's capacity. COP_ERR_ARGUMENT where
 * psi cannot be summed up, or the tree is too large; the message says what can. */
enum cop_status cop_draft_string_room(int32_t spellings, const struct cop_sampling *sampling,
                                      const struct cop_model *draft, int32_t n_nodes,
                                      int32_t *n_own, struct cop_error *err);
/* Closed also after failure, before the drafter. */
enum cop_status cop_draft_string_open(struct cop_draft_string *string,
                                      struct cop_drafter *drafter,
                                      const struct cop_sampling *sampling, int32_t spellings,
                                      int32_t n_nodes, struct cop_error *err);
void cop_draft_string_close(struct cop_draft_string *string);
/* Logits of the rows go into `level` and live as long as it does; rows into `arena`. */
enum cop_status cop_draft_string_expand(struct cop_draft_string *string,
                                        struct cop_frontier *frontiers, int32_t n_frontiers,
                                        struct cop_floats *level, struct cop_row_arena *arena,
                                        struct cop_error *err);

/* draft_string_texts.c. One more own token behind a beginning, of a probability that is that of
 * both: the text ends, or is a beginning of the next pass. */
enum cop_status cop_draft_string_write(struct cop_draft_string *string,
                                       const struct cop_beginning *begun, cop_token own,
                                       double probability, struct cop_error *err);
/* A text that is written no further counts for its first token. */
enum cop_status cop_draft_string_end(struct cop_draft_string *string,
                                     const struct cop_beginning *begun, struct cop_error *err);
enum cop_status cop_beginnings_push(struct cop_beginnings *list, struct cop_beginning begun,
                                    struct cop_error *err);

#endif
