/* Drafting all positions in one pass over mask tokens (algorithms/heads/masked/masked.h): a
 * model that was tuned for it, or a head on the target's states. Builders ask level by level
 * all the same, and get what the pass at the root gave; those that weigh paths by products of
 * rows draft DDTree's trees. */
#include "algorithms/heads/masked/dflash.h"
#include "algorithms/heads/masked/masked.h"
#include "algorithms/heads/rows.h"
#include "algorithms/heads/weights.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_POSITIONS = 12 }; /* of a model: its files say nothing */

static const struct cop_option options[] = {
    {.name = "model",
     .type = COP_OPTION_OBJECT,
     .offset = offsetof(struct cop_masked, model),
     .choices = "model",
     .flags = COP_OPTION_ABSENT | COP_OPTION_POSITIONAL,
     .help = "a draft model that was tuned with mask tokens (PARD)"},
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct cop_masked, path),
     .flags = COP_OPTION_ABSENT | COP_OPTION_POSITIONAL,
     .help = "instead: a head on the target's states (P-EAGLE, DFlash, DSpark by checkpoint): "
             "the folder with its config.json and safetensors, or a GGUF file of the last two"},
    {.name = "mask_token",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct cop_masked, mask_token),
     .min = 0,
     .max = 1 << 24,
     .flags = COP_OPTION_ABSENT,
     .help = "id of the model's mask; absent: as its files say"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct cop_masked, depth),
     .min = 1,
     .max = COP_MASKED_POSITIONS,
     .flags = COP_OPTION_ABSENT,
     .help = "positions drafted in a pass, and the length of the chain when no tree is given; "
             "absent: as the files say, 12 of a model"},
    {.name = "confidence",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct cop_masked, confidence),
     .min = 0,
     .max = 1,
     .help =
         "least estimate, of a DSpark head, that a path is kept for something to be drafted "
         "below it; 0: always"},
    COP_HEAD_WEIGHTS_OPTION(struct cop_masked, weights),
    COP_SUBSET_OPTION(struct cop_masked, vocabulary),
    COP_DRAFT_LAW_OPTIONS(struct cop_masked, law),
    {0}};

static enum cop_status choose_family(struct cop_masked *masked, struct cop_error *err)
{
    if (!masked->model == !masked->path) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.parallel drafts with %s; write cop.propose.parallel { "
                        "draft, mask_token = 0 } or { \"folder\" }",
                        masked->path ? "either a model or a head" : "nothing");
    }
    if (masked->path && masked->mask_token != INT32_MIN) {
        return cop_fail(
            err, COP_ERR_ARGUMENT,
            "cop.propose.parallel: the files of a head say which token is its mask; "
            "leave mask_token out");
    }
    if (masked->model && masked->weights != COP_HEAD_WEIGHTS_FILE) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.parallel: weights is for heads; a model's are as its file "
                        "and cop.model { precision = … } say");
    }
    masked->family = !masked->path                 ? &cop_masked_model
                     : cop_dflash_is(masked->path) ? &cop_masked_dflash
                                                   : &cop_masked_eagle;
    masked->n_positions = USUAL_POSITIONS;
    return COP_OK;
}

static void release(void *state)
{
    struct cop_masked *masked = state;
    if (masked->family && masked->family->close_files) {
        masked->family->close_files(masked->files);
    }
    masked->files = NULL;
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct cop_masked *masked = state;
    enum cop_status status = choose_family(masked, err);
    if (status == COP_OK && masked->family->open_files) {
        status = masked->family->open_files(masked, err);
    }
    if (status == COP_OK && masked->confidence > 0 && masked->family != &cop_masked_dspark) {
        status = cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.propose.parallel: confidence needs the confidence head of a "
                          "DSpark drafter; cop.length.confidence {} is for any draft");
    }
    if (status != COP_OK) {
        release(masked);
        return status;
    }
    masked->n_positions = masked->depth == INT32_MIN ? masked->n_positions : masked->depth;
    return COP_OK;
}

static int32_t own_depth(const void *state)
{
    return ((const struct cop_masked *)state)->n_positions;
}

static int32_t hidden_layers(const void *state, const struct cop_model_info *target,
                             int32_t *layers)
{
    const struct cop_masked *masked = state;
    return masked->family->hidden_layers ? masked->family->hidden_layers(masked, target, layers)
                                         : 0;
}

