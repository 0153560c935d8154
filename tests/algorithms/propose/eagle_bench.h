/* What the tests of EAGLE heads share: a target and heads of all forms for it. */
#ifndef TESTS_ALGORITHMS_EAGLE_BENCH_H
#define TESTS_ALGORITHMS_EAGLE_BENCH_H

#include "tests/algorithms/heads/tiny_head.h"
#include "tests/algorithms/propose/draft_bench.h"

enum { DEPTH = 4 };

static UNUSED_FUNCTION struct cop_part *new_eagle(const char *folder, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "eagle");
    return ready(set_number(set_string(part, "path", folder), "depth", depth));
}

static UNUSED_FUNCTION struct cop_model *open_target_of(const struct tiny_head *head,
                                                        uint64_t seed)
{
    struct tiny_model description = {
        .seed = seed, .hidden = head_target_width(head), .vocab = VOCAB};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

static UNUSED_FUNCTION struct cop_model *open_target(uint64_t seed)
{
    return open_target_of(&(struct tiny_head){.version = 3}, seed);
}

static const struct tiny_head heads[] = {
    {.version = 1, .seed = 1, .vocab = VOCAB},
    {.version = 1, .seed = 2, .vocab = VOCAB, .has_bias = true, .has_embedding = true},
    {.version = 3, .seed = 3, .vocab = VOCAB, .n_ids = 20},
    {.version = 3, .seed = 4, .vocab = VOCAB},
    {.version = 3, .seed = 5, .vocab = VOCAB, .n_ids = 40, .norm_before_residual = true},
    {.version = 3,
     .seed = 6,
     .vocab = VOCAB,
     .n_ids = 40,
     .norm_output = true,
     .is_speculators = true},
    {.version = 3, .seed = 7, .vocab = VOCAB, .n_ids = 40, .has_tap_norm = true},
    {.version = 3,
     .seed = 8,
     .vocab = VOCAB,
     .has_tap_norms = true,
     .has_embedding = true,
     .has_bias = true},
    {.version = 1, .seed = 9, .vocab = VOCAB, .has_head = true},
    {.version = 3, .seed = 10, .vocab = VOCAB, .has_embedding = true, .is_tied = true},
    {.version = 3,
     .seed = 11,
     .vocab = VOCAB,
     .n_ids = 40,
     .has_embedding = true,
     .target_width = 48},
};
enum { N_HEADS = sizeof heads / sizeof *heads };

#endif
