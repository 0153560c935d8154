/* The continued law: what comes out when the target goes on after the last enumerated token,
 * beside what the target alone would have said.
 *
 * For a sequence s let ended(s) be the probability that the output begins with s and the cycles
 * were over within it; ended(s + y) = ended(s) * target(y | s) + final(s + y). What lies below
 * s in the trie has not ended yet, so the output begins with s with probability ended(s) +
 * below(s). Sequences of full length have nothing below. */
#include "core/cycle/law/prefixes.h"

#include <math.h>

struct walk {
    struct cop_prefixes *prefixes;
    struct cop_law *law;
    struct cop_error *err;
    int32_t length;
    double distance; /* sum of |output - target| over full sequences */
};

/* A child always comes after its parent in the list. */
static void sum_below(struct cop_prefixes *prefixes)
{
    for (int32_t i = prefixes->count - 1; i > 0; i--) {
        struct cop_prefix *item = &prefixes->items[i];
        prefixes->items[item->parent].below += item->below + item->final;
    }
}

static enum cop_status visit(struct walk *walk, int32_t prefix, double ended, double target);

static enum cop_status visit_child(struct walk *walk, int32_t prefix, cop_token token,
                                   double ended, double target)
{
    struct cop_prefixes *prefixes = walk->prefixes;
    int32_t depth = prefixes->items[prefix].length;
    bool is_full = depth + 1 == walk->length;
    if (is_full && prefixes->items[prefix].first_child == 0) { /* nothing rests on it */
        walk->distance += fabs(ended - target);
    }
    double output = ended;
    int32_t child = -1;
    if (!is_full || prefixes->items[prefix].first_child != 0) {
        child = cop_prefixes_child(prefixes, prefix, token, walk->err);
        if (child < 0) {
            return walk->err->code;
        }
        ended += prefixes->items[child].final;
        output = ended + prefixes->items[child].below;
        walk->distance += is_full ? fabs(output - target) : 0;
    }
    if (depth <= walk->law->depth) {
        int64_t at = (int64_t)depth * prefixes->vocab + token;
        walk->law->position[at] += output;
        walk->law->target_position[at] += target;
    }
    return is_full ? COP_OK : visit(walk, child, ended, target);
}

static enum cop_status visit(struct walk *walk, int32_t prefix, double ended, double target)
{
    if (!(target > 0) && !(ended > 0) && !(walk->prefixes->items[prefix].below > 0)) {
        return COP_OK;
    }
    const double *row = cop_prefixes_target(walk->prefixes, prefix, walk->err);
    if (!row) {
        return walk->err->code;
    }
    enum cop_status status = COP_OK;
    for (cop_token y = 0; y < walk->prefixes->vocab && status == COP_OK; y++) {
        status = visit_child(walk, prefix, y, ended * row[y], target * row[y]);
    }
    return status;
}

enum cop_status cop_prefixes_compare(struct cop_prefixes *prefixes, int32_t length,
                                     struct cop_law *law, struct cop_error *err)
{
    struct walk walk = {.prefixes = prefixes, .law = law, .err = err, .length = length};
    sum_below(prefixes);
    enum cop_status status = visit(&walk, 0, 0, 1);
    law->total_variation = walk.distance / 2;
    return status;
}
