#include "core/trace/simulate.h"

#include <stdlib.h>

struct copy {
    int32_t made;  /* output tokens so far */
    int32_t input; /* tokens that it gives to this cycle's pass: root and draft */
    double seconds;
};

static double pass(const struct cop_pass_cost *cost, double kv, double tokens)
{
    return kv * cost->kv + tokens * cost->token + cost->fixed;
}

/* All copies are alike. */
static double plain_seconds(const struct cop_simulation *s,
                            const struct cop_simulated_request *request)
{
    double batch = s->batch, kv = batch * (request->n_prompt + 1.0);
    double seconds = pass(&s->cost.target, 0, batch * request->n_prompt) + s->cost.overhead;
    for (int32_t i = 1; i < request->n_output; i++) {
        seconds += pass(&s->cost.target, kv, batch) + s->cost.overhead;
        kv += batch;
    }
    return seconds;
}

static int32_t input_of(const struct cop_simulation *s, int32_t progress,
                        struct cop_mersenne *coins)
{
    if (s->length == COP_SIMULATED_ORACLE) {
        return progress;
    }
    if (s->match < 1 && progress == 1 && !(cop_mersenne_uniform(coins) < s->match)) {
        return 1;
    }
    return s->length + 1;
}

static double draft_seconds(const struct cop_simulation *s, int drafter, double target,
                            double kv, int32_t input)
{
    double seconds = 0;
    if (s->length == 0 || (s->skips_empty && input == 1)) {
        return 0;
    }
    if (drafter & COP_DRAFT_MODEL) {
        seconds += pass(&s->cost.draft, kv, input);
    }
    if (drafter & COP_DRAFT_LOOKUP) {
        seconds += target * s->cost.lookup;
    }
    return seconds;
}

/* One cycle of the copies that are not done; → how many are left. */
static int32_t cycle(const struct cop_simulation *s,
                     const struct cop_simulated_request *request, struct copy *copies,
                     double *kv, struct cop_mersenne *coins, struct cop_simulated *out)
{
    int32_t left = 0;
    double tokens = 0;
    for (int32_t i = 0; i < s->batch; i++) {
        if (copies[i].made < request->n_output) {
            copies[i].input = input_of(s, request->progress[copies[i].made - 1], coins);
            tokens += copies[i].input;
        }
    }
    double target = pass(&s->cost.target, *kv, tokens);
    for (int32_t i = 0; i < s->batch; i++) {
        struct copy *copy = &copies[i];
        if (copy->made >= request->n_output) {
            continue;
        }
        int32_t at = copy->made - 1, progress = request->progress[at];
        copy->seconds += target + s->cost.overhead +
                         draft_seconds(s, request->drafter[at], target, *kv, copy->input);
        progress = progress < copy->input ? progress : copy->input;
        copy->made += progress;
        *kv += progress;
        out->cycles++;
        out->committed += progress;
        if (copy->made < request->n_output) {
            left++;
        } else {
            *kv -= copy->made + (double)request->n_prompt;
        }
    }
    return left;
}

enum cop_status cop_simulate(const struct cop_simulation *s,
                             const struct cop_simulated_request *request,
                             struct cop_mersenne *coins, struct cop_simulated *out,
                             struct cop_error *err)
{
    struct copy *copies = calloc((size_t)s->batch, sizeof *copies);
    *out = (struct cop_simulated){.plain_seconds = plain_seconds(s, request)};
    if (!copies) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a batch of %d requests",
                        (int)s->batch);
    }
    double start =
        pass(&s->cost.target, 0, (double)s->batch * request->n_prompt) + s->cost.overhead;
    double kv = s->batch * (request->n_prompt + 1.0);
    for (int32_t i = 0; i < s->batch; i++) {
        copies[i] = (struct copy){.made = 1, .seconds = start};
    }
    int32_t left = request->n_output > 1 ? s->batch : 0;
    while (left > 0) {
        left = cycle(s, request, copies, &kv, coins, out);
    }
    for (int32_t i = 0; i < s->batch; i++) {
        out->seconds += copies[i].seconds / s->batch;
    }
    free(copies);
    return COP_OK;
}
