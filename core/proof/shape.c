/* Drawing shapes. */
#include "core/proof/shape.h"

#include "core/base/hash.h"
#include "core/proof/rows.h"
#include <stdio.h>
#include <string.h>

uint64_t cop_proof_bits(struct cop_proof_dice *dice)
{
    return cop_hash_u64(++dice->count, dice->seed);
}

int32_t cop_proof_roll(struct cop_proof_dice *dice, int32_t low, int32_t high)
{
    return low + (int32_t)(cop_proof_bits(dice) % (uint64_t)(high - low + 1));
}

/* ---- Widths that depend on what was drawn
 * -----------------------------------------------------
 */

struct adaptive {
    int32_t depth, width; /* at most */
    uint64_t seed;
    bool is_pruned;   /* drawn tokens are dropped by their own values: draw "selected" */
    bool asks_elders; /* whether there is one more sibling */
};
enum { DEPTH = 8, WIDTH = 8 }; /* of an adaptive tree at most */

/* A number below n that the tokens from below the root down to `node` decide. */
static int32_t decide(const struct adaptive *s, const struct cop_tree *tree, int32_t node,
                      uint64_t question, int32_t n)
{
    cop_token tokens[DEPTH];
    int32_t path[DEPTH], length = cop_tree_path(tree, node, path);
    for (int32_t i = 0; i < length; i++) {
        tokens[i] = tree->token[path[i]];
    }
    return (int32_t)(cop_proof_hash(cop_hash_u64(question, s->seed), tokens, length) %
                     (uint64_t)n);
}

/* Whether there is another child after this one: its tokens may say so, the next one's not. */
static bool goes_on(const struct adaptive *s, const struct cop_tree *tree, int32_t child)
{
    return decide(s, tree, child, 2, 3) > 0;
}

static void grow_independent(const struct adaptive *s, struct cop_grow *grow, int32_t i)
{
    for (int32_t j = 0; j < s->width; j++) {
        int32_t size = grow->tree->size;
        if (cop_grow_draw(grow, i, 1) < 1 || !goes_on(s, grow->tree, size)) {
            break;
        }
    }
}

/* A race of the full width, of which a beginning is used. */
static void grow_race(const struct adaptive *s, struct cop_grow *grow, int32_t i)
{
    cop_token ids[WIDTH];
    uint32_t key = grow->tree->key[grow->frontier[i]];
    int32_t n = cop_race(grow->draws, COP_PURPOSE_DRAFT, key, &grow->rows[i], s->width, ids);
    for (int32_t j = 0; j < n; j++) {
        int32_t child = cop_grow_add(grow, i, ids[j]);
        if (child < 0 || !goes_on(s, grow->tree, child)) {
            break;
        }
    }
}

static void grow_pruned(const struct adaptive *s, struct cop_grow *grow, int32_t i)
{
    struct cop_weights weights = cop_row_weights(&grow->rows[i]);
    int32_t parent = grow->frontier[i];
    for (int32_t j = 0; j < s->width; j++) {
        uint32_t key = cop_tree_child_key(grow->tree->key[parent], j);
        cop_token token = cop_pick(grow->draws, COP_PURPOSE_DRAFT, key, &weights);
        if (decide(s, grow->tree, parent, 3 + (uint64_t)token, 3) > 0) {
            (void)cop_grow_add(grow, i, token);
        }
    }
}

static enum cop_status grow_adaptive(const void *state, struct cop_grow *grow,
                                     struct cop_error *err)
{
    (void)err;
    const struct adaptive *s = state;
    for (int32_t i = 0; grow->level <= s->depth && i < grow->n_frontier; i++) {
        if (decide(s, grow->tree, grow->frontier[i], 1, 5) == 0) {
            continue; /* no child here */
        }
        bool is_sampled = grow->tree->draw != COP_DRAW_DETERMINISTIC;
        if (s->is_pruned && is_sampled) {
            grow_pruned(s, grow, i);
        } else if (s->asks_elders && grow->tree->draw == COP_DRAW_INDEPENDENT) {
            grow_independent(s, grow, i);
        } else if (s->asks_elders && grow->tree->draw == COP_DRAW_WITHOUT_REPLACEMENT) {
            grow_race(s, grow, i);
        } else {
            int32_t low = grow->tree->draw == COP_DRAW_HUB_PAIR ? s->width : 1;
            int32_t more = decide(s, grow->tree, grow->frontier[i], 2, s->width - low + 1);
            (void)cop_grow_draw(grow, i, low + more);
        }
    }
    return COP_OK;
}

static enum cop_shape adaptive_shape(const void *state)
{
    return ((const struct adaptive *)state)->width > 1 ? COP_SHAPE_TREE : COP_SHAPE_CHAIN;
}

