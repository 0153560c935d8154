/* Rules that are broken on purpose, each by one known fault, and their sound twins: the check
 * of rules must flag the former and pass the latter, or it proves nothing.
 *
 * They claim to be lossless, as the code did in which the faults were found
 * (exact_rules.md 8.8, pitfalls.md kind a). Small vocabularies only: rows are copied into
 * arrays. */
#ifndef TESTS_ALGORITHMS_CONTROLS_H
#define TESTS_ALGORITHMS_CONTROLS_H

#include "core/cycle/contract/rule.h"

#include <math.h>
#include <string.h>

enum { CONTROL_VOCAB = 16, CONTROL_NODES = 128, CONTROL_DEPTH = 8 };

enum control_fault {
    CONTROL_SOUND,
    /* chains, token by token */
    CONTROL_DROPS_STOPPER,     /* a drafted token 1 is treated as if it had not been drafted */
    CONTROL_TARGET_RESIDUAL,   /* recovers from the target row */
    CONTROL_BONUS_FROM_PARENT, /* the row before the last accepted token */
    CONTROL_LATE_REJECTION,    /* recovers from the row after the rejected token */
    CONTROL_ONE_COIN,          /* the first decision stands for all positions */
    CONTROL_TEMPERED_DRAFT,    /* the ratio takes another temperature's draft row */
    CONTROL_SHIFTED_ROWS,      /* the draft row of the next position */
    CONTROL_ROOT_ROWS,         /* every position is judged by the root's target row */
    CONTROL_KEEPS_IMPOSSIBLE,  /* u <= p / q where p = 0 */
    CONTROL_SMOOTHED,          /* 1e-4 is added to every entry of a residual */
    CONTROL_TIRED,             /* from the second cycle on everything is kept */
    CONTROL_UNIFORM_FALLBACK,  /* an empty residual becomes a uniform draw */
    /* siblings */
    CONTROL_BY_PROBABILITY,   /* siblings in the order of their draft probability */
    CONTROL_TWINS_SKIPPED,    /* equal siblings passed over, with the update for replacement */
    CONTROL_NO_UPDATE,        /* every sibling against the whole target */
    CONTROL_NOT_RENORMALISED, /* drawn tokens are zeroed in the draft row, the rest not scaled
                               */
    CONTROL_FIRST_DRAFTER,    /* the first sibling's row stands for all */
    CONTROL_ONE_RHO,          /* K-SEQ with rho = 1 for several siblings */
    /* blocks */
    CONTROL_BREAKS,         /* stops at the first coin that fails */
    CONTROL_UNCAPPED_LAST,  /* the last position by the uncapped joint ratio */
    CONTROL_TOKEN_RESIDUAL, /* the residual of the token rule */
    /* whole trees */
    CONTROL_WEIGHT_IS_MASS, /* traversal: the parent's new weight is min(1, A) */
    CONTROL_TIES_DISAGREE,  /* multi-path block: ties one way in the law, another in the choice
                             */
};

struct control_row {
    double p[CONTROL_VOCAB];
};

static int32_t control_fill(const struct cop_row *row, struct control_row *out)
{
    memset(out, 0, sizeof *out);
    if (row) {
        cop_row_fill(row, 0, row->vocab, out->p);
    }
    return row ? row->vocab : 0;
}

static void control_weights_fill(const void *context, int32_t first, int32_t count, double *out)
{
    memcpy(out, ((const struct control_row *)context)->p + first, (size_t)count * sizeof *out);
}

static cop_token control_pick(const struct cop_verify_in *in, const char *purpose, int32_t node,
                              const struct control_row *row, int32_t vocab)
{
    struct cop_weights weights = {.vocab = vocab, .fill = control_weights_fill, .context = row};
    return cop_pick(in->draws, cop_purpose(purpose), in->tree->key[node], &weights);
}

/* out = (scale * a - b)+; returns the sum. */
static double control_minus(const struct control_row *a, double scale,
                            const struct control_row *b, struct control_row *out)
{
    double sum = 0;
    for (int32_t i = 0; i < CONTROL_VOCAB; i++) {
        out->p[i] = fmax(0, scale * a->p[i] - b->p[i]);
        sum += out->p[i];
    }
    return sum;
}

