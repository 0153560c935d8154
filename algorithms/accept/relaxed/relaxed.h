/* What relaxed rules are made of: readings of a row, and three walks over the tree.
 *
 * A relaxed rule is one of
 *   a ratio    keep a drafted token with more than min(1, target / draft): cop_ratio_walk;
 *   a target   run the exact rule against another law in the target's place: cop_swap_walk;
 *   a set      keep what lies in a set that a row defines, longest path first: cop_set_walk;
 * or a walk of its own. None ever keeps a token that the target row excludes (a ban must hold),
 * except where a substituted target says otherwise about a token that only truncation cut.
 *
 * Purposes and keys of the coins are those of accept.token, so that a rule at its neutral
 * setting gives the strict rule's tokens coin for coin. */
#ifndef ALGORITHMS_ACCEPT_RELAXED_H
#define ALGORITHMS_ACCEPT_RELAXED_H

#include "core/cycle/contract/rule.h"
#include "kernels/ops.h"

/* Draws and shapes that definitions cover (struct cop_rule_ops, defined_for). */
extern const struct cop_claim cop_defined_sampled_chain[]; /* one sample after another */
extern const struct cop_claim cop_defined_sampled_tree[];  /* siblings too, either way */
extern const struct cop_claim cop_defined_model_chain[];   /* sampled or the best tokens */
extern const struct cop_claim cop_defined_any_chain[];
extern const struct cop_claim cop_defined_any_tree[];
extern const struct cop_claim cop_claims_nothing[]; /* lossless_for of every relaxed rule */

/* ---- Readings of a row ---------------------------------------------------------------------
 */

/* A row either as it stands or at temperature 1 before truncation ("plain"), which is what
 * margins, entropies and divergences are defined on. Literal rows are their own plain law. */
struct cop_reading {
    struct cop_row row;
    bool is_plain; /* read from the logits: */
    double log_sum;
};
struct cop_reading cop_read_as_is(const struct cop_row *row);
struct cop_reading cop_read_plain(const struct cop_row *row);

double cop_reading_probability(const struct cop_reading *reading, cop_token token);
double cop_reading_log(const struct cop_reading *reading, cop_token token); /* nats */
/* The logit where there is one, else the log-probability: for rules that look at logits. */
double cop_reading_logit(const struct cop_reading *reading, cop_token token);
void cop_reading_fill(const struct cop_reading *reading, int32_t first, int32_t count,
                      double *out);
cop_token cop_reading_best(const struct cop_reading *reading); /* ties to the lowest id */
/* The k (a few) most probable tokens, best first; how many there are. */
int32_t cop_reading_top(const struct cop_reading *reading, int32_t k, cop_token *ids);
/* How many tokens come before this one, by probability and then by id. */
int32_t cop_reading_rank(const struct cop_reading *reading, cop_token token);
/* -sum of p ln(p + guard), nats; guard 0: the entropy. */
double cop_reading_entropy(const struct cop_reading *reading, double guard);
/* An estimate within COP_NEAR of it, at a fraction of the cost: for comparisons, which need the
 * entropy itself only where the other side is as near. */
double cop_reading_entropy_near(const struct cop_reading *reading, double guard);
#define COP_NEAR          3e-4 /* 1e-5 (1 + the largest entropy of 2^31 tokens), rounded up */
#define COP_TYPICAL_GUARD 1e-5 /* of Medusa's entropy */

cop_token cop_row_best(const struct cop_row *row); /* of the law as it stands */

enum cop_divergence { COP_JS, COP_KL_DRAFT, COP_TV, COP_KL_TARGET };
/* Between two laws, in nats. KL_DRAFT is KL(draft || target), KL_TARGET the other direction. */
double cop_divergence(enum cop_divergence kind, const struct cop_reading *target,
                      const struct cop_reading *draft);
/* Within COP_NEAR of it. */
double cop_divergence_near(enum cop_divergence kind, const struct cop_reading *target,
                           const struct cop_reading *draft);

/* The row without the tokens of the children of `node`: for a pick after all were refused. */
struct cop_without {
    const struct cop_row *row;
    const struct cop_tree *tree;
    int32_t node;
};
cop_token cop_pick_without(const struct cop_draws *draws, uint32_t purpose,
                           const struct cop_without *without);

/* Two views of one law: the rows of siblings from one drafter. */
bool cop_is_same_law(const struct cop_row *a, const struct cop_row *b);

/* The next child of `node` after `elder` (`node` itself: the first) that a rule may see; -1. */
int32_t cop_next_child(const struct cop_tree *tree, int32_t node, int32_t elder);

/* ---- How a cycle ends ----------------------------------------------------------------------
 */

/* What is drawn at the node where a path stops. The order is that of the option `correction`.
 */
enum cop_correction {
    COP_CORRECT_STRICT, /* norm((target - draft)+) */
    COP_CORRECT_TARGET,
    COP_CORRECT_ARGMAX,
    COP_CORRECT_SCALED /* the rule's own scaled difference */
};
/* The target's token after `node`: drawn, or its best. */
void cop_end_with_target(const struct cop_verify_in *in, int32_t node, bool is_best,
                         struct cop_verdict *out);

/* ---- Ratios --------------------------------------------------------------------------------
 */

struct cop_tolerance {
    /* What stands in place of target / draft; above 1 means always. `most` is the target's
     * largest probability. */
    double (*relax)(const void *state, double ratio, double most);
    double chance; /* of keeping a token that would be refused */
    enum cop_correction correction;
    double scale; /* COP_CORRECT_SCALED: norm((target - scale * draft)+) */
};
/* Siblings in draw order, each against what the earlier ones left of the target, as recursive
 * rejection does. At temperature 0 the ratio is plain target / its largest: a token is kept
 * when the relaxed ratio reaches 1. */
