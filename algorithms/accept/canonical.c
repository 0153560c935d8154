/* The canonical form of a multi-draft rule: first choose one of a node's k drafted tokens, then
 * verify that token alone, as if it had been drafted with the law q_I that the choice gives it.
 *
 * The choice is a tournament: the winner so far, of law g, meets the next child, of law q. For
 * two different tokens a and b the pair has mass g_a q_b + g_b q_a, and a wins with a
 * probability w_ab of our own choosing, so that the next winner has
 *
 *     g'_a = g_a q_a + sum over b of w_ab (g_a q_b + g_b q_a).
 *
 * Any w gives an exact rule; the best make sum of min(target, g') large, which is a flow from
 * pairs to their two tokens (with two children: the optimum of the draw). Pairs are told apart
 * within the head of the draft row (algorithms/heads/head.h); its rest is one more contestant,
 * inside which the winner so far stays, so that on the rest the law is a sum of scaled draft
 * rows.
 *
 * In a merged tree the draws come back from the multiplicities in a random order, which for
 * independent draws is as good as the one they had. Children that were asked for later, which
 * no tournament can know of, come after it one by one (algorithms/accept/left.h). */
#include "algorithms/accept/left.h"
#include "algorithms/accept/levels.h"
#include "algorithms/heads/head.h"
#include "core/cycle/law/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = COP_HEAD_ITEMS * (COP_HEAD_ITEMS - 1) / 2 };

struct options_of {
    int32_t vocabulary;
};

static const struct cop_option options[] = {
    {.name = "vocabulary",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct options_of, vocabulary),
     .min = 1,
     .max = COP_HEAD_LIMIT,
     .fallback = 8,
     .help = "likeliest draft tokens between which the choice is optimised; all others are one "
             "lump, which costs acceptance, never exactness (the paper: 5 to 15)"},
    {0}};

/* One node's tournament; arrays are [tree size], kept from node to node. */
struct contest {
    const struct cop_verify_in *in;
    int32_t vocabulary;
    struct cop_siblings siblings;
    struct cop_head head;
    struct cop_flow flow;       /* room for all pairs */
    double law[COP_HEAD_ITEMS]; /* of the winner so far */
    /* The winner's law on the rest: the sum of scales[j] * drafts[j], which are different rows.
     */
    double *scales;
    const struct cop_row **drafts;
    int32_t n_drafts;                            /* as many as siblings at most */
    double wins[COP_HEAD_ITEMS][COP_HEAD_ITEMS]; /* w_ab of this round */
    int32_t *uncalled; /* merged trees: draws of each sibling that are still to come */
    struct cop_left left;
};

/* ---- Weights of one round
 * --------------------------------------------------------------------- */

/* wins[a][b] for the winner's law against `q`: as much as each target needs beyond what it gets
 * anyway; what nobody needs goes to the one that lacked more. */
static void weigh(struct contest *c, const double *q)
{
    int32_t n = c->head.n + 1, n_pairs = n * (n - 1) / 2, pair = 0;
    double lacks[COP_HEAD_ITEMS], mass[PAIRS];
    cop_flow_reset(&c->flow, 2 + n + n_pairs);
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = a + 1; b < n; b++, pair++) {
            mass[pair] = c->law[a] * q[b] + c->law[b] * q[a];
            (void)cop_flow_add(&c->flow, 2 + n + pair, 2 + a, (double)INFINITY);
            (void)cop_flow_add(&c->flow, 2 + n + pair, 2 + b, (double)INFINITY);
        }
    }
    for (int32_t a = 0; a < n; a++) {
        lacks[a] = c->head.target[a] - c->law[a] * q[a];
        (void)cop_flow_add(&c->flow, 2 + a, 1, fmax(lacks[a], 0));
    }
    for (pair = 0; pair < n_pairs; pair++) {
        (void)cop_flow_add(&c->flow, 0, 2 + n + pair, mass[pair]);
    }
    (void)cop_flow_solve(&c->flow, 0, 1);
    pair = 0;
    for (int32_t a = 0; a < n; a++) {
        for (int32_t b = a + 1; b < n; b++, pair++) {
            double to_b = cop_flow_on(&c->flow, 2 * pair + 1);
            double to_a =
                lacks[a] >= lacks[b] ? mass[pair] - to_b : cop_flow_on(&c->flow, 2 * pair);
            double w = mass[pair] > 0 ? fmin(fmax(to_a / mass[pair], 0), 1) : 1;
            c->wins[a][b] = w;
            c->wins[b][a] = 1 - w;
        }
    }
}

