/* What the tests of length policies share: a policy that is asked by hand, and requests whose
 * depths it decides. */
#ifndef TESTS_ALGORITHMS_LENGTH_BENCH_H
#define TESTS_ALGORITHMS_LENGTH_BENCH_H

#include "tests/algorithms/engine/engine_bench.h"

static UNUSED_FUNCTION struct cop_part *new_length(const char *name)
{
    return new_part(COP_PLUG_LENGTH, name);
}

static UNUSED_FUNCTION struct cop_part *set_numbers(struct cop_part *part, const char *name,
                                                    const double *items, int32_t count)
{
    struct cop_error err = {0};
    cr_assert_eq(
        cop_option_set_numbers(option(part, name), part->state, items, count, "test", &err),
        COP_OK, "%s", err.text);
    return part;
}

/* A policy that is asked by hand. */
struct asked {
    struct cop_part *part;
    const struct cop_length_ops *ops;
    void *memory, *shared;
    struct cop_row
        offered; /* below every node; COP_ROW_NONE: the proposer is not asked first */
    int32_t n_matched;
    struct cop_tree tree;
};

static UNUSED_FUNCTION struct asked ask_of(struct cop_part *part)
{
    struct asked asked = {.part = part, .ops = (const struct cop_length_ops *)part->plug};
    asked.memory = calloc(1, asked.ops->sequence_state_size + 1);
    asked.shared = calloc(1, asked.ops->shared_state_size + 1);
    cr_assert_eq(cop_tree_init(&asked.tree, 64, NULL), COP_OK);
    cop_tree_reset(&asked.tree, 0);
    return asked;
}

static UNUSED_FUNCTION void done(struct asked *asked)
{
    cop_tree_release(&asked->tree);
    free(asked->memory);
    free(asked->shared);
    cop_part_free(asked->part);
}

static UNUSED_FUNCTION void next_request(struct asked *asked)
{
    memset(asked->memory, 0, asked->ops->sequence_state_size);
}

static UNUSED_FUNCTION const struct cop_row *no_row(void *context, int32_t node)
{
    (void)context;
    (void)node;
    return NULL;
}

/* Grows a chain while the policy wants more; the depth that it reaches. */
static UNUSED_FUNCTION int32_t depth_of(struct asked *asked, int32_t limit)
{
    cop_tree_reset(&asked->tree, 0);
    int32_t depth = 0;
    while (depth < limit) {
        struct cop_length_in in = {.level = depth + 1,
                                   .limit = limit,
                                   .tree = &asked->tree,
                                   .frontier = &depth,
                                   .n_frontier = 1,
                                   .draft = {no_row, NULL},
                                   .sequence_state = asked->memory,
                                   .shared_state = asked->shared,
                                   .n_drafters = 1,
                                   .n_matched = asked->n_matched};
        in.offered = asked->offered.kind != COP_ROW_NONE ? &asked->offered : NULL;
        if (!asked->ops->more(asked->part->state, &in)) {
            break;
        }
        (void)cop_tree_add(&asked->tree, depth, 0, -1);
        depth++;
    }
    return depth;
}

static UNUSED_FUNCTION void tell(struct asked *asked, struct cop_length_cycle cycle)
{
    cycle.nodes = cycle.nodes ? cycle.nodes : cycle.depth + 1;
    cycle.shared_state = asked->shared;
    asked->ops->observe(asked->part->state, asked->memory, &cycle);
}

/* ---- In engines -------------------------------------------------------------------------- */

enum { REQUESTS = 3, PROMPT = 24, ANSWER = 60 };
static cop_token prompts[REQUESTS][PROMPT];

static UNUSED_FUNCTION void make_trials(struct trial *trials)
{
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, ANSWER - 3 * i);
        trials[i].request.id = (uint32_t)i;
    }
}

#endif
