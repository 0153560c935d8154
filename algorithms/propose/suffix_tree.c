/* SuffixDecoding: the most frequent continuations of the longest useful match, from a suffix
 * tree of this request (prompt and answer) and one of the answers before it.
 *
 * For every length m that the context's end matches with, up to floor(m * factor) tokens are
 * drafted: the probability of a node is the number of its occurrences per occurrence of the
 * match, and nothing below min_probability is drafted. The score of a draft is the sum of its
 * probabilities; the highest score wins, of equal ones the request's own tree, then the longer
 * match. shape = "path" follows the most frequent child; "tree" takes the most probable node
 * below any that it has.
 *
 * All of these are ratios of counts, so scores are compared as integers. No draft scores more
 * than it has nodes or levels, which the length of the match bounds: the matches of the
 * greatest bound are tried first, and the search ends where no better score is possible.
 *
 * An answer enters the global tree when its request ends, whatever ended it; the oldest text is
 * forgotten when there are more than `requests`. */
#include "algorithms/history/suffix_tree.h"
#include "algorithms/history/room.h"
#include "algorithms/propose/points.h"
#include "algorithms/tree/own_tree.h"

#include <stdlib.h>
#include <string.h>

enum { SHAPE_PATH, SHAPE_TREE };

struct suffix_decoding {
    int32_t max_depth, max_tokens, shape, requests;
    double min_probability, factor;
    struct cop_path_list history;
};

static const struct cop_option options[] = {
    {.name = "max_depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct suffix_decoding, max_depth),
     .min = 2,
     .max = 1024,
     .fallback = 64,
     .help = "longest string that is indexed: match and draft together, tokens"},
    {.name = "min_probability",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct suffix_decoding, min_probability),
     .min = 0,
     .max = 1,
     .fallback = 0.1,
     .help = "share of the match's occurrences below which nothing is drafted"},
    {.name = "max_tokens",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct suffix_decoding, max_tokens),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 32,
     .help = "nodes of a draft at most"},
    {.name = "factor",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct suffix_decoding, factor),
     .min = 0,
     .max = 1e6,
     .fallback = 1,
     .help = "tokens drafted per matched token at most"},
    {.name = "shape",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct suffix_decoding, shape),
     .fallback = SHAPE_PATH,
     .choices = "path|tree",
     .help = "the most frequent path, or the most probable tree"},
    {.name = "requests",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct suffix_decoding, requests),
     .min = 1,
     .max = 1 << 24,
     .fallback = 10000,
     .help = "texts in the global tree, history included; the oldest are forgotten first"},
    {.name = "history",
     .type = COP_OPTION_LISTS,
     .offset = offsetof(struct suffix_decoding, history),
     .min = 0,
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "texts that the global tree begins with, lists of token ids"},
    {0}};

static int32_t own_depth(const void *state)
{
    const struct suffix_decoding *how = state;
    return how->max_tokens < how->max_depth ? how->max_tokens : how->max_depth - 1;
}

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    const struct suffix_decoding *how = state;
    bool is_path = how->shape == SHAPE_PATH;
    return cop_own_tree_new(is_path ? COP_SHAPE_CHAIN : COP_SHAPE_TREE, own_depth(state),
                            is_path ? own_depth(state) : how->max_tokens, builder, err);
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct context {
    struct cop_suffix_tree tree; /* of the request; its text is the context */
    int32_t n_prompt;
    struct cop_suffix_place *places; /* [n_places, of max_depth] in the global tree, of the
                                        ends of the context, longest first */
    int32_t n_places;
    uint32_t version; /* of the global tree that they stand in */
    struct cop_points points;
    int32_t n_matched;
};
/* The edge of a growing tree: the token at `place` comes `count` times. */
struct candidate {
    int32_t count;
    int32_t parent; /* in the draft */
    struct cop_suffix_place place;
};
struct session {
    const struct suffix_decoding *options;
    int32_t vocab_size, n_sequences, context;
    struct cop_suffix_tree global;
    struct context *contexts; /* [n_sequences] */
    struct cop_points spare;  /* the draft that is tried */
    int32_t *children;        /* [max_tokens] */
    struct candidate *heap;   /* [n_heap, of heap_capacity] */
    int32_t n_heap, heap_capacity;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->contexts && i < session->n_sequences; i++) {
        struct context *context = &session->contexts[i];
        cop_suffix_tree_release(&context->tree);
        cop_points_release(&context->points);
        free(context->places);
    }
    cop_suffix_tree_release(&session->global);
    cop_points_release(&session->spare);
    free(session->contexts);
    free(session->children);
    free(session->heap);
    free(session);
}

