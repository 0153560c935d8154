/* Prompts that engines and mates of a batch share: what is copied is what reading gives, bit
 * for bit, and answers do not know who read. */
#include "core/cycle/prompts.h"
#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 61, LONG = 90 };

static struct cop_model *target, *kin;
static cop_token ids[LONG];
static struct cop_error err;

static void open_models(void)
{
    target = open_tiny((struct tiny_model){.seed = 7});
    kin = open_tiny((struct tiny_model){.seed = 7, .noise = 0.1, .noise_seed = 1});
    random_prompt(ids, LONG, VOCAB, 3);
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(kin);
}
TestSuite(prompts, .init = open_models, .fini = free_models, .timeout = 60);

static struct cop_cache *new_cache(int32_t n_sequences)
{
    struct cop_cache *cache;
    cr_assert_eq(cop_model_cache_new(target, n_sequences, 8, &cache, &err), COP_OK);
    return cache;
}

static void read_ids(struct cop_cache *cache, int32_t sequence, const cop_token *from,
                     int32_t n)
{
    cr_assert_eq(cop_model_prefill(target, cache, sequence, from, n, 0, NULL, &err), COP_OK);
}

static void expect_same_positions(const struct cop_cache *a, const struct cop_cache *b,
                                  int32_t n)
{
    const struct cop_kv_layout *layout = &cop_cache_pool(a)->layout;
    float keys[2][64], values[2][64];
    size_t bytes = (size_t)(layout->kv_heads * layout->head_dim) * sizeof(float);
    cr_assert_leq(bytes, sizeof keys[0]);
    for (int32_t layer = 0; layer < layout->layers; layer++) {
        for (int32_t i = 0; i < n; i++) {
            cop_cache_ops(a)->kv_read(cop_cache_pool(a), layer, cop_cache_pool_slot(a, 0, i),
                                      keys[0], values[0]);
            cop_cache_ops(b)->kv_read(cop_cache_pool(b), layer, cop_cache_pool_slot(b, 0, i),
                                      keys[1], values[1]);
            cr_assert_arr_eq(keys[0], keys[1], bytes);
            cr_assert_arr_eq(values[0], values[1], bytes);
        }
    }
}

Test(prompts, the_longest_known_beginning_is_copied)
{
    struct cop_prompts *prompts;
    struct cop_cache *reader = new_cache(1), *taker = new_cache(1);
    double seconds = -1;
    cr_assert_eq(cop_prompts_new(&prompts, target, 2, &err), COP_OK);
    cr_expect_eq(cop_prompts_take(prompts, ids, LONG, taker, 0, &seconds), 0);
    cr_expect_eq(seconds, 0);

    read_ids(reader, 0, ids, 40);
    cop_prompts_keep(prompts, ids, 40, reader, 0, 4.0);
    cop_token other[LONG];
    memcpy(other, ids, sizeof other);
    other[33] = (other[33] + 1) % VOCAB; /* 33 alike, inside the third page */
    cr_expect_eq(cop_prompts_take(prompts, other, LONG, taker, 0, &seconds), 33);
    cr_expect_float_eq(seconds, 3.3, 1e-12);
    cr_expect_eq(cop_cache_committed(taker, 0), 33);
    expect_same_positions(reader, taker, 33);

    read_ids(taker, 0, other + 33, LONG - 33); /* goes on inside a page */
    struct cop_cache *whole = new_cache(1);
    read_ids(whole, 0, other, LONG);
    expect_same_positions(whole, taker, LONG);
    cr_expect_eq(cop_cache_check(taker, &err), COP_OK, "%s", err.text);
    cop_prompts_free(prompts);
    cop_cache_free(reader);
    cop_cache_free(taker);
    cop_cache_free(whole);
}

Test(prompts, a_longer_prompt_takes_the_place_of_its_beginning_and_the_oldest_goes)
{
    struct cop_prompts *prompts;
    struct cop_cache *cache = new_cache(4);
    double seconds;
    cr_assert_eq(cop_prompts_new(&prompts, target, 2, &err), COP_OK);
    static const struct {
        int32_t first, n;
    } read[] = {{0, 20}, {30, 20}, {0, 40}, {50, 20}};
    for (int32_t i = 0; i < 4; i++) {
        read_ids(cache, i, ids + read[i].first, read[i].n);
        cop_prompts_keep(prompts, ids + read[i].first, read[i].n, cache, i, 1.0);
    }
    static const int32_t expected[] = {20, 0, 40, 20}; /* the second was the oldest */
    for (int32_t i = 0; i < 4; i++) {
        cop_cache_reset(cache, 0);
        cr_expect_eq(
            cop_prompts_take(prompts, ids + read[i].first, read[i].n, cache, 0, &seconds),
            expected[i], "prompt %d", i);
    }
    cop_prompts_free(prompts);
    cop_cache_free(cache);
}

