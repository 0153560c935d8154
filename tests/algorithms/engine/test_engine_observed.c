/* What a proposer is taught: hidden states and target rows of every scored node, each sequence
 * its own, in batches of ragged trees. */
#include "tests/algorithms/engine/engine_bench.h"

enum { VOCAB = 61, WIDTH = 32, LAYERS = 2, MATES = 3, CONTEXT = 512, PROMPT = 8 };

static struct cop_model *target;
static struct cop_cache *scratch;
static cop_token history[MATES][CONTEXT]; /* by slot: committed tokens */
static int32_t lengths[MATES], n_read[MATES], n_checked;

static int32_t wish_layers(const void *state, const struct cop_model_info *info,
                           int32_t *layers)
{
    (void)state, (void)info;
    layers[0] = COP_HIDDEN_NORMED;
    layers[1] = LAYERS;
    return 2;
}
static int32_t own_depth(const void *state)
{
    (void)state;
    return 3;
}
static enum cop_status begin(void *session, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    (void)session, (void)err;
    memcpy(history[sequence], ids, (size_t)n * sizeof *ids);
    lengths[sequence] = n;
    n_read[sequence] = 0;
    return COP_OK;
}
/* Every position but the root's, in order, with the states of a pass over all of them, which
 * end in what the LM head reads. */
static enum cop_status prefilled(void *session, const struct cop_prefilled *chunk,
                                 struct cop_error *err)
{
    static float hidden[2 * CONTEXT * WIDTH], logits[VOCAB], expected[CONTEXT * VOCAB];
    int32_t layers[] = {COP_HIDDEN_NORMED, LAYERS}, parents[CONTEXT];
    int32_t sequence = chunk->sequence, n = lengths[sequence] - 1,
            end = chunk->first + chunk->n;
    (void)session, (void)err;
    for (int32_t i = 0; i < n; i++) {
        parents[i] = i - 1;
    }
    cop_cache_reset(scratch, 0);
    struct cop_score pass = {.n = n,
                             .tokens = history[sequence],
                             .parents = parents,
                             .logits = expected,
                             .hidden_layers = layers,
                             .n_hidden = 2,
                             .hidden = hidden};
    cr_assert_eq(cop_model_score(target, scratch, &pass, NULL), COP_OK);
    cr_assert_eq(chunk->n_hidden, 2);
    cr_expect_eq(chunk->first, n_read[sequence]);
    cr_expect_arr_eq(chunk->ids, history[sequence] + chunk->first,
                     (size_t)(chunk->n + 1) * sizeof(cop_token));
    size_t bytes = (size_t)(chunk->n * WIDTH) * sizeof *hidden;
    cr_expect_arr_eq(chunk->hidden, hidden + chunk->first * WIDTH, bytes);
    cr_expect_arr_eq(chunk->hidden + chunk->n * WIDTH, hidden + (n + chunk->first) * WIDTH,
                     bytes);
    cr_assert_eq(
        cop_model_head(target, chunk->hidden + (chunk->n - 1) * WIDTH, 1, logits, NULL),
        COP_OK);
    cr_expect_arr_eq(logits, expected + (end - 1) * VOCAB, sizeof logits);
    n_read[sequence] = end;
    return COP_OK;
}
/* Ragged: as deep as the number of the sequence says. */
static enum cop_status expand(void *session, struct cop_frontier *frontiers,
                              int32_t n_frontiers, struct cop_error *err)
{
    static const cop_token token = 9;
    (void)session, (void)err;
    for (int32_t f = 0; f < n_frontiers; f++) {
        cr_expect_geq(n_read[frontiers[f].sequence], PROMPT - 1);
        if (cop_tree_depth(frontiers[f].tree, frontiers[f].nodes[0]) < frontiers[f].sequence) {
            frontiers[f].rows[0] = (struct cop_row){
                .kind = COP_ROW_POINTS, .vocab = VOCAB, .ids = &token, .count = 1};
        }
    }
    return COP_OK;
}

