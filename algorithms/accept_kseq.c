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
#include "algorithms/levels.h"
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

/* The children of one node under one rho. */
struct level {
    const struct cop_verify_in *in;
    int32_t node;
    const struct cop_row *target;
    double target_sum; /* 1 up to rounding */
    double rho;
    double total; /* W: of the weights below */
    int32_t n_draws, n_children;
    int32_t children[COP_TREE_LIMIT];
    int32_t left[COP_TREE_LIMIT]; /* draws of each child that were not tried yet */
    int32_t n_rows;
    const struct cop_row *rows[COP_TREE_LIMIT]; /* different draft rows of the children */
    double weights[COP_TREE_LIMIT];             /* sum of w_j over the children of a row */
};

/* Sum of min(target / rho, draft), as target / rho less what sticks out over the draft; 0 where
 * that is rounding. */
static double overlap(const struct level *level, const struct cop_row *draft, double rho)
{
    struct cop_residual above = {level->target, draft, .target_scale = 1 / rho,
                                 .draft_scale = 1};
    struct cop_weights weights = cop_residual_weights(&above);
    double beta = level->target_sum / rho - cop_weights_sum(&weights);
    return beta > 1e-14 ? fmin(beta, 1) : 0;
}

static void add_weight(struct level *level, const struct cop_row *draft, double weight)
{
    int32_t i = 0;
    while (i < level->n_rows && level->rows[i] != draft) {
        i++;
    }
    if (i == level->n_rows) {
        level->rows[i] = draft;
        level->weights[i] = 0;
        level->n_rows++;
    }
    level->weights[i] += weight;
    level->total += weight;
}

/* Takes a rho; one pass per draft row. Returns rho - W, which is negative where rho is not
 * valid. A row that has nothing in common with the target takes nothing from it. */
static double set_rho(struct level *level, double rho)
{
    const struct cop_tree *tree = level->in->tree;
    const struct cop_row *last = NULL;
    double reached = 1, beta = 0;
    level->rho = rho;
    level->total = 0;
    level->n_rows = 0;
    for (int32_t i = 0; i < level->n_children; i++) {
        int32_t child = level->children[i];
        const struct cop_row *draft = cop_rows_at(&level->in->draft, child);
        beta = draft == last ? beta : overlap(level, draft, rho);
        last = draft;
        for (int32_t j = 0; beta > 0 && j < tree->multiplicity[child]; j++) {
            add_weight(level, draft, reached);
            reached *= 1 - beta;
        }
    }
    return rho - level->total;
}

/* The least valid rho, from above: the zero of rho - W between 1 and the number of children, by
 * false position, with bisection in between where that is slow. Over a large vocabulary, where
 * every step is a pass, less than 1e-4 above the least will do. */
static void set_least_rho(struct level *level)
{
    double low = 1, high = level->n_draws;
    double tolerance = level->target->vocab <= 4096 ? 1e-15 : 1e-4;
    double at_low = set_rho(level, low);
    if (at_low >= 0 || high <= 1) {
        return;
    }
    double at_high = set_rho(level, high);
    bool was_valid = true;
    for (int step = 1; high - low > tolerance * high; step++) {
        double middle = low + (high - low) * at_low / (at_low - at_high);
        if (step % 4 == 0 || !(middle > low && middle < high)) {
            middle = low + (high - low) / 2;
        }
        if (!(middle > low && middle < high)) {
            break; /* neighbours */
        }
        double at = set_rho(level, middle);
        bool is_valid = at >= 0;
        /* An end that stays twice counts half, so that it moves next (the Illinois rule). */
        double weight = is_valid == was_valid ? 0.5 : 1;
        if (is_valid) {
            high = middle;
            at_high = at;
            at_low *= weight;
        } else {
            low = middle;
            at_low = at;
            at_high *= weight;
        }
        was_valid = is_valid;
    }
    if (level->rho != high) {
        (void)set_rho(level, high);
    }
}