static void control_scale(struct control_row *row, double factor)
{
    for (int32_t i = 0; i < CONTROL_VOCAB; i++) {
        row->p[i] *= factor;
    }
}

static double control_ratio(double p, double q)
{
    return q > 0 ? p / q : 0;
}

/* ---- Chains, token by token
 * -------------------------------------------------------------------
 */

static bool control_is_drafted(const struct cop_verify_in *in, enum control_fault fault,
                               int32_t child)
{
    return child > 0 && !(fault == CONTROL_DROPS_STOPPER && in->tree->token[child] == 1);
}

static double control_keep(const struct cop_verify_in *in, enum control_fault fault,
                           int32_t node, int32_t child, struct control_row *draft)
{
    struct control_row target;
    int32_t next = cop_tree_child(in->tree, child, 0);
    bool is_shifted = fault == CONTROL_SHIFTED_ROWS && next > 0;
    (void)control_fill(cop_rows_at(&in->target, fault == CONTROL_ROOT_ROWS ? 0 : node),
                       &target);
    (void)control_fill(cop_rows_at(&in->draft, is_shifted ? next : child), draft);
    if (fault == CONTROL_TEMPERED_DRAFT) {
        double sum = 0;
        for (int32_t i = 0; i < CONTROL_VOCAB; i++) {
            sum += draft->p[i] = sqrt(draft->p[i]);
        }
        control_scale(draft, 1 / sum);
    }
    cop_token token = in->tree->token[child];
    double keep = fmin(1, control_ratio(target.p[token], draft->p[token]));
    return fault == CONTROL_KEEPS_IMPOSSIBLE ? fmax(keep, 1e-9) : keep;
}

static cop_token control_recover(const struct cop_verify_in *in, enum control_fault fault,
                                 int32_t node, int32_t child, const struct control_row *draft)
{
    struct control_row target, rest;
    int32_t at = fault == CONTROL_LATE_REJECTION ? child
                 : fault == CONTROL_ROOT_ROWS    ? 0
                                                 : node;
    int32_t vocab = control_fill(cop_rows_at(&in->target, at), &target);
    if (fault == CONTROL_TARGET_RESIDUAL || fault == CONTROL_LATE_REJECTION) {
        return control_pick(in, "recover", node, &target, vocab);
    }
    double sum = control_minus(&target, 1, draft, &rest);
    for (int32_t i = 0; i < vocab; i++) {
        bool is_empty = fault == CONTROL_UNIFORM_FALLBACK && sum < 1e-9;
        rest.p[i] += is_empty ? 1 : fault == CONTROL_SMOOTHED && sum > 0 ? 1e-4 : 0;
    }
    return control_pick(in, "recover", node, sum > 0 ? &rest : &target, vocab);
}