/* Plain decoding and a draft, each reading first in turn; the third prompt goes on where the
 * first one ends, the fourth is the first again. */
Test(prompts, answers_do_not_know_who_read)
{
    static const int32_t lengths[] = {30, 17, 47, 30};
    static const int32_t widths[] = {3, 2, 1};
    struct cop_engine_options options[2] = {{.target = target, .batch = 2},
                                            {.target = target,
                                             .proposer = new_draft(kin),
                                             .builder = new_widths(widths, 3),
                                             .batch = 1}};
    setenv("COPPICE_CHECK_KV", "1", 1); /* debug builds: K and V after every cycle */
    struct cop_engine *engines[2] = {new_engine(&options[0]), new_engine(&options[1])};
    cr_assert_eq(cop_engine_share(engines[1], engines[0], &err), COP_OK);
    for (int32_t i = 0; i < 4; i++) {
        struct trial alone, trial[2];
        trial_init(&alone, ids, lengths[i], 24);
        run_trials(&options[0], &alone, 1);
        for (int32_t turn = 0; turn < 2; turn++) {
            int32_t e = (i + turn) % 2;
            trial_init(&trial[e], ids, lengths[i], 24);
            submit(engines[e], &trial[e]);
            cr_assert_eq(cop_engine_run(engines[e], &err), COP_OK, "%s", err.text);
            check_trial(&trial[e]);
            expect_equal_tokens(&trial[e].result, &alone.result, "shared");
            cr_expect_eq(cop_engine_usage(engines[e]).used, 0);
        }
        trial_release(&alone);
        trial_release(&trial[0]);
        trial_release(&trial[1]);
    }
    struct cop_engine_options stranger = {.target = kin, .batch = 1};
    struct cop_engine *other = new_engine(&stranger);
    cr_expect_eq(cop_engine_share(other, engines[0], &err), COP_ERR_ARGUMENT);
    cop_engine_free(engines[0]); /* what is shared outlives who made it */
    cop_engine_free(engines[1]);
    cop_engine_free(other);
    cop_part_free(options[1].proposer);
    cop_part_free(options[1].builder);
}

/* Three requests of 79 positions, five pages each: the second is the first again, the third is
 * alike for 33. Of the second only the page that both go on in is its own, of the third the
 * last three. */
Test(prompts, mates_share_the_pages_of_what_they_read_alike)
{
    enum { MATES = 3, N = 80 };
    cop_token other[N];
    memcpy(other, ids, sizeof other);
    other[33] = (other[33] + 1) % VOCAB;
    const cop_token *prompts[MATES] = {ids, ids, other};
    struct trial alone, trials[MATES];
    setenv("COPPICE_CHECK_KV", "1", 1); /* debug builds: K and V after every cycle */
    static const int32_t widths[] = {3, 2, 1};
    struct cop_engine_options options[2] = {{.target = target, .batch = MATES},
                                            {.target = target,
                                             .proposer = new_draft(kin),
                                             .builder = new_widths(widths, 3),
                                             .batch = MATES}};
    for (int32_t o = 0; o < 2; o++) {
        struct cop_engine *engine = new_engine(&options[o]);
        for (int32_t i = 0; i < MATES; i++) {
            trial_init(&trials[i], prompts[i], N, 12 * (i + 1)); /* who read ends first */
            submit(engine, &trials[i]);
        }
        int32_t active;
        cr_assert_eq(cop_engine_step(engine, &active, &err), COP_OK, "%s", err.text);
        if (o == 0) {
            cr_expect_eq(cop_engine_usage(engine).used, 5 + 1 + 3);
        }
        cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
        cr_expect_eq(cop_engine_usage(engine).used, 0);
        for (int32_t i = 0; i < MATES; i++) {
            trial_init(&alone, prompts[i], N, 12 * (i + 1));
            run_trials(&options[o], &alone, 1);
            check_trial(&trials[i]);
            expect_equal_tokens(&trials[i].result, &alone.result, "a mate");
            trial_release(&alone);
            trial_release(&trials[i]);
        }
        cop_engine_free(engine);
    }
    cop_part_free(options[1].proposer);
    cop_part_free(options[1].builder);
}
