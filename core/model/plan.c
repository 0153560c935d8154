/* Where the tokens of a pass stand: sequences of the call, slots in the cache, positions,
 * paths. */
#include "core/model/state.h"

struct plan {
    struct cop_model *model;
    struct cop_cache *cache;
    const struct cop_score *score;
    struct cop_error *err;
};

/* Splits the call into the neighbouring tokens of each sequence. */
static enum cop_status find_groups(const struct plan *plan)
{
    const struct cop_score *score = plan->score;
    struct cop_workspace *work = &plan->model->work;
    work->n_groups = 0;
    for (int32_t i = 0; i < score->n; i++) {
        int32_t sequence = score->sequences ? score->sequences[i] : 0;
        if (i > 0 && work->groups[work->n_groups - 1].sequence == sequence) {
            work->groups[work->n_groups - 1].count++;
            continue;
        }
        bool is_new = sequence >= 0 && sequence < cop_cache_sequences(plan->cache);
        for (int32_t g = 0; is_new && g < work->n_groups; g++) {
            is_new = work->groups[g].sequence != sequence;
        }
        if (!is_new) {
            return cop_fail(plan->err, COP_ERR_ARGUMENT,
                            "token %d is of sequence %d: sequences are 0 to %d, and the tokens "
                            "of one stand together",
                            i, sequence, cop_cache_sequences(plan->cache) - 1);
        }
        work->groups[work->n_groups++] = (struct cop_group){
            .sequence = sequence,
            .first = i,
            .count = 1,
            .speculative = cop_cache_speculative(plan->cache, sequence),
        };
    }
    return COP_OK;
}

/* ---- Slots and paths --------------------------------------------------------------------- */

static enum cop_status extend(const struct plan *plan)
{
    struct cop_workspace *work = &plan->model->work;
    for (int32_t g = 0; g < work->n_groups; g++) {
        const struct cop_group *group = &work->groups[g];
        enum cop_status status =
            cop_cache_extend(plan->cache, group->sequence, plan->score->parents + group->first,
                             group->count, plan->err);
        if (status != COP_OK) {
            plan->model->work.n_groups = g;
            cop_model_retract(plan->model, plan->cache);
            return status;
        }
    }
    return COP_OK;
}

/* The path of token i, placed behind the others. Where its parent's path is the last one
 * written, the two share their beginning: a chain of n takes n entries. */
static bool place_path(const struct plan *plan, const struct cop_group *group, int32_t i)
{
    struct cop_workspace *work = &plan->model->work;
    struct cop_attention_token *token = &work->attention[i];
    int32_t index = group->speculative + i - group->first;
    int32_t parent = plan->score->parents[i];
    size_t length = (size_t)cop_cache_depth(plan->cache, group->sequence, index) + 1;
    size_t start = work->n_paths;
    if (parent >= group->speculative) {
        const struct cop_attention_token *above =
            &work->attention[group->first + parent - group->speculative];
        size_t end = (size_t)above->path_offset + (size_t)above->path_length;
        start = end == work->n_paths ? (size_t)above->path_offset : start;
    }
    if (start + length > INT32_MAX || !cop_workspace_reserve_paths(work, start + length)) {
        return false;
    }
    token->path_offset = (int32_t)start;
    token->path_length = (int32_t)length;
    if (start == work->n_paths) {
        cop_cache_path(plan->cache, group->sequence, index, work->paths + start);
    } else {
        work->paths[work->n_paths] = token->base + index;
    }
    work->n_paths = start + length;
    return true;
}

static bool place_tokens(const struct plan *plan)
{
    struct cop_workspace *work = &plan->model->work;
    work->n_paths = 0;
    for (int32_t g = 0; g < work->n_groups; g++) {
        const struct cop_group *group = &work->groups[g];
        int32_t committed = cop_cache_committed(plan->cache, group->sequence);
        work->page_tables[g] = cop_cache_page_table(plan->cache, group->sequence);
        for (int32_t i = group->first; i < group->first + group->count; i++) {
            int32_t index = group->speculative + i - group->first;
            work->attention[i] = (struct cop_attention_token){.sequence = g, .base = committed};
            if (!place_path(plan, group, i)) {
                return false;
            }
            work->positions[i] = committed + work->attention[i].path_length - 1;
            work->slots[i] =
                cop_cache_pool_slot(plan->cache, group->sequence, committed + index);
        }
    }
    return true;
}

/* The slots of the tokens that token i sees, in the order of the call. */
static bool place_seen(const struct plan *plan, const struct cop_group *group, int32_t i)
{
    struct cop_workspace *work = &plan->model->work;
    const uint64_t *words =
        plan->score->visible + (size_t)i * cop_visible_words(plan->score->n);
    struct cop_attention_token *token = &work->seen[i];
    size_t start = work->n_paths, n = start;
    if (start + (size_t)group->count > INT32_MAX ||
        !cop_workspace_reserve_paths(work, start + (size_t)group->count)) {
        return false;
    }
    *token = work->attention[i];
    for (int32_t j = group->first; j < group->first + group->count; j++) {
        if (words[j / 64] >> (j % 64) & 1) {
            work->paths[n++] = token->base + group->speculative + j - group->first;
        }
    }
    token->path_offset = (int32_t)start;
    token->path_length = (int32_t)(n - start);
    work->n_paths = n;
    return true;
}

static bool place_all_seen(const struct plan *plan)
{
    const struct cop_workspace *work = &plan->model->work;
    bool is_placed = true;
    for (int32_t g = 0; plan->score->visible && g < work->n_groups; g++) {
        const struct cop_group *group = &work->groups[g];
        for (int32_t i = 0; is_placed && i < group->count; i++) {
            is_placed = place_seen(plan, group, group->first + i);
        }
    }
    return is_placed;
}

void cop_model_retract(const struct cop_model *model, struct cop_cache *cache)
{
    const struct cop_workspace *work = &model->work;
    for (int32_t g = 0; g < work->n_groups; g++) {
        cop_cache_retract(cache, work->groups[g].sequence, work->groups[g].count);
    }
}

enum cop_status cop_model_plan(struct cop_model *model, struct cop_cache *cache,
                               const struct cop_score *score, struct cop_error *err)
{
    const struct plan plan = {.model = model, .cache = cache, .score = score, .err = err};
    if (!cop_workspace_reserve(model, score->n)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a forward pass over %d tokens",
                        score->n);
    }
    enum cop_status status = find_groups(&plan);
    if (status == COP_OK) {
        status = extend(&plan);
    }
    if (status == COP_OK && !(place_tokens(&plan) && place_all_seen(&plan))) {
        cop_model_retract(model, cache);
        status =
            cop_fail(err, COP_ERR_MEMORY, "no memory for the paths of %d tokens", score->n);
    }
    return status;
}
