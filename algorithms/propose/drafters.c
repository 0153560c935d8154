/* Calling several proposers in turn. */
#include "algorithms/propose/drafters.h"

#include <stdlib.h>
#include <string.h>

int32_t cop_drafters_count(const struct cop_drafters_parts *parts)
{
    int32_t n = 0;
    while (n < COP_DRAFTERS && parts->parts[n]) {
        n++;
    }
    return n;
}

const struct cop_part *cop_drafters_part(const struct cop_drafters_parts *parts, int32_t i)
{
    return parts->parts[i];
}

const struct cop_proposer_ops *cop_drafters_ops(const struct cop_drafters_parts *parts,
                                                int32_t i)
{
    return (const struct cop_proposer_ops *)cop_drafters_part(parts, i)->plug;
}

enum cop_status cop_drafters_check(const struct cop_drafters_parts *parts, const char *owner,
                                   struct cop_error *err)
{
    int32_t n = cop_drafters_count(parts);
    if (n < COP_DRAFTERS && parts->parts[COP_DRAFTERS - 1]) {
        return cop_fail(err, COP_ERR_ARGUMENT, "%s has a fourth drafter and no third one",
                        owner);
    }
    for (int32_t i = 0; i < n; i++) {
        if (cop_proposer_facts(parts->parts[i]).n_drafters > 1) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "%s: drafter %d is a mixture itself; list its drafters instead",
                            owner, i + 1);
        }
    }
    return COP_OK;
}

void cop_drafters_facts(const struct cop_drafters_parts *parts,
                        struct cop_proposer_facts *facts)
{
    facts->rows_by_prefix = facts->is_cheap = true;
    facts->needs_hidden = facts->remembers = false;
    facts->n_slots = facts->n_scouts = 0;
    for (int32_t i = 0; i < cop_drafters_count(parts); i++) {
        struct cop_proposer_facts one = cop_proposer_facts(parts->parts[i]);
        facts->rows_by_prefix &= one.rows_by_prefix;
        facts->is_cheap &= one.is_cheap;
        facts->needs_hidden |= one.needs_hidden;
        facts->remembers |= one.remembers;
        facts->n_slots += one.n_slots;
        facts->n_scouts += one.n_scouts;
    }
}

static int32_t layers_of(const struct cop_part *part, const struct cop_model_info *target,
                         int32_t *layers)
{
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)part->plug;
    return target && cop_proposer_facts(part).needs_hidden
               ? ops->hidden_layers(part->state, target, layers)
               : 0;
}

/* Those of all drafters, one after another. */
int32_t cop_drafters_hidden_layers(const void *state, const struct cop_model_info *target,
                                   int32_t *layers)
{
    const struct cop_drafters_parts *parts = state;
    int32_t n = 0, own[COP_HIDDEN_LIMIT];
    for (int32_t i = 0; i < cop_drafters_count(parts); i++) {
        int32_t count = layers_of(cop_drafters_part(parts, i), target, own);
        for (int32_t j = 0; j < count && n < COP_HIDDEN_LIMIT; j++) {
            layers[n++] = own[j];
        }
    }
    return n;
}

int32_t cop_drafters_vocab(const void *state)
{
    const struct cop_drafters_parts *parts = state;
    int32_t least = 0;
    for (int32_t i = 0; i < cop_drafters_count(parts); i++) {
        const struct cop_proposer_ops *ops = cop_drafters_ops(parts, i);
        int32_t own = ops->vocab ? ops->vocab(cop_drafters_part(parts, i)->state) : 0;
        least = own > 0 && (least == 0 || own < least) ? own : least;
    }
    return least;
}

/* ---- Sessions ---------------------------------------------------------------------------- */

void cop_drafters_close(void *opened)
{
    struct cop_drafters *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; i < session->count; i++) {
        struct cop_drafter_session *drafter = &session->drafters[i];
        if (drafter->ops->close) {
            drafter->ops->close(drafter->session);
        }
        cop_part_free(drafter->part);
        free(drafter->has_begun);
        free(drafter->is_asked);
    }
    free(session->frontiers);
    free(session->rows);
    free(session->places);
    free(session->nodes);
    free(session);
}

static enum cop_status open_drafter(struct cop_drafters *session, struct cop_part *part,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    const struct cop_drafter_session *before =
        session->count > 0 ? &session->drafters[session->count - 1] : NULL;
    struct cop_drafter_session *drafter = &session->drafters[session->count++];
    int32_t layers[COP_HIDDEN_LIMIT];
    *drafter = (struct cop_drafter_session){
        .part = cop_part_share(part),
        .ops = (const struct cop_proposer_ops *)part->plug,
        .has_begun = calloc((size_t)env->n_sequences, sizeof *drafter->has_begun),
        .is_asked =
            calloc((size_t)env->n_sequences * session->n_nodes, sizeof *drafter->is_asked),
        .first_hidden = before ? before->first_hidden + before->n_hidden : 0};
    drafter->n_hidden =
        layers_of(part, env->target ? cop_model_info(env->target) : NULL, layers);
    if (!drafter->has_begun || !drafter->is_asked) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for several drafters");
    }
    if (drafter->first_hidden + drafter->n_hidden > COP_HIDDEN_LIMIT) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the drafters want hidden states of %d layers; %d are "
                        "possible",
                        drafter->first_hidden + drafter->n_hidden, COP_HIDDEN_LIMIT);
    }
    return drafter->ops->open ? drafter->ops->open(part->state, env, &drafter->session, err)
                              : COP_OK;
}

