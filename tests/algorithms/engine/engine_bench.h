/* What the engine's tests share: tiny models, parts by name, requests run to their end. */
#ifndef TESTS_ALGORITHMS_ENGINE_BENCH_H
#define TESTS_ALGORITHMS_ENGINE_BENCH_H

#include "algorithms/register.h"
#include "core/cycle/engine.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED_FUNCTION __attribute__((unused))

/* ---- Models and parts -------------------------------------------------------------------- */

static UNUSED_FUNCTION struct cop_model *open_model(struct gguf_writer *file,
                                                    struct cop_model_options options)
{
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    options.path = gguf_save(file);
    options.threads = options.threads ? options.threads : 1;
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    gguf_writer_free(file);
    return model;
}

static UNUSED_FUNCTION struct cop_model *open_tiny(struct tiny_model description)
{
    return open_model(tiny_model_new(&description), (struct cop_model_options){0});
}

static UNUSED_FUNCTION const struct cop_registry *registry(void)
{
    static struct cop_registry all;
    struct cop_error err = {0};
    if (all.count == 0) {
        cr_assert_eq(cop_register_all(&all, &err), COP_OK, "%s", err.text);
    }
    return &all;
}

static UNUSED_FUNCTION struct cop_part *new_part(enum cop_plug_kind kind, const char *name)
{
    const struct cop_plug *plug = cop_registry_find(registry(), kind, name);
    cr_assert_not_null(plug, "%s", name);
    return cop_part_new(plug);
}

static UNUSED_FUNCTION const struct cop_option *option(const struct cop_part *part,
                                                       const char *name)
{
    const struct cop_option *found = cop_option_find(part->plug->options, name);
    cr_assert_not_null(found, "%s", name);
    return found;
}

static UNUSED_FUNCTION struct cop_part *set_number(struct cop_part *part, const char *name,
                                                   double value)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_number(option(part, name), part->state, value, "test", &err),
                 COP_OK, "%s", err.text);
    return part;
}

static UNUSED_FUNCTION struct cop_part *set_string(struct cop_part *part, const char *name,
                                                   const char *value)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_string(option(part, name), part->state, value, "test", &err),
                 COP_OK, "%s", err.text);
    return part;
}

static UNUSED_FUNCTION struct cop_part *ready(struct cop_part *part)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_part_prepare(part, &err), COP_OK, "%s", err.text);
    return part;
}

static UNUSED_FUNCTION struct cop_part *new_rule(const char *name)
{
    return ready(new_part(COP_PLUG_RULE, name));
}

static UNUSED_FUNCTION struct cop_part *new_chain(int32_t depth)
{
    return ready(set_number(new_part(COP_PLUG_BUILDER, "chain"), "depth", depth));
}

static UNUSED_FUNCTION struct cop_part *new_widths(const int32_t *widths, int32_t count)
{
    struct cop_part *part = new_part(COP_PLUG_BUILDER, "widths");
    struct cop_error err = {0};
    cr_assert_eq(
        cop_option_set_ints(option(part, "widths"), part->state, widths, count, "test", &err),
        COP_OK, "%s", err.text);
    return ready(part);
}

static UNUSED_FUNCTION struct cop_part *new_paths(const int32_t *ranks, const int32_t *lengths,
                                                  int32_t count)
{
    struct cop_part *part = new_part(COP_PLUG_BUILDER, "paths");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_paths(option(part, "paths"), part->state, ranks, lengths, count,
                                      "test", &err),
                 COP_OK, "%s", err.text);
    return ready(part);
}

static UNUSED_FUNCTION struct cop_part *new_independent_paths(int32_t count, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_BUILDER, "independent_paths");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_number(option(part, "count"), part->state, count, "test", &err),
                 COP_OK);
    cr_assert_eq(cop_option_set_number(option(part, "depth"), part->state, depth, "test", &err),
                 COP_OK);
    return ready(part);
}

