/* Several drafters feed one tree: sibling j of a node is drawn from the row of drafter j.
 *
 *     node                rows                              children
 *     root                lookup: point   model: dense      1 of the lookup, 2 of the model
 *     node 1              lookup: point   model: dense      …
 *     node 2              none            model: dense      1 of the model
 *
 * A drafter that has nothing below a node leaves its place to the next one, which is decided by
 * the context and never by a token still to be drawn; children beyond the last drafter come
 * from it too. Every drafter sees the whole tree, so each may go on from another one's node.
 * Rules that weigh siblings by one row are refused unless they take several (cop_pairing). */
#include "core/cycle/builder.h"
#include "core/cycle/proposer.h"

#include <stdlib.h>
#include <string.h>

enum { DRAFTERS = 4, OWN_LEVELS = 64 };

struct mixture {
    void *parts[DRAFTERS]; /* struct cop_part; NULL from the first absent one on */
};

#define DRAFTER(i, text, more)                                                                 \
    {                                                                                          \
        .name = text, .type = COP_OPTION_OBJECT,                                               \
        .offset = offsetof(struct mixture, parts) + i * sizeof(void *), .choices = "propose",  \
        .flags = COP_OPTION_POSITIONAL | more, .help = "drafter of the " text " sibling"       \
    }
static const struct cop_option options[] = {DRAFTER(0, "first", COP_OPTION_REQUIRED),
                                            DRAFTER(1, "second", COP_OPTION_REQUIRED),
                                            DRAFTER(2, "third", 0),
                                            DRAFTER(3, "fourth", 0),
                                            {0}};

static const struct cop_part *part_of(const struct mixture *mixture, int32_t i)
{
    return i < DRAFTERS ? mixture->parts[i] : NULL;
}

static const struct cop_proposer_ops *ops_of(const struct cop_part *part)
{
    return (const struct cop_proposer_ops *)part->plug;
}

static int32_t layers_of(const struct cop_part *part, const struct cop_model_info *target,
                         int32_t *layers)
{
    const struct cop_proposer_ops *ops = ops_of(part);
    return target && cop_proposer_facts(part).needs_hidden
               ? ops->hidden_layers(part->state, target, layers)
               : 0;
}

static int32_t count_parts(const struct mixture *mixture)
{
    int32_t n = 0;
    while (part_of(mixture, n)) {
        n++;
    }
    return n;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct mixture *mixture = state;
    int32_t n = count_parts(mixture);
    if (n < DRAFTERS && mixture->parts[DRAFTERS - 1]) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.mixture has a fourth drafter and no third one");
    }
    for (int32_t i = 0; i < n; i++) {
        if (cop_proposer_facts(mixture->parts[i]).n_drafters > 1) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "cop.propose.mixture: drafter %d is a mixture itself; list its "
                            "drafters instead",
                            i + 1);
        }
    }
    return COP_OK;
}

static void facts(const void *state, struct cop_proposer_facts *facts)
{
    const struct mixture *mixture = state;
    facts->supply = COP_SUPPLY_POINTS;
    facts->rows_by_prefix = true;
    facts->needs_hidden = false;
    facts->n_slots = facts->n_scouts = 0;
    facts->n_drafters = count_parts(mixture);
    for (int32_t i = 0; i < facts->n_drafters; i++) {
        struct cop_proposer_facts one = cop_proposer_facts(mixture->parts[i]);
        facts->supply = one.supply == COP_SUPPLY_POINTS ? facts->supply : COP_SUPPLY_DENSE;
        facts->rows_by_prefix &= one.rows_by_prefix;
        facts->needs_hidden |= one.needs_hidden;
        facts->n_slots += one.n_slots;
        facts->n_scouts += one.n_scouts;
    }
}

static int32_t own_depth(const void *state)
{
    const struct mixture *mixture = state;
    int32_t depth = 1;
    for (int32_t i = 0; part_of(mixture, i); i++) {
        const struct cop_part *part = mixture->parts[i];
        int32_t own = ops_of(part)->own_depth(part->state);
        depth = own > depth ? own : depth;
    }
    return depth;
}

/* One child of each drafter below the root, a chain below each. */
extern const struct cop_builder_ops cop_tree_widths;

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    int32_t n = count_parts(state), depth = own_depth(state);
    depth = depth < OWN_LEVELS ? depth : OWN_LEVELS;
    *builder = cop_part_new(&cop_tree_widths.plug);
    int32_t *widths = malloc((size_t)depth * sizeof *widths);
    enum cop_status status =
        *builder && widths ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a tree");
    for (int32_t i = 0; status == COP_OK && i < depth; i++) {
        widths[i] = i == 0 ? n : 1;
    }
    if (status == COP_OK) {
        status = cop_option_set_ints(cop_option_find(cop_tree_widths.plug.options, "widths"),
                                     (*builder)->state, widths, depth, "cop.tree.widths", err);
    }
    if (status == COP_OK) {
        status = cop_part_prepare(*builder, err);
    }
    free(widths);
    if (status != COP_OK) {
        cop_part_free(*builder);
        *builder = NULL;
    }
    return status;
}