enum cop_status cop_ratio_walk(const struct cop_tolerance *tolerance, const void *state,
                               const char *name, const struct cop_verify_in *in,
                               struct cop_verdict *out, struct cop_error *err);

/* ---- Substituted targets -------------------------------------------------------------------
 */

/* The law pi in the target's place at one node, as a function of both rows. */
struct cop_swap {
    struct cop_reading target, draft; /* at temperature 0: plain */
    int32_t vocab;
    double banned; /* trusts_draft: draft mass of tokens that the target's logits exclude */
    void (*fill)(const struct cop_swap *swap, int32_t first, int32_t count, double *out);
    /* Optional, for speed: where both rows are a model's as they stand, pi is a linear form of
     * them, told apart by a gate (cop_gated_block, probabilities for weights). By NULL: it is
     * not, and `fill` says what pi is. */
    struct cop_gate gate;
    const float *by;
    /* Optional, for speed: pi as weights [vocab], from cop_swap_room, times `weight_scale`. */
    const float *weights;
    double weight_scale;
    float **room;
    /* What `fill` needs, by rule. */
    double a, b, c;
    cop_token last;
    int32_t choice;
    struct cop_reading plain_target, plain_draft;
};
struct cop_substitution {
    /* Fills the rest of a swap whose readings and banned mass are there. */
    enum cop_status (*prepare)(const void *state, struct cop_swap *swap, struct cop_error *err);
    /* pi is a function of the target alone: it also gives the bonus token. */
    bool is_own_law;
    bool trusts_draft; /* pi uses cop_swap_fill_trusted */
};
/* Recursive rejection against pi; the bonus token is the target's. At temperature 0: follow the
 * best token of pi, made from the plain rows. */
enum cop_status cop_swap_walk(const struct cop_substitution *with, const void *state,
                              const char *name, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err);
/* Declares pi linear, with the forms in swap->gate, open where the law `by` reaches `bar`; does
 * nothing where rows are not such or tokens are banned. */
void cop_swap_set_gate(struct cop_swap *swap, const struct cop_reading *by, double bar);
/* Memory for weights, the same at every node; NULL: none. */
float *cop_swap_room(struct cop_swap *swap);
/* The sum of swap->fill. */
double cop_swap_sum(const struct cop_swap *swap);
/* swap->fill as the fill of struct cop_weights, whose context is the swap. */
void cop_swap_fill(const void *swap, int32_t first, int32_t count, double *out);
/* What trusting the draft may mean, given the target's block: its law, but a banned token's
 * mass goes by the target. */
void cop_swap_fill_trusted(const struct cop_swap *swap, int32_t first, int32_t count,
                           const double *target, double *out);

/* ---- Sets ----------------------------------------------------------------------------------
 */

/* One node as a set rule sees it. */
struct cop_look {
    const struct cop_row *target;
    struct cop_reading reading; /* plain, or as it stands */
    cop_token best;
    double limit; /* limit and is_open belong to the rule */
    bool is_open;
};
struct cop_set_rule {
    bool reads_as_is; /* the shaped row; else the plain one */
    void (*look)(const void *state, struct cop_look *look); /* optional: limit, is_open */
    bool (*keeps)(const void *state, const struct cop_look *look, cop_token token);
    bool corrects_with_best, ends_with_best; /* after a refusal; after a full path */
};
/* The longest path of kept tokens; see cop_longest_path. */
enum cop_status cop_set_walk(const struct cop_set_rule *set, const void *state,
                             const struct cop_verify_in *in, struct cop_verdict *out,
                             struct cop_error *err);

/* Whether the token of `child` is kept after its parent (1, 0; negative: a failure, which ends
 * the search), and its log-probability. Called for children of kept nodes only, siblings one
 * after another. */
typedef int (*cop_keeps)(void *context, int32_t child, double *log_prob);
/* Writes the deepest path of kept nodes to `out`; among equals the one with the largest sum of
 * log-probabilities, then the one that was drafted first. False after a failure. */
bool cop_longest_path(cop_keeps keeps, void *context, const struct cop_tree *tree,
                      struct cop_verdict *out);
/* The node where a path stops, and whether children were refused there. */
int32_t cop_stop_of(const struct cop_verify_in *in, struct cop_verdict *out);

/* ---- Options -------------------------------------------------------------------------------
 */

#define COP_A_NUMBER(type_name, field, low, high, value, text)                                 \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_NUMBER,                                             \
        .offset = offsetof(struct type_name, field), .min = low, .max = high,                  \
        .fallback = value, .help = text                                                        \
    }
#define COP_AN_INT(type_name, field, low, high, value, text)                                   \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_INT, .offset = offsetof(struct type_name, field),   \
        .min = low, .max = high, .fallback = value, .help = text                               \
    }
#define COP_A_CHOICE(type_name, field, words, text)                                            \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_CHOICE,                                             \
        .offset = offsetof(struct type_name, field), .choices = words, .help = text            \
    }
/* The option `correction` of set rules: 0 the target's best token, 1 a draw from the target. */
#define COP_BEST_OR_TARGET(type_name)                                                          \
    COP_A_CHOICE(type_name, correction, "argmax|target",                                       \
                 "after a refusal: the target's best token, or a draw from the target")

#endif
