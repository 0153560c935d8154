/* Drafters with a cache of their own, in the middle of answers: what they draft after whatever
 * has happened (nothing kept, everything kept, a stop inside a path, a neighbour that was
 * cancelled, a prompt whose pages two requests share, a slot that was used before) is what they
 * draft after a fresh start on the committed text, bit for bit. */
#include "tests/algorithms/propose/live_drafts.h"

enum { PAIRS = 264, BYTES = 259, N_REQUESTS = 6 };

static struct cop_model *open_bytes(int32_t vocab, double noise)
{
    return open_tiny((struct tiny_model){
        .seed = 3, .vocab = vocab, .has_tokenizer = true, .noise = noise, .noise_seed = 1});
}

static struct cop_model *open_tiny_pages(int32_t vocab, int32_t pages)
{
    const struct tiny_model near = {
        .seed = 3, .vocab = vocab, .has_tokenizer = true, .noise = 0.05, .noise_seed = 1};
    return open_model(tiny_model_new(&near), (struct cop_model_options){.pages = pages});
}

static struct cop_part *set_object(struct cop_part *part, const char *name, void *object)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, name), part->state, object, "test", &err),
                 COP_OK, "%s", err.text);
    return part;
}

struct kinds { /* what the parts are made of, and those behind others */
    struct cop_model *target, *near, *bytes;
    struct cop_part *inner[8];
    int32_t n_inner;
};

static struct cop_part *keep(struct kinds *kinds, struct cop_part *part)
{
    return kinds->inner[kinds->n_inner++] = part;
}

static struct cop_part *new_vocabulary(struct cop_model *model, const char *vocabulary)
{
    struct cop_part *part = set_object(new_part(COP_PLUG_PROPOSER, "model"), "model", model);
    return ready(set_string(part, "vocabulary", vocabulary));
}

static struct cop_part *new_two(struct kinds *kinds, const char *name, struct cop_part *first,
                                struct cop_part *second)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    struct cop_error err = {0};
    set_object(set_object(part, "first", keep(kinds, first)), "second", keep(kinds, second));
    if (strcmp(name, "cascade") == 0) {
        cr_assert_eq(cop_option_set_ints(option(part, "depths"), part->state,
                                         (const int32_t[]){1, 2}, 2, "test", &err),
                     COP_OK);
    }
    return ready(part);
}

static struct cop_part *new_kind(struct kinds *kinds, int32_t kind)
{
    struct cop_part *part;
    switch (kind) {
    case 0: return new_vocabulary(kinds->near, "same");
    case 1: return new_vocabulary(kinds->bytes, "intersection");
    case 2: return new_vocabulary(kinds->bytes, "text");
    case 3: return new_vocabulary(kinds->bytes, "string");
    case 4: return ready(set_number(new_part(COP_PLUG_PROPOSER, "layer_skip"), "exit", 1));
    case 5:
        part = set_object(new_part(COP_PLUG_PROPOSER, "staged"), "model", kinds->near);
        return ready(set_object(part, "proposer", keep(kinds, new_lookup(2, 3))));
    case 6:
        return new_two(kinds, "mixture", new_vocabulary(kinds->near, "same"), new_lookup(2, 3));
    case 7:
        return new_two(kinds, "cascade", new_vocabulary(kinds->near, "same"),
                       new_vocabulary(kinds->bytes, "string"));
    case 8:
        part = set_number(new_part(COP_PLUG_PROPOSER, "model"), "temperature", 0.7);
        set_number(set_object(part, "model", kinds->near), "top_k", 5);
        return ready(set_number(part, "top_p", 0.9));
    case 9: return new_lookup(2, 3);
    case 10: return ready(new_part(COP_PLUG_PROPOSER, "suffix_automaton"));
    case 11: /* the model is not asked in every cycle */
        return new_two(kinds, "mixture", new_lookup(2, 3), new_vocabulary(kinds->near, "same"));
    default: return NULL;
    }
}

