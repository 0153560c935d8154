/* Optimal transport per node: the children's tokens and the output are coupled as well as any
 * rule can, by the plan of algorithms/accept/coupling.h.
 *
 * At a node whose children show state s, token y among them is kept with probability
 * gives(s, y) / law(s), by one flip per child; if all fail, the token comes from
 * target - used, whose mass is what the plan did not send. A child of the rest was drawn with
 * the draft row's law, so it takes its part min(1, target(x) / (used(rest) draft(x) /
 * draft(rest))) of what its state gives to the rest. Children that were asked for later, which
 * no plan can know of, come after that one by one (algorithms/accept/left.h). */
#include "algorithms/accept/coupling.h"
#include "algorithms/accept/left.h"
#include "algorithms/accept/levels.h"

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
     .help =
         "likeliest draft tokens that the plan tells apart; all others are one lump, which "
         "costs acceptance, never exactness. Many children tell fewer apart (2: 15, 3: 8, 4 "
         "and more: 7), but of vocabularies up to 16 at least 10"},
    {0}};

/* Scratch of one verification. */
struct walk {
    struct cop_siblings siblings;
    struct cop_head head;
    struct cop_transport plan;
    struct cop_left left;
    double *takes; /* [tree size] by sibling */
    int32_t vocabulary;
};

/* The state that the siblings show, or -1; *rest: the first of them that is of the rest. */
static int32_t read_state(const struct walk *walk, const struct cop_tree *tree, int32_t *rest)
{
    const struct cop_siblings *s = &walk->siblings;
    bool is_replaced = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT;
    uint32_t set = 0;
    *rest = -1;
    for (int32_t j = 0; j < s->n && (is_replaced || *rest < 0); j++) {
        int32_t item = cop_head_item(&walk->head, tree->token[s->children[j]]);
        if (item < walk->head.n) {
            set |= 1u << item;
        } else {
            *rest = *rest < 0 ? j : *rest;
        }
    }
    return cop_transport_state(&walk->plan, set, *rest >= 0);
}

/* takes[j]: probability of "the state is this one and sibling j is kept", given its token where
 * that is of the rest. Returns the law of the state. */
static double read_plan(struct walk *walk, const struct cop_verify_in *in)
{
    const struct cop_siblings *s = &walk->siblings;
    const struct cop_transport *plan = &walk->plan;
    int32_t rest, state = read_state(walk, in->tree, &rest);
    const double *gives = plan->gives + (ptrdiff_t)state * (plan->n + 1);
    uint32_t seen = 0;
    for (int32_t j = 0; j < s->n; j++) {
        cop_token token = in->tree->token[s->children[j]];
        int32_t item = cop_head_item(&walk->head, token);
        walk->takes[j] = 0;
        if (state >= 0 && item < plan->n && !(seen >> item & 1)) {
            walk->takes[j] = gives[item]; /* 0 where the state does not show the token */
            seen |= 1u << item;
        } else if (state >= 0 && j == rest) {
            double offered = plan->rest_scale * cop_row_probability(s->drafts[j], token);
            double p = cop_row_probability(cop_rows_at(&in->target, s->node), token);
            walk->takes[j] = offered > 0 ? gives[item] * fmin(1, p / offered) : 0;
        }
    }
    return state >= 0 ? plan->law[state] : 0;
}

/* Children that the context determines say nothing about the output: draw it and look. */
static cop_token sample(const struct cop_verify_in *in, int32_t node)
{
    struct cop_weights weights = cop_row_weights(cop_rows_at(&in->target, node));
    return cop_pick(in->draws, cop_purpose("sample"), in->tree->key[node], &weights);
}

/* One flip per sibling, in draw order; the kept one, or -1. */
static int32_t keep_child(struct walk *walk, const struct cop_verify_in *in)
{
    double law = read_plan(walk, in); /* of the state, less what was flipped for */
    for (int32_t j = 0; j < walk->siblings.n; j++) {
        double keep = walk->takes[j] > 0 ? fmin(1, walk->takes[j] / law) : 0;
        int32_t child = walk->siblings.children[j];
        if (cop_flip(in->draws, cop_purpose("accept"), in->tree->key[child], keep)) {
            return child;
        }
        law -= walk->takes[j];
    }
    return -1;
}

static void subtract_plan(struct walk *walk, const struct cop_row *target)
{
    cop_left_reset(&walk->left, target);
    for (int32_t i = 0; i < walk->head.n; i++) {
        cop_left_set(&walk->left, walk->head.ids[i], walk->head.target[i] - walk->plan.used[i]);
    }
    cop_left_take(&walk->left, walk->siblings.drafts[0], walk->plan.rest_scale);
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    struct walk *walk = *(struct walk *const *)state;
    const struct cop_siblings *siblings = &walk->siblings;
    const struct cop_row *target = cop_rows_at(&in->target, node);
    if (in->tree->draw == COP_DRAW_DETERMINISTIC) {
        choice->token = sample(in, node);
        return COP_OK;
    }
    enum cop_status status = cop_siblings_read(&walk->siblings, in, node, "transport", err);
    if (status != COP_OK) {
        return status;
    }
    cop_head_fill(&walk->head, siblings, target,
                  cop_transport_head(siblings->n_draws, walk->vocabulary, target->vocab));
    status = cop_transport_solve(&walk->plan, siblings, &walk->head,
                                 in->tree->draw != COP_DRAW_WITHOUT_REPLACEMENT, err);
    if (status != COP_OK) {
        return status;
    }
    choice->child = keep_child(walk, in);
    if (choice->child < 0) {
        subtract_plan(walk, target);
        choice->child =
            cop_left_try(&walk->left, in, node, siblings->children[siblings->n - 1]);
    }
    if (choice->child < 0) {
        choice->token =
            cop_left_pick(&walk->left, in->draws, cop_purpose("recover"), in->tree->key[node]);
    }
    cop_transport_release(&walk->plan);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    struct walk walk = {.vocabulary = ((const struct options_of *)state)->vocabulary};
    struct walk *const scratch = &walk;
    enum cop_status status = cop_siblings_init(&walk.siblings, in->tree, err);
    if (status == COP_OK) {
        status = cop_left_init(&walk.left, in->tree, COP_HEAD_LIMIT, err);
    }
    walk.takes = malloc((size_t)in->tree->size * sizeof *walk.takes);
    if (status == COP_OK && !walk.takes) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for accept.transport");
    }
    if (status == COP_OK) {
        status = cop_levels_walk(decide, &scratch, in, out, err);
    }
    cop_siblings_release(&walk.siblings);
    cop_left_release(&walk.left);
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
                 "token",
             .source = "Sun et al. 2023 (SpecTr), arXiv:2310.15141; Hu et al. 2025, "
                       "arXiv:2502.18779",
             .synonyms = "optimal transport, OTM, OTLP",
             .state_size = sizeof(struct options_of),
             .options = options},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .several_rows = true,
    .cost = "1 of the draft row and a flow of at most 256 states at a visited node; 1 more of "
            "both rows at the rejected node",
};