static double kept_share(const struct level *level, const struct cop_row *draft,
                         cop_token token)
{
    double p = cop_row_probability(level->target, token);
    double q = cop_row_probability(draft, token);
    return q > 0 ? p / (level->rho * q) : 0;
}

/* target - sum of weight * min(target / rho, draft). */
static void fill_missing(const void *context, int32_t first, int32_t count, double *out)
{
    const struct level *level = context;
    while (count > 0) {
        double draft[COP_SUM_BLOCK], share[COP_SUM_BLOCK];
        int32_t n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        cop_row_fill(level->target, first, n, out);
        for (int32_t i = 0; i < n; i++) {
            share[i] = out[i] / level->rho;
        }
        for (int32_t r = 0; r < level->n_rows; r++) {
            cop_row_fill(level->rows[r], first, n, draft);
            for (int32_t i = 0; i < n; i++) {
                out[i] -= level->weights[r] * (draft[i] < share[i] ? draft[i] : share[i]);
            }
        }
        for (int32_t i = 0; i < n; i++) {
            out[i] = out[i] > 0 ? out[i] : 0;
        }
        first += n;
        count -= n;
        out += n;
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

static enum cop_status set_level(struct level *level, const struct cop_verify_in *in,
                                 int32_t node, struct cop_error *err)
{
    level->in = in;
    level->node = node;
    level->target = cop_rows_at(&in->target, node);
    struct cop_weights target = cop_row_weights(level->target);
    level->target_sum = level->target->kind == COP_ROW_LOGITS ? 1 : cop_weights_sum(&target);
    level->n_draws = level->n_children = 0;
    for (int32_t child = node; (child = cop_level_next(in->tree, node, child)) > 0;) {
        if (!cop_rows_at(&in->draft, child)) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.kseq needs every draft row");
        }
        level->left[level->n_children] = in->tree->multiplicity[child];
        level->children[level->n_children++] = child;
        level->n_draws += in->tree->multiplicity[child];
    }
    return COP_OK;
}

static void fill_left(const void *context, int32_t first, int32_t count, double *out)
{
    const struct level *level = context;
    for (int32_t i = 0; i < count; i++) {
        out[i] = level->left[first + i];
    }
}

/* The child that draw number `number` gave. */
static int32_t next_draw(struct level *level, int32_t number, uint32_t key)
{
    if (level->n_draws == level->n_children) {
        return level->children[number];
    }
    struct cop_weights left = {.vocab = level->n_children, .fill = fill_left, .context = level};
    int32_t i = cop_pick(level->in->draws, cop_purpose("order"), key, &left);
    if (i < 0) {
        return -1;
    }
    level->left[i]--;
    return level->children[i];
}

static enum cop_status decide(const void *state, const struct cop_verify_in *in, int32_t node,
                              struct cop_level_choice *choice, struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    struct level level;
    enum cop_status status = set_level(&level, in, node, err);
    if (status == COP_OK) {
        status = choose_rho(state, &level, err);
    }
    for (int32_t j = 0; status == COP_OK && j < level.n_draws; j++) {
        uint32_t key = cop_tree_child_key(tree->key[node], j);
        int32_t child = next_draw(&level, j, key);
        if (child < 0) {
            return COP_OK; /* the draws report it */
        }
        double keep = kept_share(&level, cop_rows_at(&in->draft, child), tree->token[child]);
        if (cop_flip(in->draws, cop_purpose("accept"), key, keep)) {
            choice->child = child;
            return COP_OK;
        }
    }
    struct cop_weights missing = {
        .vocab = level.target->vocab, .fill = fill_missing, .context = &level};
    if (status == COP_OK) {
        choice->token = cop_pick_else(in->draws, cop_purpose("recover"), tree->key[node],
                                      &missing, level.target);
    }
    return status;
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
    .cost = "about 6 at each visited node to find rho, 1 more after a rejection of all",
};