struct live {
    struct watched watched;
    int32_t kind;
    double temperature;
    int32_t stop_at; /* cycle that cancels; -1: none */
    atomic_bool cancel;
    int32_t n_none, n_all;
};

static void compare(struct live *live, const struct cop_cycle *cycle)
{
    static struct draft fresh;
    struct watched *watched = &live->watched;
    draft_once(&fresh, watched->twin, watched->builder, watched->target, watched->text,
               watched->n, COP_DRAW_DETERMINISTIC, live->temperature);
    cr_assert_leq(cycle->tree->size, fresh.tree.size, "kind %d, cycle %d", live->kind,
                  cycle->cycle);
    for (int32_t node = 1; node < cycle->tree->size; node++, watched->n_compared++) {
        double was = cycle->draft_logprob[node], is = cop_log(fresh.probabilities[node]);
        cr_assert_eq(cycle->tree->token[node], fresh.tree.token[node],
                     "kind %d, cycle %d, node %d", live->kind, cycle->cycle, node);
        cr_assert(was == is || (isnan(was) && isnan(is)),
                  "kind %d, cycle %d, node %d: %.17g and %.17g", live->kind, cycle->cycle, node,
                  was, is);
    }
    cop_tree_release(&fresh.tree);
    for (int32_t i = 0; i < cycle->n_accepted; i++) {
        watched->text[watched->n++] = cycle->tree->token[cycle->accepted[i]];
    }
    watched->text[watched->n++] = cycle->last;
}

static enum cop_status watch(void *user, const struct cop_cycle *cycle, struct cop_error *err)
{
    struct live *live = user;
    (void)err;
    if (cycle->tree->size > 1) {
        int32_t depth = 0;
        for (int32_t node = 0; node < cycle->tree->size; node++) {
            int32_t of = cop_tree_depth(cycle->tree, node);
            depth = of > depth ? of : depth;
        }
        live->n_none += cycle->n_accepted == 0;
        live->n_all += cycle->n_accepted == depth;
    }
    compare(live, cycle);
    if (cycle->cycle == live->stop_at) {
        atomic_store(&live->cancel, true);
    }
    return COP_OK;
}

static void expect_live(struct kinds *kinds, int32_t kind, struct cop_part *builder,
                        double temperature)
{
    static const int32_t prompts[N_REQUESTS] = {90, 90, 1, 33, 90, 12};
    static struct live lives[N_REQUESTS];
    const cop_token ends[] = {7, 100};
    struct cop_part *twin = new_kind(kinds, kind);
    struct cop_engine_options options = {.target = kinds->target,
                                         .batch = 3,
                                         .proposer = new_kind(kinds, kind),
                                         .builder = builder,
                                         .draw = COP_DRAW_DETERMINISTIC,
                                         .rule = new_rule("sample_match"),
                                         .sampling = {.temperature = temperature, .top_p = 1}};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    int32_t n_none = 0, n_all = 0, n_compared = 0;
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        struct live *live = &lives[i];
        *live = (struct live){
            .kind = kind, .temperature = temperature, .stop_at = i == 1 || i == 3 ? 3 + i : -1};
        live->watched = (struct watched){
            .twin = twin, .builder = builder, .target = kinds->target, .n = prompts[i]};
        random_prompt(live->watched.text, prompts[i], 256, prompts[i] == 90 ? 5 : (uint64_t)i);
        struct cop_request request = {.prompt = live->watched.text,
                                      .n_prompt = prompts[i],
                                      .max_tokens = 50,
                                      .seed = (uint64_t)i,
                                      .id = (uint32_t)i,
                                      .logprobs = -1,
                                      .stop_tokens = i == 4 ? ends : NULL,
                                      .n_stop_tokens = i == 4 ? 2 : 0,
                                      .user = live,
                                      .cancel = &live->cancel,
                                      .on_cycle = watch};
        cr_assert_eq(cop_engine_submit(engine, &request, ignore_result, &err), COP_OK, "%s",
                     err.text);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        n_none += lives[i].n_none;
        n_all += lives[i].n_all;
        n_compared += lives[i].watched.n_compared;
    }
    cr_expect_gt(n_none, 0, "kind %d: every cycle kept something", kind);
    cr_expect(n_all > 0 || kind >= 9, "kind %d: no cycle kept everything", kind);
    cr_expect_gt(n_compared, 20, "kind %d: %d nodes", kind, n_compared);
    cop_engine_free(engine);
    cop_part_free(twin);
    cop_part_free(options.proposer);
    cop_part_free(options.rule);
    cop_part_free(builder);
}