enum cop_status cop_drafters_open(const void *state, const struct cop_proposer_env *env,
                                  void **out, struct cop_error *err)
{
    const struct cop_drafters_parts *parts = state;
    struct cop_drafters *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for several drafters");
    }
    session->state = state;
    session->n_nodes = (size_t)env->capacity + 1;
    session->hidden_size = env->target ? (size_t)cop_model_info(env->target)->hidden_size : 0;
    session->frontiers = malloc((size_t)env->n_sequences * sizeof *session->frontiers);
    enum cop_status status =
        session->frontiers ? COP_OK
                           : cop_fail(err, COP_ERR_MEMORY, "no memory for several drafters");
    for (int32_t i = 0; status == COP_OK && i < cop_drafters_count(parts); i++) {
        status = open_drafter(session, parts->parts[i], env, err);
    }
    if (status != COP_OK) {
        cop_drafters_close(session);
        return status;
    }
    *out = session;
    return COP_OK;
}

static bool *asked_nodes(const struct cop_drafters *session,
                         const struct cop_drafter_session *drafter, int32_t sequence)
{
    return drafter->is_asked + (size_t)sequence * session->n_nodes;
}

static void forget_asked(const struct cop_drafters *session,
                         const struct cop_drafter_session *drafter, int32_t sequence)
{
    memset(asked_nodes(session, drafter, sequence), 0,
           session->n_nodes * sizeof *drafter->is_asked);
}

enum cop_status cop_drafters_begin(void *opened, int32_t sequence, const cop_token *ids,
                                   int32_t n, struct cop_error *err)
{
    struct cop_drafters *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->count && status == COP_OK; i++) {
        struct cop_drafter_session *drafter = &session->drafters[i];
        drafter->has_begun[sequence] = true;
        forget_asked(session, drafter, sequence);
        status = drafter->ops->begin(drafter->session, sequence, ids, n, err);
    }
    return status;
}

void cop_drafters_end(void *opened, int32_t sequence)
{
    struct cop_drafters *session = opened;
    for (int32_t i = 0; i < session->count; i++) {
        struct cop_drafter_session *drafter = &session->drafters[i];
        if (drafter->has_begun[sequence]) {
            drafter->ops->end(drafter->session, sequence);
            drafter->has_begun[sequence] = false;
        }
    }
}

/* ---- The cycle --------------------------------------------------------------------------- */

static bool reserve_rows(struct cop_drafters *session, size_t count)
{
    if (count > session->rows_capacity) {
        free(session->rows);
        free(session->places);
        free(session->nodes);
        session->rows = malloc(count * sizeof *session->rows);
        session->places = malloc(count * sizeof *session->places);
        session->nodes = malloc(count * sizeof *session->nodes);
        session->rows_capacity = session->rows && session->places && session->nodes ? count : 0;
    }
    return session->rows_capacity >= count;
}

/* The same frontiers with room for one row a node. */
static void lend_rows(struct cop_drafters *session, const struct cop_frontier *frontiers,
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

static enum cop_status reserve(struct cop_drafters *session,
                               const struct cop_frontier *frontiers, int32_t n_frontiers,
                               struct cop_error *err)
{
    size_t count = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        count += (size_t)frontiers[f].count;
    }
    return reserve_rows(session, count)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for the rows of several drafters");
}

/* NULL: all that have a use are taken. */
static struct cop_row *free_place(const struct cop_frontier *frontier, int32_t i, int32_t n)
{
    struct cop_row *rows = frontier->rows + (ptrdiff_t)i * n;
    n = frontier->n_places > 0 && frontier->n_places < n ? frontier->n_places : n;
    for (int32_t j = 0; j < n; j++) {
        if (rows[j].kind == COP_ROW_NONE) {
            return &rows[j];
        }
    }
    return NULL;
}

/* The nodes of a frontier that a drafter is to be asked below, from `first` on among those of
 * all frontiers; returns the end. */