/* Those of all drafters, one after another. */
static int32_t hidden_layers(const void *state, const struct cop_model_info *target,
                             int32_t *layers)
{
    const struct mixture *mixture = state;
    int32_t n = 0, own[COP_HIDDEN_LIMIT];
    for (int32_t i = 0; part_of(mixture, i); i++) {
        int32_t count = layers_of(part_of(mixture, i), target, own);
        for (int32_t j = 0; j < count && n < COP_HIDDEN_LIMIT; j++) {
            layers[n++] = own[j];
        }
    }
    return n;
}

static int32_t vocab(const void *state)
{
    const struct mixture *mixture = state;
    int32_t least = 0;
    for (int32_t i = 0; part_of(mixture, i); i++) {
        const struct cop_proposer_ops *ops = ops_of(mixture->parts[i]);
        int32_t own = ops->vocab ? ops->vocab(part_of(mixture, i)->state) : 0;
        least = own > 0 && (least == 0 || own < least) ? own : least;
    }
    return least;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

struct drafter {
    struct cop_part *part;
    const struct cop_proposer_ops *ops;
    void *session;
    bool *has_begun; /* [n_sequences] */
    int32_t first_hidden, n_hidden;
};
struct session {
    struct drafter drafters[DRAFTERS];
    int32_t n_drafters;
    size_t hidden_size;
    struct cop_frontier *frontiers; /* [n_sequences] as one drafter sees them */
    struct cop_row *rows;           /* of all frontiers of one drafter */
    size_t rows_capacity;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; i < session->n_drafters; i++) {
        struct drafter *drafter = &session->drafters[i];
        if (drafter->ops->close) {
            drafter->ops->close(drafter->session);
        }
        cop_part_free(drafter->part);
        free(drafter->has_begun);
    }
    free(session->frontiers);
    free(session->rows);
    free(session);
}

static enum cop_status open_drafter(struct session *session, struct cop_part *part,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct drafter *before =
        session->n_drafters > 0 ? &session->drafters[session->n_drafters - 1] : NULL;
    struct drafter *drafter = &session->drafters[session->n_drafters++];
    int32_t layers[COP_HIDDEN_LIMIT];
    *drafter = (struct drafter){
        .part = cop_part_share(part),
        .ops = ops_of(part),
        .has_begun = calloc((size_t)env->n_sequences, sizeof *drafter->has_begun),
        .first_hidden = before ? before->first_hidden + before->n_hidden : 0};
    drafter->n_hidden =
        layers_of(part, env->target ? cop_model_info(env->target) : NULL, layers);
    if (!drafter->has_begun) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a mixture");
    }
    if (drafter->first_hidden + drafter->n_hidden > COP_HIDDEN_LIMIT) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the drafters of this mixture want hidden states of %d layers; %d are "
                        "possible",
                        drafter->first_hidden + drafter->n_hidden, COP_HIDDEN_LIMIT);
    }
    return drafter->ops->open ? drafter->ops->open(part->state, env, &drafter->session, err)
                              : COP_OK;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct mixture *mixture = state;
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a mixture");
    }
    session->hidden_size = env->target ? (size_t)cop_model_info(env->target)->hidden_size : 0;
    session->frontiers = malloc((size_t)env->n_sequences * sizeof *session->frontiers);
    enum cop_status status =
        session->frontiers ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for a mixture");
    for (int32_t i = 0; status == COP_OK && part_of(mixture, i); i++) {
        status = open_drafter(session, mixture->parts[i], env, err);
    }
    if (status != COP_OK) {
        close_session(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->n_drafters && status == COP_OK; i++) {
        struct drafter *drafter = &session->drafters[i];
        drafter->has_begun[sequence] = true;
        status = drafter->ops->begin(drafter->session, sequence, ids, n, err);
    }
    return status;
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    for (int32_t i = 0; i < session->n_drafters; i++) {
        struct drafter *drafter = &session->drafters[i];
        if (drafter->has_begun[sequence]) {
            drafter->ops->end(drafter->session, sequence);
            drafter->has_begun[sequence] = false;
        }
    }
}

/* ---- One level --------------------------------------------------------------------------- */

