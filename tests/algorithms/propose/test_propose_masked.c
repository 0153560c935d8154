/* Heads with masks: what they draft is what the formulas say in double, the same in the middle
 * of an answer as from a fresh start, and answers are those of plain decoding. */
#include "tests/algorithms/heads/double_layers.h"
#include "tests/algorithms/propose/parallel_bench.h"

enum { MASK = 7, TAPS = 3, POSITIONS = 4 };

static struct cop_model *open_target(int32_t context)
{
    struct tiny_model description = {
        .seed = 5, .layers = 3, .hidden = DL_WIDTH, .vocab = VOCAB, .context = context};
    return open_model(tiny_model_new(&description), (struct cop_model_options){.kv_f32 = true});
}

static struct cop_part *new_head(const char *folder, int32_t depth)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    return ready(set_number(set_string(part, "path", folder), "depth", depth));
}

/* The target's states after layers at positions [0, n), [n][TAPS * width]. */
static void read_states(struct cop_model *target, const int32_t *layers, const cop_token *ids,
                        int32_t n, double (*out)[TAPS * DL_WIDTH])
{
    static float states[TAPS * PROMPT * DL_WIDTH];
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    const struct cop_states want = {.layers = layers, .n_layers = TAPS, .out = states};
    cr_assert_leq(n, PROMPT);
    cr_assert_eq(cop_model_cache_new(target, 1, 64, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill_states(target, cache, 0, ids, n, &want, NULL, &err), COP_OK,
                 "%s", err.text);
    cop_cache_free(cache);
    for (int32_t j = 0; j < n; j++) {
        for (int32_t i = 0; i < TAPS * DL_WIDTH; i++) {
            out[j][i] = (double)states[(i / DL_WIDTH * n + j) * DL_WIDTH + i % DL_WIDTH];
        }
    }
}

/* The target's ends. */
static void embed(struct cop_model *target, cop_token token, double *out)
{
    float row[DL_WIDTH];
    cr_assert_eq(cop_model_embed(target, &token, 1, row, NULL), COP_OK);
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        out[i] = (double)row[i];
    }
}

static void expect_rows(const struct draft *draft, double rows[][VOCAB], const char *what)
{
    for (int32_t node = 1; node < draft->tree.size; node++) {
        double expected = rows[cop_tree_depth(&draft->tree, node) - 1][draft->tree.token[node]];
        cr_expect_float_eq(draft->probabilities[node], expected, 2e-5,
                           "%s, node %d: %.7f, expected %.7f", what, node,
                           draft->probabilities[node], expected);
    }
}

/* ---- P-EAGLE ----------------------------------------------------------------------------- */

struct eagle_kind {
    int32_t layers, n_ids; /* n_ids 0: all, without a map */
    bool norm_before_residual, is_speculators;
};
static const struct eagle_kind eagles[] = {
    {.layers = 1},
    {.layers = 3, .is_speculators = true},
    {.layers = 2, .n_ids = 20, .norm_before_residual = true, .is_speculators = true}};
enum { N_EAGLES = sizeof eagles / sizeof *eagles };

/* Id i of a map of n: i * VOCAB / n; d2t holds the distance, in 64 bits. */
static void put_map(struct head_folder *folder, int32_t n)
{
    static int64_t d2t[VOCAB];
    for (int32_t i = 0; i < n; i++) {
        d2t[i] = i * VOCAB / n - i;
    }
    head_folder_put_typed(folder, "d2t", "I64", n, d2t, sizeof *d2t);
}

static struct head_folder *write_eagle(struct dl_tensors *t, const struct eagle_kind *kind,
                                       const char *drop)
{
    static const char layer[] =
        "\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"vocab_size\": 61, \"rms_norm_eps\": 1e-5, \"num_hidden_layers\": ";
    static const char rest[] =
        "\"eagle_aux_hidden_state_layer_ids\": [0, 1, 2], \"norm_before_residual\": ";
    char config[2048], number[32];
    t->n = 0;
    for (int32_t i = 0; i < kind->layers; i++) {
        (void)snprintf(number, sizeof number, "layers.%d.", i);
        dl_add_layer(t, number, i == 0 ? 2 * DL_WIDTH : DL_WIDTH, false);
    }
    int32_t n_ids = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    dl_add(t, 0, DL_WIDTH, "layers.0.hidden_norm.weight");
    dl_add(t, DL_WIDTH, TAPS * DL_WIDTH, "fc.weight");
    dl_add(t, 0, DL_WIDTH, "norm.weight");
    dl_add(t, 1, TAPS * DL_WIDTH, "mask_hidden");
    dl_add(t, n_ids, DL_WIDTH, "lm_head.weight");
    dl_add(t, VOCAB, DL_WIDTH, "embed_tokens.weight");
    const char *norms = kind->norm_before_residual ? "true" : "false";
    if (kind->is_speculators) {
        (void)snprintf(config, sizeof config,
                       "{\"speculators_model_type\": \"peagle\", \"mask_token_id\": 7, "
                       "\"draft_vocab_size\": %d, \"transformer_layer_config\": {%s%d}, %s%s, "
                       "\"speculators_config\": {\"proposal_methods\": [{\"proposal_type\": "
                       "\"greedy\", \"speculative_tokens\": 4}]}}",
                       n_ids, layer, kind->layers, rest, norms);
    } else {
        (void)snprintf(config, sizeof config,
                       "{%s%d, \"ptd_token_id\": 7, \"para_depths\": 4, %s%s}", layer,
                       kind->layers, rest, norms);
    }
    struct head_folder *folder = head_folder_new(config);
    dl_put(t, folder, drop);
    if (kind->n_ids > 0) {
        put_map(folder, n_ids);
    }
    head_folder_save(folder, "model.safetensors");
    return folder;
}

