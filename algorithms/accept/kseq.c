/* K-SEQ: the children of a node are tried one after another with the same test, which keeps a
 * token with probability min(1, target / (rho * draft)).
 *
 * Let beta = sum of min(target / rho, draft): a child is kept with probability beta, so the
 * j-th is reached with w_j = (1 - beta)^(j - 1), and the kept token is x with probability W *
 * min(target / rho, draft)(x), W = sum of w_j. What is missing from the target, target - W *
 * min(target / rho, draft), is nowhere negative when W <= rho, and is drawn from if no child
 * was kept. W falls and rho grows with rho, so the valid ones go from a least one, found by
 * bracketing and kept from above, to everything beyond; rho = number of children is always
 * valid. The least rho keeps most children; beyond it the missing mass holds drafted tokens
 * too, and luck makes up for some of the loss.
 *
 * Children of different drafters have a beta of their own, w_j is then the product over the
 * earlier ones, and the same holds. In a merged tree the draws were counted, not ordered; given
 * the counts every order of independent draws is equally likely, so one is drawn. */
#include "algorithms/accept/levels.h"
#include "kernels/ops.h"

#include <math.h>

struct kseq {
    double rho; /* NaN: the least */
};

static const struct cop_option options[] = {
    {.name = "rho",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct kseq, rho),
     .min = 1,
     .max = COP_TREE_LIMIT,
     .flags = COP_OPTION_ABSENT | COP_OPTION_POSITIONAL,
     .help = "divides the acceptance ratio (SpecTr's rho); absent: the least valid one at each "
             "node; the number of children is always valid"},
    {0}};

/* What the children of one draft row, asked for at once, take from the target if none of them
 * is kept: weight * min(left / rho, mass * draft), left being what was there before. */
struct taken {
    const struct cop_row *draft;
    double weight; /* sum of w_j over these children */
    double rho, mass;
    int32_t request;
};

/* One node. Children come in requests (nearly always one): how many there are in a request was
 * settled before they were drawn, whether there is another may depend on them. So each request
 * has a rho of its own, and its target is what the earlier ones left. */
struct level {
    const struct cop_verify_in *in;
    int32_t node;
    const struct cop_row *target;
    double mass; /* of what the requests before this one left */
    double rho;
    int32_t request, n_draws, n_children;
    int32_t children[COP_TREE_LIMIT]; /* of this request */
    int32_t left[COP_TREE_LIMIT];     /* draws of each that were not tried yet */
    double total, reached;            /* W and what is left of 1 after this request */
    int32_t n_before, n_taken;        /* those before this request, all */
    struct taken taken[COP_TREE_LIMIT];
    bool has_sums;                  /* of (target / rho - draft)+ for the last row and rho: */
    double sums[COP_WEIGHT_BLOCKS]; /* block sums */
};

/* What the first n_taken entries leave of the target, in place. */
static void leave(const struct level *level, int32_t n_taken, int32_t first, int32_t count,
                  double *out)
{
    double draft[COP_SUM_BLOCK], share[COP_SUM_BLOCK];
    int32_t request = -1;
    for (int32_t t = 0; t < n_taken; t++) {
        const struct taken *taken = &level->taken[t];
        for (int32_t i = 0; taken->request != request && i < count; i++) {
            share[i] = out[i] / taken->rho;
        }
        request = taken->request;
        cop_row_fill(taken->draft, first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            out[i] -= taken->weight * fmin(share[i], taken->mass * draft[i]);
            out[i] = out[i] > 0 ? out[i] : 0;
        }
    }
}

static double left_at(const struct level *level, cop_token token)
{
    double left = cop_row_probability(level->target, token), share = 0;
    int32_t request = -1;
    for (int32_t t = 0; t < level->n_before; t++) {
        const struct taken *taken = &level->taken[t];
        share = taken->request != request ? left / taken->rho : share;
        request = taken->request;
        left -=
            taken->weight * fmin(share, taken->mass * cop_row_probability(taken->draft, token));
        left = left > 0 ? left : 0;
    }
    return left;
}

static void fill_left(const void *context, int32_t first, int32_t count, double *out)
{
    const struct level *level = context;
    for (int32_t n; count > 0; first += n, count -= n, out += n) {
        n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        cop_row_fill(level->target, first, n, out);
        leave(level, level->n_taken, first, n, out);
    }
}

struct overlap {
    const struct level *level;
    const struct cop_row *draft;
    double rho;
};

static void fill_overlap(const void *context, int32_t first, int32_t count, double *out)
{
    const struct overlap *o = context;
    for (int32_t n; count > 0; first += n, count -= n, out += n) {
        double draft[COP_SUM_BLOCK];
        n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        cop_row_fill(o->level->target, first, n, out);
        leave(o->level, o->level->n_before, first, n, out);
        cop_row_fill(o->draft, first, n, draft);
        for (int32_t i = 0; i < n; i++) {
            out[i] = fmin(out[i] / (o->level->mass * o->rho), draft[i]);
        }
    }
}