/* The chain that was drafted, scored again on a fresh cache. */
static void score_again(const struct cop_observed *observed, float *hidden, float *logits)
{
    int32_t layers[] = {COP_HIDDEN_NORMED, LAYERS}, n = observed->tree->size;
    int32_t length = lengths[observed->sequence];
    cop_cache_reset(scratch, 0);
    cr_assert_eq(cop_model_prefill(target, scratch, 0, history[observed->sequence], length - 1,
                                   0, NULL, NULL),
                 COP_OK);
    struct cop_score pass = {.n = n,
                             .tokens = observed->tree->token,
                             .parents = observed->tree->parent,
                             .logits = logits,
                             .hidden_layers = layers,
                             .n_hidden = 2,
                             .hidden = hidden};
    cr_assert_eq(cop_model_score(target, scratch, &pass, NULL), COP_OK);
}

static enum cop_status observe(void *session, const struct cop_observed *observed,
                               struct cop_error *err)
{
    static float hidden[2 * 4 * WIDTH], logits[4 * VOCAB];
    int32_t n = observed->tree->size, sequence = observed->sequence;
    (void)session, (void)err;
    cr_assert_eq(observed->n_hidden, 2);
    score_again(observed, hidden, logits);
    cr_expect_arr_eq(observed->hidden, hidden, (size_t)(2 * n * WIDTH) * sizeof *hidden,
                     "sequence %d, cycle %d", sequence, observed->cycle);
    for (int32_t node = 0; node < n; node++) {
        const struct cop_row *row = cop_rows_at(&observed->target, node);
        cr_expect_arr_eq(row->logits, logits + node * VOCAB, VOCAB * sizeof *logits,
                         "sequence %d, cycle %d, node %d", sequence, observed->cycle, node);
        n_checked++;
    }
    for (int32_t i = 0; i <= observed->n_accepted; i++) {
        history[sequence][lengths[sequence]++] = observed->committed[i];
    }
    return COP_OK;
}
static void end(void *session, int32_t sequence)
{
    (void)session, (void)sequence;
}

static const struct cop_proposer_ops watcher = {.plug = {.abi = COP_PLUG_ABI,
                                                         .kind = COP_PLUG_PROPOSER,
                                                         .name = "watcher",
                                                         .help = "looks at what it is taught"},
                                                .supply = COP_SUPPLY_POINTS,
                                                .hidden_layers = wish_layers,
                                                .own_depth = own_depth,
                                                .begin = begin,
                                                .expand = expand,
                                                .observe = observe,
                                                .end = end,
                                                .prefilled = prefilled};

Test(engine_observed, hidden_states_and_rows_are_the_sequences_own)
{
    static struct trial trials[MATES];
    static cop_token prompts[MATES][PROMPT + 300];
    target = open_tiny((struct tiny_model){.seed = 7});
    cr_assert_eq(cop_model_info(target)->hidden_size, WIDTH);
    cr_assert_eq(cop_model_cache_new(target, 1, CONTEXT, &scratch, NULL), COP_OK);
    for (int32_t batch = 1; batch <= MATES; batch++) {
        struct cop_engine_options options = {
            .target = target, .proposer = ready(cop_part_new(&watcher.plug)), .batch = batch};
        n_checked = 0;
        for (int32_t i = 0; i < MATES; i++) {
            int32_t n = PROMPT + i * (i > 1 ? 150 : 1); /* the last one: two chunks */
            random_prompt(prompts[i], n, VOCAB, 40 + (uint64_t)i);
            trial_init(&trials[i], prompts[i], n, 20 - 5 * i);
        }
        run_trials(&options, trials, MATES);
        cr_expect_geq(n_checked, 40);
        for (int32_t i = 0; i < MATES; i++) {
            trial_release(&trials[i]);
        }
        cop_part_free(options.proposer);
    }
    cop_cache_free(scratch);
    cop_model_free(target);
}
