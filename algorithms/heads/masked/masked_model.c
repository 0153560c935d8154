/* PARD: an ordinary small model that was tuned to say at a mask token what stands there. Its
 * cache follows what the target commits; the masks of a cycle are speculative slots that are
 * dropped before the accepted tokens are fed. */
#include "algorithms/heads/masked/masked.h"
#include "algorithms/propose/drafter.h"
#include "core/base/quote.h"

#include <stdlib.h>

struct run {
    struct cop_drafter drafter;
    struct cop_floats rows;
    cop_token mask;
    int32_t n_positions;
};

static enum cop_status choose_mask(const struct cop_masked *masked, struct run *run,
                                   struct cop_error *err)
{
    const struct cop_model_info *draft = cop_model_info(masked->model);
    bool is_given = masked->mask_token != INT32_MIN;
    run->mask = is_given ? masked->mask_token : draft->mask_token;
    if (run->mask < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.propose.parallel: \"%s\" does not say which token is its mask; "
                        "write mask_token = the id that it was tuned with",
                        cop_path_tail(draft->path, 120));
    }
    return run->mask < draft->vocab_size
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "cop.propose.parallel: mask_token = %d is outside the draft's "
                          "vocabulary of %d tokens",
                          run->mask, draft->vocab_size);
}

static void close_run(void *opened)
{
    struct run *run = opened;
    if (run) {
        cop_drafter_close(&run->drafter);
        free(run->rows.items);
    }
    free(run);
}

static enum cop_status open_run(const struct cop_masked *masked,
                                const struct cop_proposer_env *env, void **out,
                                struct cop_error *err)
{
    struct run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a parallel drafter");
    }
    run->n_positions =
        masked->n_positions < env->capacity ? masked->n_positions : env->capacity;
    enum cop_status status = choose_mask(masked, run, err);
    if (status == COP_OK) {
        status = cop_drafter_open(&run->drafter, masked->model, COP_DRAFT_SAME, env,
                                  env->capacity, err);
    }
    return status == COP_OK ? cop_drafter_reduce(&run->drafter, &masked->vocabulary, env, err)
                            : status;
}

static const cop_token *ids_of(const void *opened, int32_t *n)
{
    const struct run *run = opened;
    *n = run->drafter.reduced.n;
    return run->drafter.reduced.ids;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    return cop_drafter_begin(&((struct run *)opened)->drafter, sequence, ids, n, err);
}

static void end(void *opened, int32_t sequence)
{
    cop_drafter_end(&((struct run *)opened)->drafter, sequence);
}

static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    struct run *run = opened;
    cop_drafter_forget_nodes(&run->drafter, observed->sequence);
    return cop_drafter_observe(&run->drafter, observed, NULL, err);
}

/* The root and as many masks as the draft's context has room for. */
static enum cop_status feed(struct run *run, int32_t sequence, int32_t *n,
                            struct cop_error *err)
{
    bool is_fed;
    enum cop_status status = cop_drafter_feed_root(&run->drafter, sequence, &is_fed, err);
    *n = is_fed;
    while (is_fed && *n < run->n_positions &&
           cop_drafter_feed_own(&run->drafter, sequence, *n, *n - 1, *n, run->mask, true)) {
        ++*n;
    }
    return status;
}

static enum cop_status draft(void *opened, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_masked_rows *rows,
                             struct cop_error *err)
{
    struct run *run = opened;
    struct cop_drafter *drafter = &run->drafter;
    enum cop_status status =
        cop_drafter_start(drafter, n_frontiers * run->n_positions, n_frontiers, err);
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        status = feed(run, frontiers[f].sequence, &rows[f].n, err);
    }
    if (status == COP_OK) {
        status = cop_drafter_run(drafter, &run->rows, err);
    }
    float *logits = run->rows.items;
    for (int32_t f = 0; f < n_frontiers && status == COP_OK; f++) {
        rows[f].logits = logits;
        rows[f].stride = (size_t)drafter->stride;
        logits += (size_t)rows[f].n * rows[f].stride;
    }
    return status;
}

static bool is_over(void *opened, int32_t sequence)
{
    return cop_drafter_is_over(&((struct run *)opened)->drafter, sequence);
}

const struct cop_masked_family cop_masked_model = {
    .open = open_run,
    .close = close_run,
    .begin = begin,
    .observe = observe,
    .end = end,
    .is_over = is_over,
    .draft = draft,
    .ids = ids_of,
};
