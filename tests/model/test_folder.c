/* Hugging Face folders with one fault each: a clear message, nothing half-loaded; and damaged
 * ones: an answer and no crash. */
#include "core/model/model.h"
#include "tests/support/mutate.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(folder, .timeout = 120);

/* A llama with two layers: 16 wide, 2 heads on 1, 32 inside, 20 tokens. */
static const char config_start[] =
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"intermediate_size\":32,"
    "\"vocab_size\":20,\"max_position_embeddings\":64";
static const struct {
    const char *name;
    int rows, cols; /* rows 0: a vector */
} of_model[] = {{"model.embed_tokens.weight", 20, 16},
                {"model.norm.weight", 0, 16},
                {"lm_head.weight", 20, 16}},
  of_layer[] = {{"input_layernorm.weight", 0, 16},   {"self_attn.q_proj.weight", 16, 16},
                {"self_attn.k_proj.weight", 8, 16},  {"self_attn.v_proj.weight", 8, 16},
                {"self_attn.o_proj.weight", 16, 16}, {"post_attention_layernorm.weight", 0, 16},
                {"mlp.gate_proj.weight", 32, 16},    {"mlp.up_proj.weight", 32, 16},
                {"mlp.down_proj.weight", 16, 32}};

enum fault { NO_FAULT, DROP, RENAME, SHAPE, TYPE, VALUE, SAME };

struct edit {
    enum fault fault;
    const char *name; /* of the tensor */
    const char *word; /* RENAME: its new name; TYPE: its new type, of 4 bytes */
    int rows, cols;   /* SHAPE */
    float value;      /* VALUE: of its first entry */
};

struct image {
    char header[16384];
    float data[8192];
    size_t n_header, n_data;
};

static void add(struct image *image, const char *name, int rows, int cols,
                const struct edit *edit)
{
    bool is_meant = edit && edit->fault != NO_FAULT && strcmp(edit->name, name) == 0;
    enum fault fault = is_meant ? edit->fault : NO_FAULT;
    if (fault == DROP) {
        return;
    }
    rows = fault == SHAPE ? edit->rows : rows;
    cols = fault == SHAPE ? edit->cols : cols;
    size_t count = (size_t)(rows ? rows : 1) * (size_t)cols, first = image->n_data;
    char shape[32], type[8] = "F32";
    (void)snprintf(shape, sizeof shape, rows ? "[%d,%d]" : "[%d]", rows ? rows : cols, cols);
    if (fault == TYPE) {
        (void)snprintf(type, sizeof type, "%s", edit->word);
    }
    for (size_t i = 0; i < count; i++) {
        float noise = (float)(tiny_uniform(7, first + i) - 0.5);
        image->data[first + i] = rows ? noise : 1 + noise;
    }
    if (fault == VALUE) {
        image->data[first] = edit->value;
    }
    if (fault == SAME) {
        memcpy(image->data + first, image->data, count * sizeof(float));
    }
    image->n_data += count;
    image->n_header += (size_t)snprintf(
        image->header + image->n_header, sizeof image->header - image->n_header,
        "%c\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
        image->n_header ? ',' : '{', fault == RENAME ? edit->word : name, type, shape,
        4 * first, 4 * image->n_data);
}

/* The file of weights as bytes; free. */
static uint8_t *make(const struct edit *edit, size_t *size)
{
    struct image *image = calloc(1, sizeof *image);
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++) {
        add(image, of_model[i].name, of_model[i].rows, of_model[i].cols, edit);
    }
    for (int layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
            char name[96];
            (void)snprintf(name, sizeof name, "model.layers.%d.%s", layer, of_layer[i].name);
            add(image, name, of_layer[i].rows, of_layer[i].cols, edit);
        }
    }
    image->header[image->n_header++] = '}';
    *size = 8 + image->n_header + 4 * image->n_data;
    uint8_t *bytes = malloc(*size);
    uint64_t length = image->n_header;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, image->header, image->n_header);
    memcpy(bytes + 8 + image->n_header, image->data, 4 * image->n_data);
    free(image);
    return bytes;
}

