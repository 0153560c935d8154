/* The exact rule against another law, pi, in the target's place: what comes out at a drafted
 * node is pi, whatever was drafted.
 *
 * Siblings are tried as in recursive rejection, with pi for the target; a chain is the case of
 * one child. The bonus token, for which there is no draft, is the target's own. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

struct walk {
    const struct cop_substitution *with;
    const void *state;
    const char *name;
    const struct cop_verify_in *in;
    struct cop_swap swap;
    float *room;  /* cop_swap_room */
    double scale; /* of the draft in what the refused siblings left of pi */
};

static bool is_kept(const struct cop_reading *reading)
{
    return !reading->is_plain && reading->row.kind == COP_ROW_LOGITS;
}

void cop_swap_set_gate(struct cop_swap *swap, const struct cop_reading *by, double bar)
{
    bool is_linear =
        is_kept(&swap->target) && is_kept(&swap->draft) && is_kept(by) && !(swap->banned > 0);
    swap->by = is_linear ? by->row.exponentials : NULL;
    swap->gate.scale = by->row.inverse_normaliser;
    swap->gate.bar = bar;
}

/* (pi - scale draft)+ in one pass, where pi is linear. */
static double fill_linear(const struct cop_swap *swap, double scale, int32_t first,
                          int32_t count, double *out)
{
    const struct cop_row *target = &swap->target.row, *draft = &swap->draft.row;
    struct cop_gate gate = swap->gate;
    gate.open_target *= target->inverse_normaliser;
    gate.shut_target *= target->inverse_normaliser;
    gate.open_draft = (gate.open_draft - scale) * draft->inverse_normaliser;
    gate.shut_draft = (gate.shut_draft - scale) * draft->inverse_normaliser;
    bool is_own = gate.open_draft == 0 && gate.shut_draft == 0;
    return cop_gated_block(&gate, target->exponentials + first,
                           (is_own ? target : draft)->exponentials + first, swap->by + first,
                           count, out);
}

static int32_t block_count(const struct cop_swap *swap, int32_t first)
{
    return swap->vocab - first < COP_SUM_BLOCK ? swap->vocab - first : COP_SUM_BLOCK;
}

double cop_swap_sum(const struct cop_swap *swap)
{
    struct cop_weights weights = {.vocab = swap->vocab, .fill = cop_swap_fill, .context = swap};
    double sum = 0;
    if (!swap->by) {
        return cop_weights_sum(&weights);
    }
    for (int32_t first = 0; first < swap->vocab; first += COP_SUM_BLOCK) {
        sum += fill_linear(swap, 0, first, block_count(swap, first), NULL);
    }
    return sum;
}

float *cop_swap_room(struct cop_swap *swap)
{
    if (!*swap->room) {
        *swap->room = malloc((size_t)swap->vocab * sizeof **swap->room);
    }
    return *swap->room;
}

static bool is_quick(const struct cop_swap *swap)
{
    return swap->by || (swap->weights && is_kept(&swap->draft));
}

/* (pi - scale draft)+ of a block where that is quick; returns its blocked sum. */
static double fill_quick(const struct walk *walk, int32_t first, int32_t count, double *out)
{
    const struct cop_swap *swap = &walk->swap;
    const struct cop_row *draft = &swap->draft.row;
    if (swap->by) {
        return fill_linear(swap, walk->scale, first, count, out);
    }
    return cop_residual_block(swap->weights + first, swap->weight_scale,
                              draft->exponentials + first,
                              walk->scale * draft->inverse_normaliser, count, out);
}

static void fill_slow(const struct walk *walk, int32_t first, int32_t count, double *out)
{
    double draft[COP_SUM_BLOCK];
    walk->swap.fill(&walk->swap, first, count, out);
    if (walk->scale > 0) {
        cop_reading_fill(&walk->swap.draft, first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            double rest = out[i] - walk->scale * draft[i];
            out[i] = rest > 0 ? rest : 0;
        }
    }
}

static void fill_rest(const void *context, int32_t first, int32_t count, double *out)
{
    const struct walk *walk = context;
    bool quick = is_quick(&walk->swap);
    while (count > 0) {
        int32_t n = count < COP_SUM_BLOCK ? count : COP_SUM_BLOCK;
        if (quick) {
            (void)fill_quick(walk, first, n, out);
        } else {
            fill_slow(walk, first, n, out);
        }
        first += n;
        count -= n;
        out += n;
    }
}