/* One row of the head: x becomes y. */
static void eagle_row(const struct dl_tensors *t, const struct eagle_kind *kind,
                      cop_token token, int32_t row, struct dl_keys *keys, double *x)
{
    double joined[2 * DL_WIDTH], embedded[DL_WIDTH], normed[DL_WIDTH];
    char prefix[32] = "layers.0.";
    const float *table = dl_data(t, "", "embed_tokens.weight");
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        embedded[i] = (double)table[token * DL_WIDTH + i];
    }
    dl_norm(dl_data(t, prefix, "input_layernorm.weight"), embedded, DL_WIDTH, joined);
    dl_norm(dl_data(t, prefix, "hidden_norm.weight"), x, DL_WIDTH, joined + DL_WIDTH);
    if (kind->norm_before_residual) {
        memcpy(x, joined + DL_WIDTH, DL_WIDTH * sizeof *x);
    }
    dl_remember(t, prefix, joined, 2 * DL_WIDTH, row, &keys[0], row);
    dl_layer(t, prefix, joined, 2 * DL_WIDTH, row, &keys[0], 0, row + 1, x);
    for (int32_t l = 1; l < kind->layers; l++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", l);
        dl_norm(dl_data(t, prefix, "input_layernorm.weight"), x, DL_WIDTH, normed);
        dl_remember(t, prefix, normed, DL_WIDTH, row, &keys[l], row);
        dl_layer(t, prefix, normed, DL_WIDTH, row, &keys[l], 0, row + 1, x);
    }
}

static void eagle_law(const struct dl_tensors *t, const struct eagle_kind *kind,
                      const double *y, double *law)
{
    double normed[DL_WIDTH], logits[VOCAB], own[VOCAB];
    int32_t n = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    dl_norm(dl_data(t, "", "norm.weight"), y, DL_WIDTH, normed);
    dl_apply(dl_data(t, "", "lm_head.weight"), normed, n, DL_WIDTH, logits);
    dl_softmax(logits, n, own);
    memset(law, 0, VOCAB * sizeof *law);
    for (int32_t i = 0; i < n; i++) {
        law[kind->n_ids > 0 ? i * VOCAB / n : i] = own[i];
    }
}

Test(propose_masked, eagle_rows_are_those_of_the_formulas)
{
    static const int32_t layers[] = {0, 1, 2};
    struct cop_model *target = open_target(0);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1, 1}, 5);
    for (int32_t k = 0; k < N_EAGLES; k++) {
        static struct dl_tensors t;
        static struct dl_keys keys[DL_LAYERS];
        static struct draft draft;
        static double states[PROMPT][TAPS * DL_WIDTH], rows[POSITIONS][VOCAB];
        double x[DL_WIDTH], mask[TAPS * DL_WIDTH];
        cop_token prompt[PROMPT];
        struct head_folder *folder = write_eagle(&t, &eagles[k], NULL);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)k);
        struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
        draft_once(&draft, head, widths, target, prompt, PROMPT);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        read_states(target, layers, prompt, PROMPT - 1, states);
        for (int32_t i = 0; i < TAPS * DL_WIDTH; i++) {
            mask[i] = (double)dl_data(&t, "", "mask_hidden")[i];
        }
        for (int32_t row = 0; row < PROMPT - 2 + POSITIONS; row++) {
            bool is_known = row < PROMPT - 1;
            dl_apply(dl_data(&t, "", "fc.weight"), is_known ? states[row] : mask, DL_WIDTH,
                     TAPS * DL_WIDTH, x);
            eagle_row(&t, &eagles[k], is_known ? prompt[row + 1] : MASK, row, keys, x);
            if (row >= PROMPT - 2) {
                eagle_law(&t, &eagles[k], x, rows[row - PROMPT + 2]);
            }
        }
        expect_rows(&draft, rows, "P-EAGLE");
        cop_tree_release(&draft.tree);
        cop_part_free(head);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

Test(propose_masked, eagle_answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target(0);
    for (int32_t shape = 0; shape < N_SHAPES; shape++) {
        static struct dl_tensors t;
        struct head_folder *folder = write_eagle(&t, &eagles[shape % N_EAGLES], NULL);
        expect_plain_answers(target, new_head(head_folder_path(folder), POSITIONS), shape);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_model_free(target);
}

Test(propose_masked, eagle_live_rows_equal_rebuilt_rows)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(0);
    struct head_folder *folder = write_eagle(&t, &eagles[2], NULL);
    const char *path = head_folder_path(folder);
    expect_rebuilt(target, new_head(path, 3), new_head(path, 3), 10);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_masked, eagle_reaches_the_end_of_the_context)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(64);
    struct head_folder *folder = write_eagle(&t, &eagles[1], NULL);
    struct cop_part *head = new_head(head_folder_path(folder), 9);
    expect_whole_context(target, head, 64);
    cop_part_free(head);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

