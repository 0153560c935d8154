/* Multi-draft heads on a tiny target: every layout of a checkpoint is the same head, and
 * numbers by hand. */
#include "tests/algorithms/heads/checkpoints.h"

TestSuite(heads, .init = open_target, .fini = close_target, .timeout = 60);

/* The numbers of new_medusa in the other layout. */
static struct head_folder *new_converted(enum outputs outputs)
{
    static float numbers[WIDTH * WIDTH], bias[WIDTH];
    struct head_folder *folder =
        head_folder_new(outputs == SHARED ? "{\"num_heads\":3,\"original_lm_head\":true}"
                                          : "{\"num_heads\":3}");
    for (int32_t i = 0; i < HEADS; i++) {
        char name[96];
        head_folder_random(name_of(name, "#.0.linear.weight", i), WIDTH, WIDTH, numbers);
        head_folder_random(name_of(name, "#.0.linear.bias", i), 0, WIDTH, bias);
        put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", i);
        put(folder, 0, WIDTH, bias, "blocks.#.layers.0.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "lm_heads.#.weight", i);
        }
    }
    if (outputs == ONE) {
        head_folder_put(folder, "lm_head.weight", VOCAB, WIDTH, lm_head);
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

static void expect_same(const struct drafts *a, const struct drafts *b, const char *what)
{
    cr_expect_eq(a->n, b->n, "%s: %d and %d drafts", what, a->n, b->n);
    for (int32_t i = 0; i < a->n; i++) {
        cr_expect_eq(a->tokens[i], b->tokens[i], "%s: draft %d", what, i);
        cr_expect_float_eq(a->probabilities[i], b->probabilities[i], 1e-6, "%s: draft %d", what,
                           i);
    }
}

/* Drafts of a tree of 2, 2, 1 children, so that rows of paths differ. */
static struct drafts draft_tree(const char *name, struct head_folder *folder)
{
    cop_token context[PROMPT];
    random_prompt(context, PROMPT, VOCAB, 3);
    struct cop_part *part = new_heads(name, folder);
    struct cop_part *tree = new_widths((int32_t[]){2, 2, 1}, 3);
    struct drafts drafts = draft(part, tree, context, PROMPT);
    cr_expect_eq(drafts.n, 10);
    cop_part_free(tree);
    cop_part_free(part);
    return drafts;
}

Test(heads, medusa_layouts_are_one_head)
{
    struct drafts shared = draft_tree("medusa", new_medusa(SHARED));
    struct drafts own = draft_tree("medusa", new_medusa(COPIES));
    struct drafts converted = draft_tree("medusa", new_converted(SHARED));
    struct drafts converted_own = draft_tree("medusa", new_converted(COPIES));
    struct drafts one = draft_tree("medusa", new_converted(ONE));
    struct drafts torch = draft_tree("medusa", new_medusa_in(COPIES, "medusa_lm_head.pt"));
    struct drafts bin = draft_tree("medusa", new_medusa_in(SHARED, "pytorch_model.bin"));
    expect_same(&shared, &torch, "a PyTorch file");
    expect_same(&shared, &bin, "a PyTorch file of the usual name");
    expect_same(&shared, &own, "own output layers");
    expect_same(&shared, &converted, "converted");
    expect_same(&shared, &converted_own, "converted, own output layers");
    expect_same(&shared, &one, "converted, one output layer");
    cr_expect_eq(shared.tokens[2], shared.tokens[4], "rows of a level are one row");
    cr_expect_eq(shared.tokens[3], shared.tokens[5]);
}

/* The probabilities of the map's tokens are those of all, scaled: every ratio stays. */
Test(heads, medusa_drafts_the_tokens_of_its_map)
{
    static const cop_token context[] = {5, 6, 7, 8, 9, 10, 11};
    struct drafts drafts[3];
    for (int32_t i = 0; i < 3; i++) {
        static const enum outputs outputs[] = {SHARED, COPIES, ONE};
        struct cop_part *part = new_heads("medusa", new_reduced(outputs[i], i != 0, map));
        struct cop_part *builder = new_widths((const int32_t[]){IDS, 2}, 2);
        drafts[i] = draft(part, builder, context, 7);
        cop_part_free(builder);
        cop_part_free(part);
    }
    expect_same(&drafts[0], &drafts[1], "all rows");
    expect_same(&drafts[0], &drafts[2], "rows of the map");
    cr_assert_eq(drafts[0].n, 3 * IDS);
    struct head_folder *folder = head_folder_new("{\"num_heads\":3,\"original_lm_head\":true}");
    static float numbers[WIDTH * WIDTH];
    char name[96];
    head_folder_random(name_of(name, "#.0.linear.weight", 0), WIDTH, WIDTH, numbers);
    put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", 0);
    (void)head_folder_save(folder, "model.safetensors");
    struct cop_part *part = new_heads("medusa", folder);
    struct cop_part *builder = new_widths((const int32_t[]){VOCAB}, 1);
    struct drafts all = draft(part, builder, context, 7);
    double mass = 0, of_all[VOCAB] = {0};
    for (int32_t i = 0; i < all.n; i++) {
        of_all[all.tokens[i]] = all.probabilities[i];
    }
    for (int32_t i = 0; i < IDS; i++) {
        mass += of_all[map[i]];
    }
    for (int32_t i = 0; i < IDS; i++) {
        cr_expect_float_eq(drafts[0].probabilities[i], of_all[drafts[0].tokens[i]] / mass, 1e-6,
                           "token %d", drafts[0].tokens[i]);
        cr_expect_gt(of_all[drafts[0].tokens[i]], 0);
    }
    cop_part_free(builder);
    cop_part_free(part);
}

Test(heads, hydra_layouts_are_one_head)
{
    struct drafts shared = draft_tree("hydra", new_hydra(SHARED));
    struct drafts own = draft_tree("hydra", new_hydra(COPIES));
    expect_same(&shared, &own, "own output layers");
    cr_expect_float_neq(shared.probabilities[2], shared.probabilities[4], 1e-4,
                        "rows see their path");
}

Test(heads, mlp_layouts_are_one_head)
{
    struct drafts tied = draft_tree("mlp", new_mlp(true, true));
    struct drafts untied = draft_tree("mlp", new_mlp(false, true));
    struct drafts plain = draft_tree("mlp", new_mlp(true, false));
    expect_same(&tied, &untied, "untied");
    cr_expect_float_neq(tied.probabilities[0], plain.probabilities[0], 1e-4, "scaled input");
    cr_expect_float_neq(tied.probabilities[2], tied.probabilities[4], 1e-4,
                        "rows see their path");
}

/* A state of two numbers cannot be had, but a head may ignore it: without a bridge from h, the
 * vector is what was taken in. Inner width 2, one head: w_s² = 1/2, so w_e / w_s = 1; the
 * token's row (3, 4) has rms sqrt(12.5), and the gain 1 and shift (0, 1) make
 * (0.848528, 2.131371); gelu of both is (0.680459, 2.096141), the logits of tokens 0 and 1. */
Test(heads, mlp_numbers_by_hand)
{
    static float table[VOCAB * 2], head[VOCAB * 2], proj[2 * WIDTH];
    const cop_token context[] = {5, 6};
    table[12] = 3;
    table[13] = 4;
    head[0] = head[3] = 1;
    for (int32_t v = 2; v < VOCAB; v++) {
        head[2 * v] = -100; /* logits of -68: no mass */
    }
    struct head_folder *folder =
        head_folder_new("{\"vocab_size\":61,\"emb_dim\":32,\"inner_dim\":2,\"n_predict\":1}");
    head_folder_put(folder, "speculator.emb.0.weight", VOCAB, 2, table);
    head_folder_put(folder, "speculator.head.0.weight", VOCAB, 2, head);
    head_folder_put(folder, "speculator.proj.0.weight", 2, WIDTH, proj);
    head_folder_put(folder, "speculator.ln.0.weight", 0, 2, (float[]){1, 1});
    head_folder_put(folder, "speculator.ln.0.bias", 0, 2, (float[]){0, 1});
    (void)head_folder_save(folder, "model.safetensors");
    struct cop_part *part = new_heads("mlp", folder);
    struct drafts drafts = draft(part, NULL, context, 2);
    cr_assert_eq(drafts.n, 1);
    cr_expect_eq(drafts.tokens[0], 1);
    cr_expect_float_eq(drafts.probabilities[0], 1 / (1 + exp(0.680459 - 2.096141)), 1e-5);
    cop_part_free(part);
}
