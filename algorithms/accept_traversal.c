/* Traversal verification: a tree from its leaves up, so that a path is given up only when all
 * paths below each of its nodes have failed.
 *
 * Every node a holds a weight w and the law P of what is still owed below it, at first w = 1 at
 * the root and P = target; a child x drawn from Q has
 *
 *     w(x) = min(1, w P(x) / Q(x))
 *
 * The first leaf in draw order is kept with probability w(leaf), with a last token ~ P. When a
 * child x has failed, its parent changes to
 *
 *     above = sum (w P - Q)+,   P <- (w P - Q)+ / above,   w <- above / (above + 1 - w)
 *
 * (the root's w stays 1), and the next child is seen as drawn from Q without x, renormalised.
 * A node whose children have all failed is a leaf.
 *
 * P never needs a row of its own: it is (scale target - sum of scales draft rows)+ / mass, see
 * surplus.h, and what failed before has P = 0 without being listed, since x fails only where w
 * P(x) < Q(x). Equal siblings from one row count once, in order of first appearance: that is a
 * draw without replacement of a random number of children. Siblings from several drafters each
 * keep their own row, equal or not. A chain is block verification, one level is recursive
 * rejection without replacement. */
#include "algorithms/block.h"
#include "algorithms/siblings.h"
#include "algorithms/surplus.h"

#include <math.h>
#include <stdlib.h>

/* One node of the path under test. P = (scale target - sum of terms)+ / mass; the terms are
 * the draft rows of the children that have been tried, one each. */
struct frame {
    int32_t node;
    int32_t child; /* on trial, or the last that failed; the node itself: none yet */
    double weight, scale, mass;
    int32_t first_term, n_terms;
    int32_t trial; /* the term that `child` was drawn from */
};
struct walk {
    const struct cop_verify_in *in;
    struct frame *frames;           /* [tree size], from the root down */
    struct cop_surplus_term *terms; /* [tree size], those of all frames one after another */
    double *left;            /* [tree size] mass of a term's row without failed children */
    cop_token *gone;         /* [tree size] scratch */
    struct cop_surplus rest; /* the last one measured: of the parent of who failed */
    int32_t depth;
};

static struct cop_surplus owed(const struct walk *walk, const struct frame *f)
{
    return (struct cop_surplus){.target = cop_rows_at(&walk->in->target, f->node),
                                .target_scale = f->scale,
                                .terms = walk->terms + f->first_term,
                                .n_terms = f->n_terms};
}

/* Rows of one drafter at one node, even where each child has a view of its own. */
static bool is_same_row(const struct cop_row *a, const struct cop_row *b)
{
    return a == b || (a->kind == b->kind && a->logits == b->logits && a->dense == b->dense &&
                      a->ids == b->ids && a->mask == b->mask &&
                      a->inverse_temperature == b->inverse_temperature && a->best == b->best);
}

/* Whether an elder child from the same row carries the token of `child`. */
static bool is_twin(const struct walk *walk, int32_t node, int32_t child)
{
    const struct cop_tree *tree = walk->in->tree;
    const struct cop_row *row = cop_rows_at(&walk->in->draft, child);
    for (int32_t i = tree->is_merged ? child : cop_next_child(tree, node, node); i < child;
         i = cop_next_child(tree, node, i)) {
        if (tree->token[i] == tree->token[child] &&
            is_same_row(cop_rows_at(&walk->in->draft, i), row)) {
            return true;
        }
    }
    return false;
}

/* The next child to try, or -1; *has_rows turns false where one has no draft row. */
static int32_t next_child(const struct walk *walk, const struct frame *f, bool *has_rows)
{
    int32_t child = f->child;
    do {
        child = cop_next_child(walk->in->tree, f->node, child);
        *has_rows = child < 0 || cop_rows_at(&walk->in->draft, child) != NULL;
    } while (child > 0 && *has_rows && is_twin(walk, f->node, child));
    return child;
}

static int32_t find_term(struct walk *walk, struct frame *f, const struct cop_row *row)
{
    for (int32_t k = f->first_term; k < f->first_term + f->n_terms; k++) {
        if (is_same_row(walk->terms[k].row, row)) {
            return k;
        }
    }
    int32_t k = f->first_term + f->n_terms++;
    walk->terms[k] = (struct cop_surplus_term){.row = row, .scale = 0};
    walk->left[k] = 1;
    return k;
}

/* Puts `child` on trial: its frame, with weight min(1, w P(x) / Q(x)). */
static void descend(struct walk *walk, int32_t child)
{
    struct frame *f = &walk->frames[walk->depth];
    cop_token token = walk->in->tree->token[child];
    f->child = child;
    f->trial = find_term(walk, f, cop_rows_at(&walk->in->draft, child));
    double left = walk->left[f->trial];
    double q = cop_row_probability(walk->terms[f->trial].row, token);
    double weight = 0;
    if (f->weight > 0 && q > 0 && left > 0) { /* else it was not drawn from this row */
        struct cop_surplus rest = owed(walk, f);
        weight = fmin(1, f->weight * cop_surplus_at(&rest, token) / f->mass * (left / q));
    }
    walk->depth++;
    walk->frames[walk->depth] = (struct frame){.node = child,
                                               .child = child,
                                               .weight = weight,
                                               .scale = 1,
                                               .mass = 1,
                                               .first_term = f->first_term + f->n_terms};
}