static bool reserve_rows(struct session *session, size_t count)
{
    if (count > session->rows_capacity) {
        free(session->rows);
        session->rows = malloc(count * sizeof *session->rows);
        session->rows_capacity = session->rows ? count : 0;
    }
    return session->rows != NULL;
}

/* The same frontiers with room for one row a node. */
static void lend_rows(struct session *session, const struct cop_frontier *frontiers,
                      int32_t n_frontiers)
{
    struct cop_row *rows = session->rows;
    for (int32_t f = 0; f < n_frontiers; f++) {
        session->frontiers[f] = frontiers[f];
        session->frontiers[f].rows = rows;
        for (int32_t i = 0; i < frontiers[f].count; i++) {
            *rows++ = (struct cop_row){.kind = COP_ROW_NONE};
        }
    }
}

/* Each row goes to the first free place of its node. */
static void collect_rows(const struct session *session, struct cop_frontier *frontier,
                         const struct cop_row *rows)
{
    size_t n = (size_t)session->n_drafters;
    for (size_t i = 0; i < (size_t)frontier->count; i++) {
        struct cop_row *place = frontier->rows + i * n;
        while (place->kind != COP_ROW_NONE) {
            place++;
        }
        *place = rows[i];
    }
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    size_t count = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        count += (size_t)frontiers[f].count;
    }
    if (!reserve_rows(session, count)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the rows of a mixture");
    }
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->n_drafters && status == COP_OK; i++) {
        lend_rows(session, frontiers, n_frontiers);
        status = session->drafters[i].ops->expand(session->drafters[i].session,
                                                  session->frontiers, n_frontiers, err);
        for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
            collect_rows(session, &frontiers[f], session->frontiers[f].rows);
        }
    }
    return status;
}

/* A drafter's own layers among those of all, of n tokens. */
static const float *hidden_of(const struct session *session, const struct drafter *drafter,
                              const float *hidden, int32_t n)
{
    size_t skipped = (size_t)drafter->first_hidden * (size_t)n * session->hidden_size;
    return drafter->n_hidden > 0 && hidden ? hidden + skipped : NULL;
}

static enum cop_status prefilled(void *opened, const struct cop_prefilled *chunk,
                                 struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->n_drafters && status == COP_OK; i++) {
        struct drafter *drafter = &session->drafters[i];
        struct cop_prefilled own = *chunk;
        own.n_hidden = drafter->n_hidden;
        own.hidden = hidden_of(session, drafter, chunk->hidden, chunk->n);
        if (own.hidden && drafter->ops->prefilled) {
            status = drafter->ops->prefilled(drafter->session, &own, err);
        }
    }
    return status;
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->n_drafters && status == COP_OK; i++) {
        struct drafter *drafter = &session->drafters[i];
        struct cop_observed own = *observed;
        own.n_hidden = drafter->n_hidden;
        own.hidden = hidden_of(session, drafter, observed->hidden, observed->tree->size);
        status = drafter->ops->observe(drafter->session, &own, err);
    }
    return status;
}

static void scout(void *opened, int32_t sequence, struct cop_tree *tree, int32_t max_depth)
{
    const struct session *session = opened;
    for (int32_t i = 0; i < session->n_drafters; i++) {
        const struct drafter *drafter = &session->drafters[i];
        if (drafter->ops->scout) {
            drafter->ops->scout(drafter->session, sequence, tree, max_depth);
        }
    }
}

static int32_t matched(void *opened, int32_t sequence)
{
    const struct session *session = opened;
    int32_t most = 0;
    for (int32_t i = 0; i < session->n_drafters; i++) {
        const struct drafter *drafter = &session->drafters[i];
        int32_t own =
            drafter->ops->matched ? drafter->ops->matched(drafter->session, sequence) : 0;
        most = own > most ? own : most;
    }
    return most;
}

const struct cop_proposer_ops cop_propose_mixture = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "mixture",
             .help =
                 "several proposers feed one tree: child j of a node is drawn from drafter j, "
                 "one that has nothing leaves its place to the next. Without a tree, one "
                 "chain from each of them. Rules take it that take siblings with different "
                 "rows, as cop.accept.sample_match {} and cop.accept.recursive {}; on a "
                 "chain it is the first drafter that has something",
             .source = "Coppice; siblings from several drafters as in Miao et al. 2023 "
                       "(SpecInfer), arXiv:2305.09781",
             .synonyms = "collective drafting, multi-drafter speculation",
             .state_size = sizeof(struct mixture),
             .options = options,
             .prepare = prepare},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = hidden_layers,
    .own_depth = own_depth,
    .own_tree = own_tree,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .matched = matched,
    .prefilled = prefilled,
    .vocab = vocab,
    .scout = scout,
    .facts = facts,
};
