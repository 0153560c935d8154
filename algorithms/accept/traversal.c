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
#include "algorithms/accept/block.h"
#include "algorithms/accept/levels.h"
#include "algorithms/accept/surplus.h"

#include <math.h>
#include <stdlib.h>

/* One node of the path under test. P is `owed`, whose sum is `mass`; its terms are the draft
 * rows of the children tried so far. */
struct frame {
    int32_t node;
    int32_t child; /* on trial, or the last that failed; the node itself: none yet */
    double weight, mass;
    struct cop_surplus owed;
    int32_t trial; /* the term of the row that `child` was drawn from */
    double left;   /* mass of that row without the children that failed before */
};
struct walk {
    const struct cop_verify_in *in;
    struct frame *frames;           /* [tree size], from the root down */
    struct cop_surplus_term *terms; /* [tree size], those of all frames one after another */
    cop_token *tried;               /* [tree size] scratch */
    double sums[COP_WEIGHT_BLOCKS]; /* of the surplus measured last, if `has_sums` */
    bool has_sums;
    int32_t depth;
};

static const struct cop_row *draft_of(const struct walk *walk, int32_t child)
{
    return cop_rows_at(&walk->in->draft, child);
}

/* The different tokens of the children before `child` from its row, to walk->tried; false where
 * its own is among them. */
static bool list_elders(const struct walk *walk, int32_t node, int32_t child, int32_t *n)
{
    const struct cop_tree *tree = walk->in->tree;
    *n = 0;
    for (int32_t i = node; (i = cop_level_next(tree, node, i)) <= child;) {
        int32_t j = 0;
        while (j < *n && walk->tried[j] != tree->token[i]) {
            j++;
        }
        if (i == child) {
            return j == *n;
        }
        if (j == *n && cop_is_same_row(draft_of(walk, i), draft_of(walk, child))) {
            walk->tried[(*n)++] = tree->token[i];
        }
    }
    return false;
}

/* Puts `child` on trial with weight min(1, w P(x) / Q(x)), unless it is the twin of an elder.
 */
static void descend(struct walk *walk, int32_t child)
{
    struct frame *f = &walk->frames[walk->depth];
    cop_token token = walk->in->tree->token[child];
    const struct cop_row *row = draft_of(walk, child);
    int32_t n = 0;
    f->child = child;
    if (!list_elders(walk, f->node, child, &n)) {
        return;
    }
    f->trial = cop_surplus_subtract(&f->owed, row, 0);
    f->left = n > 0 ? cop_level_mass_without(row, walk->tried, n) : 1;
    double q = cop_row_probability(row, token), weight = 0;
    if (f->weight > 0 && q > 0 && f->left > 0) { /* else it was not drawn from this row */
        weight = fmin(1, f->weight * cop_surplus_at(&f->owed, token) / f->mass * (f->left / q));
    }
    walk->frames[++walk->depth] =
        (struct frame){.node = child,
                       .child = child,
                       .weight = weight,
                       .mass = 1,
                       .owed = {.target = cop_rows_at(&walk->in->target, child),
                                .target_scale = 1,
                                .terms = f->owed.terms + f->owed.n_terms}};
}

/* The child on trial has failed: P and w of its parent, which becomes the last frame. */
static void climb(struct walk *walk)
{
    struct frame *f = &walk->frames[--walk->depth];
    if (!(f->weight > 0)) {
        return; /* nothing below can be kept any more */
    }
    double factor = f->weight / f->mass;
    f->owed.target_scale *= factor;
    for (int32_t k = 0; k < f->owed.n_terms; k++) {
        f->owed.terms[k].scale *= factor;
    }
    f->owed.terms[f->trial].scale += f->left > 0 ? 1 / f->left : 0;
    struct cop_weights owed = cop_surplus_weights(&f->owed);
    double above;
    above = cop_weights_blocks(&owed, walk->sums);
    walk->has_sums = owed.vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK;
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

/* Who is kept after a child has failed was measured just then. */
static void finish(const struct walk *walk, struct cop_verdict *out)
{
    struct frame *f = &walk->frames[walk->depth];
    bool is_leaf = f->child == f->node;
    for (int32_t d = 1; d <= walk->depth; d++) {
        out->accepted[out->n_accepted++] = walk->frames[d].node;
    }
    struct cop_weights owed =
        is_leaf ? cop_row_weights(f->owed.target) : cop_surplus_weights(&f->owed);
    if (!is_leaf && walk->has_sums) {
        owed.block_sums = walk->sums;
    }
    out->last = cop_pick_else(walk->in->draws, cop_purpose(is_leaf ? "bonus" : "recover"),
                              walk->in->tree->key[f->node], &owed, f->owed.target);
    out->origin = is_leaf ? COP_ORIGIN_BONUS : COP_ORIGIN_RECOVERED;
}

static enum cop_status traverse(struct walk *walk, struct cop_verdict *out,
                                struct cop_error *err)
{
    walk->frames[0] = (struct frame){.weight = 1,
                                     .mass = 1,
                                     .owed = {.target = cop_rows_at(&walk->in->target, 0),
                                              .target_scale = 1,
                                              .terms = walk->terms}};
    for (;;) {
        const struct frame *f = &walk->frames[walk->depth];
        int32_t child = cop_level_next(walk->in->tree, f->node, f->child);
        if (child > 0 && !draft_of(walk, child)) {
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
                        .tried = malloc(n * sizeof *walk.tried)};
    enum cop_status status =
        walk.frames && walk.terms && walk.tried
            ? traverse(&walk, out, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory to traverse a tree of %zu nodes", n);
    free(walk.frames);
    free(walk.terms);
    free(walk.tried);
    return status;
}

static const struct cop_claim claims[] = {{COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
                                          {COP_DRAW_BEAM, COP_SHAPE_TREE, false},
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