/* The winner's law after a round against the draw with law `q` on the items from `draft`. */
static void advance(struct contest *c, const double *q, const struct cop_row *draft)
{
    int32_t n = c->head.n, rest = n;
    double next[COP_HEAD_ITEMS], stays = q[rest], enters = 0;
    for (int32_t a = 0; a <= n; a++) {
        next[a] = c->law[a] * q[a];
        for (int32_t b = 0; b <= n; b++) {
            next[a] += b != a ? c->wins[a][b] * (c->law[a] * q[b] + c->law[b] * q[a]) : 0;
        }
    }
    for (int32_t b = 0; b < n; b++) {
        stays += q[b] * c->wins[rest][b];
        enters += c->law[b] * c->wins[rest][b];
    }
    for (int32_t j = 0; j < c->n_drafts; j++) {
        c->scales[j] *= stays;
    }
    if (c->n_drafts > 0 && c->drafts[c->n_drafts - 1] == draft) {
        c->scales[c->n_drafts - 1] += enters;
    } else {
        c->drafts[c->n_drafts] = draft;
        c->scales[c->n_drafts++] = enters;
    }
    memcpy(c->law, next, sizeof next);
}

/* ---- The tournament
 * --------------------------------------------------------------------------- */

/* The child that draw j gave. */
static int32_t drawn_child(struct contest *c, int32_t j)
{
    const struct cop_tree *tree = c->in->tree;
    if (!tree->is_merged) {
        return j;
    }
    int32_t child = 0, n_left = c->siblings.n_draws - j;
    uint32_t key = cop_tree_child_key(tree->key[c->siblings.node], j);
    for (; child < c->siblings.n - 1; child++) {
        double share = c->uncalled[child] / (double)n_left;
        if (c->uncalled[child] > 0 && cop_flip(c->in->draws, cop_purpose("order"),
                                               cop_tree_child_key(key, child), share)) {
            break;
        }
        n_left -= c->uncalled[child];
    }
    c->uncalled[child]--;
    return child;
}

/* The child that is chosen; leaves its law in c. */
static int32_t choose_child(struct contest *c)
{
    const struct cop_tree *tree = c->in->tree;
    const struct cop_siblings *s = &c->siblings;
    double q[COP_HEAD_ITEMS];
    int32_t winner = drawn_child(c, 0);
    cop_head_law(&c->head, s->drafts[0], q);
    memcpy(c->law, q, sizeof q);
    c->drafts[0] = s->drafts[0];
    c->scales[0] = 1;
    c->n_drafts = 1;
    for (int32_t j = 1; j < s->n_draws; j++) {
        const struct cop_row *draft = s->same_draft ? s->drafts[0] : s->drafts[j];
        int32_t child = drawn_child(c, j);
        if (!s->same_draft) {
            cop_head_law(&c->head, draft, q);
        }
        weigh(c, q);
        advance(c, q, draft);
        int32_t a = cop_head_item(&c->head, tree->token[s->children[winner]]);
        int32_t b = cop_head_item(&c->head, tree->token[s->children[child]]);
        uint32_t key = cop_tree_child_key(tree->key[s->node], j);
        if (a != b && !cop_flip(c->in->draws, cop_purpose("choose"), key, c->wins[a][b])) {
            winner = child;
        }
    }
    return s->children[winner];
}

