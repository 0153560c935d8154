/* The contract of a proposer: where draft rows come from. It never sees the rule.
 *
 * Life: open (once per engine) → begin(sequence) → prefilled, prefilled, … →
 * { expand, expand, …, observe } per cycle → end(sequence) → close. A cycle's builder asks for
 * rows level by level; proposers that draft all positions at once compute on the first level
 * and hand out the rest. */
#ifndef COP_CYCLE_PROPOSER_H
#define COP_CYCLE_PROPOSER_H

#include "core/cycle/contract/plug.h"
#include "core/cycle/contract/rule.h"
#include "core/cycle/rows/row.h"
#include "core/cycle/rows/tree.h"
#include "core/model/model.h"

enum cop_supply {
    COP_SUPPLY_DENSE, /* rows over the vocabulary */
    COP_SUPPLY_SPARSE,
    COP_SUPPLY_POINTS /* ids without probabilities: draws are deterministic, or one child drawn
                         from a point mass */
};

/* What the proposer is told about its surroundings. Borrowed for the life of the engine. */
struct cop_proposer_env {
    struct cop_model *target;     /* NULL in propose_once without a model */
    struct cop_cache *cache;      /* the target's own: while drafting it holds what is committed
                                     before the root, by sequence; slots that expand adds are
                                     dropped before the target scores. NULL: there is none */
    int32_t vocab_size;           /* of the target */
    bool vocab_is_guessed;        /* propose_once knows no model: there may be higher ids */
    int32_t context;              /* positions of one sequence */
    int32_t n_sequences;          /* slots: sequence numbers are below it */
    int32_t capacity;             /* drafted nodes of one tree at most */
    struct cop_sampling sampling; /* of the request: a draft's own settings default to it
                                       (temperature 1 when it is 0) */
    const atomic_bool *cancel;
};

/* One sequence's frontier: nodes whose children are to be drawn next. */
struct cop_frontier {
    int32_t sequence;
    const struct cop_tree *tree;
    const int32_t *nodes; /* [count], all of one level */
    int32_t count;
    struct cop_row *rows; /* out [count], or [count][n_drafters]; kind COP_ROW_NONE: nothing to
                             propose below that node; of several drafters' rows those come last
                           */
    struct cop_error *error; /* lent: a failure of this sequence alone is written here with
                                cop_fail, and the other frontiers go on. NULL: return it */
    /* optional: the request's penalties, biases, bans and least length on the logits of the row
     * below a node, in place. Whoever makes rows of logits calls cop_frontier_row. */
    enum cop_status (*process)(void *context, int32_t node, float *logits,
                               struct cop_error *err);
    void *process_context;
    /* of several drafters' rows below a node, those that have a use: the first n_places; 0:
     * all */
    int32_t n_places;
};

/* Whether there is a row that proposes something. */
bool cop_frontier_offers(const struct cop_frontier *frontier, int32_t n_drafters);

/* rows[i] from a model's logits: as the request would change them (what is at -inf stays
 * there), then shaped. Where no token is left it proposes nothing. COP_ERR_NUMERIC for logits
 * that are not finite. */
enum cop_status cop_frontier_row(struct cop_frontier *frontier, int32_t i, float *logits,
                                 const struct cop_row_tokens *tokens,
                                 const struct cop_sampling *sampling,
                                 struct cop_row_arena *arena, struct cop_error *err);

/* A chunk of a prompt that the target has read; lent until prefilled returns. */
struct cop_prefilled {
    int32_t sequence;
    int32_t first, n;     /* positions first … first + n - 1 of the sequence */
    const cop_token *ids; /* [n + 1] their tokens, and the one behind them */
    const float *hidden;  /* [n_hidden, n, hidden_size] as asked by hidden_layers */
    int32_t n_hidden;
};

/* What one cycle taught about one sequence. Rows are lent until observe returns. */
struct cop_observed {
    int32_t sequence;
    int32_t cycle;
    const struct cop_tree *tree;
    const int32_t *accepted; /* nodes in path order */
    int32_t n_accepted;
    cop_token last;
    const cop_token *committed; /* the accepted tokens and the last one, [n_accepted + 1] */
    struct cop_rows target;     /* of all scored nodes */
    /* [n_hidden, tree size, hidden_size] as asked by hidden_layers, or NULL */
    const float *hidden;
    int32_t n_hidden;
};

/* What a proposer with its options supplies. */
struct cop_proposer_facts {
    enum cop_supply supply;
    bool rows_by_prefix;
    bool needs_hidden;  /* states of the target's layers: calls of hidden_layers follow */
    int32_t n_slots;    /* in the target's cache, for each node that is drafted and the root */
    int32_t n_scouts;   /* nodes that it adds by `scout` at most */
    int32_t n_drafters; /* rows that it hands out for a node; sibling j is drawn from row j */
    bool is_cheap, remembers;
};

