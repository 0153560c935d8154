/* Multi-draft heads of a tiny target: checkpoints as Medusa, Hydra and MLP speculators publish
 * them, and what they draft. */
#ifndef TESTS_ALGORITHMS_HEADS_CHECKPOINTS_H
#define TESTS_ALGORITHMS_HEADS_CHECKPOINTS_H

#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/head_folder.h"

enum { VOCAB = 61, WIDTH = 32, INNER = 12, HEADS = 3, PROMPT = 9, ANSWER = 40, MATES = 3 };

static struct cop_model *target;
static float lm_head[VOCAB * WIDTH]; /* of the target */

/* The LM head's columns are its logits of unit vectors. */
static void open_target(void)
{
    static float unit[WIDTH * WIDTH], logits[WIDTH * VOCAB];
    target = open_tiny((struct tiny_model){.seed = 7, .has_output = true});
    for (int32_t i = 0; i < WIDTH; i++) {
        unit[i * WIDTH + i] = 1;
    }
    cr_assert_eq(cop_model_head(target, unit, WIDTH, logits, NULL), COP_OK);
    for (int32_t v = 0; v < VOCAB; v++) {
        for (int32_t i = 0; i < WIDTH; i++) {
            lm_head[v * WIDTH + i] = logits[i * VOCAB + v];
        }
    }
}
static void close_target(void)
{
    cop_model_free(target);
}

/* ---- Checkpoints ------------------------------------------------------------------------- */

/* '#' in the name is the head's number. */
static UNUSED_FUNCTION const char *name_of(char name[96], const char *pattern, int32_t i)
{
    (void)snprintf(name, 96, "%s", pattern);
    *strchr(name, '#') = (char)('0' + i);
    return name;
}

static UNUSED_FUNCTION void put(struct head_folder *folder, int32_t rows, int32_t cols,
                                const float *data, const char *pattern, int32_t i)
{
    char name[96];
    head_folder_put(folder, name_of(name, pattern, i), rows, cols, data);
}

enum outputs { SHARED, COPIES, ONE };

static UNUSED_FUNCTION struct head_folder *new_medusa_in(enum outputs outputs, const char *file)
{
    struct head_folder *folder = head_folder_new(
        outputs == SHARED ? "{\"medusa_num_heads\":2,\"share_lm_head\":true}" : "{}");
    for (int32_t i = 0; i < HEADS; i++) {
        put(folder, WIDTH, WIDTH, NULL, "#.0.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "#.0.linear.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "#.1.weight", i);
        }
    }
    (void)head_folder_save(folder, file);
    return folder;
}

static UNUSED_FUNCTION struct head_folder *new_medusa(enum outputs outputs)
{
    return new_medusa_in(outputs, "medusa_lm_head.safetensors");
}

static UNUSED_FUNCTION struct head_folder *new_hydra(enum outputs outputs)
{
    struct head_folder *folder = head_folder_new(
        outputs == SHARED
            ? "{\"hydra_num_layers\":2,\"hydra_head_arch\":\"mlp\",\"share_lm_head\":true}"
            : "{\"hydra_num_layers\":2,\"grounded_heads\":true,\"hidden_state_offset\":0}");
    for (int32_t i = 0; i < HEADS; i++) {
        int32_t inputs = (i + 2) * WIDTH;
        put(folder, WIDTH, inputs, NULL, "hydra_mlp.#.0.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.0.linear.bias", i);
        put(folder, WIDTH, inputs, NULL, "hydra_mlp.#.0.res_connection.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.0.res_connection.bias", i);
        put(folder, WIDTH, WIDTH, NULL, "hydra_mlp.#.1.linear.weight", i);
        put(folder, 0, WIDTH, NULL, "hydra_mlp.#.1.linear.bias", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "hydra_lm_head.#.1.weight", i);
        }
    }
    (void)head_folder_save(folder, "hydra_lm_head.safetensors");
    return folder;
}

