/* Four requests of one batch, for what must not depend on mates: each also served alone. */
#ifndef TESTS_ALGORITHMS_ENGINE_MATES_H
#define TESTS_ALGORITHMS_ENGINE_MATES_H

#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 61, PROMPT = 20, ANSWER = 40, MATES = 4 };

static struct cop_model *target, *kin;
static cop_token prompts[MATES][PROMPT];

static UNUSED_FUNCTION void open_models(void)
{
    target = open_tiny((struct tiny_model){.seed = 7});
    kin = open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    for (int32_t i = 0; i < MATES; i++) {
        random_prompt(prompts[i], PROMPT, VOCAB, 20 + (uint64_t)i);
    }
}
static UNUSED_FUNCTION void free_models(void)
{
    cop_model_free(target);
    cop_model_free(kin);
}

static UNUSED_FUNCTION struct cop_engine_options speculative(int32_t batch)
{
    static const int32_t widths[] = {3, 2, 1};
    return (struct cop_engine_options){.target = target,
                                       .proposer = new_draft(kin),
                                       .builder = new_widths(widths, 3),
                                       .batch = batch};
}

static UNUSED_FUNCTION void free_options(struct cop_engine_options *options)
{
    cop_part_free(options->proposer);
    cop_part_free(options->builder);
    cop_part_free(options->rule);
    cop_part_free(options->length);
}

static UNUSED_FUNCTION void make_mates(struct trial *trials)
{
    for (int32_t i = 0; i < MATES; i++) {
        trial_init(&trials[i], prompts[i], PROMPT - 3 * i, ANSWER);
        trials[i].request.id = (uint32_t)i;
    }
}

static UNUSED_FUNCTION void release_all(struct trial *trials)
{
    for (int32_t i = 0; i < MATES; i++) {
        trial_release(&trials[i]);
    }
}

static struct trial alone[MATES];

static UNUSED_FUNCTION void run_alone(struct cop_engine_options *options)
{
    int32_t batch = options->batch;
    options->batch = 1;
    make_mates(alone);
    for (int32_t i = 0; i < MATES; i++) {
        run_trials(options, &alone[i], 1);
    }
    options->batch = batch;
}

static UNUSED_FUNCTION bool is_prefix(const struct cop_result *part,
                                      const struct cop_result *whole)
{
    return part->n_tokens <= whole->n_tokens &&
           memcmp(part->tokens, whole->tokens, (size_t)part->n_tokens * sizeof(cop_token)) == 0;
}

#endif