/* ---- DFlash and DSpark ------------------------------------------------------------------- */

enum folder_kind { Z_LAB, DEEPSPEC, SPECULATORS };
enum chain_kind { NO_CHAIN, VANILLA, GATED, RECURRENT };
enum { RANK = 6 };

struct flash_kind {
    enum folder_kind folder;
    enum chain_kind chain;
    int32_t layers, n_ids; /* n_ids 0: all, without a map */
    bool has_ends, is_causal, has_trust;
};
static const struct flash_kind flashes[] = {
    {.folder = Z_LAB, .layers = 2},
    {.folder = Z_LAB, .layers = 1, .is_causal = true},
    {.folder = SPECULATORS, .layers = 3, .n_ids = 20, .has_ends = true},
    {.folder = SPECULATORS, .chain = VANILLA, .layers = 2, .n_ids = 20, .has_ends = true},
    {.folder = DEEPSPEC, .chain = VANILLA, .layers = 1},
    {.folder = DEEPSPEC, .chain = GATED, .layers = 2, .has_ends = true, .has_trust = true},
    {.folder = DEEPSPEC, .chain = RECURRENT, .layers = 1},
};
enum { N_FLASHES = sizeof flashes / sizeof *flashes };

static bool is_anchored(const struct flash_kind *kind)
{
    return kind->folder == DEEPSPEC || (kind->folder == SPECULATORS && kind->chain != NO_CHAIN);
}

static void write_flash_config(char *text, size_t size, const struct flash_kind *kind)
{
    static const char *const chains[] = {"none", "vanilla", "gated", "rnn"};
    char layer[512], chain[256] = "";
    (void)snprintf(layer, sizeof layer,
                   "\"model_type\": \"qwen3\", \"hidden_size\": 32, \"intermediate_size\": 48, "
                   "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
                   "\"vocab_size\": 61, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000, "
                   "\"num_hidden_layers\": %d",
                   kind->layers);
    if (kind->chain != NO_CHAIN) {
        (void)snprintf(chain, sizeof chain,
                       ", \"markov_rank\": %d, \"markov_head_type\": \"%s\", "
                       "\"enable_confidence_head\": %s, \"confidence_head_with_markov\": true",
                       RANK, chains[kind->chain], kind->has_trust ? "true" : "false");
    }
    if (kind->folder == Z_LAB) {
        (void)snprintf(text, size,
                       "{%s, \"block_size\": 5, \"num_target_layers\": 3%s, \"dflash_config\": "
                       "{\"mask_token_id\": 7, \"target_layer_ids\": [0, 1, 2]}}",
                       layer, kind->is_causal ? ", \"is_causal\": true" : "");
    } else if (kind->folder == DEEPSPEC) {
        (void)snprintf(text, size,
                       "{%s, \"block_size\": 4, \"mask_token_id\": 7, \"target_layer_ids\": "
                       "[-1, 0, 1], \"num_anchors\": 512%s}",
                       layer, chain);
    } else {
        (void)snprintf(text, size,
                       "{\"speculators_model_type\": \"%s\", \"transformer_layer_config\": "
                       "{%s}, \"draft_vocab_size\": 20, \"block_size\": %d, "
                       "\"aux_hidden_state_layer_ids\": [0, 1, 2], \"mask_token_id\": 7%s}",
                       kind->chain ? "dspark" : "dflash", layer, kind->chain ? 4 : 5, chain);
    }
}

static void add_chain(struct dl_tensors *t, const struct flash_kind *kind, int32_t n_ids)
{
    static const char head[] = "markov_head.";
    dl_add(t, VOCAB, RANK, "%smarkov_w1.weight", head);
    dl_add(t, n_ids, RANK, "%smarkov_w2.weight", head);
    if (kind->chain == GATED) {
        dl_add(t, RANK, DL_WIDTH + RANK, "%sgate_proj.weight", head);
        dl_add(t, 0, RANK, "%sgate_proj.bias", head);
    }
    if (kind->chain == RECURRENT) {
        dl_add(t, 3 * RANK, DL_WIDTH + 2 * RANK, "%sjoint_proj.weight", head);
        dl_add(t, 0, 3 * RANK, "%sjoint_proj.bias", head);
    }
    if (kind->has_trust) {
        dl_add(t, 1, DL_WIDTH + RANK, "confidence_head.proj.weight");
        dl_add(t, 0, 1, "confidence_head.proj.bias");
    }
}

