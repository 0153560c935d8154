/* A few places, looked through from first to last: comparing ids costs nothing beside a pass.
 */
#include "core/cycle/prompts.h"

#include <stdlib.h>
#include <string.h>

struct place {
    cop_token *ids; /* [n] */
    int32_t n;
    double seconds;
    uint64_t last_use;
};

struct cop_prompts {
    struct cop_model *target;
    struct cop_cache *cache; /* sequence i belongs to place i */
    struct place *places;    /* [n_places] */
    int32_t n_places, n_owners;
    uint64_t uses;
};

enum cop_status cop_prompts_new(struct cop_prompts **out, struct cop_model *target,
                                int32_t n_places, struct cop_error *err)
{
    *out = NULL;
    struct cop_prompts *prompts = calloc(1, sizeof *prompts);
    struct place *places = calloc((size_t)n_places, sizeof *places);
    if (!prompts || !places) {
        free(prompts);
        free(places);
        return cop_fail(err, COP_ERR_MEMORY, "no memory to keep prompts");
    }
    prompts->target = cop_model_share(target);
    prompts->places = places;
    prompts->n_places = n_places;
    prompts->n_owners = 1;
    enum cop_status status = cop_model_cache_new(target, n_places, 0, &prompts->cache, err);
    if (status != COP_OK) {
        cop_prompts_free(prompts);
        return status;
    }
    *out = prompts;
    return COP_OK;
}

struct cop_prompts *cop_prompts_share(struct cop_prompts *prompts)
{
    prompts->n_owners++;
    return prompts;
}

void cop_prompts_free(struct cop_prompts *prompts)
{
    if (!prompts || --prompts->n_owners > 0) {
        return;
    }
    for (int32_t i = 0; i < prompts->n_places; i++) {
        free(prompts->places[i].ids);
    }
    cop_cache_free(prompts->cache);
    cop_model_free(prompts->target);
    free(prompts->places);
    free(prompts);
}

static int32_t common(const struct place *place, const cop_token *ids, int32_t n)
{
    int32_t most = place->n < n ? place->n : n, i = 0;
    while (i < most && place->ids[i] == ids[i]) {
        i++;
    }
    return i;
}

/* The place that knows most of the beginning of ids; *length is how much. */
static int32_t best_place(const struct cop_prompts *prompts, const cop_token *ids, int32_t n,
                          int32_t *length)
{
    int32_t best = 0;
    *length = 0;
    for (int32_t i = 0; i < prompts->n_places; i++) {
        int32_t known = common(&prompts->places[i], ids, n);
        if (known > *length) {
            *length = known;
            best = i;
        }
    }
    return best;
}

int32_t cop_prompts_take(struct cop_prompts *prompts, const cop_token *ids, int32_t n,
                         struct cop_cache *cache, int32_t sequence, double *seconds)
{
    int32_t length, best = best_place(prompts, ids, n, &length);
    struct place *place = &prompts->places[best];
    *seconds = 0;
    if (length == 0 || !cop_cache_copy(cache, sequence, prompts->cache, best, length)) {
        return 0;
    }
    *seconds = place->seconds * length / place->n;
    place->last_use = ++prompts->uses;
    return length;
}

/* One whose prompt is the beginning of this one is of no more use; else the oldest. */
static int32_t place_for(const struct cop_prompts *prompts, int32_t best, int32_t length)
{
    if (length > 0 && length == prompts->places[best].n) {
        return best;
    }
    int32_t oldest = 0;
    for (int32_t i = 1; i < prompts->n_places; i++) {
        if (prompts->places[i].last_use < prompts->places[oldest].last_use) {
            oldest = i;
        }
    }
    return oldest;
}

void cop_prompts_keep(struct cop_prompts *prompts, const cop_token *ids, int32_t n,
                      const struct cop_cache *cache, int32_t sequence, double seconds)
{
    int32_t length, best = best_place(prompts, ids, n, &length);
    if (n < 1 || length == n) {
        return;
    }
    int32_t at = place_for(prompts, best, length);
    struct place *place = &prompts->places[at];
    cop_token *copy = realloc(place->ids, (size_t)n * sizeof *copy);
    if (!copy) {
        return;
    }
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    *place =
        (struct place){.ids = copy, .n = n, .seconds = seconds, .last_use = ++prompts->uses};
    cop_cache_reset(prompts->cache, at);
    if (!cop_cache_copy(prompts->cache, at, cache, sequence, n)) {
        place->n = 0;
    }
}
