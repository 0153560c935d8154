/* The geometry of a model from the config.json of its folder, in the words of older and newer
 * checkpoints, every number checked before it is used.
 *
 * A key that is missing means what the architecture's table says (and `null` mostly the same);
 * what would change the model's function and is not built is refused, never ignored. */
#include "core/model/config.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- What kind of model ------------------------------------------------------------------ */

static enum cop_status check_class(const struct cop_config *in)
{
    const struct cop_architecture *architecture = in->model->architecture;
    const struct cop_json_node *list = cop_config_get(in, in->root, "architectures");
    const struct cop_json_node *node = cop_json_first(&in->tree, list);
    if (!node) {
        return COP_OK;
    }
    if (node->kind == COP_JSON_STRING && node->length == strlen(architecture->class_name) &&
        strncasecmp(node->text, architecture->class_name, node->length) == 0) {
        return COP_OK;
    }
    char text[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                    "%s: \"architectures\" says %s; of model type %s, %s is known", in->name,
                    node->kind == COP_JSON_NULL ? "null" : cop_config_text(text, node),
                    architecture->name, architecture->class_name);
}

static enum cop_status read_kind(struct cop_config *in)
{
    const struct cop_json_node *kind = cop_config_get(in, in->root, "model_type");
    if (!kind || kind->kind != COP_JSON_STRING) {
        return kind ? cop_config_refuse(in, "model_type", kind, "a string")
                    : cop_config_lacks(in, "model_type");
    }
    enum cop_status status = cop_architecture_find(
        &in->model->architecture, (struct cop_string){kind->text, kind->length},
        COP_NAMING_FOLDER, in->name, in->err);
    if (status == COP_OK && !in->is_head) {
        status = check_class(in);
    }
    if (status == COP_OK && cop_config_get(in, in->root, "quantization_config")) {
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: \"quantization_config\" is there: quantised checkpoints are not "
                        "read, only F32, F16 and BF16",
                        in->name);
    }
    return status;
}

/* ---- Sizes ------------------------------------------------------------------------------- */

static enum cop_status read_sizes(struct cop_config *in)
{
    struct cop_model_info *info = &in->model->info;
    const struct cop_config_defaults *defaults = &in->model->architecture->defaults;
    const struct {
        const char *key;
        int32_t max, fallback, *out;
    } sizes[] = {
        {"num_hidden_layers", COP_MAX_LAYERS, 0, &info->layers},
        {"hidden_size", COP_MAX_WIDTH, 0, &info->hidden_size},
        {"intermediate_size", COP_MAX_FFN, 0, &info->ffn_size},
        {"num_attention_heads", COP_MAX_HEADS, 0, &info->heads},
        {"vocab_size", COP_MAX_VOCAB, 0, &info->vocab_size},
        {"max_position_embeddings", COP_MAX_CONTEXT, defaults->positions,
         &info->trained_context},
    };
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < sizeof sizes / sizeof *sizes; i++) {
        status =
            cop_config_int(in, sizes[i].key, sizes[i].max, sizes[i].fallback, sizes[i].out);
    }
    return status;
}

static enum cop_status read_heads(struct cop_config *in)
{
    struct cop_model_info *info = &in->model->info;
    const struct cop_config_defaults *defaults = &in->model->architecture->defaults;
    static const char kv_heads[] = "num_key_value_heads", head_dim[] = "head_dim";
    bool is_null = cop_json_get(&in->tree, in->root, kv_heads) != NULL;
    int32_t fallback = !is_null && defaults->kv_heads > 0 ? defaults->kv_heads : info->heads;
    enum cop_status status =
        cop_config_int(in, kv_heads, COP_MAX_HEADS, fallback, &info->kv_heads);
    if (status == COP_OK) {
        status = cop_model_check_heads(in->model, in->name, in->err);
    }
    if (status != COP_OK) {
        return status;
    }
    is_null = cop_json_get(&in->tree, in->root, head_dim) != NULL;
    fallback = !is_null && defaults->head_dim > 0 ? defaults->head_dim
                                                  : info->hidden_size / info->heads;
    if (!cop_config_get(in, in->root, head_dim) &&
        fallback * info->heads != info->hidden_size &&
        fallback == info->hidden_size / info->heads) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"hidden_size\" %d is not a multiple of %d heads, and there is no "
                        "\"head_dim\"",
                        in->name, info->hidden_size, info->heads);
    }
    status = cop_config_int(in, head_dim, COP_MAX_HEAD_DIM, fallback, &info->head_dim);
    return status == COP_OK ? cop_model_check_head_dim(in->model, in->name, in->err) : status;
}

/* ---- What the layers are made of --------------------------------------------------------- */