static UNUSED_FUNCTION struct cop_part *new_lookup(int32_t max_ngram, int32_t tokens)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookup");
    return ready(set_number(set_number(part, "max_ngram", max_ngram), "tokens", tokens));
}

static UNUSED_FUNCTION struct cop_part *new_draft(struct cop_model *model)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "model");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, "model"), part->state, model, "test", &err),
                 COP_OK, "%s", err.text);
    return ready(part);
}

/* ---- Requests ---------------------------------------------------------------------------- */

enum { MOST_CYCLES = 600 };

/* One request with all that it yields. Zero-initialise, fill in `request`, run. */
struct trial {
    struct cop_request request;
    struct cop_result result; /* moved here; release with trial_release */
    bool is_done;
    /* From on_cycle. */
    int32_t n_cycles, progress[MOST_CYCLES], accepted[MOST_CYCLES], drafted[MOST_CYCLES],
        kept[MOST_CYCLES], depth[MOST_CYCLES], scored[MOST_CYCLES];
    enum cop_undrafted undrafted[MOST_CYCLES];
    int32_t fail_at;   /* cycle whose on_cycle fails; -1: none */
    int32_t cancel_at; /* cycle whose on_cycle sets `cancel`; -1: none */
    atomic_bool cancel;
    /* From on_text. */
    struct cop_text shown;
    int32_t n_shown;
};

static UNUSED_FUNCTION void take_result(void *user, struct cop_result *result)
{
    struct trial *trial = user;
    cr_assert_not(trial->is_done, "a result was delivered twice");
    trial->is_done = true;
    trial->result = *result;
    *result = (struct cop_result){0};
}

static UNUSED_FUNCTION enum cop_status note_cycle(void *user, const struct cop_cycle *cycle,
                                                  struct cop_error *err)
{
    struct trial *trial = user;
    int32_t c = cycle->cycle;
    cr_assert(c == trial->n_cycles && c < MOST_CYCLES);
    cr_assert_eq(cop_tree_check(cycle->tree, err), COP_OK, "%s", err->text);
    trial->progress[c] = cycle->progress;
    trial->accepted[c] = cycle->n_accepted;
    trial->drafted[c] = cycle->tree->size - 1;
    trial->kept[c] = cycle->kept;
    trial->scored[c] = cycle->tokens_scored;
    trial->undrafted[c] = cycle->undrafted;
    trial->depth[c] = 0;
    for (int32_t node = 0; node < cycle->tree->size; node++) {
        int32_t depth = cop_tree_depth(cycle->tree, node);
        trial->depth[c] = depth > trial->depth[c] ? depth : trial->depth[c];
    }
    trial->n_cycles++;
    if (c == trial->cancel_at) {
        atomic_store(&trial->cancel, true);
    }
    return c == trial->fail_at ? cop_fail(err, COP_ERR_CALLBACK, "the observer fell over")
                               : COP_OK;
}

static UNUSED_FUNCTION bool note_text(void *user, uint32_t request, const char *text,
                                      size_t length, const cop_token *tokens,
                                      const int32_t *depths, int32_t n_tokens)
{
    struct trial *trial = user;
    (void)request;
    (void)tokens;
    (void)depths;
    cr_assert_eq(cop_text_append(&trial->shown, text, length, NULL), COP_OK);
    trial->n_shown += n_tokens;
    return true;
}

static UNUSED_FUNCTION void trial_init(struct trial *trial, const cop_token *prompt, int32_t n,
                                       int32_t max_tokens)
{
    *trial = (struct trial){.fail_at = -1, .cancel_at = -1};
    trial->request = (struct cop_request){
        .prompt = prompt, .n_prompt = n, .max_tokens = max_tokens, .logprobs = -1, .seed = 1};
}

static UNUSED_FUNCTION void trial_release(struct trial *trial)
{
    cop_result_release(&trial->result);
    cop_text_release(&trial->shown);
}