/* What the refused siblings left of pi; `sums`: room for COP_WEIGHT_BLOCKS. */
static struct cop_weights rest_of(const struct walk *walk, double *sums)
{
    struct cop_weights rest = {.vocab = walk->swap.vocab, .fill = fill_rest, .context = walk};
    if (is_quick(&walk->swap) && rest.vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK) {
        for (int32_t first = 0; first < rest.vocab; first += COP_SUM_BLOCK) {
            sums[first / COP_SUM_BLOCK] =
                fill_quick(walk, first, block_count(&walk->swap, first), NULL);
        }
        rest.block_sums = sums;
    }
    return rest;
}

/* Draft mass on tokens that the target's logits exclude: nobody is ever to say those. */
static double banned_mass(const struct cop_swap *swap)
{
    const float *logits = swap->target.row.logits;
    double draft[COP_SUM_BLOCK], sum = 0;
    for (int32_t first = 0; logits && first < swap->vocab; first += COP_SUM_BLOCK) {
        int32_t left = swap->vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        if (cop_count_above(logits + first, count, -HUGE_VALF) == count) { /* no ban */
            continue;
        }
        cop_reading_fill(&swap->draft, first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            sum += isinf(logits[first + i]) ? draft[i] : 0;
        }
    }
    return sum;
}

void cop_swap_fill_trusted(const struct cop_swap *swap, int32_t first, int32_t count,
                           const double *target, double *out)
{
    const float *logits = swap->target.row.logits;
    cop_reading_fill(&swap->draft, first, count, out);
    if (!logits || !(swap->banned > 0)) {
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        double own = isinf(logits[first + i]) ? 0 : out[i];
        out[i] = own + swap->banned * target[i];
    }
}

void cop_swap_fill(const void *context, int32_t first, int32_t count, double *out)
{
    const struct cop_swap *swap = context;
    swap->fill(swap, first, count, out);
}

/* Makes pi of a node; `draft` is NULL at a leaf. */
static enum cop_status make_pi(struct walk *walk, const struct cop_row *target,
                               const struct cop_row *draft, struct cop_error *err)
{
    bool is_zero = target->kind == COP_ROW_ONE_HOT;
    struct cop_swap *swap = &walk->swap;
    *swap = (struct cop_swap){.vocab = target->vocab, .room = &walk->room};
    swap->target = is_zero ? cop_read_plain(target) : cop_read_as_is(target);
    if (draft) {
        swap->draft = is_zero ? cop_read_plain(draft) : cop_read_as_is(draft);
        swap->banned = walk->with->trusts_draft ? banned_mass(swap) : 0;
    } else {
        swap->draft = swap->target; /* without weight */
    }
    walk->scale = 0;
    return walk->with->prepare(walk->state, swap, err);
}

static double pi_at(const struct walk *walk, cop_token token)
{
    double value = 0;
    walk->swap.fill(&walk->swap, token, 1, &value);
    return value;
}

static double mass_outside(const struct walk *walk, int32_t child)
{
    const struct cop_tree *tree = walk->in->tree;
    int32_t node = tree->parent[child];
    double gone = 0;
    for (int32_t i = node; (i = cop_next_child(tree, node, i)) > 0 && i < child;) {
        gone += cop_reading_probability(&walk->swap.draft, tree->token[i]);
    }
    return 1 - gone > 1e-12 ? 1 - gone : 0;
}

/* The kept child of `node`, or -1. */
static int32_t try_children(struct walk *walk, int32_t node)
{
    const struct cop_tree *tree = walk->in->tree;
    bool replaces = tree->draw != COP_DRAW_WITHOUT_REPLACEMENT && !tree->is_merged;
    double mass = 1, sums[COP_WEIGHT_BLOCKS];
    for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
        cop_token token = tree->token[child];
        if (walk->scale > 0) {
            struct cop_weights rest = rest_of(walk, sums);
            mass = cop_weights_sum(&rest);
        }
        double left = replaces ? 1 : mass_outside(walk, child);
        double q = cop_reading_probability(&walk->swap.draft, token);
        double law = left > 0 ? q / left : 0;
        double own = fmax(0, pi_at(walk, token) - walk->scale * q);
        double keep = law > 0 && mass > 0 ? fmin(1, own / (mass * law)) : 0;
        if (cop_flip(walk->in->draws, cop_purpose("accept"), tree->key[child], keep)) {
            return child;
        }
        walk->scale += left > 0 ? mass / left : 0;
    }
    return -1;
}

