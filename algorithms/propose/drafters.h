/* Several proposers behind one: their options, what they need together, and their sessions,
 * called one after another. Functions with a `state` or `session` of type void * fit into the
 * slots of a proposer whose state begins with struct cop_drafters_parts. */
#ifndef ALGORITHMS_PROPOSE_DRAFTERS_H
#define ALGORITHMS_PROPOSE_DRAFTERS_H

#include "core/cycle/contract/proposer.h"

enum { COP_DRAFTERS = 4 };

struct cop_drafters_parts {
    void *parts[COP_DRAFTERS]; /* struct cop_part; NULL from the first absent one on */
};

/* For a state that begins with the parts. */
#define COP_DRAFTER_OPTION(i, text, more)                                                      \
    {                                                                                          \
        .name = text, .type = COP_OPTION_OBJECT,                                               \
        .offset = offsetof(struct cop_drafters_parts, parts) + i * sizeof(void *),             \
        .choices = "propose", .flags = COP_OPTION_POSITIONAL | more,                           \
        .help = "the " text " drafter"                                                         \
    }
#define COP_DRAFTERS_OPTIONS                                                                   \
    COP_DRAFTER_OPTION(0, "first", COP_OPTION_REQUIRED),                                       \
        COP_DRAFTER_OPTION(1, "second", COP_OPTION_REQUIRED),                                  \
        COP_DRAFTER_OPTION(2, "third", 0), COP_DRAFTER_OPTION(3, "fourth", 0)

/* How many are given, and one of them, lent. */
int32_t cop_drafters_count(const struct cop_drafters_parts *parts);
const struct cop_part *cop_drafters_part(const struct cop_drafters_parts *parts, int32_t i);
const struct cop_proposer_ops *cop_drafters_ops(const struct cop_drafters_parts *parts,
                                                int32_t i);
/* Refuses a gap and a drafter that is several; `owner` begins the message. */
enum cop_status cop_drafters_check(const struct cop_drafters_parts *parts, const char *owner,
                                   struct cop_error *err);
/* Sums of what they need, and what all of them promise; the supply is left alone. */
void cop_drafters_facts(const struct cop_drafters_parts *parts,
                        struct cop_proposer_facts *facts);
int32_t cop_drafters_hidden_layers(const void *state, const struct cop_model_info *target,
                                   int32_t *layers);
int32_t cop_drafters_vocab(const void *state);

struct cop_drafter_session {
    struct cop_part *part;
    const struct cop_proposer_ops *ops;
    void *session;
    bool *has_begun; /* [n_sequences] */
    bool *is_asked;  /* [n_sequences][n_nodes] it was asked below the node, in this cycle */
    int32_t first_hidden, n_hidden;
};
struct cop_drafters {
    const void *state; /* of the proposer that they are behind */
    struct cop_drafter_session drafters[COP_DRAFTERS];
    int32_t count;
    size_t hidden_size;
    size_t n_nodes;                 /* of a tree, the root included */
    struct cop_frontier *frontiers; /* [n_sequences] as the drafter asked last sees them */
    struct cop_row *rows;           /* its rows, one a node */
    struct cop_row **places;        /* where they go */
    int32_t *nodes;                 /* whose they are */
    size_t rows_capacity;
};

/* Slots of the contract, for all drafters in turn; the session is a struct cop_drafters.
 * *session stays as it was after failure. */
enum cop_status cop_drafters_open(const void *state, const struct cop_proposer_env *env,
                                  void **session, struct cop_error *err);
void cop_drafters_close(void *session);
enum cop_status cop_drafters_begin(void *session, int32_t sequence, const cop_token *ids,
                                   int32_t n, struct cop_error *err);
void cop_drafters_end(void *session, int32_t sequence);
enum cop_status cop_drafters_prefilled(void *session, const struct cop_prefilled *chunk,
                                       struct cop_error *err);
enum cop_status cop_drafters_observe(void *session, const struct cop_observed *observed,
                                     struct cop_error *err);
void cop_drafters_scout(void *session, int32_t sequence, struct cop_tree *tree,
                        int32_t max_depth);
int32_t cop_drafters_matched(void *session, int32_t sequence);
bool cop_drafters_is_over(void *session, int32_t sequence); /* all of them are */

/* Drafter i below those nodes that have a free place for its row (struct cop_frontier), which
 * goes to the first one. It is asked below a node once, and only where it was asked below the
 * parent: who was left out higher up knows nothing of the path. */
enum cop_status cop_drafters_fill(struct cop_drafters *drafters, int32_t i,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  struct cop_error *err);

/* Drafter i on the same frontiers: its rows are those of drafters->frontiers. */
enum cop_status cop_drafters_expand(struct cop_drafters *drafters, int32_t i,
                                    const struct cop_frontier *frontiers, int32_t n_frontiers,
                                    struct cop_error *err);

#endif