static UNUSED_FUNCTION struct cop_engine *new_engine(const struct cop_engine_options *given)
{
    struct cop_engine_options options = *given;
    struct cop_engine *engine = NULL;
    struct cop_error err = {0};
    options.batch = options.batch ? options.batch : 1;
    options.registry = registry();
    if (options.sampling.top_p == 0) {
        options.sampling.top_p = 1;
    }
    cr_assert_eq(cop_engine_new(&engine, &options, &err), COP_OK, "%s", err.text);
    return engine;
}

static UNUSED_FUNCTION void submit(struct cop_engine *engine, struct trial *trial)
{
    struct cop_error err = {0};
    trial->request.user = trial;
    trial->request.on_cycle = note_cycle;
    trial->request.on_text = note_text;
    trial->request.cancel = &trial->cancel;
    cr_assert_eq(cop_engine_submit(engine, &trial->request, take_result, &err), COP_OK, "%s",
                 err.text);
}

/* What holds for every request that was served to its end. */
static UNUSED_FUNCTION void check_trial(const struct trial *trial)
{
    const struct cop_result *result = &trial->result;
    int64_t progress = 0, accepted = 0, drafted = 0, kept = 0;
    cr_assert(trial->is_done);
    for (int32_t c = 0; c < trial->n_cycles; c++) {
        cr_assert_eq(trial->progress[c], trial->accepted[c] + 1);
        cr_assert_leq(trial->accepted[c], trial->drafted[c]);
        cr_assert_leq(trial->kept[c], trial->progress[c]);
        cr_assert(c == trial->n_cycles - 1 || trial->kept[c] == trial->progress[c]);
        progress += trial->progress[c];
        accepted += trial->accepted[c];
        drafted += trial->drafted[c];
        kept += trial->kept[c];
    }
    cr_assert_eq(result->forward_passes, trial->n_cycles);
    cr_assert_eq(result->progress, progress);
    cr_assert_eq(result->accepted, accepted);
    cr_assert_eq(result->drafted, drafted);
    cr_assert_leq(result->n_tokens, kept);
    cr_assert_leq(result->n_tokens, trial->request.max_tokens);
    cr_assert_eq(trial->n_shown, result->n_tokens);
    cr_assert_eq(trial->shown.length, result->text.length);
    cr_assert_eq(memcmp(trial->shown.bytes ? trial->shown.bytes : "",
                        result->text.bytes ? result->text.bytes : "", trial->shown.length),
                 0);
}

/* Runs n requests to their ends in one engine and checks what must always hold. */
static UNUSED_FUNCTION void run_trials(const struct cop_engine_options *options,
                                       struct trial *trials, int32_t n)
{
    struct cop_engine *engine = new_engine(options);
    struct cop_error err = {0};
    for (int32_t i = 0; i < n; i++) {
        submit(engine, &trials[i]);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    for (int32_t i = 0; i < n; i++) {
        check_trial(&trials[i]);
    }
    cr_assert_eq(cop_engine_usage(engine).used, 0, "pages leaked");
    cop_engine_free(engine);
}

static UNUSED_FUNCTION void expect_equal_tokens(const struct cop_result *a,
                                                const struct cop_result *b, const char *what)
{
    int32_t n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens, i = 0;
    while (i < n && a->tokens[i] == b->tokens[i]) {
        i++;
    }
    cr_expect(i == n && a->n_tokens == b->n_tokens,
              "%s: %d and %d tokens, the first difference at %d (%d, %d)", what, a->n_tokens,
              b->n_tokens, i, i < a->n_tokens ? a->tokens[i] : -1,
              i < b->n_tokens ? b->tokens[i] : -1);
    cr_expect_eq(a->finish, b->finish, "%s: %s and %s", what, cop_finish_name(a->finish),
                 cop_finish_name(b->finish));
}

static UNUSED_FUNCTION void random_prompt(cop_token *prompt, int32_t n, int32_t vocab,
                                          uint64_t seed)
{
    for (int32_t i = 0; i < n; i++) {
        prompt[i] = (cop_token)(tiny_bits(seed, (uint64_t)i) % (uint64_t)vocab);
    }
}

#endif