static struct head_folder *write_flash(struct dl_tensors *t, const struct flash_kind *kind,
                                       const char *drop)
{
    char config[2048], prefix[32];
    int32_t n_ids = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    t->n = 0;
    for (int32_t i = 0; i < kind->layers; i++) {
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", i);
        dl_add_layer(t, prefix, DL_WIDTH, true);
    }
    dl_add(t, DL_WIDTH, TAPS * DL_WIDTH, "fc.weight");
    dl_add(t, 0, DL_WIDTH, "hidden_norm.weight");
    dl_add(t, 0, DL_WIDTH, "norm.weight");
    if (kind->has_ends) {
        dl_add(t, n_ids, DL_WIDTH, "lm_head.weight");
        dl_add(t, VOCAB, DL_WIDTH, "embed_tokens.weight");
    }
    if (kind->chain != NO_CHAIN) {
        add_chain(t, kind, n_ids);
    }
    write_flash_config(config, sizeof config, kind);
    struct head_folder *folder = head_folder_new(config);
    dl_put(t, folder, drop);
    if (kind->n_ids > 0) {
        put_map(folder, n_ids);
    }
    head_folder_save(folder, "model.safetensors");
    return folder;
}

/* The block's rows, normed, of the positions behind the root. */
static void flash_rows(const struct dl_tensors *t, const struct flash_kind *kind,
                       struct cop_model *target, const cop_token *prompt,
                       double (*rows)[DL_WIDTH])
{
    static struct dl_keys keys;
    static double states[PROMPT][TAPS * DL_WIDTH], g[PROMPT][DL_WIDTH];
    static const int32_t outputs[] = {1, 2, 3}, inputs[] = {0, 1, 2};
    double stream[POSITIONS + 1][DL_WIDTH], normed[POSITIONS + 1][DL_WIDTH];
    int32_t n = PROMPT - 1, skipped = !is_anchored(kind), size = POSITIONS + skipped;
    read_states(target, kind->folder == Z_LAB ? outputs : inputs, prompt, n, states);
    for (int32_t i = 0; i < n; i++) {
        dl_apply(dl_data(t, "", "fc.weight"), states[i], DL_WIDTH, TAPS * DL_WIDTH, g[i]);
        dl_norm(dl_data(t, "", "hidden_norm.weight"), g[i], DL_WIDTH, g[i]);
    }
    const float *table = dl_data(t, "", "embed_tokens.weight");
    for (int32_t r = 0; r < size; r++) {
        cop_token token = r == 0 ? prompt[n] : MASK;
        embed(target, token, stream[r]);
        for (int32_t i = 0; table && i < DL_WIDTH; i++) {
            stream[r][i] = (double)table[token * DL_WIDTH + i];
        }
    }
    for (int32_t l = 0; l < kind->layers; l++) {
        char prefix[32];
        (void)snprintf(prefix, sizeof prefix, "layers.%d.", l);
        for (int32_t i = 0; i < n; i++) {
            dl_remember(t, prefix, g[i], DL_WIDTH, i, &keys, i);
        }
        for (int32_t r = 0; r < size; r++) {
            dl_norm(dl_data(t, prefix, "input_layernorm.weight"), stream[r], DL_WIDTH,
                    normed[r]);
            dl_remember(t, prefix, normed[r], DL_WIDTH, n + r, &keys, n + r);
        }
        for (int32_t r = 0; r < size; r++) {
            dl_layer(t, prefix, normed[r], DL_WIDTH, n + r, &keys, 0,
                     kind->is_causal ? n + r + 1 : n + size, stream[r]);
        }
    }
    for (int32_t r = 0; r < POSITIONS; r++) {
        dl_norm(dl_data(t, "", "norm.weight"), stream[r + skipped], DL_WIDTH, rows[r]);
    }
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* own += what token x changes in the row; state: of the tokens before it. Returns the estimate.
 */
static double flash_chain(const struct dl_tensors *t, const struct flash_kind *kind,
                          cop_token token, const double *row, double *state, double *own)
{
    double e[RANK], in[DL_WIDTH + 2 * RANK], gate[3 * RANK], added[VOCAB], trust = 0;
    const float *table = dl_data(t, "markov_head.", "markov_w1.weight");
    for (int32_t i = 0; i < RANK; i++) {
        e[i] = (double)table[token * RANK + i];
    }
    if (kind->has_trust) {
        memcpy(in, row, DL_WIDTH * sizeof *in);
        memcpy(in + DL_WIDTH, e, sizeof e);
        dl_apply(dl_data(t, "", "confidence_head.proj.weight"), in, 1, DL_WIDTH + RANK, &trust);
        trust += (double)dl_data(t, "", "confidence_head.proj.bias")[0];
    }
    if (kind->chain == GATED) {
        dl_apply(dl_data(t, "markov_head.", "gate_proj.weight"), in, RANK, DL_WIDTH + RANK,
                 gate);
        for (int32_t i = 0; i < RANK; i++) {
            e[i] *= logistic(gate[i] + (double)dl_data(t, "markov_head.", "gate_proj.bias")[i]);
        }
    }
    if (kind->chain == RECURRENT) {
        const float *bias = dl_data(t, "markov_head.", "joint_proj.bias");
        memcpy(in, state, RANK * sizeof *in);
        memcpy(in + RANK, e, sizeof e);
        memcpy(in + 2 * RANK, row, DL_WIDTH * sizeof *in);
        dl_apply(dl_data(t, "markov_head.", "joint_proj.weight"), in, 3 * RANK,
                 DL_WIDTH + 2 * RANK, gate);
        for (int32_t i = 0; i < RANK; i++) {
            double keep = logistic(gate[i] + (double)bias[i]);
            state[i] =
                keep * state[i] + (1 - keep) * tanh(gate[RANK + i] + (double)bias[RANK + i]);
            e[i] = tanh(gate[2 * RANK + i] + (double)bias[2 * RANK + i]);
        }
    }
    int32_t n = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    dl_apply(dl_data(t, "markov_head.", "markov_w2.weight"), e, n, RANK, added);
    for (int32_t i = 0; i < n; i++) {
        own[i] += added[i];
    }
    return logistic(trust);
}

static void flash_logits(const struct dl_tensors *t, const struct flash_kind *kind,
                         struct cop_model *target, const double *row, double *own)
{
    float states[DL_WIDTH], logits[VOCAB];
    if (kind->has_ends) {
        dl_apply(dl_data(t, "", "lm_head.weight"), row, kind->n_ids > 0 ? kind->n_ids : VOCAB,
                 DL_WIDTH, own);
        return;
    }
    for (int32_t i = 0; i < DL_WIDTH; i++) {
        states[i] = (float)row[i];
    }
    cr_assert_eq(cop_model_head(target, states, 1, logits, NULL), COP_OK);
    for (int32_t i = 0; i < VOCAB; i++) {
        own[i] = (double)logits[i];
    }
}

/* Every node against the formulas along its own path. */
static void compare_flash(const struct dl_tensors *t, const struct flash_kind *kind,
                          struct cop_model *target, const cop_token *prompt,
                          const struct draft *draft)
{
    double rows[POSITIONS][DL_WIDTH], own[VOCAB], law[VOCAB];
    int32_t n_ids = kind->n_ids > 0 ? kind->n_ids : VOCAB;
    flash_rows(t, kind, target, prompt, rows);
    for (int32_t node = 1; node < draft->tree.size; node++) {
        int32_t path[POSITIONS + 2];
        int32_t depth = cop_tree_path(&draft->tree, node, path);
        double state[RANK] = {0};
        for (int32_t d = 0; d < depth; d++) {
            cop_token before = d == 0 ? prompt[PROMPT - 1] : draft->tree.token[path[d - 1]];
            flash_logits(t, kind, target, rows[d], own);
            if (kind->chain != NO_CHAIN) {
                flash_chain(t, kind, before, rows[d], state, own);
            }
        }
        dl_softmax(own, n_ids, law);
        int32_t id = 0;
        while (kind->n_ids > 0 && id * VOCAB / n_ids < draft->tree.token[node]) {
            id++;
        }
        double expected = law[kind->n_ids > 0 ? id : draft->tree.token[node]];
        cr_expect_float_eq(draft->probabilities[node], expected, 2e-5,
                           "chain %d, folder %d, node %d: %.7f, expected %.7f", kind->chain,
                           kind->folder, node, draft->probabilities[node], expected);
    }
}

Test(propose_masked, flash_rows_are_those_of_the_formulas)
{
    struct cop_model *target = open_target(0);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1, 1}, 5);
    for (int32_t k = 0; k < N_FLASHES; k++) {
        static struct dl_tensors t;
        static struct draft draft;
        cop_token prompt[PROMPT];
        struct head_folder *folder = write_flash(&t, &flashes[k], NULL);
        struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)k);
        draft_once(&draft, head, widths, target, prompt, PROMPT);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        compare_flash(&t, &flashes[k], target, prompt, &draft);
        cop_tree_release(&draft.tree);
        cop_part_free(head);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