/* The tokens of the children that were tried from the row of the one on trial. */
static struct cop_rest without_failed(const struct walk *walk, const struct frame *f)
{
    struct cop_rest rest = {.row = walk->terms[f->trial].row, .gone = walk->gone};
    for (int32_t i = f->node; i != f->child;) {
        i = cop_next_child(walk->in->tree, f->node, i);
        if (is_same_row(cop_rows_at(&walk->in->draft, i), rest.row)) {
            walk->gone[rest.n_gone++] = walk->in->tree->token[i];
        }
    }
    return rest;
}

/* The child on trial has failed: P and w of its parent, which becomes the last frame. */
static void climb(struct walk *walk)
{
    struct frame *f = &walk->frames[--walk->depth];
    if (!(f->weight > 0)) {
        return; /* nothing below can be kept any more */
    }
    double factor = f->weight / f->mass;
    f->scale *= factor;
    for (int32_t k = f->first_term; k < f->first_term + f->n_terms; k++) {
        walk->terms[k].scale *= factor;
    }
    walk->terms[f->trial].scale += walk->left[f->trial] > 0 ? 1 / walk->left[f->trial] : 0;
    walk->rest = owed(walk, f);
    walk->rest.watched = without_failed(walk, f);
    cop_surplus_measure(&walk->rest);
    double above = walk->rest.above;
    walk->left[f->trial] = walk->rest.left;
    f->mass = above > 0 ? above : 1;
    if (f->weight < 1) {
        f->weight = above > 0 ? above / (above + (1 - f->weight)) : 0;
    }
}

/* Whether the last frame's node is kept; the root is. */
static bool is_kept(const struct walk *walk)
{
    const struct frame *f = &walk->frames[walk->depth];
    return walk->depth == 0 || cop_flip(walk->in->draws, cop_purpose("accept"),
                                        walk->in->tree->key[f->node], f->weight);
}

static void finish(const struct walk *walk, struct cop_verdict *out)
{
    const struct cop_draws *draws = walk->in->draws;
    const struct frame *f = &walk->frames[walk->depth];
    uint32_t key = walk->in->tree->key[f->node];
    for (int32_t d = 1; d <= walk->depth; d++) {
        out->accepted[out->n_accepted++] = walk->frames[d].node;
    }
    if (f->child == f->node) {
        struct cop_weights target = cop_row_weights(cop_rows_at(&walk->in->target, f->node));
        out->last = cop_pick(draws, cop_purpose("bonus"), key, &target);
        out->origin = COP_ORIGIN_BONUS;
    } else {
        out->last = cop_surplus_pick(&walk->rest, draws, cop_purpose("recover"), key);
        out->origin = COP_ORIGIN_RECOVERED;
    }
}

static enum cop_status traverse(struct walk *walk, struct cop_verdict *out,
                                struct cop_error *err)
{
    walk->frames[0] = (struct frame){.weight = 1, .scale = 1, .mass = 1};
    for (;;) {
        bool has_rows;
        int32_t child = next_child(walk, &walk->frames[walk->depth], &has_rows);
        if (!has_rows) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.traversal needs every draft row");
        }
        if (child > 0) {
            descend(walk, child);
        } else if (is_kept(walk)) {
            finish(walk, out);
            return COP_OK;
        } else {
            climb(walk);
        }
    }
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    if (cop_rows_at(&in->target, 0)->kind == COP_ROW_ONE_HOT) { /* temperature 0 */
        return cop_accept_match.verify(NULL, in, out, err);
    }
    size_t n = (size_t)in->tree->size;
    struct walk walk = {.in = in,
                        .frames = malloc(n * sizeof *walk.frames),
                        .terms = malloc(n * sizeof *walk.terms),
                        .left = malloc(n * sizeof *walk.left),
                        .gone = malloc(n * sizeof *walk.gone)};
    enum cop_status status =
        walk.frames && walk.terms && walk.left && walk.gone
            ? traverse(&walk, out, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory to traverse a tree of %zu nodes", n);
    free(walk.frames);
    free(walk.terms);
    free(walk.left);
    free(walk.gone);
    return status;
}

static const struct cop_claim claims[] = {{COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_traversal = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "traversal",
             .help = "from the leaves up: keeps the first leaf with probability w = min(1, "
                     "w_parent P / Q); where it fails, P of its parent becomes norm((w P - "
                     "Q)+), w becomes A / (A + 1 - w), and Q loses the child; equal siblings "
                     "count once, in order of first appearance",
             .source = "Weng et al. 2025, arXiv:2505.12398",
             .synonyms = "traversal verification"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .verify = verify,
    .several_rows = true,
    .cost = "1 at the parent of each node that fails, of the target row and its draft rows",
};
