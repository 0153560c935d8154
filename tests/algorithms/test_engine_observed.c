/* What a proposer is taught: hidden states and target rows of every scored node, each sequence
 * its own, in batches of ragged trees. */
#include "tests/algorithms/engine_bench.h"

enum { VOCAB = 61, WIDTH = 32, LAYERS = 2, MATES = 3, CONTEXT = 512 };

static struct cop_model *target;
static struct cop_cache *scratch;
static cop_token history[MATES][CONTEXT]; /* by slot: committed tokens */
static int32_t lengths[MATES], n_checked;

static int32_t wish_layers(const void *state, int32_t *layers)
{
    (void)state;
    layers[0] = 0;
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
    return COP_OK;
}
/* Ragged: as deep as the number of the sequence says. */
static enum cop_status expand(void *session, struct cop_frontier *frontiers,
                              int32_t n_frontiers, struct cop_error *err)
{
    static const cop_token token = 9;
    (void)session, (void)err;
    for (int32_t f = 0; f < n_frontiers; f++) {
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
    int32_t layers[] = {0, LAYERS}, n = observed->tree->size;
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
                                                .end = end};

Test(engine_observed, hidden_states_and_rows_are_the_sequences_own)
{
    static struct trial trials[MATES];
    static cop_token prompts[MATES][8];
    target = open_tiny((struct tiny_model){.seed = 7});
    cr_assert_eq(cop_model_info(target)->hidden_size, WIDTH);
    cr_assert_eq(cop_model_cache_new(target, 1, 8, &scratch, NULL), COP_OK);
    for (int32_t batch = 1; batch <= MATES; batch++) {
        struct cop_engine_options options = {
            .target = target, .proposer = ready(cop_part_new(&watcher.plug)), .batch = batch};
        n_checked = 0;
        for (int32_t i = 0; i < MATES; i++) {
            random_prompt(prompts[i], 8, VOCAB, 40 + (uint64_t)i);
            trial_init(&trials[i], prompts[i], 4 + i, 20 - 5 * i);
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