/* ---- The same in a GGUF file ------------------------------------------------------------- */

static const struct {
    const char *folder, *gguf; /* ends of names; of a layer's tensor behind its number */
} renamed[] = {
    {"hidden_norm.weight", "enc.output_norm.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"norm.weight", "output_norm.weight"},
    {"markov_head.markov_w1.weight", "markov_w1.weight"},
    {"markov_head.markov_w2.weight", "markov_w2.weight"},
};

static const char *gguf_name(char name[96], const char *folder)
{
    int32_t layer = -1, used = 0;
    (void)snprintf(name, 96, "%s", folder);
    if (sscanf(folder, "layers.%d.%n", &layer, &used) == 1) {
        folder += used;
    }
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        if (strcmp(renamed[i].folder, folder) == 0 && layer >= 0) {
            (void)snprintf(name, 96, "blk.%d.%s", layer, renamed[i].gguf);
        } else if (strcmp(renamed[i].folder, folder) == 0) {
            (void)snprintf(name, 96, "%s", renamed[i].gguf);
        }
    }
    return name;
}

static struct gguf_writer *write_flash_gguf(const struct dl_tensors *t,
                                            const struct flash_kind *kind)
{
    static const uint32_t outputs[] = {1, 2, 3}, inputs[] = {0, 1, 2};
    struct gguf_writer *file = gguf_writer_new();
    gguf_put_string(file, "general.architecture", "dflash");
    gguf_put_u32(file, "dflash.block_count", (uint32_t)kind->layers);
    gguf_put_u32(file, "dflash.embedding_length", DL_WIDTH);
    gguf_put_u32(file, "dflash.feed_forward_length", DL_FFN);
    gguf_put_u32(file, "dflash.attention.head_count", DL_HEADS);
    gguf_put_u32(file, "dflash.attention.head_count_kv", DL_KV);
    gguf_put_u32(file, "dflash.attention.key_length", DL_DIM);
    gguf_put_u32(file, "dflash.attention.value_length", DL_DIM);
    gguf_put_u32(file, "dflash.context_length", 512);
    gguf_put_f32(file, "dflash.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_f32(file, "dflash.rope.freq_base", 10000);
    gguf_put_u32(file, "dflash.block_size", is_anchored(kind) ? 4 : 5);
    gguf_put_bool(file, "dflash.attention.causal", kind->is_causal);
    gguf_put_array(file, "dflash.target_layers", GGUF_U32,
                   kind->folder == Z_LAB ? outputs : inputs, 3);
    gguf_put_u32(file, "tokenizer.ggml.mask_token_id", MASK);
    for (int32_t i = 0; i < t->n; i++) {
        const struct dl_tensor *tensor = &t->items[i];
        char name[96];
        const int64_t dims[] = {tensor->cols, tensor->rows};
        size_t n = (size_t)tensor->cols * (size_t)(tensor->rows > 0 ? tensor->rows : 1);
        gguf_put_tensor(file, gguf_name(name, tensor->name), GGML_F32, tensor->rows > 0 ? 2 : 1,
                        dims, tensor->data, n * sizeof(float));
    }
    return file;
}

Test(propose_masked, flash_rows_of_a_gguf_file_are_the_same)
{
    static const int32_t chosen[] = {0, 1, 4};
    struct cop_model *target = open_target(0);
    struct cop_part *widths = new_widths((const int32_t[]){3, 2, 2, 1, 1}, 5);
    for (int32_t i = 0; i < 3; i++) {
        static struct dl_tensors t;
        static struct draft draft;
        const struct flash_kind *kind = &flashes[chosen[i]];
        cop_token prompt[PROMPT];
        head_folder_free(write_flash(&t, kind, NULL));
        struct gguf_writer *file = write_flash_gguf(&t, kind);
        struct cop_part *head = new_head(gguf_save(file), POSITIONS);
        random_prompt(prompt, PROMPT, VOCAB, (uint64_t)i);
        draft_once(&draft, head, widths, target, prompt, PROMPT);
        cr_assert_eq(draft.tree.size, 1 + 3 + 6 + 12 + 12);
        compare_flash(&t, kind, target, prompt, &draft);
        cop_tree_release(&draft.tree);
        cop_part_free(head);
        gguf_writer_free(file);
        dl_free(&t);
    }
    cop_part_free(widths);
    cop_model_free(target);
}

/* A drafter is no model, and a model no drafter. */
Test(propose_masked, gguf_files_of_the_other_kind_are_refused)
{
    static struct dl_tensors t;
    struct cop_error err = {0};
    struct cop_model *model = NULL;
    head_folder_free(write_flash(&t, &flashes[0], NULL));
    struct gguf_writer *file = write_flash_gguf(&t, &flashes[0]);
    struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    cr_expect_eq(cop_model_open(&model, &options, &err), COP_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(err.text, "a drafter of architecture \"dflash\""), "%s",
                       err.text);
    gguf_writer_free(file);
    dl_free(&t);
    file = tiny_model_new(&(struct tiny_model){.seed = 1});
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path", gguf_save(file));
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_FORMAT);
    cr_expect_not_null(strstr(err.text, "no drafter: key \"dflash.block_size\" is missing"),
                       "%s", err.text);
    cop_part_free(part);
    gguf_writer_free(file);
}

