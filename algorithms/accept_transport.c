/* Optimal transport per node: the children's tokens and the output are coupled as well as any
 * rule can, by the plan of algorithms/transport.h.
 *
 * At a node whose children show state s, token y among them is kept with probability
 * gives(s, y) / law(s), by one flip per child; if all fail, the token comes from
 * target - used, whose mass is what the plan did not send. A child of the rest was drawn with
 * the draft row's law, so it takes its part min(1, target(x) / (used(rest) draft(x) /
 * draft(rest))) of what its state gives to the rest. */
#include "algorithms/levels.h"
#include "algorithms/transport.h"

#include <math.h>
#include <stdlib.h>

struct options_of {
    int32_t vocabulary;
};

static const struct cop_option options[] = {
    {.name = "vocabulary",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct options_of, vocabulary),
     .min = 1,
     .max = COP_HEAD_LIMIT,
     .fallback = COP_HEAD_LIMIT,
     .help = "likeliest draft tokens that the plan tells apart; all others are one lump, which "
             "costs acceptance, never exactness. Many children tell fewer apart (4: 12, 5 and "
             "more: 10 to 11), so that a plan has at most 1024 sets"},
    {0}};

/* Scratch of one verification. */
struct walk {
    const struct cop_verify_in *in;
    int32_t *children;             /* [tree size] */
    const struct cop_row **drafts; /* [tree size] */
    double *takes;                 /* [tree size] */
    int32_t vocabulary;
};

/* takes[j]: probability of "the state is s and child j is kept", given its token where that is
 * of the rest. Returns the law of s. */
static double read_state(const struct walk *walk, const struct cop_siblings *siblings,
                         const struct cop_head *head, const struct cop_transport *plan)
{
    const struct cop_tree *tree = walk->in->tree;
    const struct cop_row *target = cop_rows_at(&walk->in->target, siblings->node);
    bool is_replaced = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT;
    uint32_t set = 0;
    int32_t rest = -1; /* the first child of the rest */
    for (int32_t j = 0; j < siblings->n && (is_replaced || rest < 0); j++) {
        int32_t item = cop_head_item(head, tree->token[siblings->children[j]]);
        if (item < head->n) {
            set |= 1u << item;
        } else {
            rest = rest < 0 ? j : rest;
        }
    }
    int32_t state = cop_transport_state(plan, set, rest >= 0);
    for (int32_t j = 0; j < siblings->n; j++) {
        int32_t item = cop_head_item(head, tree->token[siblings->children[j]]);
        walk->takes[j] = 0;
        if (state >= 0 && item < head->n && (set >> item & 1)) {
            walk->takes[j] = plan->gives[state * (plan->n + 1) + item];
            set &= ~(1u << item); /* an equal sibling stands behind the first */
        }
    }
    if (state >= 0 && rest >= 0) {
        cop_token token = tree->token[siblings->children[rest]];
        double p = cop_row_probability(target, token);
        double q = cop_row_probability(siblings->drafts[rest], token);
        double offered = plan->rest_scale * q;
        walk->takes[rest] =
            offered > 0 ? plan->gives[state * (plan->n + 1) + plan->n] * fmin(1, p / offered)
                        : 0;
    }
    return state >= 0 ? plan->law[state] : 0;
}

static cop_token pick_rest(const struct walk *walk, const struct cop_siblings *siblings,
                           const struct cop_head *head, const struct cop_transport *plan)
{
    double left[COP_HEAD_ITEMS];
    for (int32_t i = 0; i < head->n; i++) {
        left[i] = fmax(head->target[i] - plan->used[i], 0);
    }
    struct cop_head_residual rest = {.head = head,
                                     .left = left,
                                     .target = cop_rows_at(&walk->in->target, siblings->node),
                                     .drafts = siblings->drafts,
                                     .scales = &plan->rest_scale,
                                     .n_drafts = plan->rest_scale > 0};
    return cop_head_pick(walk->in->draws, cop_purpose("recover"),
                         walk->in->tree->key[siblings->node], &rest);
}

/* Children that the context determines say nothing about the output: draw it and look. */
static cop_token sample(const struct cop_verify_in *in, int32_t node)
{
    struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, node));
    return cop_pick(in->draws, cop_purpose("sample"), in->tree->key[node], &weights);
}

/* One flip per child, in draw order; the kept one, or -1. `left`: law of the state. */
static int32_t keep_child(const struct walk *walk, const struct cop_siblings *siblings,
                          double left)
{
    for (int32_t j = 0; j < siblings->n; j++) {
        double keep = walk->takes[j] > 0 ? fmin(1, walk->takes[j] / left) : 0;
        int32_t child = siblings->children[j];
        if (cop_flip(walk->in->draws, cop_purpose("accept"), walk->in->tree->key[child],
                     keep)) {
            return child;
        }
        left -= walk->takes[j];
    }
    return -1;
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    const struct walk *walk = state;
    if (in->tree->draw == COP_DRAW_DETERMINISTIC) {
        choice->token = sample(in, node);
        return COP_OK;
    }
    struct cop_siblings siblings;
    struct cop_head head;
    struct cop_transport plan;
    enum cop_status status =
        cop_siblings_read(&siblings, in, node, walk->children, walk->drafts, "transport", err);
    if (status != COP_OK) {
        return status;
    }
    cop_head_fill(&head, &siblings, cop_rows_at(&in->target, node),
                  cop_transport_head(siblings.n_draws, walk->vocabulary));
    status = cop_transport_solve(&plan, &siblings, &head,
                                 in->tree->draw != COP_DRAW_WITHOUT_REPLACEMENT, err);
    if (status != COP_OK) {
        return status;
    }
    choice->child = keep_child(walk, &siblings, read_state(walk, &siblings, &head, &plan));
    if (choice->child < 0) {
        choice->token = pick_rest(walk, &siblings, &head, &plan);
    }
    cop_transport_release(&plan);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    size_t n = (size_t)in->tree->size;
    struct walk walk = {.in = in, .vocabulary = ((const struct options_of *)state)->vocabulary};
    walk.children = malloc(n * sizeof *walk.children);
    walk.drafts = malloc(n * sizeof *walk.drafts);
    walk.takes = malloc(n * sizeof *walk.takes);
    enum cop_status status =
        walk.children && walk.drafts && walk.takes
            ? cop_levels_walk(decide, &walk, in, out, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory for accept.transport");
    free(walk.children);
    free(walk.drafts);
    free(walk.takes);
    return status;
}

/* Different siblings cover more of the target, so that draw comes first. */
static const struct cop_claim claims[] = {{COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_DETERMINISTIC, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_transport = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "transport",
             .help =
                 "couples the children of each node with the target as well as any rule can: "
                 "a maximal flow from the law of the drafted sets to the target row, within "
                 "the likeliest draft tokens; the rest of the target gives the recovered "
                 "token. Widths may depend on the context, not on earlier siblings",
             .source = "Sun et al. 2023 (SpecTr), arXiv:2310.15141; Hu et al. 2025, "
                       "arXiv:2502.18779",
             .synonyms = "optimal transport, OTM, OTLP",
             .state_size = sizeof(struct options_of),
             .options = options},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .fixed_widths = true,
    .several_rows = true,
    .cost =
        "1 of the draft row and a flow of at most 2,048 states at a visited node; 1 more of "
        "both rows at the rejected node",
};
