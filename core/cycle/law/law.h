/* The proof of losslessness: the exact law of one cycle, by enumerating every random branch of
 * drafting and verifying.
 *
 * The engine's own builder and verify function are run again and again from scratch; a draws
 * object replays a recorded prefix of answers and extends it with the first possible one, and
 * the driver advances the record like an odometer. Every run is a branch with a probability;
 * together they are the law of (accepted tokens, last token). Continued from the target, that
 * law must be the target's own: total_variation is their distance over sequences of the tree's
 * depth + 1 tokens (times horizon).
 *
 * A rule that carries state from cycle to cycle may owe the target something when a cycle ends,
 * so its output is not continued: as many cycles are run as a branch needs for max(horizon,
 * depth + 1) tokens, and total_variation is over that many first tokens. Where that passes the
 * limit of branches, over the first `horizon` tokens. law.length says how many it were. A given
 * tree is one cycle's, and continued from the target in any case. */
#ifndef COP_CYCLE_LAW_H
#define COP_CYCLE_LAW_H

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/plug.h"
#include "core/cycle/contract/rule.h"

/* A row given the tokens below the root: out[0..vocab), non-negative, sums to 1. `drafter` is
 * the sibling's number when several drafters propose (0 else). */
typedef enum cop_status (*cop_row_function)(void *context, const cop_token *prefix,
                                            int32_t length, int32_t drafter, double *out,
                                            struct cop_error *err);

struct cop_law_case {
    const struct cop_part *rule;
    const struct cop_part *builder; /* or NULL with a given tree */
    const struct cop_tree *given;  /* tokens and parents as they stand; its draw is the claim to
                                      check, AUTO: the  rule's first that fits its shape */
    const struct cop_part *length; /* NULL: draft everything */
    enum cop_draw draw;            /* AUTO: the rule's first claim that fits */
    bool relaxed;                  /* take a pair that the rule does not claim */
    bool is_zero_temperature;      /* target rows one-hot, draws deterministic */
    int32_t vocab;
    int32_t n_drafters; /* 0 or 1: one draft row a node; more: sibling j is drawn from drafter
                           j, those beyond the last from it too */
    bool one_each;      /* a node with more children than drafters is refused instead */
    int32_t horizon;    /* cycles; for rules that carry state: tokens at least; 0: 1 */
    cop_row_function target, draft;
    void *target_context, *draft_context;
    /* With a given tree, the rows that the rule sees, by node; NULL: those of the functions,
     * which the comparison reads in any case. Without given_draft and without `draft`: none. */
    const struct cop_rows *given_target, *given_draft;
    int64_t max_branches; /* 0: 200,000 */
};

struct cop_law_outcome { /* one (accepted, last) of the first cycle, branches merged */
    cop_token *tokens;   /* [n_accepted + 1] */
    int32_t n_accepted;
    double probability;
};

struct cop_law {
    double total_variation; /* over the first `length` tokens; the rest is of the first cycle */
    int32_t length;
    double expected_accepted;
    double *accepted; /* [depth + 1]: probability of keeping d drafted tokens */
    int32_t depth;
    struct cop_law_outcome *outcomes; /* sorted by tokens, then n_accepted */
    int64_t n_outcomes;
    int64_t branches; /* runs of a cycle; what agrees after one is run on together */
    enum cop_draw draw;
    enum cop_shape shape;
    /* Law of the d-th committed token of the continued output and of the target, [depth +
     * 1][vocab] each; all zero past `length`. */
    double *position, *target_position;
};

/* Enumerates. COP_ERR_UNSOUND for a pair that the rule does not claim (unless relaxed), the
 * engine's message; COP_ERR_LIMIT past max_branches; COP_ERR_ARGUMENT for rows that are no laws
 * and for a rule that is not a function of its inputs. */
enum cop_status cop_law_enumerate(struct cop_law *law, const struct cop_law_case *what,
                                  struct cop_error *err);
void cop_law_release(struct cop_law *law);

/* Whether the engine would take this combination; the message says what to write instead.
 * `supply` is the proposer's. Resolves AUTO. */
struct cop_pairing {
    const struct cop_part *rule, *builder; /* builder NULL: the shape below */
    const struct cop_part *length;         /* NULL: always the whole tree */
    const struct cop_part *proposer;       /* NULL: rows are a function of the prefix */
    enum cop_shape shape;
    int32_t supply;     /* enum cop_supply */
    int32_t n_drafters; /* 0 or 1: one row a node */
    enum cop_draw draw;
    bool relaxed, is_zero_temperature;
};
enum cop_status cop_pairing_check(const struct cop_pairing *pairing, enum cop_draw *resolved,
                                  bool *is_lossless, struct cop_error *err);

/* One verification of given rows with given coins (cop.verify_rows). Without a tree, questions
 * take `coins` in the order asked. With one, the accept test of node i takes number i, counted
 * from 1, whatever the order of the tests; a pick takes the first number past the nodes', or
 * the next one where the list ends before. Picks with the purpose "sample" are accept tests of
 * the children of their node: they, tests at the root and second tests of a node take the next
 * one. A pick with the purpose "siblings" is one accept test for all children of its node and
 * takes the number of the first.
 */
struct cop_coin_list {
    const double *coins;
    int32_t count, used;         /* used: the highest number so far */
    const struct cop_tree *tree; /* NULL: in the order asked */
    bool *taken;                 /* [count] with a tree, all false */
    bool pick_best;              /* picks take the heaviest token instead of a coin */
    bool has_pick;               /* the first pick that is no "sample" takes this uniform */
    double pick;
    struct cop_error *error; /* set by cop_coin_list_draws */
};
struct cop_draws cop_coin_list_draws(struct cop_coin_list *list, struct cop_error *error);

#endif