/* With `vocabulary` the law over these ids is the whole one, renormalised. */
static void expect_narrowed(struct cop_model *target, const char *folder,
                            const cop_token *prompt)
{
    enum { KEPT = 4 };
    static const int32_t kept[KEPT] = {40, 3, 11, 20};
    static struct draft whole, narrow;
    struct cop_part *wide = new_widths((int32_t[]){VOCAB}, 1);
    struct cop_part *all = new_head(folder, POSITIONS);
    struct cop_part *some = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path", folder);
    cr_assert_eq(cop_option_set_ints(cop_option_find(some->plug->options, "vocabulary"),
                                     some->state, kept, KEPT, "parallel", NULL),
                 COP_OK);
    draft_once(&whole, all, wide, target, prompt, PROMPT);
    draft_once(&narrow, ready(some), wide, target, prompt, PROMPT);
    double of[VOCAB] = {0}, sum = 0;
    for (int32_t node = 1; node < whole.tree.size; node++) {
        of[whole.tree.token[node]] = whole.probabilities[node];
    }
    for (int32_t i = 0; i < KEPT; i++) {
        sum += of[kept[i]];
    }
    cr_assert(narrow.tree.size > 1 && narrow.tree.size <= 1 + KEPT);
    for (int32_t node = 1; node < narrow.tree.size; node++) {
        cr_expect_float_eq(narrow.probabilities[node], of[narrow.tree.token[node]] / sum, 1e-6);
    }
    cop_tree_release(&whole.tree);
    cop_tree_release(&narrow.tree);
    cop_part_free(all);
    cop_part_free(some);
    cop_part_free(wide);
}