static enum cop_status control_token(enum control_fault fault, const struct cop_verify_in *in,
                                     struct cop_verdict *out)
{
    int32_t node = 0, child;
    bool decision = false;
    struct control_row draft, target;
    uint8_t *cycles = in->sequence_state;
    bool is_tired = cycles && *cycles > 0;
    if (cycles && *cycles < 100) {
        ++*cycles;
    }
    while (control_is_drafted(in, fault, child = cop_tree_child(in->tree, node, 0))) {
        double keep = control_keep(in, fault, node, child, &draft);
        decision = fault == CONTROL_ONE_COIN && node > 0
                       ? decision
                       : cop_flip(in->draws, cop_purpose("accept"), in->tree->key[child],
                                  is_tired && keep > 0 ? 1 : keep);
        if (!decision) {
            out->last = control_recover(in, fault, node, child, &draft);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = child;
        node = child;
    }
    int32_t at = fault == CONTROL_BONUS_FROM_PARENT && node > 0 ? in->tree->parent[node] : node;
    int32_t vocab = control_fill(cop_rows_at(&in->target, at), &target);
    out->last = control_pick(in, "bonus", node, &target, vocab);
    return COP_OK;
}

/* Verifies as if the temperature were 0. */
static enum cop_status control_argmax(enum control_fault fault, const struct cop_verify_in *in,
                                      struct cop_verdict *out)
{
    (void)fault;
    int32_t node = 0;
    for (;;) {
        cop_token best = -1;
        (void)cop_row_top(cop_rows_at(&in->target, node), 1, &best);
        int32_t child = cop_tree_find(in->tree, node, best);
        out->last = best;
        if (child < 0) {
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = child;
    }
}

/* ---- Siblings
 * ---------------------------------------------------------------------------------
 */

/* Residuals from child to child: with replacement the draft row stays, without it loses the
 * drawn token. */
struct control_level {
    struct control_row target, draft;
    int32_t vocab;
    bool is_drawn[CONTROL_VOCAB];
    int32_t children[CONTROL_NODES], n;
};

static void control_open(const struct cop_verify_in *in, enum control_fault fault, int32_t node,
                         struct control_level *level)
{
    memset(level, 0, sizeof *level);
    level->vocab = control_fill(cop_rows_at(&in->target, node), &level->target);
    level->n = cop_tree_children(in->tree, node);
    for (int32_t j = 0; j < level->n; j++) {
        level->children[j] = cop_tree_child(in->tree, node, j);
    }
    if (level->n == 0) {
        return;
    }
    (void)control_fill(cop_rows_at(&in->draft, level->children[0]), &level->draft);
    for (int32_t j = 1; fault == CONTROL_BY_PROBABILITY && j < level->n; j++) {
        int32_t child = level->children[j], i = j;
        for (; i > 0 && level->draft.p[in->tree->token[level->children[i - 1]]] <
                            level->draft.p[in->tree->token[child]];
             i--) {
            level->children[i] = level->children[i - 1];
        }
        level->children[i] = child;
    }
}

static void control_refuse_child(enum control_fault fault, bool replaces, cop_token token,
                                 struct control_level *level)
{
    struct control_row rest;
    double sum = control_minus(&level->target, 1, &level->draft, &rest);
    if (fault != CONTROL_NO_UPDATE && sum > 0) {
        control_scale(&rest, 1 / sum);
        level->target = rest;
    }
    level->is_drawn[token] = true;
    if (!replaces) {
        level->draft.p[token] = 0;
        double left = 0;
        for (int32_t i = 0; i < level->vocab; i++) {
            left += level->draft.p[i];
        }
        if (left > 0 && fault != CONTROL_NOT_RENORMALISED) {
            control_scale(&level->draft, 1 / left);
        }
    }
}

static enum cop_status control_recursive(enum control_fault fault,
                                         const struct cop_verify_in *in,
                                         struct cop_verdict *out)
{
    bool replaces = in->tree->draw == COP_DRAW_INDEPENDENT && !in->tree->is_merged;
    int32_t node = 0;
    struct control_level level;
    for (;;) {
        int32_t kept = -1;
        control_open(in, fault, node, &level);
        for (int32_t j = 0; j < level.n && kept < 0; j++) {
            int32_t child = level.children[j];
            cop_token token = in->tree->token[child];
            if (fault == CONTROL_TWINS_SKIPPED && level.is_drawn[token]) {
                continue;
            }
            if (replaces && fault != CONTROL_FIRST_DRAFTER) {
                (void)control_fill(cop_rows_at(&in->draft, child), &level.draft);
            }
            double keep = fmin(1, control_ratio(level.target.p[token], level.draft.p[token]));
            if (cop_flip(in->draws, cop_purpose("accept"), in->tree->key[child], keep)) {
                kept = child;
            } else {
                control_refuse_child(fault, replaces, token, &level);
            }
        }
        if (kept < 0) {
            out->last = control_pick(in, "last", node, &level.target, level.vocab);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = kept;
    }
}

/* K-SEQ with rho = 1: the residual that the formula asks for has negative entries. */
static enum cop_status control_kseq(enum control_fault fault, const struct cop_verify_in *in,
                                    struct cop_verdict *out)
{
    (void)fault;
    int32_t node = 0;
    struct control_level level;
    for (;;) {
        int32_t kept = -1;
        control_open(in, CONTROL_SOUND, node, &level);
        double beta = 0;
        for (int32_t i = 0; i < level.vocab; i++) {
            beta += fmin(level.target.p[i], level.draft.p[i]);
        }
        for (int32_t j = 0; j < level.n && kept < 0; j++) {
            cop_token x = in->tree->token[level.children[j]];
            double keep = fmin(1, control_ratio(level.target.p[x], level.draft.p[x]));
            if (cop_flip(in->draws, cop_purpose("accept"), in->tree->key[level.children[j]],
                         keep)) {
                kept = level.children[j];
            }
        }
        if (kept < 0) {
            double accepted = 1 - pow(1 - beta, level.n), sum = 0;
            struct control_row rest = level.target;
            for (int32_t i = 0; i < level.vocab && beta > 0; i++) {
                double taken = fmin(level.target.p[i], level.draft.p[i]) * accepted / beta;
                rest.p[i] = fmax(0, level.target.p[i] - taken);
                sum += rest.p[i];
            }
            out->last =
                control_pick(in, "last", node, sum > 0 ? &rest : &level.target, level.vocab);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = kept;
    }
}

/* One coin a level walks along the children's target probabilities; equal siblings count
 * twice. */
static enum cop_status control_walk(enum control_fault fault, const struct cop_verify_in *in,
                                    struct cop_verdict *out)
{
    (void)fault;
    int32_t node = 0;
    struct control_level level;
    for (;;) {
        control_open(in, CONTROL_SOUND, node, &level);
        struct control_row shares = {{0}};
        double left = 1;
        for (int32_t j = 0; j < level.n && j < CONTROL_VOCAB - 1; j++) {
            shares.p[j] = fmin(left, level.target.p[in->tree->token[level.children[j]]]);
            left -= shares.p[j];
        }
        int32_t n = level.n < CONTROL_VOCAB - 1 ? level.n : CONTROL_VOCAB - 1;
        shares.p[n] = fmax(0, left);
        int32_t j = control_pick(in, "walk", node, &shares, n + 1);
        if (j < 0 || j == n) {
            for (int32_t i = 0; i < level.n; i++) {
                level.target.p[in->tree->token[level.children[i]]] = 0;
            }
            out->last = control_pick(in, "last", node, &level.target, level.vocab);
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = level.children[j];
    }
}

/* ---- Blocks
 * -----------------------------------------------------------------------------------
 */

struct control_block {
    int32_t path[CONTROL_DEPTH], length, vocab;
    struct control_row target[CONTROL_DEPTH + 1], draft[CONTROL_DEPTH];
    double weight[CONTROL_DEPTH + 1];
};

static void control_weigh(const struct cop_verify_in *in, enum control_fault fault,
                          struct control_block *block)
{
    double joint = 1;
    block->weight[0] = 1;
    for (int32_t i = 0; i < block->length; i++) {
        cop_token x = in->tree->token[block->path[i]];
        double ratio = control_ratio(block->target[i].p[x], block->draft[i].p[x]);
        joint *= ratio;
        block->weight[i + 1] = fmin(1, block->weight[i] * ratio);
    }
    if (fault == CONTROL_UNCAPPED_LAST && block->length > 0) {
        block->weight[block->length] = fmin(1, joint);
    }
}

/* Probability that position i is a good place to stop. */
static double control_stop(const struct control_block *block, int32_t i)
{
    struct control_row above, below;
    double w = block->weight[i];
    if (i == block->length || w >= 1) {
        return w;
    }
    double more = control_minus(&block->target[i], w, &block->draft[i], &above);
    struct control_row scaled = block->target[i];
    control_scale(&scaled, w);
    double less = control_minus(&block->draft[i], 1, &scaled, &below);
    return less > 0 ? more / less : 1;
}

static void control_judge(const struct cop_verify_in *in, enum control_fault fault,
                          struct control_block *block, struct cop_verdict *out)
{
    int32_t stop = 0;
    control_weigh(in, fault, block);
    for (int32_t i = 1; i <= block->length; i++) {
        if (cop_flip(in->draws, cop_purpose("accept"), in->tree->key[block->path[i - 1]],
                     control_stop(block, i))) {
            stop = i;
        } else if (fault == CONTROL_BREAKS) {
            break;
        }
    }
    memcpy(out->accepted, block->path, (size_t)stop * sizeof *block->path);
    out->n_accepted = stop;
    struct control_row rest = block->target[stop];
    if (stop < block->length) {
        double w = fault == CONTROL_TOKEN_RESIDUAL ? 1 : block->weight[stop];
        if (!(control_minus(&block->target[stop], w, &block->draft[stop], &rest) > 0)) {
            rest = block->target[stop];
        }
    }
    out->last = control_pick(in, "last", stop ? block->path[stop - 1] : 0, &rest, block->vocab);
}

static enum cop_status control_chain_block(enum control_fault fault,
                                           const struct cop_verify_in *in,
                                           struct cop_verdict *out)
{
    struct control_block block = {.length = 0};
    block.vocab = control_fill(cop_rows_at(&in->target, 0), &block.target[0]);
    for (int32_t node = 0, child;
         (child = cop_tree_child(in->tree, node, 0)) > 0 && block.length < CONTROL_DEPTH;
         node = child) {
        (void)control_fill(cop_rows_at(&in->draft, child), &block.draft[block.length]);
        block.path[block.length++] = child;
        (void)control_fill(cop_rows_at(&in->target, child), &block.target[block.length]);
    }
    control_judge(in, fault, &block, out);
    return COP_OK;
}

/* ---- The best of several paths, then a block
 * --------------------------------------------------
 */

/* The order of token t among all: by target / draft, then by id. */
static bool control_is_below(const struct control_row *target, const struct control_row *draft,
                             bool is_clamped, int32_t a, int32_t b)
{
    double x = draft->p[a] > 0 ? target->p[a] / draft->p[a] : 1e9;
    double y = draft->p[b] > 0 ? target->p[b] / draft->p[b] : 1e9;
    x = is_clamped ? fmin(1, x) : x;
    y = is_clamped ? fmin(1, y) : y;
    return x < y || (x == y && a < b);
}

static int32_t control_best_child(const struct cop_verify_in *in, enum control_fault fault,
                                  int32_t node, const struct control_row *target,
                                  const struct control_row *draft)
{
    bool is_clamped = fault == CONTROL_TIES_DISAGREE;
    int32_t best = cop_tree_child(in->tree, node, 0);
    for (int32_t j = 1; j < cop_tree_children(in->tree, node); j++) {
        int32_t child = cop_tree_child(in->tree, node, j);
        int32_t a = in->tree->token[best], b = in->tree->token[child];
        bool is_tie = is_clamped && fmin(1, target->p[a] / draft->p[a]) ==
                                        fmin(1, target->p[b] / draft->p[b]);
        if (!is_tie && control_is_below(target, draft, is_clamped, a, b)) {
            best = child;
        }
    }
    return best;
}

static enum cop_status control_multipath(enum control_fault fault,
                                         const struct cop_verify_in *in,
                                         struct cop_verdict *out)
{
    struct control_block block = {.length = 0};
    double below = 0, here = 1, n_paths = in->tree->multiplicity[0];
    int32_t node = 0;
    block.vocab = control_fill(cop_rows_at(&in->target, 0), &block.target[0]);
    while (cop_tree_children(in->tree, node) > 0 && block.length < CONTROL_DEPTH) {
        struct control_row *target = &block.target[block.length], draft;
        struct control_row *chosen = &block.draft[block.length];
        (void)control_fill(cop_rows_at(&in->draft, cop_tree_child(in->tree, node, 0)), &draft);
        int32_t child = control_best_child(in, fault, node, target, &draft);
        double sum = 0, under = 0;
        for (int32_t t = 0; t < block.vocab; t++) {
            double f = 0;
            for (int32_t s = 0; s < block.vocab; s++) {
                bool is_clamped = fault == CONTROL_TIES_DISAGREE;
                f += control_is_below(target, &draft, is_clamped, s, t) ? draft.p[s] : 0;
            }
            under = t == in->tree->token[child] ? f : under;
            chosen->p[t] =
                pow(below + here * (f + draft.p[t]), n_paths) - pow(below + here * f, n_paths);
            chosen->p[t] = draft.p[t] > 0 ? chosen->p[t] : 0;
            sum += chosen->p[t];
        }
        control_scale(chosen, 1 / sum);
        below += here * under;
        here *= draft.p[in->tree->token[child]];
        block.path[block.length++] = node = child;
        (void)control_fill(cop_rows_at(&in->target, child), &block.target[block.length]);
    }
    control_judge(in, CONTROL_SOUND, &block, out);
    return COP_OK;
}

/* ---- From the leaves up
 * -----------------------------------------------------------------------
 */

struct control_traversal {
    const struct cop_tree *tree;
    struct control_row target[CONTROL_NODES], draft[CONTROL_NODES];
    double weight[CONTROL_NODES];
    bool is_gone[CONTROL_NODES];
};

static int32_t control_first_leaf(const struct control_traversal *t)
{
    int32_t node = 0;
    for (int32_t j = 0; j < cop_tree_children(t->tree, node); j++) {
        int32_t child = cop_tree_child(t->tree, node, j);
        if (!t->is_gone[child]) {
            node = child;
            j = -1;
        }
    }
    return node;
}

/* Weights of everything below `top` from its parents'. */
static void control_refresh(struct control_traversal *t, int32_t top)
{
    for (int32_t node = 1; node < t->tree->size; node++) {
        if (t->is_gone[node] || node == top || !cop_tree_is_ancestor(t->tree, top, node)) {
            continue;
        }
        int32_t parent = t->tree->parent[node];
        cop_token x = t->tree->token[node];
        double ratio = control_ratio(t->target[parent].p[x], t->draft[parent].p[x]);
        t->weight[node] = fmin(1, t->weight[parent] * ratio);
    }
}

static void control_drop_leaf(struct control_traversal *t, enum control_fault fault,
                              int32_t leaf)
{
    int32_t above = t->tree->parent[leaf];
    struct control_row rest, *draft = &t->draft[above];
    double w = t->weight[above];
    double mass = control_minus(&t->target[above], w, draft, &rest);
    t->is_gone[leaf] = true;
    if (mass > 0) {
        control_scale(&rest, 1 / mass);
        t->target[above] = rest;
    }
    if (above > 0) {
        t->weight[above] = !(mass > 0)                       ? 0
                           : fault == CONTROL_WEIGHT_IS_MASS ? fmin(1, mass)
                                                             : mass / (mass + (1 - w));
    }
    draft->p[t->tree->token[leaf]] = 0;
    double left = 0;
    for (int32_t i = 0; i < CONTROL_VOCAB; i++) {
        left += draft->p[i];
    }
    if (left > 0) {
        control_scale(draft, 1 / left);
    }
    control_refresh(t, above);
}

static enum cop_status control_traverse(enum control_fault fault,
                                        const struct cop_verify_in *in, struct cop_verdict *out)
{
    struct control_traversal t = {.tree = in->tree};
    int32_t vocab = 0, leaf;
    for (int32_t node = 0; node < in->tree->size; node++) {
        vocab = control_fill(cop_rows_at(&in->target, node), &t.target[node]);
        int32_t child = cop_tree_child(in->tree, node, 0);
        (void)control_fill(child > 0 ? cop_rows_at(&in->draft, child) : NULL, &t.draft[node]);
    }
    t.weight[0] = 1;
    control_refresh(&t, 0);
    while ((leaf = control_first_leaf(&t)) > 0 &&
           !cop_flip(in->draws, cop_purpose("accept"), in->tree->key[leaf], t.weight[leaf])) {
        control_drop_leaf(&t, fault, leaf);
    }
    out->n_accepted = cop_tree_path(in->tree, leaf, out->accepted);
    out->last = control_pick(in, "last", leaf, &t.target[leaf], vocab);
    return COP_OK;
}

/* ---- The list
 * ---------------------------------------------------------------------------------
 */

/* name, family, fault, draw, shape, bytes of state */
#define CONTROLS(_)                                                                            \
    _(sound_token, token, SOUND, INDEPENDENT, CHAIN, 0)                                        \
    _(sound_recursive, recursive, SOUND, INDEPENDENT, TREE, 0)                                 \
    _(sound_without, recursive, SOUND, WITHOUT_REPLACEMENT, TREE, 0)                           \
    _(sound_block, chain_block, SOUND, INDEPENDENT, CHAIN, 0)                                  \
    _(sound_multipath, multipath, SOUND, INDEPENDENT, PATHS, 0)                                \
    _(sound_traversal, traverse, SOUND, WITHOUT_REPLACEMENT, TREE, 0)                          \
    _(drops_stopper, token, DROPS_STOPPER, INDEPENDENT, CHAIN, 0)                              \
    _(best_as_sample, token, SOUND, DETERMINISTIC, CHAIN, 0)                                   \
    _(siblings_by_probability, recursive, BY_PROBABILITY, WITHOUT_REPLACEMENT, TREE, 0)        \
    _(twins_skipped, recursive, TWINS_SKIPPED, INDEPENDENT, TREE, 0)                           \
    _(uncapped_last, chain_block, UNCAPPED_LAST, INDEPENDENT, CHAIN, 0)                        \
    _(weight_is_mass, traverse, WEIGHT_IS_MASS, WITHOUT_REPLACEMENT, TREE, 0)                  \
    _(ties_disagree, multipath, TIES_DISAGREE, INDEPENDENT, PATHS, 0)                          \
    _(twins_counted, walk, SOUND, INDEPENDENT, TREE, 0)                                        \
    _(block_breaks, chain_block, BREAKS, INDEPENDENT, CHAIN, 0)                                \
    _(target_residual, token, TARGET_RESIDUAL, INDEPENDENT, CHAIN, 0)                          \
    _(bonus_from_parent, token, BONUS_FROM_PARENT, INDEPENDENT, CHAIN, 0)                      \
    _(late_rejection, token, LATE_REJECTION, INDEPENDENT, CHAIN, 0)                            \
    _(one_coin, token, ONE_COIN, INDEPENDENT, CHAIN, 0)                                        \
    _(tempered_draft, token, TEMPERED_DRAFT, INDEPENDENT, CHAIN, 0)                            \
    _(shifted_rows, token, SHIFTED_ROWS, INDEPENDENT, CHAIN, 0)                                \
    _(root_rows, token, ROOT_ROWS, INDEPENDENT, CHAIN, 0)                                      \
    _(keeps_impossible, token, KEEPS_IMPOSSIBLE, INDEPENDENT, CHAIN, 0)                        \
    _(smoothed, token, SMOOTHED, INDEPENDENT, CHAIN, 0)                                        \
    _(tired, token, TIRED, INDEPENDENT, CHAIN, 1)                                              \
    _(argmax, argmax, SOUND, DETERMINISTIC, TREE, 0)                                           \
    _(no_update, recursive, NO_UPDATE, INDEPENDENT, TREE, 0)                                   \
    _(not_renormalised, recursive, NOT_RENORMALISED, WITHOUT_REPLACEMENT, TREE, 0)             \
    _(first_drafter, recursive, FIRST_DRAFTER, INDEPENDENT, TREE, 0)                           \
    _(one_rho, kseq, ONE_RHO, INDEPENDENT, TREE, 0)                                            \
    _(token_residual, chain_block, TOKEN_RESIDUAL, INDEPENDENT, CHAIN, 0)                      \
    _(wrong_draw, recursive, SOUND, GREEDY, TREE, 0)

#define CONTROL_RULE(name_, family, fault, draw_, shape_, bytes)                               \
    static enum cop_status name_##_verify(const void *state, const struct cop_verify_in *in,   \
                                          struct cop_verdict *out, struct cop_error *err)      \
    {                                                                                          \
        (void)state, (void)err;                                                                \
        enum cop_status status = control_##family(CONTROL_##fault, in, out);                   \
        int32_t stop = out->n_accepted ? out->accepted[out->n_accepted - 1] : 0;               \
        out->origin =                                                                          \
            cop_tree_children(in->tree, stop) > 0 ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;   \
        return status;                                                                         \
    }                                                                                          \
    static const struct cop_claim name_##_claims[] = {                                         \
        {COP_DRAW_##draw_, COP_SHAPE_##shape_, false}, {.draw = COP_DRAW_AUTO}};               \
    static const struct cop_rule_ops name_##_rule = {.plug = {.abi = COP_PLUG_ABI,             \
                                                              .kind = COP_PLUG_RULE,           \
                                                              .name = #name_,                  \
                                                              .help = "a control",             \
                                                              .source = "tests"},              \
                                                     .sequence_state_size = bytes,             \
                                                     .several_rows =                           \
                                                         COP_SHAPE_##shape_ == COP_SHAPE_TREE, \
                                                     .lossless_for = name_##_claims,           \
                                                                                               \
                                                     .verify = name_##_verify};
CONTROLS(CONTROL_RULE)

#define CONTROL_PLUG(name_, family, fault, draw_, shape_, bytes) &name_##_rule.plug,
static const struct cop_plug *const control_plugs[] = {CONTROLS(CONTROL_PLUG) NULL};

#endif