static void facts(const void *state, struct cop_proposer_facts *facts)
{
    const struct cop_masked *masked = state;
    facts->needs_hidden = masked->family && masked->family->hidden_layers;
}

/* ---- Sessions --------------------------------------------------------------------------- */

struct session {
    const struct cop_masked_family *family;
    void *run; /* of the family */
    struct cop_row_maker maker;
    int32_t n_sequences, capacity;
    struct cop_masked_rows *drafted; /* [n_sequences] by frontier of the pass at hand … */
    struct cop_masked_rows *rows;    /* … and by sequence */
    struct cop_floats *levels;     /* [COP_MASKED_POSITIONS] rows that are not the pass's own */
    struct cop_masked_node *nodes; /* [n_nodes] of a level; grown by need */
    bool *stops;                   /* [n_nodes] */
    int32_t n_nodes;
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    session->family->close(session->run);
    for (int32_t i = 0; session->levels && i < COP_MASKED_POSITIONS; i++) {
        free(session->levels[i].items);
    }
    free(session->levels);
    free(session->drafted);
    free(session->rows);
    free(session->nodes);
    free(session->stops);
    cop_row_arena_free(session->maker.arena);
    free(session);
}

static enum cop_status fill_session(struct session *session, const struct cop_masked *masked,
                                    const struct cop_proposer_env *env, struct cop_error *err)
{
    size_t n = (size_t)env->n_sequences;
    session->n_sequences = env->n_sequences;
    session->drafted = calloc(n, sizeof *session->drafted);
    session->rows = calloc(n, sizeof *session->rows);
    session->levels = calloc(COP_MASKED_POSITIONS, sizeof *session->levels);
    session->maker = (struct cop_row_maker){
        .vocab = env->vocab_size,
        .sampling = cop_draft_law_sampling(&masked->law, &env->sampling),
        .arena = cop_row_arena_new(),
        .of = "position behind the root",
    };
    if (!session->drafted || !session->rows || !session->levels || !session->maker.arena) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a parallel drafter");
    }
    enum cop_status status = session->family->open(masked, env, &session->run, err);
    if (status == COP_OK && session->family->ids) {
        session->maker.ids = session->family->ids(session->run, &session->maker.n_ids);
    }
    return status;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    const struct cop_masked *masked = state;
    struct session *session = calloc(1, sizeof *session);
    if (!session) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a parallel drafter");
    }
    session->family = masked->family;
    enum cop_status status = fill_session(session, masked, env, err);
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
    return session->family->begin(session->run, sequence, ids, n, err);
}

static enum cop_status prefilled(void *opened, const struct cop_prefilled *chunk,
                                 struct cop_error *err)
{
    struct session *session = opened;
    return session->family->prefilled(session->run, chunk, err);
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct session *session = opened;
    return session->family->observe(session->run, observed, err);
}

static void end(void *opened, int32_t sequence)
{
    struct session *session = opened;
    session->family->end(session->run, sequence);
}

static bool is_over(void *opened, int32_t sequence)
{
    const struct session *session = opened;
    return session->family->is_over && session->family->is_over(session->run, sequence);
}

/* ---- One level -------------------------------------------------------------------------- */

static enum cop_status draft(struct session *session, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_error *err)
{
    cop_row_arena_reset(session->maker.arena);
    memset(session->drafted, 0, (size_t)n_frontiers * sizeof *session->drafted);
    enum cop_status status =
        session->family->draft(session->run, frontiers, n_frontiers, session->drafted, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        session->rows[frontiers[f].sequence] = session->drafted[f];
    }
    return status;
}

/* The pass's logits for this depth; NULL: it does not reach so far. */
static float *logits_at(const struct session *session, const struct cop_frontier *frontier,
                        int32_t depth)
{
    const struct cop_masked_rows *rows = &session->rows[frontier->sequence];
    return depth < rows->n ? rows->logits + (size_t)depth * rows->stride : NULL;
}