/* Whether the chosen child is kept. */
static bool keep(const struct contest *c, int32_t child, const struct cop_row *target)
{
    cop_token token = c->in->tree->token[child];
    int32_t item = cop_head_item(&c->head, token);
    double p = cop_row_probability(target, token), q = item < c->head.n ? c->law[item] : 0;
    for (int32_t j = 0; j < c->n_drafts && item == c->head.n; j++) {
        q += c->scales[j] * cop_row_probability(c->drafts[j], token);
    }
    return cop_flip(c->in->draws, cop_purpose("accept"), c->in->tree->key[child],
                    q > 0 ? fmin(1, p / q) : 0);
}

static void subtract_law(struct contest *c, const struct cop_row *target)
{
    cop_left_reset(&c->left, target);
    for (int32_t i = 0; i < c->head.n; i++) {
        cop_left_set(&c->left, c->head.ids[i], c->head.target[i] - c->law[i]);
    }
    for (int32_t j = 0; j < c->n_drafts; j++) {
        cop_left_take(&c->left, c->drafts[j], c->scales[j]);
    }
}

/* ---- The walk
 * --------------------------------------------------------------------------------- */

static enum cop_status reserve(struct contest *c, const struct cop_tree *tree,
                               struct cop_error *err)
{
    size_t n = (size_t)tree->size;
    enum cop_status status = cop_siblings_init(&c->siblings, tree, err);
    if (status == COP_OK) {
        status = cop_left_init(&c->left, tree, COP_HEAD_LIMIT, err);
    }
    if (status == COP_OK) {
        status = cop_flow_init(&c->flow, 2 + COP_HEAD_ITEMS + PAIRS, COP_HEAD_ITEMS + 3 * PAIRS,
                               err);
    }
    c->uncalled = malloc(n * sizeof *c->uncalled);
    c->drafts = malloc(n * sizeof *c->drafts);
    c->scales = malloc(n * sizeof *c->scales);
    if (status == COP_OK && (!c->uncalled || !c->drafts || !c->scales)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for accept.canonical");
    }
    return status;
}

static void release(struct contest *c)
{
    cop_siblings_release(&c->siblings);
    cop_left_release(&c->left);
    cop_flow_release(&c->flow);
    free(c->uncalled);
    free(c->drafts);
    free(c->scales);
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    struct contest *c = *(struct contest *const *)state;
    const struct cop_siblings *s = &c->siblings;
    const struct cop_row *target = cop_rows_at(&in->target, node);
    enum cop_status status = cop_siblings_read(&c->siblings, in, node, "canonical", err);
    if (status != COP_OK) {
        return status;
    }
    for (int32_t j = 0; j < s->n; j++) {
        c->uncalled[j] = in->tree->multiplicity[s->children[j]];
    }
    cop_head_fill(&c->head, s, target, c->vocabulary);
    int32_t child = choose_child(c);
    if (!keep(c, child, target)) {
        subtract_law(c, target);
        child = cop_left_try(&c->left, in, node, s->children[s->n - 1]);
    }
    choice->child = child;
    if (child < 0) {
        choice->token =
            cop_left_pick(&c->left, in->draws, cop_purpose("recover"), in->tree->key[node]);
    }
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    struct contest contest = {.in = in,
                              .vocabulary = ((const struct options_of *)state)->vocabulary};
    struct contest *const scratch = &contest;
    enum cop_status status = reserve(&contest, in->tree, err);
    if (status == COP_OK) {
        status = cop_levels_walk(decide, &scratch, in, out, err);
    }
    release(&contest);
    return status;
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_canonical = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "canonical",
             .help =
                 "chooses one of a node's drafted tokens by a tournament with optimised "
                 "weights, then keeps it with probability min(1, target / q_I), q_I being "
                 "the law of the chosen token; else draws from norm((target - q_I)+). Widths "
                 "may depend on the context, not on earlier siblings",
             .source = "Khisti et al. 2025, arXiv:2410.18234",
             .synonyms = "canonical decomposition, importance sampling step, "
                         "multi-draft speculative sampling",
             .state_size = sizeof(struct options_of),
             .options = options},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .several_rows = true,
    .cost =
        "1 of the draft row and a flow of 36 pairs (by default) for each further child at a "
        "visited node; 1 more of both rows at the rejected node",
};
