/* Every proposer, small, for a target of the tiny model's measures (hidden 32, two layers, 61
 * tokens): what the covering array of test_engine_greedy.c drafts with. */
#ifndef TESTS_ALGORITHMS_ARRAY_PROPOSERS_H
#define TESTS_ALGORITHMS_ARRAY_PROPOSERS_H

#include "algorithms/history/datastore.h"
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/algorithms/heads/tiny_head.h"
#include "tests/support/head_folder.h"

enum {
    NONE,
    LOOKUP,
    TWIN, /* the target itself as draft model */
    KIN,  /* the target with some noise on its weights */
    NGRAM_CACHE,
    SUFFIX_TREE,
    SUFFIX_AUTOMATON,
    RETRIEVAL,
    RECYCLING,
    LOOKAHEAD,
    JACOBI,
    MEDUSA,
    HYDRA,
    MLP,
    REDRAFTER,
    MTP,
    EAGLE,
    LAYER_SKIP,
    PARALLEL,
    CASCADE,
    MIXTURE,
    STAGED,
    PROPOSERS
};

/* What a proposer needs besides its part; all of it is released by array_release. */
static struct {
    struct head_folder *folder; /* sessions read it, so it stays */
    struct head_files eagle;
    struct cop_part *inner[2];
    char store[64];
} array;

static void array_release(void)
{
    if (array.folder) {
        head_folder_free(array.folder);
    }
    if (array.eagle.n > 0) {
        head_remove(&array.eagle);
    }
    cop_part_free(array.inner[0]);
    cop_part_free(array.inner[1]);
    if (array.store[0]) {
        (void)remove(array.store);
    }
    memset(&array, 0, sizeof array);
}

static struct cop_part *array_object(struct cop_part *part, const char *name, void *object)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, name), part->state, object, "test", &err),
                 COP_OK, "%s", err.text);
    return part;
}

/* ---- Heads ------------------------------------------------------------------------------- */

static void array_put(int32_t rows, int32_t cols, const char *pattern, int32_t i)
{
    char name[96];
    (void)snprintf(name, sizeof name, "%s", pattern);
    char *digit = strchr(name, '#');
    if (digit) {
        *digit = (char)('0' + i);
    }
    head_folder_put(array.folder, name, rows, cols, NULL);
}

static struct cop_part *array_head(const char *name, const char *file)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    return ready(set_string(part, "path", head_folder_save(array.folder, file)));
}

static struct cop_part *array_medusa(void)
{
    array.folder = head_folder_new("{\"medusa_num_heads\":2,\"share_lm_head\":true}");
    for (int32_t i = 0; i < 3; i++) {
        array_put(32, 32, "#.0.linear.weight", i);
        array_put(0, 32, "#.0.linear.bias", i);
    }
    return array_head("medusa", "medusa_lm_head.safetensors");
}

static struct cop_part *array_hydra(void)
{
    array.folder = head_folder_new(
        "{\"hydra_num_layers\":2,\"hydra_head_arch\":\"mlp\",\"share_lm_head\":true}");
    for (int32_t i = 0; i < 3; i++) {
        array_put(32, (i + 2) * 32, "hydra_mlp.#.0.linear.weight", i);
        array_put(0, 32, "hydra_mlp.#.0.linear.bias", i);
        array_put(32, (i + 2) * 32, "hydra_mlp.#.0.res_connection.weight", i);
        array_put(0, 32, "hydra_mlp.#.0.res_connection.bias", i);
        array_put(32, 32, "hydra_mlp.#.1.linear.weight", i);
        array_put(0, 32, "hydra_mlp.#.1.linear.bias", i);
    }
    return array_head("hydra", "hydra_lm_head.safetensors");
}

static struct cop_part *array_mlp(void)
{
    array.folder = head_folder_new("{\"vocab_size\":61,\"emb_dim\":32,\"inner_dim\":24,"
                                   "\"n_predict\":3,\"tie_weights\":true,"
                                   "\"scale_input\":false}");
    array_put(61, 24, "speculator.emb.0.weight", 0);
    array_put(61, 24, "speculator.head.0.weight", 0);
    array_put(0, 24, "speculator.ln.0.weight", 0);
    array_put(0, 24, "speculator.ln.0.bias", 0);
    array_put(24, 32, "speculator.proj.0.weight", 0);
    array_put(24, 24, "speculator.proj.1.weight", 0);
    return array_head("mlp", "model.safetensors");
}

static struct cop_part *array_redrafter(void)
{
    array.folder = head_folder_new("{\"rnn\":true}");
    array_put(32, 32, "rnn_u.weight", 0);
    array_put(0, 32, "rnn_u.bias", 0);
    array_put(32, 32, "rnn_w.weight", 0);
    array_put(64, 64, "lm_head.0.linear.weight", 0);
    array_put(0, 64, "lm_head.0.linear.bias", 0);
    array_put(61, 64, "lm_head.1.weight", 0);
    return array_head("redrafter", "model.safetensors");
}