/* A text of its own in the global tree. */
static enum cop_status remember(struct session *session, const cop_token *ids, int32_t n,
                                struct cop_error *err)
{
    struct cop_suffix_tree *global = &session->global;
    enum cop_status status = COP_OK;
    while (global->n_texts > 0 && (global->n_texts >= session->options->requests ||
                                   global->nodes[0].count + n > COP_SUFFIX_LIMIT)) {
        cop_suffix_tree_forget(global);
    }
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_suffix_tree_push(global, ids[i], err);
    }
    return status == COP_OK ? cop_suffix_tree_finish(global, err) : status;
}

static enum cop_status index_history(struct session *session, struct cop_error *err)
{
    const struct suffix_decoding *how = session->options;
    const struct cop_path_list *history = &how->history;
    enum cop_status status = cop_points_check_lists(
        history, session->vocab_size, "cop.propose.suffix_tree: option \"history\"", err);
    if (status == COP_OK) {
        status =
            cop_suffix_tree_init(&session->global, how->max_depth, how->min_probability, err);
    }
    for (int32_t l = 0; l < history->count && status == COP_OK; l++) {
        int32_t n = history->starts[l + 1] - history->starts[l];
        status =
            n > 0 ? remember(session, history->ranks + history->starts[l], n, err) : status;
    }
    return status;
}