static int32_t adaptive_depth(const void *state)
{
    return ((const struct adaptive *)state)->depth;
}

static int32_t adaptive_nodes(const void *state)
{
    const struct adaptive *s = state;
    int32_t level = 1, total = 0;
    for (int32_t d = 0; d < s->depth; d++) {
        level *= s->width;
        total += level;
    }
    return total;
}

static const struct cop_builder_ops adaptive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_BUILDER,
             .name = "adaptive",
             .help = "widths that depend on the context and on the elder siblings",
             .source = "Coppice",
             .state_size = sizeof(struct adaptive)},
    .draws = ~0u,
    .shape = adaptive_shape,
    .depth = adaptive_depth,
    .nodes = adaptive_nodes,
    .grow = grow_adaptive,
};

static enum cop_status new_adaptive(struct cop_part **out, const struct adaptive *state,
                                    struct cop_error *err)
{
    *out = cop_part_new(&adaptive.plug);
    if (!*out) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a builder");
    }
    memcpy((*out)->state, state, sizeof *state);
    return cop_part_prepare(*out, err);
}

/* ---- The engine's builders
 * --------------------------------------------------------------------
 */

static bool has_builder(const struct cop_registry *registry, const char *name,
                        enum cop_draw draw)
{
    const struct cop_builder_ops *ops =
        (const struct cop_builder_ops *)cop_registry_find(registry, COP_PLUG_BUILDER, name);
    return ops && ops->draws & COP_DRAW_BIT(draw);
}

static enum cop_status new_builder(struct cop_part **out, const struct cop_registry *registry,
                                   const char *name, struct cop_error *err)
{
    const struct cop_plug *plug = cop_registry_find(registry, COP_PLUG_BUILDER, name);
    *out = plug ? cop_part_new(plug) : NULL;
    return *out ? COP_OK : cop_fail(err, COP_ERR_ARGUMENT, "there is no builder \"%s\"", name);
}

static enum cop_status set_number(struct cop_part *part, const char *name, int32_t value,
                                  struct cop_error *err)
{
    const struct cop_option *option = cop_option_find(part->plug->options, name);
    return option ? cop_option_set_number(option, part->state, value, "check rules", err)
                  : cop_fail(err, COP_ERR_ARGUMENT, "the builder has no option \"%s\"", name);
}

/* Prepares *out, or frees it. */
static enum cop_status finish(struct cop_part **out, enum cop_status status,
                              struct cop_error *err)
{
    if (status == COP_OK) {
        status = cop_part_prepare(*out, err);
    }
    if (status != COP_OK) {
        cop_part_free(*out);
        *out = NULL;
    }
    return status;
}

enum cop_status cop_proof_widths(struct cop_part **out, const struct cop_registry *registry,
                                 enum cop_draw draw, const int32_t *widths, int32_t depth,
                                 struct cop_error *err)
{
    bool is_chain = has_builder(registry, "chain", draw);
    for (int32_t d = 0; d < depth; d++) {
        is_chain = is_chain && widths[d] == 1;
    }
    enum cop_status status = new_builder(out, registry, is_chain ? "chain" : "widths", err);
    if (status == COP_OK) {
        const struct cop_option *list =
            is_chain ? NULL : cop_option_find((*out)->plug->options, "widths");
        status =
            list ? cop_option_set_ints(list, (*out)->state, widths, depth, "check rules", err)
                 : set_number(*out, "depth", depth, err);
    }
    return finish(out, status, err);
}

enum cop_status cop_proof_merged(struct cop_part **out, const struct cop_registry *registry,
                                 int32_t count, int32_t depth, struct cop_error *err)
{
    enum cop_status status = new_builder(out, registry, "independent_paths", err);
    if (status == COP_OK) {
        status = set_number(*out, "count", count, err);
    }
    if (status == COP_OK) {
        status = set_number(*out, "depth", depth, err);
    }
    return finish(out, status, err);
}

/* A builder that makes its shape while it draws, of about `width` nodes a level. */
static enum cop_status new_sampled(struct cop_part **out, const struct cop_registry *registry,
                                   enum cop_draw draw, int32_t width, int32_t depth,
                                   struct cop_error *err)
{
    bool is_beam = draw == COP_DRAW_BEAM;
    enum cop_status status = new_builder(out, registry, is_beam ? "beam" : "threshold", err);
    if (status == COP_OK) {
        status = set_number(*out, is_beam ? "width" : "budget",
                            is_beam ? width : width * depth + 1, err);
    }
    if (status == COP_OK) {
        status = set_number(*out, "depth", depth, err);
    }
    return finish(out, status, err);
}