Test(propose_masked, reduced_vocabularies_narrow_the_law)
{
    struct cop_model *target = open_target(0);
    cop_token prompt[PROMPT];
    static struct dl_tensors t;
    random_prompt(prompt, PROMPT, VOCAB, 5);
    for (int32_t k = 0; k < N_FLASHES; k++) {
        struct head_folder *folder = write_flash(&t, &flashes[k], NULL);
        expect_narrowed(target, head_folder_path(folder), prompt);
        head_folder_free(folder);
        dl_free(&t);
    }
    struct head_folder *folder = write_eagle(&t, &eagles[0], NULL);
    expect_narrowed(target, head_folder_path(folder), prompt);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

Test(propose_masked, flash_answers_are_those_of_plain_decoding)
{
    struct cop_model *target = open_target(0);
    for (int32_t shape = 0; shape < N_SHAPES; shape++) {
        static struct dl_tensors t;
        struct head_folder *folder = write_flash(&t, &flashes[shape % N_FLASHES], NULL);
        expect_plain_answers(target, new_head(head_folder_path(folder), POSITIONS), shape);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_model_free(target);
}

Test(propose_masked, flash_live_rows_equal_rebuilt_rows)
{
    static const int32_t chosen[] = {0, 3, 6};
    struct cop_model *target = open_target(0);
    for (int32_t i = 0; i < 3; i++) {
        static struct dl_tensors t;
        struct head_folder *folder = write_flash(&t, &flashes[chosen[i]], NULL);
        const char *path = head_folder_path(folder);
        expect_rebuilt(target, new_head(path, POSITIONS), new_head(path, POSITIONS), 10);
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_model_free(target);
}

Test(propose_masked, flash_reaches_the_end_of_the_context)
{
    static struct dl_tensors t;
    struct cop_model *target = open_target(64);
    struct head_folder *folder = write_flash(&t, &flashes[5], NULL);
    struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
    expect_whole_context(target, head, 64);
    cop_part_free(head);
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

/* Nothing is drafted below a path that is trusted less than the script asks. */
Test(propose_masked, flash_stops_where_it_does_not_trust_itself)
{
    static struct dl_tensors t;
    static struct draft draft;
    double rows[POSITIONS][DL_WIDTH], state[RANK] = {0}, own[VOCAB] = {0};
    cop_token prompt[PROMPT];
    struct cop_model *target = open_target(0);
    struct head_folder *folder = write_flash(&t, &flashes[5], NULL);
    random_prompt(prompt, PROMPT, VOCAB, 4);
    flash_rows(&t, &flashes[5], target, prompt, rows);
    double trust = flash_chain(&t, &flashes[5], prompt[PROMPT - 1], rows[0], state, own);
    cr_assert(trust > 0.01 && trust < 0.99, "%g", trust);
    for (int32_t i = 0; i < 2; i++) {
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path",
                                           head_folder_path(folder));
        struct cop_part *head =
            ready(set_number(part, "confidence", trust + (i ? 1e-4 : -1e-4)));
        draft_once(&draft, head, NULL, target, prompt, PROMPT);
        cr_expect_eq(draft.tree.size > 1, i == 0, "%d nodes", draft.tree.size);
        cop_tree_release(&draft.tree);
        cop_part_free(head);
    }
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}

/* ---- Bad files --------------------------------------------------------------------------- */

static void expect_bad_path(const char *plug, const char *path, enum cop_status code,
                            const char *text)
{
    struct cop_error err = {0};
    struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, plug), "path", path);
    cr_expect_eq(cop_part_prepare(part, &err), code, "%s: %s", text, err.text);
    cr_expect_not_null(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
    cop_part_free(part);
}

Test(propose_masked, eagle_files_that_lack_something)
{
    static struct dl_tensors t;
    struct head_folder *folder = write_eagle(&t, &eagles[1], NULL);
    expect_bad_path(
        "eagle", head_folder_path(folder), COP_ERR_ARGUMENT,
        "a P-EAGLE head drafts all positions in one pass; write cop.propose.parallel");
    head_folder_free(folder);
    dl_free(&t);
    folder = write_eagle(&t, &eagles[1], "mask_hidden");
    expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT,
                    "tensor \"mask_hidden\" is missing, expected [1, 1, 96] numbers");
    head_folder_free(folder);
    dl_free(&t);
    folder = write_eagle(&t, &eagles[1], "layers.2.input_layernorm.weight");
    expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT,
                    "\"layers.2.input_layernorm.weight\" is missing");
    head_folder_free(folder);
    dl_free(&t);
}