/* ---- Folders ----------------------------------------------------------------------------- */

static char folder[64];

static void put(const char *name, const void *bytes, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

static void put_config(const char *extra)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "%s%s}", config_start, extra);
    put("config.json", text, strlen(text));
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/folder-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static enum cop_status open_folder(struct cop_model **model, struct cop_error *err)
{
    const struct cop_model_options options = {.path = folder, .threads = 1};
    err->text[0] = '\0';
    return cop_model_open(model, &options, err);
}

/* A row of logits after three tokens. */
static void score(struct cop_model *model, float logits[20])
{
    struct cop_cache *cache = NULL;
    struct cop_error err = {.text = ""};
    cr_assert_eq(cop_model_cache_new(model, 1, 4, &cache, &err), COP_OK);
    const struct cop_score call = {.n = 3,
                                   .tokens = (const cop_token[]){1, 2, 3},
                                   .parents = (const int32_t[]){-1, 0, 1},
                                   .wanted = (const bool[]){false, false, true},
                                   .logits = logits};
    cr_assert_eq(cop_model_score(model, cache, &call, &err), COP_OK, "%s", err.text);
    cop_cache_free(cache);
}

Test(folder, faults_are_named)
{
    static const struct {
        struct edit edit;
        const char *config;
        enum cop_status status;
        const char *words[3];
    } rows[] = {
        {{.fault = NO_FAULT}, "", COP_OK, {"", "", ""}},
        {{DROP, "model.layers.1.mlp.up_proj.weight", "", 0, 0, 0},
         "",
         COP_ERR_FORMAT,
         {"model.layers.1.mlp.up_proj.weight", "missing", "[32, 16]"}},
        {{DROP, "lm_head.weight", "", 0, 0, 0},
         "",
         COP_ERR_FORMAT,
         {"lm_head.weight", "missing", "[20, 16]"}},
        {{DROP, "lm_head.weight", "", 0, 0, 0},
         ",\"tie_word_embeddings\":true",
         COP_OK,
         {"", "", ""}},
        {{SAME, "lm_head.weight", "", 0, 0, 0},
         ",\"tie_word_embeddings\":true",
         COP_OK,
         {"", "", ""}},
        {{.fault = NO_FAULT},
         ",\"tie_word_embeddings\":true",
         COP_ERR_FORMAT,
         {"tie_word_embeddings", "lm_head.weight", "differs"}},
        {{SHAPE, "model.layers.0.self_attn.k_proj.weight", "", 16, 16, 0},
         "",
         COP_ERR_FORMAT,
         {"k_proj", "[16, 16]", "expected [8, 16]"}},
        {{SHAPE, "model.norm.weight", "", 1, 16, 0},
         "",
         COP_ERR_FORMAT,
         {"model.norm.weight", "[1, 16]", "expected [16]"}},
        {{RENAME, "model.norm.weight", "model.norm.wait", 0, 0, 0},
         "",
         COP_ERR_UNSUPPORTED,
         {"model.norm.wait", "no place", "llama"}},
        {{RENAME, "model.layers.1.mlp.up_proj.weight", "model.layers.2.mlp.up_proj.weight", 0,
          0, 0},
         "",
         COP_ERR_UNSUPPORTED,
         {"model.layers.2", "no place", "2 layers"}},
        {{RENAME, "model.layers.1.mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight", 0,
          0, 0},
         "",
         COP_ERR_UNSUPPORTED,
         {"model.layers.01", "no place", ""}},
        {{RENAME, "model.norm.weight", "model.layers.0.self_attn.q_proj.bias", 0, 0, 0},
         "",
         COP_ERR_FORMAT,
         {"q_proj.bias", "attention_bias", "false"}},
        {{RENAME, "model.norm.weight", "model.layers.0.self_attn.rotary_emb.inv_freq", 0, 0, 0},
         "",
         COP_ERR_FORMAT,
         {"model.norm.weight", "missing", "[16]"}},
        {{.fault = NO_FAULT},
         ",\"attention_bias\":true",
         COP_ERR_FORMAT,
         {"q_proj.bias", "missing", "[16]"}},
        {{.fault = NO_FAULT},
         ",\"mlp_bias\":true",
         COP_ERR_FORMAT,
         {"gate_proj.bias", "missing", "[32]"}},
        {{TYPE, "model.layers.0.mlp.gate_proj.weight", "I32", 0, 0, 0},
         "",
         COP_ERR_UNSUPPORTED,
         {"gate_proj", "I32", "F32, F16 and BF16"}},
        {{VALUE, "model.layers.0.input_layernorm.weight", "", 0, 0, NAN},
         "",
         COP_ERR_FORMAT,
         {"input_layernorm", "nan", "at 0"}},
        {{VALUE, "model.norm.weight", "", 0, 0, INFINITY},
         "",
         COP_ERR_FORMAT,
         {"model.norm.weight", "inf", "at 0"}},
    };
    make_folder();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size;
        uint8_t *bytes = make(&rows[i].edit, &size);
        struct cop_model *model = NULL;
        struct cop_error err;
        put("model.safetensors", bytes, size);
        put_config(rows[i].config);
        enum cop_status status = open_folder(&model, &err);
        cr_expect_eq(status, rows[i].status, "row %zu: %d %s", i, status, err.text);
        cr_expect_eq(model == NULL, rows[i].status != COP_OK);
        for (int w = 0; w < 3; w++) {
            cr_expect_not_null(strstr(err.text, rows[i].words[w]), "row %zu: \"%s\" lacks %s",
                               i, err.text, rows[i].words[w]);
        }
        cop_model_free(model);
        free(bytes);
    }
    remove_folder();
}