/* Two modules behind the target's two layers. */
static struct cop_part *array_mtp(void)
{
    static const struct {
        const char *name;
        int32_t rows, cols;
    } tensors[] = {{"enorm", 0, 32},
                   {"hnorm", 0, 32},
                   {"eh_proj", 32, 64},
                   {"shared_head.norm", 0, 32},
                   {"input_layernorm", 0, 32},
                   {"self_attn.q_proj", 32, 32},
                   {"self_attn.k_proj", 16, 32},
                   {"self_attn.v_proj", 16, 32},
                   {"self_attn.o_proj", 32, 32},
                   {"post_attention_layernorm", 0, 32},
                   {"mlp.gate_proj", 64, 32},
                   {"mlp.up_proj", 64, 32},
                   {"mlp.down_proj", 32, 64}};
    array.folder = head_folder_new(
        "{\"model_type\":\"llama\",\"hidden_size\":32,\"intermediate_size\":64,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"vocab_size\":61,\"num_nextn_predict_layers\":2}");
    for (size_t i = 0; i < 2 * sizeof tensors / sizeof *tensors; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "model.layers.%zu.%s.weight", 2 + i % 2,
                       tensors[i / 2].name);
        head_folder_put(array.folder, name, tensors[i / 2].rows, tensors[i / 2].cols, NULL);
    }
    return array_head("mtp", "model.safetensors");
}

static struct cop_part *array_eagle(void)
{
    const struct tiny_head head = {.version = 1, .seed = 3, .vocab = 61};
    head_write(&array.eagle, &head);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "eagle");
    return ready(set_number(set_string(part, "path", array.eagle.folder), "depth", 4));
}

/* ---- The others -------------------------------------------------------------------------- */

/* The prompts' own distribution, so that something is found. */
static struct cop_part *array_retrieval(void)
{
    static cop_token text[6000];
    struct cop_error err = {0};
    random_prompt(text, 6000, 61, 99);
    (void)snprintf(array.store, sizeof array.store, "/tmp/coppice-array-%d", (int)getpid());
    cr_assert_eq(cop_datastore_write(array.store, text, 6000, 61, 0, &err), COP_OK, "%s",
                 err.text);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "retrieval");
    set_number(part, "min_ngram", 1);
    return ready(set_string(part, "path", array.store));
}

static struct cop_part *array_lookahead(void)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookahead");
    return ready(
        set_number(set_number(set_number(part, "window", 4), "ngram", 3), "guesses", 3));
}

static struct cop_part *array_parallel(struct cop_model *model)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "parallel");
    array_object(part, "model", model);
    return ready(set_number(set_number(part, "mask_token", 7), "depth", 4));
}

static struct cop_part *array_pair(const char *name, const char *first, const char *second,
                                   struct cop_model *model)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, name);
    array.inner[0] = new_draft(model);
    array.inner[1] = new_lookup(3, 5);
    return array_object(array_object(part, first, array.inner[0]), second, array.inner[1]);
}

static struct cop_part *array_cascade(struct cop_model *model)
{
    struct cop_part *part = array_pair("cascade", "first", "second", model);
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_ints(option(part, "depths"), part->state,
                                     (const int32_t[]){2, 3}, 2, "test", &err),
                 COP_OK);
    return ready(part);
}

static struct cop_part *array_staged(struct cop_model *model)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "staged");
    array.inner[0] = new_lookup(3, 5);
    array_object(array_object(part, "model", model), "proposer", array.inner[0]);
    return ready(set_number(part, "ahead", 4));
}

static struct cop_part *array_named(const char *name)
{
    return ready(new_part(COP_PLUG_PROPOSER, name));
}

/* NULL for NONE. */
static struct cop_part *array_proposer(int32_t proposer, struct cop_model *twin,
                                       struct cop_model *kin)
{
    switch (proposer) {
    case LOOKUP: return new_lookup(3, 5);
    case TWIN: return new_draft(twin);
    case KIN: return new_draft(kin);
    case NGRAM_CACHE: return array_named("ngram_cache");
    case SUFFIX_TREE: return array_named("suffix_tree");
    case SUFFIX_AUTOMATON: return array_named("suffix_automaton");
    case RETRIEVAL: return array_retrieval();
    case RECYCLING: return array_named("recycling");
    case LOOKAHEAD: return array_lookahead();
    case JACOBI: return array_named("jacobi");
    case MEDUSA: return array_medusa();
    case HYDRA: return array_hydra();
    case MLP: return array_mlp();
    case REDRAFTER: return array_redrafter();
    case MTP: return array_mtp();
    case EAGLE: return array_eagle();
    case LAYER_SKIP:
        return ready(set_number(new_part(COP_PLUG_PROPOSER, "layer_skip"), "exit", 1));
    case PARALLEL: return array_parallel(kin);
    case CASCADE: return array_cascade(kin);
    case MIXTURE: return ready(array_pair("mixture", "first", "second", kin));
    case STAGED: return array_staged(kin);
    default: return NULL;
    }
}

#endif
