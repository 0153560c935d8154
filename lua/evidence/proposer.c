/* A proposer whose rows are a script's: what cop.build_tree drafts from. */
#include "lua/evidence/evidence.h"

#include "core/cycle/contract/proposer.h"
#include <stdlib.h>

struct chunk {
    struct chunk *next;
    double row[];
};

struct given_state {
    struct cop_source *source; /* borrowed: lives as long as the call */
    struct chunk *chunks;      /* rows that were handed out */
};

static int32_t given_depth(const void *state)
{
    (void)state;
    return 1;
}

static enum cop_status given_open(const void *state, const struct cop_proposer_env *env,
                                  void **session, struct cop_error *err)
{
    (void)env;
    struct given_state *copy = calloc(1, sizeof *copy);
    if (!copy) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory");
    }
    *copy = *(const struct given_state *)state;
    *session = copy;
    return COP_OK;
}

static void given_close(void *session)
{
    struct given_state *state = session;
    while (state && state->chunks) {
        struct chunk *chunk = state->chunks;
        state->chunks = chunk->next;
        free(chunk);
    }
    free(state);
}

static enum cop_status given_begin(void *session, int32_t sequence, const cop_token *ids,
                                   int32_t n, struct cop_error *err)
{
    (void)session;
    (void)sequence;
    (void)ids;
    (void)n;
    (void)err;
    return COP_OK;
}

/* One row: that of the tokens on the way to the node. */
static enum cop_status fill_row(struct given_state *state, const struct cop_tree *tree,
                                int32_t node, struct cop_row *row, struct cop_error *err)
{
    int32_t vocab = state->source->vocab;
    int32_t depth = cop_tree_depth(tree, node);
    struct chunk *chunk = malloc(sizeof *chunk + (size_t)vocab * sizeof *chunk->row);
    int32_t *path = malloc(((size_t)depth + 1) * sizeof *path);
    if (!chunk || !path) {
        free(chunk);
        free(path);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a row");
    }
    chunk->next = state->chunks;
    state->chunks = chunk;
    (void)cop_tree_path(tree, node, path);
    for (int32_t d = 0; d < depth; d++) {
        path[d] = tree->token[path[d]];
    }
    enum cop_status status = cop_source_row(state->source, path, depth, 0, chunk->row, err);
    free(path);
    *row = (struct cop_row){.kind = COP_ROW_DENSE, .vocab = vocab, .dense = chunk->row};
    return status;
}

static enum cop_status given_expand(void *session, struct cop_frontier *frontiers,
                                    int32_t n_frontiers, struct cop_error *err)
{
    for (int32_t i = 0; i < n_frontiers; i++) {
        for (int32_t j = 0; j < frontiers[i].count; j++) {
            enum cop_status status = fill_row(session, frontiers[i].tree, frontiers[i].nodes[j],
                                              &frontiers[i].rows[j], err);
            if (status != COP_OK) {
                return status;
            }
        }
    }
    return COP_OK;
}

static enum cop_status given_observe(void *session, const struct cop_observed *observed,
                                     struct cop_error *err)
{
    (void)session;
    (void)observed;
    (void)err;
    return COP_OK;
}

static void given_end(void *session, int32_t sequence)
{
    (void)session;
    (void)sequence;
}

static const struct cop_proposer_ops given_ops = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "rows",
             .state_size = sizeof(struct given_state)},
    .supply = COP_SUPPLY_DENSE,
    .own_depth = given_depth,
    .open = given_open,
    .close = given_close,
    .begin = given_begin,
    .expand = given_expand,
    .observe = given_observe,
    .end = given_end};

struct cop_part *cop_source_proposer(struct cop_source *source)
{
    struct cop_part *part = cop_part_new(&given_ops.plug);
    if (part) {
        ((struct given_state *)part->state)->source = source;
    }
    return part;
}