Test(propose_masked, flash_files_that_lack_something)
{
    static struct dl_tensors t;
    static const struct {
        int32_t kind;
        const char *drop, *text;
    } faults[] = {
        {0, "fc.weight",
         "tensor \"fc.weight\" is missing (a DFlash drafter, expected shape "
         "[32, 96])"},
        {0, "layers.1.self_attn.k_norm.weight",
         "\"layers.1.self_attn.k_norm.weight\" is missing"},
        {4, "markov_head.markov_w2.weight", "\"markov_head.markov_w2.weight\" is missing"},
        {6, "markov_head.joint_proj.bias", "\"markov_head.joint_proj.bias\" is missing"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct head_folder *folder = write_flash(&t, &flashes[faults[i].kind], faults[i].drop);
        expect_bad_path("parallel", head_folder_path(folder), COP_ERR_FORMAT, faults[i].text);
        head_folder_free(folder);
        dl_free(&t);
    }
    struct cop_error err = {0};
    struct head_folder *folder = write_flash(&t, &flashes[0], NULL);
    const char *const options[] = {"depth", "confidence", "mask_token"};
    const char *const texts[] = {
        "depth = 5 is more than the 4 positions that its blocks of 5 were trained for",
        "there is no confidence head; leave confidence out",
        "the files of a head say which token is its mask; leave mask_token out"};
    for (int32_t i = 0; i < 3; i++) {
        struct cop_part *part = set_string(new_part(COP_PLUG_PROPOSER, "parallel"), "path",
                                           head_folder_path(folder));
        set_number(part, options[i], i == 1 ? 0.5 : 5);
        cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
        cr_expect_not_null(strstr(err.text, texts[i]), "\"%s\" lacks \"%s\"", err.text,
                           texts[i]);
        cop_part_free(part);
    }
    head_folder_free(folder);
    dl_free(&t);
}

static void expect_bad_config(const char *config, enum cop_status code, const char *text)
{
    char whole[1024];
    (void)snprintf(
        whole, sizeof whole,
        "{\"model_type\": \"qwen3\", \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
        "\"vocab_size\": 61, \"num_hidden_layers\": 1, \"block_size\": 5, %s}",
        config);
    static struct dl_tensors t;
    struct head_folder *folder = head_folder_new(whole);
    dl_add_layer(&t, "layers.0.", DL_WIDTH, true);
    dl_put(&t, folder, NULL);
    head_folder_save(folder, "model.safetensors");
    expect_bad_path("parallel", head_folder_path(folder), code, text);
    head_folder_free(folder);
    dl_free(&t);
}

Test(propose_masked, flash_refuses_configurations)
{
    expect_bad_config("\"dflash_config\": {}", COP_ERR_FORMAT, "\"mask_token_id\" is missing");
    expect_bad_config("\"mask_token_id\": 61", COP_ERR_FORMAT,
                      "\"mask_token_id\" is not a number from 0 to 60");
    expect_bad_config("\"mask_token_id\": 7", COP_ERR_FORMAT,
                      "\"target_layer_ids\" is not a list of 1 to 8 layers");
    expect_bad_config("\"mask_token_id\": 7, \"target_layer_ids\": [-2]", COP_ERR_FORMAT,
                      "\"target_layer_ids\" is not a list of 1 to 8 layers");
    expect_bad_config("\"mask_token_id\": 7, \"target_layer_ids\": [1], \"markov_rank\": 4, "
                      "\"markov_head_type\": \"lstm\"",
                      COP_ERR_FORMAT, "\"markov_head_type\" is not vanilla, gated or rnn");
    expect_bad_config("\"dflash_config\": {\"selector_rank\": 8}", COP_ERR_UNSUPPORTED,
                      "\"selector_rank\" is of another kind of drafter");
    expect_bad_config("\"use_sliding_window\": true, \"sliding_window\": 8, \"layer_types\": "
                      "[\"sliding_attention\"], \"is_causal\": false",
                      COP_ERR_UNSUPPORTED, "layers with a window that look both ways");
}

/* What only shows beside a target. */
Test(propose_masked, flash_refuses_another_target)
{
    static struct dl_tensors t;
    static const struct {
        int32_t hidden, layers;
        const char *text;
    } targets[] = {
        {64, 3, "made for a target of hidden size 32; this one has 64"},
        {32, 4, "made for a target of 3 layers; this one has 4"},
    };
    struct head_folder *folder = write_flash(&t, &flashes[0], NULL);
    struct cop_part *head = new_head(head_folder_path(folder), POSITIONS);
    for (int32_t i = 0; i < 2; i++) {
        struct cop_error err = {0};
        struct cop_engine *engine = NULL;
        struct cop_model *target = open_tiny((struct tiny_model){.seed = 1,
                                                                 .hidden = targets[i].hidden,
                                                                 .layers = targets[i].layers,
                                                                 .vocab = VOCAB});
        struct cop_engine_options options = {.target = target,
                                             .batch = 1,
                                             .registry = registry(),
                                             .sampling = COP_SAMPLING_DEFAULT,
                                             .proposer = head};
        cr_expect_eq(cop_engine_new(&engine, &options, &err), COP_ERR_ARGUMENT);
        cr_expect_not_null(strstr(err.text, targets[i].text), "%s", err.text);
        cop_model_free(target);
    }
    cop_part_free(head);
    head_folder_free(folder);
    dl_free(&t);
}