struct cop_proposer_ops {
    struct cop_plug plug;
    enum cop_supply supply;
    bool rows_by_prefix; /* the row after a prefix is the same whichever cycle asks for it, and
                            wherever its root is */
    /* optional: layers of the target (cop_score.hidden_layers) whose hidden states prefilled
     * and observe need; returns how many, at most COP_HIDDEN_LIMIT */
    int32_t (*hidden_layers)(const void *state, const struct cop_model_info *target,
                             int32_t *layers);
    /* required: depth of the chain that it drafts when the script names no tree */
    int32_t (*own_depth)(const void *state);
    /* optional: checks the surroundings (vocabulary, context) and allocates per-sequence
     * memory. A part is opened by one engine at a time: *session receives what the calls below
     * get. */
    enum cop_status (*open)(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err);
    void (*close)(void *session); /* optional; NULL session is fine */
    /* required: a new sequence whose committed tokens are ids[0..n), n >= 1; the last one is
     * the first root */
    enum cop_status (*begin)(void *session, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err);
    /* required: rows for all frontiers; their memory stays valid until observe of that
     * sequence. One call per level, with every sequence that drafts that far; frontiers of one
     * call have one depth. A status other than COP_OK fails all of them. */
    enum cop_status (*expand)(void *session, struct cop_frontier *frontiers,
                              int32_t n_frontiers, struct cop_error *err);
    /* required: the cycle's outcome; drops speculation. Called once per cycle and sequence,
     * also when nothing was expanded. */
    enum cop_status (*observe)(void *session, const struct cop_observed *observed,
                               struct cop_error *err);
    /* required; also after failure or cancellation */
    void (*end)(void *session, int32_t sequence);
    /* optional: how many of the last tokens were found earlier by the last expand (lookups); 0:
     * none */
    int32_t (*matched)(void *session, int32_t sequence);
    /* optional: the builder that it drafts with when the script names no tree, prepared;
     * absent: a chain of own_depth. *builder is NULL after failure */
    enum cop_status (*own_tree)(const void *state, struct cop_part **builder,
                                struct cop_error *err);
    /* optional: hidden states of all positions before the first root, chunk by chunk in order,
     * between begin and the first expand. Never called for a prompt of one token, or without
     * hidden_layers. */
    enum cop_status (*prefilled)(void *session, const struct cop_prefilled *chunk,
                                 struct cop_error *err);
    /* optional: ids that it knows by its options are below this */
    int32_t (*vocab)(const void *state);
    /* optional, with n_scouts: adds nodes (cop_tree_scout) that the target scores in the same
     * pass and observe is shown, and that nobody else sees. Called when the tree is finished;
     * no scout may be deeper than max_depth. */
    void (*scout)(void *session, int32_t sequence, struct cop_tree *tree, int32_t max_depth);
    /* optional: changes what does not hold with these options: *facts comes with the constants
     * above and one drafter */
    void (*facts)(const void *state, struct cop_proposer_facts *facts);
    /* optional: whether it drafts no more in this sequence, which has outgrown its own context
     */
    bool (*is_over)(void *session, int32_t sequence);
    bool is_cheap;  /* looks its rows up in the text, for next to nothing: it is asked for them
                       before the length policy, which then sees what is offered */
    bool remembers; /* drafts depend on what it saw of other requests since it was opened */
    /* optional: those rows of expand that cost next to nothing, where not all do. The length
     * policy sees them; expand follows with what it wants, and leaves them as they are. */
    enum cop_status (*offer)(void *session, struct cop_frontier *frontiers, int32_t n_frontiers,
                             struct cop_error *err);
};

static inline struct cop_proposer_facts
cop_proposer_facts_of(const struct cop_proposer_ops *ops, const void *state)
{
    struct cop_proposer_facts facts = {.supply = ops->supply,
                                       .rows_by_prefix = ops->rows_by_prefix,
                                       .needs_hidden = ops->hidden_layers != NULL,
                                       .n_drafters = 1,
                                       .is_cheap = ops->is_cheap,
                                       .remembers = ops->remembers};
    if (ops->facts) {
        ops->facts(state, &facts);
    }
    return facts;
}
static inline struct cop_proposer_facts cop_proposer_facts(const struct cop_part *proposer)
{
    return cop_proposer_facts_of((const struct cop_proposer_ops *)proposer->plug,
                                 proposer->state);
}

/* The proposer's own builder, prepared, or NULL where it has none: free it with cop_part_free.
 */
static inline enum cop_status cop_proposer_own_tree(const struct cop_part *proposer,
                                                    struct cop_part **builder,
                                                    struct cop_error *err)
{
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)proposer->plug;
    *builder = NULL;
    return ops->own_tree ? ops->own_tree(proposer->state, builder, err) : COP_OK;
}

#define COP_HIDDEN_LIMIT 8

/* The layers that a proposer asks for, [COP_HIDDEN_LIMIT]; none: *n = 0. COP_ERR_ARGUMENT: the
 * target has no such layer, or there is no target. */
enum cop_status cop_proposer_layers(const struct cop_proposer_ops *ops, const void *state,
                                    const struct cop_model *target, int32_t *layers, int32_t *n,
                                    struct cop_error *err);

#endif
