/* Enumerating one law: run the drafting and the rule once per branch (law_branches.c), let the
 * probability of each branch rest on the tokens that came out, and compare with the target
 * (law_compare.c). */
#include "core/cycle/law/law_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOCAB_LIMIT = 16,
    LENGTH_LIMIT = 8192 /* tokens of all cycles; bounds the recursion of the comparison */
};

/* ---- Results
 * ---------------------------------------------------------------------------------- */

static enum cop_status add_outcome(struct cop_law_run *run, int32_t prefix)
{
    const struct cop_prefix *item = &run->prefixes.items[prefix];
    const cop_token *tokens = cop_prefixes_tokens(&run->prefixes, prefix, run->err);
    cop_token *copy = tokens ? malloc((size_t)item->length * sizeof *copy) : NULL;
    if (!copy) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for the outcomes of a law");
    }
    memcpy(copy, tokens, (size_t)item->length * sizeof *copy);
    run->law->outcomes[run->law->n_outcomes++] = (struct cop_law_outcome){
        .tokens = copy, .n_accepted = item->length - 1, .probability = item->first};
    return COP_OK;
}

/* A walk in the order of tokens: a sequence comes before those that begin with it. */
static enum cop_status collect(struct cop_law_run *run, int32_t prefix)
{
    enum cop_status status = COP_OK;
    if (run->prefixes.items[prefix].first > 0) {
        status = add_outcome(run, prefix);
    }
    int32_t child = run->prefixes.items[prefix].first_child;
    bool has_children = child > 0 && run->prefixes.items[prefix].length <= run->law->depth;
    for (int32_t y = 0; y < run->what->vocab && has_children && status == COP_OK; y++) {
        status = collect(run, child + y);
    }
    return status;
}

static enum cop_status collect_outcomes(struct cop_law_run *run)
{
    size_t n = 0;
    for (int32_t i = 0; i < run->prefixes.count; i++) {
        n += run->prefixes.items[i].first > 0;
    }
    run->law->outcomes = calloc(n + 1, sizeof *run->law->outcomes);
    if (!run->law->outcomes) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for the outcomes of a law");
    }
    return collect(run, 0);
}

/* ---- Setting up
 * ------------------------------------------------------------------------------- */

static enum cop_status check_case(const struct cop_law_case *what, struct cop_error *err)
{
    if (what->vocab < 2 || what->vocab > VOCAB_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "enumeration takes vocabularies of 2 to %d tokens, not %d", VOCAB_LIMIT,
                        (int)what->vocab);
    }
    if (!what->builder == !what->given) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a law needs a tree builder or a given tree");
    }
    for (int32_t i = 1; what->given && i < what->given->size; i++) {
        if (what->given->token[i] < 0 || what->given->token[i] >= what->vocab) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "token %d of the given tree is outside the vocabulary of %d",
                            (int)what->given->token[i], (int)what->vocab);
        }
    }
    return COP_OK;
}

static enum cop_status resolve_draw(struct cop_law_run *run)
{
    const struct cop_law_case *what = run->what;
    struct cop_pairing pairing = {.rule = what->rule,
                                  .builder = what->builder,
                                  .length = what->length,
                                  .supply = COP_SUPPLY_DENSE,
                                  .n_drafters = what->n_drafters,
                                  .draw = what->draw,
                                  .relaxed = what->relaxed,
                                  .is_zero_temperature = what->is_zero_temperature};
    if (what->given) {
        pairing.shape = cop_tree_shape(what->given);
        pairing.draw = what->draw == COP_DRAW_AUTO ? what->given->draw : what->draw;
    }
    enum cop_status status = cop_pairing_check(&pairing, &run->law->draw, NULL, run->err);
    run->law->shape = run->builder ? run->builder->shape(what->builder->state) : pairing.shape;
    return status;
}

static int32_t depth_of(const struct cop_law_run *run)
{
    if (run->builder) {
        return run->builder->depth(run->what->builder->state);
    }
    int32_t depth = 0;
    for (int32_t node = 1; node < run->what->given->size; node++) {
        int32_t d = cop_tree_depth(run->what->given, node);
        depth = d > depth ? d : depth;
    }
    return depth;
}

static size_t aligned(size_t size)
{
    return (size + 15) / 16 * 16;
}

