/* DFlash and DSpark: what they draft is what the formulas say in double, the same in the middle
 * of an answer as from a fresh start, and answers are those of plain decoding. */
#include "tests/algorithms/propose/flash_files.h"

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

Test(propose_dflash, rows_are_those_of_the_formulas)
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
        draft_once(&draft, head, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
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

Test(propose_dflash, rows_of_a_gguf_file_are_the_same)
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
        draft_once(&draft, head, widths, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
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

Test(propose_dflash, reduced_vocabularies_narrow_the_law)
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
    cop_model_free(target);
}

Test(propose_dflash, answers_are_those_of_plain_decoding)
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

Test(propose_dflash, live_rows_equal_rebuilt_rows)
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

Test(propose_dflash, q8_0_drafts_nearly_the_same)
{
    static const int32_t chosen[] = {0, 3, 6};
    struct cop_model *target = open_target(0);
    for (int32_t i = 0; i < 3; i++) {
        static struct dl_tensors t;
        struct head_folder *folder = write_flash(&t, &flashes[chosen[i]], NULL);
        expect_q8_0(target, "parallel", head_folder_path(folder));
        head_folder_free(folder);
        dl_free(&t);
    }
    cop_model_free(target);
}

Test(propose_dflash, reaches_the_end_of_the_context)
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
Test(propose_dflash, stops_where_it_does_not_trust_itself)
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
        draft_once(&draft, head, NULL, target, prompt, PROMPT, COP_DRAW_DETERMINISTIC, 0);
        cr_expect_eq(draft.tree.size > 1, i == 0, "%d nodes", draft.tree.size);
        cop_tree_release(&draft.tree);
        cop_part_free(head);
    }
    head_folder_free(folder);
    dl_free(&t);
    cop_model_free(target);
}