/* beta. A row of a model sums to 1 and has a fast pass for what sticks out over another. */
static double overlap(struct level *level, const struct cop_row *draft, double rho)
{
    level->has_sums = level->n_before == 0 && level->target->kind == COP_ROW_LOGITS;
    if (level->has_sums) {
        struct cop_residual above = {level->target, draft, 1 / rho, 1};
        struct cop_weights weights = cop_residual_weights(&above);
        double beta = 1 / rho - cop_weights_blocks(&weights, level->sums);
        return beta > 1e-14 ? fmin(beta, 1) : 0;
    }
    struct overlap both = {level, draft, rho};
    struct cop_weights weights = {
        .vocab = level->target->vocab, .fill = fill_overlap, .context = &both};
    return fmin(cop_weights_sum(&weights), 1);
}

static void take(struct level *level, const struct cop_row *draft)
{
    int32_t i = level->n_before;
    while (i < level->n_taken && level->taken[i].draft != draft) {
        i++;
    }
    if (i == level->n_taken) {
        level->taken[level->n_taken++] =
            (struct taken){draft, 0, level->rho, level->mass, level->request};
    }
    level->taken[i].weight += level->reached;
    level->total += level->reached;
}

/* Takes a rho for this request; one pass per draft row. Returns rho - W, which is negative
 * where rho is not valid. A row that has nothing in common with the target takes nothing. */
static double set_rho(struct level *level, double rho)
{
    const struct cop_tree *tree = level->in->tree;
    const struct cop_row *last = NULL;
    double beta = 0;
    level->rho = rho;
    level->total = 0;
    level->reached = 1;
    level->n_taken = level->n_before;
    for (int32_t i = 0; i < level->n_children; i++) {
        int32_t child = level->children[i];
        const struct cop_row *draft = cop_rows_at(&level->in->draft, child);
        beta = draft == last ? beta : overlap(level, draft, rho);
        last = draft;
        for (int32_t j = 0; beta > 0 && j < tree->multiplicity[child]; j++) {
            take(level, draft);
            level->reached *= 1 - beta;
        }
    }
    return rho - level->total;
}

/* A valid rho from W(1) = (1 - (1 - b)^k) / b alone: the overlap is a concave function of 1 /
 * rho from 0 to b, so at least b / rho, and with that much W <= rho holds from here on. */
static double valid_rho(const struct level *level, double b)
{
    return level->n_taken - level->n_before == 1
               ? fmin(b / (1 - pow(1 - b, 1.0 / level->n_draws)), level->n_draws)
               : level->n_draws;
}

/* The least valid rho, from above: the zero of rho - W by false position, with bisection in
 * between where that is slow. It is at least W(1), as W grows with rho. Over a large
 * vocabulary, where every step is a pass, it aims above and takes a rho that is 2 % too large:
 * what fewer children are kept, luck makes up for. */
static void set_least_rho(struct level *level)
{
    bool is_large = level->target->vocab > COP_SUM_BLOCK;
    double tolerance = is_large ? 0.05 : 1e-15, aim = is_large ? 0.2 : 0;
    double low = 1, at_low = set_rho(level, low);
    if (at_low >= 0 || level->n_draws == 1) {
        return;
    }
    double least = level->total;
    double high = valid_rho(level, 1 - pow(level->reached, 1.0 / level->n_draws));
    double likely = least + 0.55 * (high - least);
    double at_high =
        is_large ? at_low * (high - likely) / (low - likely) : set_rho(level, high);
    double weighed = at_high;
    bool was_valid = true;
    for (int step = 1; at_high > tolerance * high; step++) {
        double middle = low + (high - low) * at_low / (at_low - weighed);
        middle += aim * (high - middle);
        if (step % 4 == 0 || !(middle > low && middle < high)) {
            middle = low + (high - low) / 2;
        }
        middle = fmax(middle, least);
        if (!(middle > low && middle < high)) {
            break; /* neighbours */
        }
        double at = set_rho(level, middle);
        bool is_valid = at >= 0;
        /* An end that stays twice counts half, so that it moves next (the Illinois rule). */
        double weight = is_valid == was_valid ? 0.5 : 1;
        if (is_valid) {
            high = middle;
            weighed = at_high = at;
            at_low *= weight;
        } else {
            low = middle;
            at_low = at;
            weighed *= weight;
        }
        was_valid = is_valid;
    }
    if (level->rho != high) {
        (void)set_rho(level, high);
    }
}

static enum cop_status choose_rho(const struct kseq *settings, struct level *level,
                                  struct cop_error *err)
{
    if (isnan(settings->rho)) {
        set_least_rho(level);
        return COP_OK;
    }
    if (set_rho(level, settings->rho) >= -1e-12) {
        return COP_OK;
    }
    set_least_rho(level);
    return cop_fail(err, COP_ERR_ARGUMENT,
                    "accept.kseq: rho = %.9g would accept more than the target has; for these "
                    "rows and %d draws it must be from %.9g to %d",
                    settings->rho, (int)level->n_draws, level->rho, (int)level->n_draws);
}

