/* Heads that attend and carry the target's states on by themselves: EAGLE, MTP.
 *
 *     committed             t0 t1 t2 t3 t4 t5 | t6 = root
 *     rows of a network     f0,t1  f1,t2 … f5,t6          position 0 … 5: true states
 *     a cycle's tree        (y5,a) (y5,b)  (y6,c) …       position 6, 7 …: y is its own guess
 *
 * Only rows of true states are committed. What was accepted is fed again in the next cycle, as
 * states of the target with the tokens behind them, and all rows of the tree are dropped: a
 * head never builds on its own guesses about decided text. One pass a level serves the
 * frontiers of all sequences.
 *
 * Several networks in a row (stages) draft a token each; the last one drafts all that is
 * deeper. A token v has a row in each of them:
 *
 *     stage 0       x = states of the token before v       (or as below, where it is drafted)
 *     stage s       x = stage s - 1's y of the token before v
 *     last stage    x = its own y of the token before v, where v is deeper than the stages
 *
 * so that a stage's keys and values are those of the whole text. Rows below a node of depth d
 * are stage d's y (or the last one's) of the node; later stages read the node for the sake of
 * the nodes below it. */
#ifndef COP_ALGORITHMS_CARRY_H
#define COP_ALGORITHMS_CARRY_H

#include "algorithms/heads/carried/pair.h"
#include "algorithms/propose/draft_law.h"
#include "core/cycle/contract/proposer.h"
#include "core/model/block.h"

enum { COP_CARRY_STAGES = 16 };

/* A network that is loaded beside its target, and how its session runs it. */
struct cop_carry {
    const char *of; /* "an EAGLE head" */
    int32_t n_stages;
    int32_t width;        /* of x and y */
    int32_t n_layers;     /* of the target, whose states stage 0 reads */
    const cop_token *ids; /* [n_ids] ascending: what can be drafted; NULL: all */
    int32_t n_ids;
    void *net;
    void (*close)(void *net); /* before the target */
    const struct cop_block *(*block)(const void *net, int32_t stage);
    /* x [n, width] of states [n, n_layers * target's width] */
    enum cop_status (*fuse)(void *net, const float *states, int32_t n, float *x,
                            struct cop_error *err);
    /* Adds a speculative slot for each row. */
    enum cop_status (*step)(void *net, int32_t stage, struct cop_cache *cache,
                            const struct cop_pair_rows *rows, struct cop_error *err);
    /* logits [n, vocabulary of the target] of y, which becomes what is carried on; with ids
     * all others are at -inf, and stay there */
    enum cop_status (*logits)(void *net, int32_t stage, float *y, int32_t n, float *logits,
                              struct cop_error *err);
};

/* Takes the network, also where it fails. */
enum cop_status cop_carry_open(const struct cop_carry *carry, const struct cop_draft_law *law,
                               const struct cop_proposer_env *env, void **session,
                               struct cop_error *err);
void cop_carry_close(void *session);
enum cop_status cop_carry_begin(void *session, int32_t sequence, const cop_token *ids,
                                int32_t n, struct cop_error *err);
enum cop_status cop_carry_prefilled(void *session, const struct cop_prefilled *chunk,
                                    struct cop_error *err);
enum cop_status cop_carry_expand(void *session, struct cop_frontier *frontiers,
                                 int32_t n_frontiers, struct cop_error *err);
enum cop_status cop_carry_observe(void *session, const struct cop_observed *observed,
                                  struct cop_error *err);
void cop_carry_end(void *session, int32_t sequence);

#define COP_CARRY_SLOTS                                                                        \
    .supply = COP_SUPPLY_DENSE, .close = cop_carry_close, .begin = cop_carry_begin,            \
    .expand = cop_carry_expand, .observe = cop_carry_observe, .end = cop_carry_end,            \
    .prefilled = cop_carry_prefilled

#endif