/* Rows as the pass gave them. */
static enum cop_status share(struct session *session, struct cop_frontier *frontiers,
                             int32_t n_frontiers, int32_t depth, struct cop_error *err)
{
    size_t vocab = (size_t)session->maker.vocab, n_copies = 0;
    struct cop_floats *level = &session->levels[depth];
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n_copies += logits_at(session, &frontiers[f], depth)
                        ? (size_t)cop_row_copies(&frontiers[f])
                        : 0;
    }
    if (!cop_floats_reserve(level, n_copies * vocab)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu draft rows", n_copies);
    }
    float *spare = level->items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        float *logits = logits_at(session, &frontiers[f], depth);
        if (logits) {
            status = cop_row_share(&session->maker, &frontiers[f], logits, spare, err);
            spare += (size_t)cop_row_copies(&frontiers[f]) * vocab;
        }
    }
    return status;
}

static enum cop_status reserve_nodes(struct session *session, struct cop_floats *level,
                                     int32_t n, struct cop_error *err)
{
    if (n > session->n_nodes) {
        free(session->nodes);
        free(session->stops);
        session->nodes = malloc((size_t)n * sizeof *session->nodes);
        session->stops = malloc((size_t)n * sizeof *session->stops);
        session->n_nodes = session->nodes && session->stops ? n : 0;
    }
    return n <= session->n_nodes &&
                   cop_floats_reserve(level, (size_t)n * (size_t)session->maker.vocab)
               ? COP_OK
               : cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
}

/* A row of each node's own, in the order of frontiers. */
static enum cop_status correct(struct session *session, struct cop_frontier *frontiers,
                               int32_t n_frontiers, int32_t depth, struct cop_error *err)
{
    struct cop_floats *level = &session->levels[depth];
    size_t vocab = (size_t)session->maker.vocab;
    int32_t n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += logits_at(session, &frontiers[f], depth) ? frontiers[f].count : 0;
    }
    enum cop_status status = reserve_nodes(session, level, n, err);
    if (status != COP_OK || n == 0) {
        return status;
    }
    n = 0;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        const float *logits = logits_at(session, frontier, depth);
        for (int32_t i = 0; logits && i < frontier->count; i++, n++) {
            memcpy(level->items + (size_t)n * vocab, logits, vocab * sizeof *logits);
            session->nodes[n] = (struct cop_masked_node){frontier->sequence, frontier->nodes[i],
                                                         frontier->tree};
            session->stops[n] = false;
        }
    }
    status = session->family->condition(session->run, depth, session->nodes, n, level->items,
                                        session->stops, err);
    n = 0;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        int32_t count = logits_at(session, &frontiers[f], depth) ? frontiers[f].count : 0;
        for (int32_t i = 0; i < count && status == COP_OK; i++, n++) {
            if (!session->stops[n]) {
                status = cop_row_make(&session->maker, &frontiers[f], i,
                                      level->items + (size_t)n * vocab, err);
            }
        }
    }
    return status;
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    struct session *session = opened;
    int32_t depth = cop_tree_depth(frontiers[0].tree, frontiers[0].nodes[0]);
    enum cop_status status = depth == 0 ? draft(session, frontiers, n_frontiers, err) : COP_OK;
    if (status != COP_OK || depth >= COP_MASKED_POSITIONS) {
        return status;
    }
    return session->family->condition ? correct(session, frontiers, n_frontiers, depth, err)
                                      : share(session, frontiers, n_frontiers, depth, err);
}

const struct cop_proposer_ops cop_propose_parallel = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "parallel",
             .help = "one pass over mask tokens drafts all positions, each apart from the "
                     "others: a model that was tuned for it (PARD), or a head on the target's "
                     "states (P-EAGLE, DFlash; DSpark corrects each for the token before it)",
             .source =
                 "An et al. 2025 (PARD), arXiv:2504.18583; Hui et al. 2026 (P-EAGLE), "
                 "arXiv:2602.01469; Chen, Liang, Liu 2026 (DFlash), arXiv:2602.06036; "
                 "Cheng et al. 2026 (DSpark), arXiv:2607.05147; trees from its rows: Ringel, "
                 "Romano 2026 (DDTree), arXiv:2604.12989",
             .synonyms = "PARD, mask tokens, parallel drafting, block diffusion",
             .state_size = sizeof(struct cop_masked),
             .options = options,
             .prepare = prepare,
             .release = release},
    .supply = COP_SUPPLY_DENSE,
    .hidden_layers = hidden_layers,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .is_over = is_over,
    .prefilled = prefilled,
    .facts = facts,
};