/* The next request: its children, from `child` on. Returns the first child after it, or -1. */
static int32_t set_request(struct level *level, int32_t child)
{
    const struct cop_tree *tree = level->in->tree;
    level->n_draws = level->n_children = 0;
    do {
        level->left[level->n_children] = tree->multiplicity[child];
        level->children[level->n_children++] = child;
        level->n_draws += tree->multiplicity[child];
        child = cop_level_next(tree, level->node, child);
    } while (child > 0 && !(tree->flags[child] & COP_NODE_LATER));
    return child;
}

static void fill_untried(const void *context, int32_t first, int32_t count, double *out)
{
    const struct level *level = context;
    for (int32_t i = 0; i < count; i++) {
        out[i] = level->left[first + i];
    }
}

/* The child that draw `number` of this request gave. */
static int32_t next_draw(struct level *level, int32_t number, uint32_t key)
{
    if (level->n_draws == level->n_children) {
        return level->children[number];
    }
    struct cop_weights untried = {
        .vocab = level->n_children, .fill = fill_untried, .context = level};
    int32_t i = cop_pick(level->in->draws, cop_purpose("order"), key, &untried);
    if (i < 0) {
        return -1;
    }
    level->left[i]--;
    return level->children[i];
}

/* Tries the children of one request. Returns the one that is kept, or -1. */
static int32_t try_request(struct level *level, int32_t n_tried)
{
    const struct cop_tree *tree = level->in->tree;
    for (int32_t j = 0; j < level->n_draws; j++) {
        uint32_t key = cop_tree_child_key(tree->key[level->node], n_tried + j);
        int32_t child = next_draw(level, j, key);
        if (child < 0) {
            break; /* the draws report it */
        }
        cop_token token = tree->token[child];
        double law = cop_row_probability(cop_rows_at(&level->in->draft, child), token);
        double keep = law > 0 ? left_at(level, token) / (level->mass * level->rho * law) : 0;
        if (cop_flip(level->in->draws, cop_purpose("accept"), key, keep)) {
            return child;
        }
    }
    return -1;
}

/* A token from what all children left. With one row, target - W min(target / rho, draft) is (1
 * - W / rho) target + W (target / rho - draft)+, whose sums are known: one part is drawn from.
 */
static cop_token pick_left(const struct level *level)
{
    const struct cop_draws *draws = level->in->draws;
    uint32_t key = level->in->tree->key[level->node];
    const struct taken *taken = &level->taken[0];
    if (level->n_taken != 1) {
        struct cop_weights left = {
            .vocab = level->target->vocab, .fill = fill_left, .context = level};
        return cop_pick_else(draws, cop_purpose("recover"), key, &left, level->target);
    }
    double all = fmax(0, 1 - taken->weight / taken->rho);
    if (cop_flip(draws, cop_purpose("part"), key, level->mass > 0 ? all / level->mass : 1)) {
        struct cop_weights target = cop_row_weights(level->target);
        return cop_pick(draws, cop_purpose("recover"), key, &target);
    }
    struct cop_residual above = {level->target, taken->draft, 1 / taken->rho, 1};
    struct cop_weights weights = cop_residual_weights(&above);
    bool fits = weights.vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK;
    weights.block_sums = level->has_sums && fits ? level->sums : NULL;
    return cop_pick_else(draws, cop_purpose("recover"), key, &weights, level->target);
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    for (int32_t child = node; (child = cop_level_next(tree, node, child)) > 0;) {
        if (!cop_rows_at(&in->draft, child)) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.kseq needs every draft row");
        }
    }
    struct level level;
    level.in = in;
    level.node = node;
    level.target = cop_rows_at(&in->target, node);
    level.mass = 1;
    level.request = level.n_taken = level.n_before = 0;
    int32_t n_tried = 0;
    for (int32_t child = cop_level_next(tree, node, node); child > 0 && level.mass > 0;) {
        child = set_request(&level, child);
        enum cop_status status = choose_rho(state, &level, err);
        if (status != COP_OK) {
            return status;
        }
        choice->child = try_request(&level, n_tried);
        if (choice->child > 0) {
            return COP_OK;
        }
        n_tried += level.n_draws;
        level.mass *= level.reached;
        level.n_before = level.n_taken;
        level.request++;
    }
    choice->token = pick_left(&level);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    return cop_levels_walk(decide, state, in, out, err);
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_kseq = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "kseq",
             .help = "tries the children with one test, min(1, target / (rho * draft)); else "
                     "draws from norm(target - W * min(target / rho, draft)), W = (1 - (1 - "
                     "beta)^k) / beta, beta = sum of min(target / rho, draft); valid when W <= "
                     "rho",
             .source = "Sun et al. 2023 (SpecTr), arXiv:2310.15141",
             .synonyms = "K-SEQ, SpecTr, k-sequential selection",
             .state_size = sizeof(struct kseq),
             .options = options},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .follows_luck = true,
    .several_rows = true,
    .cost = "2 or 3 at each visited node, to find rho",
};