/* A closed list of rank paths: every node of a level gets a random number of children, the
 * first one at least one. */
static enum cop_status draw_paths(struct cop_part **out, const struct cop_registry *registry,
                                  const struct cop_proof_size *size,
                                  struct cop_proof_dice *dice, struct cop_error *err)
{
    enum { LEVELS = 3, NODES = 16 };
    int32_t ranks[NODES * LEVELS], lengths[NODES], first[NODES];
    int32_t n = 0, n_ranks = 0, begin = 0, end = 0;
    int32_t depth = cop_proof_roll(dice, 1, size->depth < LEVELS ? size->depth : LEVELS);
    for (int32_t d = 0; d < depth; d++) {
        int32_t parents = d == 0 ? 1 : end - begin;
        for (int32_t p = 0; p < parents; p++) {
            int32_t parent = begin + p, children = cop_proof_roll(dice, p == 0, size->width);
            for (int32_t r = 0; r < children && n < NODES; r++, n++) {
                if (d > 0) {
                    memcpy(ranks + n_ranks, ranks + first[parent], (size_t)d * sizeof *ranks);
                }
                first[n] = n_ranks;
                ranks[n_ranks + d] = r;
                lengths[n] = d + 1;
                n_ranks += d + 1;
            }
        }
        begin = end;
        end = n;
    }
    enum cop_status status = new_builder(out, registry, "paths", err);
    if (status == COP_OK) {
        const struct cop_option *list = cop_option_find((*out)->plug->options, "paths");
        status = list ? cop_option_set_paths(list, (*out)->state, ranks, lengths, n,
                                             "check rules", err)
                      : cop_fail(err, COP_ERR_ARGUMENT, "the builder has no option \"paths\"");
    }
    return finish(out, status, err);
}

/* ---- A draw among all
 * -------------------------------------------------------------------------
 */

static void describe(char *text, size_t room, const struct cop_part *part)
{
    const struct cop_option *option = part->plug->options;
    size_t used = (size_t)snprintf(text, room, "%s", part->plug->name);
    for (; option && option->name && used + 2 < room; option++) {
        used += (size_t)snprintf(text + used, room - used, " ");
        cop_option_print(option, part->state, text + used, room - used);
        used += strlen(text + used);
    }
}

enum cop_status cop_proof_shape(struct cop_part **out, const struct cop_registry *registry,
                                const struct cop_proof_wanted *wanted,
                                const struct cop_proof_size *size, struct cop_proof_dice *dice,
                                char *text, size_t room, struct cop_error *err)
{
    enum cop_draw draw = wanted->draw;
    int32_t depth = cop_proof_roll(dice, 1, size->depth);
    int32_t width = wanted->shape == COP_SHAPE_TREE ? size->width : 1;
    bool is_pruned = draw == COP_DRAW_SELECTED;
    bool is_pair = draw == COP_DRAW_HUB_PAIR && width > 1; /* two children or none */
    int32_t kind = cop_proof_roll(dice, 0, wanted->is_constant ? 6 : 9);
    enum cop_status status;
    if (wanted->shape >= COP_SHAPE_PATHS && draw == COP_DRAW_INDEPENDENT && kind < 3 &&
        has_builder(registry, "independent_paths", draw)) {
        int32_t count = cop_proof_roll(dice, 1, size->width);
        status = cop_proof_merged(out, registry, count, depth, err);
    } else if (draw == COP_DRAW_BEAM && has_builder(registry, "beam", draw)) {
        status = new_sampled(out, registry, draw, width, depth, err);
    } else if (draw == COP_DRAW_WITHOUT_REPLACEMENT && width > 1 && kind < 2 &&
               !wanted->is_constant && has_builder(registry, "threshold", draw)) {
        status = new_sampled(out, registry, draw, width, depth, err);
    } else if (width > 1 && !is_pair && kind < 5 && has_builder(registry, "paths", draw)) {
        status = draw_paths(out, registry, size, dice, err);
    } else if (kind < 7 && !is_pruned && has_builder(registry, "widths", draw)) {
        int32_t widths[DEPTH];
        for (int32_t d = 0; d < depth; d++) {
            widths[d] = is_pair ? 2 : cop_proof_roll(dice, 1, width);
        }
        status = cop_proof_widths(out, registry, draw, widths, depth, err);
    } else {
        struct adaptive state = {.depth = depth,
                                 .width = is_pair ? 2 : width,
                                 .seed = cop_proof_bits(dice),
                                 .is_pruned = is_pruned,
                                 .asks_elders = width > 1 && cop_proof_roll(dice, 0, 2) > 0};
        status = new_adaptive(out, &state, err);
    }
    if (status == COP_OK) {
        describe(text, room, *out);
    }
    return status;
}