static enum cop_status check_activation(const struct cop_config *in)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct cop_json_node *node = cop_config_get(in, in->root, keys[i]);
        bool is_gelu = in->model->architecture->is_gelu;
        bool is_known =
            !node || (is_gelu ? cop_json_is(node, "gelu_pytorch_tanh")
                              : cop_json_is(node, "silu") || cop_json_is(node, "swish"));
        if (!is_known) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED, "%s: \"%s\" is %s; known is %s",
                            in->name, keys[i], cop_config_text(text, node),
                            is_gelu ? "gelu_pytorch_tanh" : "silu");
        }
    }
    return COP_OK;
}

/* Parts that some of Gemma's kin have. */
static enum cop_status check_absent(const struct cop_config *in)
{
    static const char *const keys[] = {"attn_logit_softcapping", "final_logit_softcapping",
                                       "use_bidirectional_attention"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct cop_json_node *node = cop_config_get(in, in->root, keys[i]);
        if (node && node->kind != COP_JSON_FALSE) {
            char text[COP_QUOTE_SIZE];
            return cop_fail(in->err, COP_ERR_UNSUPPORTED, "%s: \"%s\" is %s; known is none",
                            in->name, keys[i], cop_config_text(text, node));
        }
    }
    return COP_OK;
}

static enum cop_status read_parts(struct cop_config *in)
{
    enum cop_presence *presence = in->model->presence;
    const struct cop_config_defaults *defaults = &in->model->architecture->defaults;
    const struct {
        const char *key;
        enum cop_condition condition;
        enum cop_presence if_true, if_false;
        bool fallback;
    } switches[] = {
        {"attention_bias", COP_IF_ATTENTION_BIAS, COP_PRESENCE_REQUIRED, COP_PRESENCE_REFUSED,
         false},
        {"mlp_bias", COP_IF_MLP_BIAS, COP_PRESENCE_REQUIRED, COP_PRESENCE_REFUSED, false},
        {"tie_word_embeddings", COP_IF_UNTIED, COP_PRESENCE_OPTIONAL, COP_PRESENCE_REQUIRED,
         defaults->is_tied},
    };
    enum cop_status status = check_activation(in);
    if (status == COP_OK) {
        status = check_absent(in);
    }
    for (size_t i = 0; status == COP_OK && i < sizeof switches / sizeof *switches; i++) {
        bool value;
        status = cop_config_bool(in, in->root, switches[i].key, switches[i].fallback, &value);
        presence[switches[i].condition] = value ? switches[i].if_true : switches[i].if_false;
    }
    if (status == COP_OK) {
        status = cop_config_positive(in, in->root, "rms_norm_eps", 1, 1e-6,
                                     &in->model->info.norm_epsilon);
    }
    in->model->query_scalar = in->model->info.head_dim;
    return status == COP_OK && defaults->query_scalar > 0
               ? cop_config_positive(in, in->root, "query_pre_attn_scalar", COP_MAX_WIDTH,
                                     defaults->query_scalar, &in->model->query_scalar)
               : status;
}

/* Of a draft that was tuned with masks. */
static enum cop_status read_mask(struct cop_config *in)
{
    static const char key[] = "pard_token";
    struct cop_model_info *info = &in->model->info;
    const struct cop_json_node *node = cop_config_get(in, in->root, key);
    info->mask_token = -1;
    if (node && (node->kind != COP_JSON_INTEGER || node->integer < 0 ||
                 node->integer >= info->vocab_size)) {
        return cop_config_refuse(in, key, node, "an id of the vocabulary");
    }
    info->mask_token = node ? (int32_t)node->integer : -1;
    return COP_OK;
}

/* ---- The whole --------------------------------------------------------------------------- */

static enum cop_status read_all(struct cop_config *in)
{
    static enum cop_status (*const steps[])(struct cop_config *) = {
        read_kind, read_sizes,         read_heads,     read_parts,
        read_mask, cop_config_windows, cop_config_rope};
    enum cop_status status = COP_OK;
    in->model->naming = COP_NAMING_FOLDER;
    if (in->root->kind != COP_JSON_OBJECT) {
        status = cop_fail(in->err, COP_ERR_FORMAT, "%s: is not an object", in->name);
    }
    for (size_t i = 0; status == COP_OK && i < sizeof steps / sizeof *steps; i++) {
        status = steps[i](in);
    }
    return status;
}

enum cop_status cop_model_read_head(struct cop_model *model, const char *name,
                                    const struct cop_json_tree *tree,
                                    const struct cop_json_node *root, struct cop_error *err)
{
    struct cop_config in = {
        .model = model, .name = name, .err = err, .is_head = true, .tree = *tree, .root = root};
    return read_all(&in);
}

enum cop_status cop_model_read_config(struct cop_model *model, const char *name,
                                      const char *text, size_t length, struct cop_error *err)
{
    struct cop_config in = {.model = model, .name = name, .err = err};
    struct cop_error inner = {.text = ""};
    enum cop_status status = cop_json_tree_read(&in.tree, text, length, &inner);
    if (status != COP_OK) {
        return cop_fail(err, status, "%s: %.300s", name, inner.text);
    }
    in.root = cop_json_root(&in.tree);
    status = read_all(&in);
    cop_json_tree_release(&in.tree);
    return status;
}