/* COPIES: each head's tensors stored, equal to those that tying would share. */
static UNUSED_FUNCTION struct head_folder *new_mlp(bool is_tied, bool is_scaled)
{
    static float table[VOCAB * INNER], head[VOCAB * INNER], proj[INNER * INNER], ones[INNER];
    char config[256];
    (void)snprintf(config, sizeof config,
                   "{\"vocab_size\":%d,\"emb_dim\":%d,\"inner_dim\":%d,\"n_predict\":%d,"
                   "\"tie_weights\":%s,\"scale_input\":%s}",
                   VOCAB, WIDTH, INNER, HEADS, is_tied ? "true" : "false",
                   is_scaled ? "true" : "false");
    struct head_folder *folder = head_folder_new(config);
    head_folder_random("table", VOCAB, INNER, table);
    head_folder_random("head", VOCAB, INNER, head);
    head_folder_random("proj", INNER, INNER, proj);
    for (int32_t i = 0; i < INNER; i++) {
        ones[i] = 1.5F;
    }
    for (int32_t i = 0; i < HEADS; i++) {
        if (i == 0 || !is_tied) {
            put(folder, VOCAB, INNER, table, "speculator.emb.#.weight", i);
            put(folder, VOCAB, INNER, head, "speculator.head.#.weight", i);
            put(folder, 0, INNER, ones, "speculator.ln.#.weight", i);
            put(folder, 0, INNER, proj, "speculator.ln.#.bias", i);
        }
        if (i == 0) {
            put(folder, INNER, WIDTH, NULL, "speculator.proj.#.weight", i);
        } else if (i == 1 || !is_tied) {
            put(folder, INNER, INNER, proj, "speculator.proj.#.weight", i);
        }
    }
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

/* A reduced vocabulary: the ids that are drafted. */
enum { IDS = 9 };
static const int64_t map[IDS] = {50, 3, 7, 20, 60, 0, 33, 12, 41};

/* Rows of the output layers: one for each id of the map, as it lists them (COPIES: all). */
static UNUSED_FUNCTION struct head_folder *new_reduced(enum outputs outputs, bool has_size,
                                                       const int64_t *ids)
{
    static float rows[IDS * WIDTH], numbers[WIDTH * WIDTH];
    char config[128];
    (void)snprintf(config, sizeof config, "{\"num_heads\":3%s,\"truncated_vocab_size\":9%s}",
                   has_size ? ",\"vocab_size\":61" : "",
                   outputs == SHARED ? ",\"original_lm_head\":true" : "");
    struct head_folder *folder = head_folder_new(config);
    for (int32_t i = 0; i < IDS; i++) {
        memcpy(rows + i * WIDTH, lm_head + map[i] * WIDTH, WIDTH * sizeof *rows);
    }
    for (int32_t i = 0; i < HEADS; i++) {
        char name[96];
        head_folder_random(name_of(name, "#.0.linear.weight", i), WIDTH, WIDTH, numbers);
        put(folder, WIDTH, WIDTH, numbers, "blocks.#.layers.0.weight", i);
        if (outputs == COPIES) {
            put(folder, VOCAB, WIDTH, lm_head, "lm_heads.#.weight", i);
        } else if (outputs == ONE) {
            put(folder, IDS, WIDTH, rows, "lm_heads.#.weight", i);
        }
    }
    head_folder_put_typed(folder, "token_map", "I64", IDS, ids, sizeof *ids);
    (void)head_folder_save(folder, "model.safetensors");
    return folder;
}

/* ---- Drafts ------------------------------------------------------------------------------ */

static UNUSED_FUNCTION struct cop_part *new_heads(const char *name, struct head_folder *folder)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    (void)ready(set_string(part, "path", head_folder_path(folder)));
    head_folder_free(folder);
    return part;
}

struct drafts {
    int32_t n;
    cop_token tokens[96];
    double probabilities[96];
};

static UNUSED_FUNCTION struct drafts draft(struct cop_part *proposer, struct cop_part *builder,
                                           const cop_token *context, int32_t n)
{
    struct drafts out = {0};
    struct cop_tree tree;
    struct cop_error err = {0};
    double probabilities[96];
    struct cop_proposer_env env = {.target = target,
                                   .vocab_size = VOCAB,
                                   .context = 512,
                                   .n_sequences = 1,
                                   .sampling = {.temperature = 0, .top_p = 1}};
    cr_assert_eq(cop_tree_init(&tree, 96, &err), COP_OK);
    cr_assert_eq(cop_propose_once(proposer, builder, COP_DRAW_DETERMINISTIC, &env, context, n,
                                  0, &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    for (int32_t node = 1; node < tree.size; node++) {
        out.tokens[out.n] = tree.token[node];
        out.probabilities[out.n++] = probabilities[node];
    }
    cop_tree_release(&tree);
    return out;
}

#endif