static void expect_all(struct cop_part *(*builder)(void), double temperature)
{
    struct kinds kinds = {.target = open_bytes(PAIRS, 0),
                          .near = open_bytes(PAIRS, 0.1),
                          .bytes = open_bytes(BYTES, 0.1)};
    for (int32_t kind = 0; kind < 12; kind++) {
        expect_live(&kinds, kind, builder(), temperature);
        while (kinds.n_inner > 0) {
            cop_part_free(kinds.inner[--kinds.n_inner]);
        }
    }
    cop_model_free(kinds.target);
    cop_model_free(kinds.near);
    cop_model_free(kinds.bytes);
}

static struct cop_part *new_fan(void)
{
    return new_widths((const int32_t[]){4, 2, 1}, 3);
}
static struct cop_part *new_line(void)
{
    return new_chain(3);
}

Test(live_drafts, equal_fresh_ones_in_trees, .timeout = 120)
{
    expect_all(new_fan, 0);
}
Test(live_drafts, equal_fresh_ones_in_chains_when_sampling, .timeout = 120)
{
    expect_all(new_line, 0.7);
}

/* ---- Too few pages ------------------------------------------------------------------------
 */

/* Three requests of 90 tokens and the draft's pool holds two: whoever finds no page drafts no
 * more, and every answer is that of plain decoding. */
Test(live_drafts, go_without_where_their_pages_end)
{
    static struct trial with[3], without[3];
    static cop_token prompts[3][90];
    struct kinds kinds = {.target = open_bytes(PAIRS, 0),
                          .near = open_tiny_pages(PAIRS, 15),
                          .bytes = open_tiny_pages(BYTES, 15)};
    for (int32_t kind = 0; kind < 9;
         kind += kind == 3 ? 2 : 1) { /* 4 has no pages of its own */
        struct cop_engine_options plain = {.target = kinds.target, .batch = 3};
        struct cop_engine_options options = {.target = kinds.target,
                                             .batch = 3,
                                             .proposer = new_kind(&kinds, kind),
                                             .builder = new_fan(),
                                             .rule = new_rule("match")};
        int64_t accepted = 0;
        for (int32_t i = 0; i < 3; i++) {
            random_prompt(prompts[i], 90, 256, 7 + (uint64_t)i);
            trial_init(&with[i], prompts[i], 90, 50);
            trial_init(&without[i], prompts[i], 90, 50);
        }
        run_trials(&options, with, 3);
        run_trials(&plain, without, 3);
        for (int32_t i = 0; i < 3; i++) {
            cr_expect_eq(with[i].result.error.code, COP_OK, "kind %d: %s", kind,
                         with[i].result.error.text);
            expect_equal_tokens(&with[i].result, &without[i].result, "too few pages");
            accepted += with[i].result.accepted;
            trial_release(&with[i]);
            trial_release(&without[i]);
        }
        cr_expect_gt(accepted, 0, "kind %d", kind);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
        cop_part_free(options.rule);
        while (kinds.n_inner > 0) {
            cop_part_free(kinds.inner[--kinds.n_inner]);
        }
    }
    cop_model_free(kinds.target);
    cop_model_free(kinds.near);
    cop_model_free(kinds.bytes);
}