Test(folder, a_tied_head_is_the_embedding)
{
    static const struct edit edits[] = {{DROP, "lm_head.weight", "", 0, 0, 0},
                                        {SAME, "lm_head.weight", "", 0, 0, 0}};
    float logits[2][20];
    make_folder();
    put_config(",\"tie_word_embeddings\":true");
    for (int i = 0; i < 2; i++) {
        size_t size;
        uint8_t *bytes = make(&edits[i], &size);
        struct cop_model *model = NULL;
        struct cop_error err;
        put("model.safetensors", bytes, size);
        cr_assert_eq(open_folder(&model, &err), COP_OK, "%s", err.text);
        score(model, logits[i]);
        cr_expect(logits[i][0] == logits[i][0] && logits[i][0] != logits[i][1]);
        cop_model_free(model);
        free(bytes);
    }
    remove_folder();
}

Test(folder, what_is_absent_is_named)
{
    struct cop_model *model = NULL;
    struct cop_error err;
    make_folder();
    cr_expect_eq(open_folder(&model, &err), COP_ERR_IO);
    cr_expect_not_null(strstr(err.text, "config.json"), "%s", err.text);
    put_config("");
    cr_expect_eq(open_folder(&model, &err), COP_ERR_IO);
    cr_expect_not_null(strstr(err.text, "model.safetensors"), "%s", err.text);
    put("config.json", "", 0);
    cr_expect_eq(open_folder(&model, &err), COP_ERR_FORMAT);
    cr_expect_not_null(strstr(err.text, "config.json"), "%s", err.text);
    cr_expect_null(model);
    remove_folder();
}

/* Damaged weights beside a good configuration: opened models score without a crash. */
Test(folder, random_damage)
{
    enum { FILES = 1500 };
    size_t size, n_opened = 0;
    uint8_t *bytes = make(NULL, &size);
    make_folder();
    put_config("");
    for (uint64_t seed = 0; seed < FILES; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(bytes, size, seed, &damaged_size);
        struct cop_model *model = NULL;
        struct cop_error err;
        float logits[20];
        put("model.safetensors", damaged, damaged_size);
        if (open_folder(&model, &err) == COP_OK) {
            n_opened++;
            score(model, logits);
        } else {
            cr_expect(model == NULL && err.text[0] != '\0');
        }
        cop_model_free(model);
        free(damaged);
    }
    cr_expect_gt(n_opened, FILES / 50);
    free(bytes);
    remove_folder();
}