static enum cop_status open_contexts(struct session *session, int32_t capacity,
                                     struct cop_error *err)
{
    const struct suffix_decoding *how = session->options;
    enum cop_status status = cop_points_init(&session->spare, how->max_tokens, capacity, err);
    for (int32_t i = 0; i < session->n_sequences && status == COP_OK; i++) {
        struct context *context = &session->contexts[i];
        status = cop_points_init(&context->points, how->max_tokens, capacity, err);
        if (status == COP_OK) {
            status =
                cop_suffix_tree_init(&context->tree, how->max_depth, how->min_probability, err);
        }
        context->places = malloc((size_t)how->max_depth * sizeof *context->places);
        if (status == COP_OK && !context->places) {
            status = cop_fail(err, COP_ERR_MEMORY, "no memory for suffix decoding");
        }
    }
    return status;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct suffix_decoding *how = state;
    struct session *session = calloc(1, sizeof *session);
    struct context *contexts = calloc((size_t)env->n_sequences, sizeof *contexts);
    int32_t *children = malloc((size_t)how->max_tokens * sizeof *children);
    if (!session || !contexts || !children) {
        free(session);
        free(contexts);
        free(children);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for suffix decoding");
    }
    *session = (struct session){.options = how,
                                .vocab_size = env->vocab_size,
                                .n_sequences = env->n_sequences,
                                .context = env->context,
                                .contexts = contexts,
                                .children = children};
    enum cop_status status = index_history(session, err);
    if (status == COP_OK) {
        status = open_contexts(session, env->capacity, err);
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

/* ---- The context ------------------------------------------------------------------------ */

/* The ends of the context in the global tree, after one more token. A string that occurs has
 * all its ends there too, so those that fall out are the longest. */
static void move_places(const struct session *session, struct context *context, cop_token token)
{
    const struct cop_suffix_tree *global = &session->global;
    int32_t n = 0;
    for (int32_t i = 0; i < context->n_places; i++) {
        struct cop_suffix_place place = context->places[i];
        if (place.depth + 1 < global->max_depth && cop_suffix_advance(global, &place, token)) {
            context->places[n++] = place;
        }
    }
    struct cop_suffix_place place = COP_SUFFIX_ROOT;
    if (cop_suffix_advance(global, &place, token)) {
        context->places[n++] = place;
    }
    context->n_places = n;
}

/* The global tree has changed since: finds the places again. */
static void find_places(const struct session *session, struct context *context)
{
    const struct cop_ids *ids = &context->tree.text;
    size_t depth = (size_t)session->options->max_depth;
    context->n_places = 0;
    for (size_t i = ids->count > depth ? ids->count - depth : 0; i < ids->count; i++) {
        move_places(session, context, ids->items[i]);
    }
    context->version = session->global.version;
}

static enum cop_status push(const struct session *session, struct context *context,
                            const cop_token *ids, int32_t n, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    bool is_current = context->version == session->global.version;
    for (int32_t i = 0; i < n && status == COP_OK; i++) {
        status = cop_suffix_tree_push(&context->tree, ids[i], err);
        if (status == COP_OK && is_current) {
            move_places(session, context, ids[i]);
        }
    }
    return status;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    context->n_places = 0;
    context->version = session->global.version;
    context->n_prompt = n;
    int32_t room = cop_room_tokens(n, session->context);
    enum cop_status status = cop_suffix_tree_clear(&context->tree, room, err);
    return status == COP_OK ? push(session, context, ids, n, err) : status;
}

/* Without memory for it the global tree starts anew. */
static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    struct context *context = &session->contexts[sequence];
    const struct suffix_decoding *how = session->options;
    struct cop_error ignored;
    int32_t n = (int32_t)context->tree.text.count - context->n_prompt;
    if (n > 0 && session->global.nodes &&
        remember(session, context->tree.text.items + context->n_prompt, n, &ignored) !=
            COP_OK) {
        uint32_t version = session->global.version + 1;
        cop_suffix_tree_release(&session->global);
        (void)cop_suffix_tree_init(&session->global, how->max_depth, how->min_probability,
                                   &ignored);
        session->global.version = version;
    }
    (void)cop_suffix_tree_clear(&context->tree, 0, &ignored);
    context->n_prompt = 0;
}

/* ---- One draft -------------------------------------------------------------------------- */

/* What can be drafted below a place of a tree. The weights of a draft that is tried are counts.
 */
struct trial {
    struct cop_suffix_tree *tree;
    int32_t total;                /* occurrences of the match */
    int32_t least;                /* fewer are below min_probability */
    int32_t budget, levels;       /* nodes and levels at most */
    int64_t best_sum, best_total; /* of the best draft so far */
    int64_t sum;                  /* out: of the nodes' counts; the score is sum / total */
};

/* Counts fall on the way: whether the next `most` nodes, of at most `count` each, can still
 * make this draft as good as the best one. */
static bool has_hope(const struct trial *trial, int32_t most, int32_t count)
{
    int64_t sum = trial->sum + (int64_t)most * count;
    return sum * trial->best_total >= trial->best_sum * trial->total;
}

static int32_t least_count(double share, int32_t total)
{
    int32_t count = (int32_t)(share * (double)total);
    while ((double)count / (double)total < share) {
        count++;
    }
    while (count > 0 && (double)(count - 1) / (double)total >= share) {
        count--;
    }
    return count;
}

static void add(struct session *session, struct trial *trial, int32_t parent, cop_token token,
                int32_t count)
{
    (void)cop_points_add(&session->spare, parent, token, count);
    trial->sum += count;
}

static void draft_path(struct session *session, struct trial *trial,
                       struct cop_suffix_place place)
{
    int32_t most = trial->budget < trial->levels ? trial->budget : trial->levels;
    for (int32_t i = 0; i < trial->budget; i++) {
        cop_token token = cop_suffix_inside(trial->tree, &place);
        if (token >= 0) {
            place.offset++;
        } else if (cop_suffix_children(trial->tree, place.node, trial->least, session->children,
                                       1) == 1) {
            place.node = session->children[0];
            place.offset = 1;
            token = trial->tree->nodes[place.node].token;
        }
        int32_t count = token < 0 ? 0 : cop_suffix_count(trial->tree, &place);
        if (token < 0 || count < trial->least || !has_hope(trial, most - i, count)) {
            return;
        }
        add(session, trial, i, token, count);
    }
}

/* ---- A binary heap by count. Which of equal entries comes first follows from how entries are
 * moved: the last one walks from the top down to a leaf along the larger children, the right
 * one of equal ones, and rises from there.
 * -------------------------------------------------------
 */

static void rise(struct candidate *heap, int32_t at, struct candidate entry)
{
    while (at > 0 && heap[(at - 1) / 2].count < entry.count) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

/* Without memory the entry is left out. */
static void put(struct session *session, struct candidate entry)
{
    if (session->n_heap == session->heap_capacity) {
        int32_t capacity = 2 * session->heap_capacity + 64;
        struct candidate *heap = realloc(session->heap, (size_t)capacity * sizeof *heap);
        if (!heap) {
            return;
        }
        session->heap = heap;
        session->heap_capacity = capacity;
    }
    rise(session->heap, session->n_heap++, entry);
}

static struct candidate take(struct session *session)
{
    struct candidate *heap = session->heap, top = heap[0];
    int32_t n = --session->n_heap, at = 0;
    for (int32_t child = 2; child - 1 < n; child = 2 * at + 2) {
        if (child == n || heap[child].count < heap[child - 1].count) {
            child--;
        }
        heap[at] = heap[child];
        at = child;
    }
    if (n > 0) {
        rise(heap, at, heap[n]);
    }
    return top;
}

/* Puts what comes after `at` in place of it: the rest of the label where some occurrences end
 * within it, or the children. */
static void put_below(struct session *session, struct trial *trial, struct candidate at)
{
    struct cop_suffix_place place = at.place;
    if (cop_suffix_inside(trial->tree, &place) >= 0) {
        place.offset++;
        at.count = cop_suffix_count(trial->tree, &place);
        if (at.count >= trial->least) {
            put(session, at);
        }
        return;
    }
    int32_t n = cop_suffix_children(trial->tree, place.node, trial->least, session->children,
                                    trial->budget);
    for (int32_t i = 0; i < n; i++) {
        int32_t child = session->children[i];
        put(session, (struct candidate){trial->tree->nodes[child].count,
                                        at.parent,
                                        {.node = child, .offset = 0}});
    }
}

static void draft_tree(struct session *session, struct trial *trial,
                       struct cop_suffix_place place)
{
    session->n_heap = 0;
    put(session, (struct candidate){trial->total, 0, place});
    while (session->n_heap > 0 && session->spare.count < trial->budget) {
        struct candidate top = take(session);
        struct cop_suffix_place next = top.place;
        if (!has_hope(trial, trial->budget - session->spare.count, top.count)) {
            return;
        }
        cop_token token = cop_suffix_inside(trial->tree, &next);
        next.offset++;
        if (token < 0 || cop_suffix_count(trial->tree, &next) != top.count) {
            put_below(session, trial, top);
            continue;
        }
        add(session, trial, top.parent, token, top.count);
        put(session, (struct candidate){top.count, session->spare.count, next});
    }
}

/* ---- The best draft --------------------------------------------------------------------- */

struct best {
    const struct cop_suffix_tree *tree;
    int64_t sum, total; /* the score is sum / total */
    int32_t matched;
};

static struct trial trial_of(const struct suffix_decoding *how, struct cop_suffix_tree *tree,
                             const struct cop_suffix_place *place)
{
    double budget = (double)place->depth * how->factor + 1e-6;
    return (struct trial){.tree = tree,
                          .total = cop_suffix_count(tree, place),
                          .budget = budget < (double)how->max_tokens ? (int32_t)budget
                                                                     : how->max_tokens,
                          .levels = tree->max_depth - place->depth};
}

/* Returns the sum of the counts; less where the draft cannot be the best one. */
static int64_t try_match(struct session *session, struct context *context,
                         struct cop_suffix_tree *tree, const struct cop_suffix_place *place,
                         struct best *best)
{
    struct trial trial = trial_of(session->options, tree, place);
    trial.least = least_count(session->options->min_probability, trial.total);
    trial.best_sum = best->sum;
    trial.best_total = best->total;
    cop_points_start(&session->spare, true);
    (session->options->shape == SHAPE_PATH ? draft_path : draft_tree)(session, &trial, *place);
    int64_t ahead = trial.sum * best->total - best->sum * trial.total;
    bool is_longer = place->depth > best->matched && (tree == best->tree || trial.sum == 0);
    if (ahead > 0 || (ahead == 0 && is_longer)) {
        struct cop_points draft = session->spare;
        session->spare = context->points;
        context->points = draft;
        *best = (struct best){tree, trial.sum, trial.total, place->depth};
    }
    return trial.sum;
}

static int32_t level_of(const struct cop_points *points, int32_t node)
{
    int32_t level = 0;
    for (; node > 0; node = points->parent[node]) {
        level++;
    }
    return level;
}

static int32_t levels_of(const struct cop_points *points)
{
    int32_t levels = 0;
    for (int32_t node = 1; node <= points->count; node++) {
        int32_t level = level_of(points, node);
        levels = level > levels ? level : levels;
    }
    return levels;
}

/* Whether what the heap has left above the draft's last level is as frequent as the draft's
 * rarest node, so that a draft without that level may score the same. */
static bool has_ties(const struct session *session, const struct cop_points *draft,
                     int32_t levels)
{
    double rarest = draft->count > 0 ? draft->weight[draft->count] : 0;
    for (int32_t i = 0; i < session->n_heap; i++) {
        const struct candidate *left = &session->heap[i];
        if (left->count >= rarest && level_of(draft, left->parent) + 1 < levels) {
            return true;
        }
    }
    return false;
}

/* Matches of the same occurrences and budget, longest first: the shorter the match, the more
 * levels there are below it, the more they score. So the shortest is tried, and where that is
 * the best so far, the longest that scores the same is looked for: one with room for the
 * draft's levels has the same draft, one with less room has less, or another that scores the
 * same. */
static void try_alike(struct session *session, struct context *context,
                      struct cop_suffix_tree *tree, const struct cop_suffix_place *places,
                      int32_t n, struct best *best)
{
    int32_t low = 0, high = n - 1;
    int64_t sum = try_match(session, context, tree, &places[high], best);
    if (high == 0 || best->tree != tree || best->matched != places[high].depth) {
        return;
    }
    int32_t levels = levels_of(&context->points);
    bool is_path = session->options->shape == SHAPE_PATH;
    if (is_path || !has_ties(session, &context->points, levels)) {
        low = high;
    }
    while (high > 0 && tree->max_depth - places[high - 1].depth >= levels) {
        high--;
    }
    best->matched = places[high].depth;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (try_match(session, context, tree, &places[middle], best) == sum) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
}

/* Tries the matches that end at `places`, longest first, of fewer than n_context tokens. Where
 * levels were no limit to a match, a shorter one of the same occurrences scores no more. */
static void try_tree(struct session *session, struct context *context,
                     struct cop_suffix_tree *tree, const struct cop_suffix_place *places,
                     int32_t n_places, struct best *best)
{
    const struct suffix_decoding *how = session->options;
    struct trial last = {.total = -1};
    int32_t first = n_places > 0 && places[0].depth >= (int32_t)context->tree.text.count;
    for (int32_t i = first, end; i < n_places; i = end) {
        struct trial trial = trial_of(how, tree, &places[i]), next = trial;
        int64_t least = best->sum > 0 ? best->sum / best->total + 1 : 0;
        for (end = i + 1; end < n_places; end++) {
            next = trial_of(how, tree, &places[end]);
            if (next.total != trial.total || next.budget != trial.budget) {
                break;
            }
            trial.levels = next.levels;
        }
        if (trial.budget < least) {
            return;
        }
        bool is_known = trial.total == last.total && last.budget <= last.levels;
        if (!is_known && trial.levels >= least) {
            try_alike(session, context, tree, places + i, end - i, best);
            last = trial;
        }
    }
}

static void make_draft(struct session *session, struct context *context)
{
    struct best best = {.total = 1};
    if (context->version != session->global.version) {
        find_places(session, context);
    }
    cop_points_start(&context->points, true);
    try_tree(session, context, &context->tree, context->tree.cursors, context->tree.n_cursors,
             &best);
    try_tree(session, context, &session->global, context->places, context->n_places, &best);
    context->n_matched = best.matched;
    for (int32_t node = 1; node <= context->points.count; node++) {
        context->points.weight[node] /= (double)best.total;
    }
    cop_points_seal(&context->points);
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        struct context *context = &session->contexts[frontiers[f].sequence];
        if (frontiers[f].nodes[0] == 0) {
            make_draft(session, context);
        }
        cop_points_answer(&context->points, &frontiers[f], session->vocab_size);
    }
    return COP_OK;
}

static int32_t matched(void *opened, int32_t sequence)
{
    return ((const struct session *)opened)->contexts[sequence].n_matched;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    return push(session, &session->contexts[observed->sequence], observed->committed,
                observed->n_accepted + 1, err);
}

const struct cop_proposer_ops cop_propose_suffix_tree = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "suffix_tree",
             .help = "the most frequent continuations of the longest useful match, from suffix "
                     "trees of this request and of earlier answers",
             .source = "Oliaro, Jia, Campos, Qiao 2024, arXiv:2411.04975",
             .synonyms = "SuffixDecoding, Arctic suffix decoding",
             .state_size = sizeof(struct suffix_decoding),
             .options = options},
    .supply = COP_SUPPLY_POINTS,
    .is_cheap = true,
    .remembers = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .matched = matched,
    .own_tree = own_tree,
};