static cop_token best_of_pi(const struct walk *walk)
{
    double values[COP_SUM_BLOCK], most = 0;
    cop_token best = -1;
    for (int32_t first = 0; first < walk->swap.vocab; first += COP_SUM_BLOCK) {
        int32_t left = walk->swap.vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        walk->swap.fill(&walk->swap, first, count, values);
        for (int32_t i = 0; i < count; i++) {
            if (values[i] > most) {
                most = values[i];
                best = first + i;
            }
        }
    }
    return best;
}

/* The one draft row of the children of `node`. */
static enum cop_status draft_of(const struct walk *walk, int32_t node,
                                const struct cop_row **draft, struct cop_error *err)
{
    const struct cop_tree *tree = walk->in->tree;
    *draft = NULL;
    for (int32_t child = node; (child = cop_next_child(tree, node, child)) > 0;) {
        const struct cop_row *row = cop_rows_at(&walk->in->draft, child);
        if (!row) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.%s needs every draft row",
                            walk->name);
        }
        if (*draft && !cop_is_same_law(*draft, row)) {
            return cop_fail(err, COP_ERR_UNSUPPORTED,
                            "accept.%s takes siblings from one drafter, not from several",
                            walk->name);
        }
        *draft = row;
    }
    return COP_OK;
}

/* Decides at a node that has children: a kept one, or the last token. */
static enum cop_status step(struct walk *walk, int32_t node, int32_t *kept,
                            struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_verify_in *in = walk->in;
    const struct cop_row *target = cop_rows_at(&in->target, node), *draft;
    enum cop_status status = draft_of(walk, node, &draft, err);
    if (status == COP_OK) {
        status = make_pi(walk, target, draft, err);
    }
    if (status != COP_OK) {
        return status;
    }
    if (target->kind == COP_ROW_ONE_HOT) {
        out->last = best_of_pi(walk);
        out->is_substitute = true;
        *kept = cop_tree_find(in->tree, node, out->last);
        return COP_OK;
    }
    *kept = try_children(walk, node);
    if (*kept < 0) {
        double sums[COP_WEIGHT_BLOCKS];
        struct cop_weights rest = rest_of(walk, sums);
        /* Nothing is left where only rounding refused the last child. */
        out->last = cop_pick_else(in->draws, cop_purpose("recover"), in->tree->key[node], &rest,
                                  target);
    }
    return COP_OK;
}

static enum cop_status end(struct walk *walk, int32_t node, struct cop_verdict *out,
                           struct cop_error *err)
{
    const struct cop_verify_in *in = walk->in;
    const struct cop_row *target = cop_rows_at(&in->target, node);
    out->origin = COP_ORIGIN_BONUS;
    out->is_substitute = false;
    if (!walk->with->is_own_law || target->kind == COP_ROW_ONE_HOT) {
        cop_end_with_target(in, node, false, out);
        return COP_OK;
    }
    enum cop_status status = make_pi(walk, target, NULL, err);
    if (status == COP_OK) {
        double sums[COP_WEIGHT_BLOCKS];
        struct cop_weights pi = rest_of(walk, sums);
        out->last = cop_pick(in->draws, cop_purpose("bonus"), in->tree->key[node], &pi);
    }
    return status;
}

static enum cop_status go_down(struct walk *walk, struct cop_verdict *out,
                               struct cop_error *err)
{
    int32_t node = 0;
    while (cop_next_child(walk->in->tree, node, node) > 0) {
        int32_t kept;
        enum cop_status status = step(walk, node, &kept, out, err);
        if (status != COP_OK) {
            return status;
        }
        if (kept < 0) {
            out->origin = COP_ORIGIN_RECOVERED;
            return COP_OK;
        }
        out->accepted[out->n_accepted++] = node = kept;
    }
    return end(walk, node, out, err);
}

enum cop_status cop_swap_walk(const struct cop_substitution *with, const void *state,
                              const char *name, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    struct walk walk = {.with = with, .state = state, .name = name, .in = in};
    enum cop_status status = go_down(&walk, out, err);
    free(walk.room);
    return status;
}