static size_t lend_nodes(struct cop_drafters *session,
                         const struct cop_drafter_session *drafter,
                         const struct cop_frontier *frontier, size_t first)
{
    bool *is_asked = asked_nodes(session, drafter, frontier->sequence);
    size_t n = first;
    for (int32_t i = 0; i < frontier->count; i++) {
        int32_t node = frontier->nodes[i];
        struct cop_row *place = free_place(frontier, i, session->count);
        if (place && !is_asked[node] && (node == 0 || is_asked[frontier->tree->parent[node]])) {
            is_asked[node] = true;
            session->nodes[n] = node;
            session->places[n] = place;
            session->rows[n++] = (struct cop_row){.kind = COP_ROW_NONE};
        }
    }
    return n;
}

enum cop_status cop_drafters_fill(struct cop_drafters *drafters, int32_t i,
                                  const struct cop_frontier *frontiers, int32_t n_frontiers,
                                  struct cop_error *err)
{
    const struct cop_drafter_session *drafter = &drafters->drafters[i];
    enum cop_status status = reserve(drafters, frontiers, n_frontiers, err);
    size_t n = 0;
    int32_t n_lent = 0;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        size_t end = lend_nodes(drafters, drafter, &frontiers[f], n);
        struct cop_frontier *own = &drafters->frontiers[n_lent];
        *own = frontiers[f];
        own->nodes = drafters->nodes + n;
        own->rows = drafters->rows + n;
        own->count = (int32_t)(end - n);
        n_lent += own->count > 0;
        n = end;
    }
    if (status == COP_OK && n_lent > 0) {
        status = drafter->ops->expand(drafter->session, drafters->frontiers, n_lent, err);
    }
    for (size_t k = 0; k < n && status == COP_OK; k++) {
        *drafters->places[k] = drafters->rows[k];
    }
    return status;
}

enum cop_status cop_drafters_expand(struct cop_drafters *drafters, int32_t i,
                                    const struct cop_frontier *frontiers, int32_t n_frontiers,
                                    struct cop_error *err)
{
    enum cop_status status = reserve(drafters, frontiers, n_frontiers, err);
    if (status != COP_OK) {
        return status;
    }
    lend_rows(drafters, frontiers, n_frontiers);
    const struct cop_drafter_session *drafter = &drafters->drafters[i];
    return drafter->ops->expand(drafter->session, drafters->frontiers, n_frontiers, err);
}

/* A drafter's own layers among those of all, of n tokens. */
static const float *hidden_of(const struct cop_drafters *session,
                              const struct cop_drafter_session *drafter, const float *hidden,
                              int32_t n)
{
    size_t skipped = (size_t)drafter->first_hidden * (size_t)n * session->hidden_size;
    return drafter->n_hidden > 0 && hidden ? hidden + skipped : NULL;
}

enum cop_status cop_drafters_prefilled(void *opened, const struct cop_prefilled *chunk,
                                       struct cop_error *err)
{
    struct cop_drafters *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->count && status == COP_OK; i++) {
        struct cop_drafter_session *drafter = &session->drafters[i];
        struct cop_prefilled own = *chunk;
        own.n_hidden = drafter->n_hidden;
        own.hidden = hidden_of(session, drafter, chunk->hidden, chunk->n);
        if (own.hidden && drafter->ops->prefilled) {
            status = drafter->ops->prefilled(drafter->session, &own, err);
        }
    }
    return status;
}

enum cop_status cop_drafters_observe(void *opened, const struct cop_observed *observed,
                                     struct cop_error *err)
{
    struct cop_drafters *session = opened;
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < session->count && status == COP_OK; i++) {
        struct cop_drafter_session *drafter = &session->drafters[i];
        struct cop_observed own = *observed;
        own.n_hidden = drafter->n_hidden;
        own.hidden = hidden_of(session, drafter, observed->hidden, observed->tree->size);
        forget_asked(session, drafter, observed->sequence);
        status = drafter->ops->observe(drafter->session, &own, err);
    }
    return status;
}

void cop_drafters_scout(void *opened, int32_t sequence, struct cop_tree *tree,
                        int32_t max_depth)
{
    const struct cop_drafters *session = opened;
    for (int32_t i = 0; i < session->count; i++) {
        const struct cop_drafter_session *drafter = &session->drafters[i];
        if (drafter->ops->scout) {
            drafter->ops->scout(drafter->session, sequence, tree, max_depth);
        }
    }
}

int32_t cop_drafters_matched(void *opened, int32_t sequence)
{
    const struct cop_drafters *session = opened;
    int32_t most = 0;
    for (int32_t i = 0; i < session->count; i++) {
        const struct cop_drafter_session *drafter = &session->drafters[i];
        int32_t own =
            drafter->ops->matched ? drafter->ops->matched(drafter->session, sequence) : 0;
        most = own > most ? own : most;
    }
    return most;
}

bool cop_drafters_is_over(void *opened, int32_t sequence)
{
    const struct cop_drafters *session = opened;
    bool is_over = session->count > 0;
    for (int32_t i = 0; i < session->count; i++) {
        const struct cop_drafter_session *drafter = &session->drafters[i];
        is_over &= drafter->ops->is_over && drafter->ops->is_over(drafter->session, sequence);
    }
    return is_over;
}