static enum cop_status reserve(struct cop_law_run *run)
{
    const struct cop_law_case *what = run->what;
    int32_t nodes =
        run->builder ? cop_builder_candidates(what->builder) : what->given->size - 1;
    enum cop_status status = cop_drafting_init(&run->drafting, nodes, NULL, run->err);
    if (status != COP_OK) {
        return status;
    }
    run->drafting.n_drafters = run->prefixes.n_drafters;
    run->drafting.tree.draw = run->law->draw;
    run->drafting.shares_noise = run->rule->shares_noise;
    run->drafting.may_stop = cop_length_varies(what->length);
    run->drafting.tree.is_merged = what->given && what->given->is_merged;
    size_t n = (size_t)nodes + 1, levels = (size_t)run->law->depth + 1;
    size_t cells = levels * (size_t)what->vocab;
    const struct cop_length_ops *length =
        what->length ? (const struct cop_length_ops *)what->length->plug : NULL;
    run->place = calloc(n, sizeof *run->place);
    run->targets = calloc(n, sizeof *run->targets);
    run->given = calloc(n, sizeof *run->given);
    run->accepted = calloc(n, sizeof *run->accepted);
    run->acceptance = calloc(levels, sizeof *run->acceptance);
    run->rule_memory = aligned(run->rule->sequence_state_size);
    run->length_memory = aligned(length ? length->sequence_state_size : 0);
    run->memory = calloc(1, run->rule_memory + run->length_memory + 1);
    run->sequence_state = run->memory;
    run->length_state = run->memory ? run->memory + run->rule_memory : NULL;
    run->law->accepted = calloc(levels, sizeof *run->law->accepted);
    run->law->position = calloc(cells, sizeof *run->law->position);
    run->law->target_position = calloc(cells, sizeof *run->law->target_position);
    if (!run->place || !run->targets || !run->given || !run->accepted || !run->acceptance ||
        !run->memory || !run->law->accepted || !run->law->position ||
        !run->law->target_position) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for an enumeration");
    }
    for (size_t i = 0; i < levels; i++) {
        run->acceptance[i] = (double)NAN;
    }
    return COP_OK;
}

static void release(struct cop_law_run *run)
{
    cop_prefixes_release(&run->prefixes);
    cop_enumeration_release(&run->enumeration);
    cop_drafting_release(&run->drafting);
    free(run->place);
    free(run->targets);
    free(run->given);
    free(run->accepted);
    free(run->acceptance);
    free(run->memory);
    for (int i = 0; i < 2; i++) {
        free(run->places[i].items);
        free(run->places[i].memory);
    }
}

/* How far branches go, and over how many tokens the law is compared. */
static enum cop_status choose_length(struct cop_law_run *run)
{
    int32_t first = run->law->depth + 1;
    run->n_cycles = run->what->horizon > 1 ? run->what->horizon : 1;
    bool counts_tokens = run->rule->sequence_state_size > 0 && run->builder;
    run->wanted = !counts_tokens ? 0 : run->n_cycles > first ? run->n_cycles : first;
    int64_t length = counts_tokens ? run->wanted : (int64_t)run->n_cycles * first;
    if (length > LENGTH_LIMIT) {
        return cop_fail(run->err, COP_ERR_LIMIT,
                        "enumeration reaches at most %d tokens, depth and horizon ask for %lld",
                        LENGTH_LIMIT, (long long)length);
    }
    run->law->length = (int32_t)length;
    return COP_OK;
}

static enum cop_status run_branches(struct cop_law_run *run)
{
    enum cop_status status = cop_law_branches(run);
    if (status == COP_ERR_LIMIT && run->wanted > run->n_cycles) {
        cop_law_forget(run);
        run->law->length = run->wanted = run->n_cycles;
        status = cop_law_branches(run);
    }
    double total = 0;
    for (int32_t d = 0; d <= run->law->depth; d++) {
        total += run->law->accepted[d];
    }
    return status != COP_OK || fabs(total - 1) < 1e-9
               ? status
               : cop_fail(run->err, COP_ERR_NUMERIC,
                          "the branches have probability %.12g together, not 1", total);
}

static enum cop_status enumerate(struct cop_law_run *run)
{
    enum cop_status status = resolve_draw(run);
    if (status != COP_OK) {
        return status;
    }
    run->law->depth = depth_of(run);
    status = choose_length(run);
    if (status == COP_OK) {
        status = reserve(run);
    }
    if (status == COP_OK) {
        status = run_branches(run);
    }
    if (status == COP_OK) {
        status = collect_outcomes(run);
    }
    return status == COP_OK
               ? cop_prefixes_compare(&run->prefixes, run->law->length, run->law, run->err)
               : status;
}

enum cop_status cop_law_enumerate(struct cop_law *law, const struct cop_law_case *what,
                                  struct cop_error *err)
{
    *law = (struct cop_law){0};
    struct cop_error scratch = {.code = COP_OK};
    struct cop_law_run run = {.what = what,
                              .law = law,
                              .rule = (const struct cop_rule_ops *)what->rule->plug,
                              .err = err ? err : &scratch};
    run.builder = what->builder ? (const struct cop_builder_ops *)what->builder->plug : NULL;
    enum cop_status status = check_case(what, run.err);
    if (status == COP_OK) {
        status = cop_prefixes_init(&run.prefixes, what, run.err);
    }
    if (status == COP_OK) {
        cop_enumeration_init(&run.enumeration, &run.asked);
        status = enumerate(&run);
    }
    release(&run);
    if (status != COP_OK) {
        cop_law_release(law);
    }
    return status;
}

void cop_law_release(struct cop_law *law)
{
    for (int64_t i = 0; i < law->n_outcomes; i++) {
        free(law->outcomes[i].tokens);
    }
    free(law->outcomes);
    free(law->accepted);
    free(law->position);
    free(law->target_position);
    *law = (struct cop_law){0};
}
