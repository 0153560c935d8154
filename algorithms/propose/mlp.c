/* The MLP speculator: a recurrence of one vector per node, fed with the tokens of the path.
 *
 *     s before the root = h, or h / (rms(h) sqrt 2) where the input is scaled
 *     head i:   s ← gelu(norm_i(proj_i s + c emb_i[token]))     logits = head_i s
 *     c = w_e / w_s, w_s = 0.5^(0.5 / n),  w_e = sqrt((1 - w_s²) inner / 2),  n heads
 *
 * norm divides by the root mean square and has a scale and a shift. With tied weights all heads
 * have the tensors of head 0, but for proj: the first reads the target's width, all others the
 * inner one. So a row belongs to a path, and each node keeps its s for its children.
 *
 * Arctic's LSTM form ("method": "sum_lstm") has a cell besides, 0 before the root:
 *
 *     f, i, o = sigmoid of, and z = proj s + c emb[token], each with tensors of its own
 *     cell ← f cell + i gelu(cell_ln z)       s ← o gelu(state_ln cell)
 *
 *     {forget,input,output,cell}_proj.0 of the root, .1 of drafted tokens; or all four in this
 *     order in proj.0, proj.1; {forget,…}_emb.0, or forget_emb.0 for all; head.{i} or head.0 */
#include "algorithms/heads/several/speculator.h"

#include <stdio.h>
#include <string.h>

/* ---- Files --------------------------------------------------------------------------------
 */

/* "speculator.emb.0.weight": the tensor of head i, or the one that stands for it. */
static enum cop_status find(const struct cop_speculator *mlp, const char *prefix,
                            const char *kind, const char *what, int32_t i, int32_t rows,
                            int32_t cols, const struct cop_tensor **out, struct cop_error *err)
{
    char name[COP_HEADS_NAME_LIMIT];
    int32_t first = strcmp(kind, "proj") == 0 ? 1 : 0;
    int32_t place = mlp->is_tied && i > first ? first : i;
    (void)snprintf(name, sizeof name, "%s%s.%d.%s", prefix, kind, place, what);
    return cop_heads_find(&mlp->heads, name, rows, cols, out, err);
}

static enum cop_status find_head(struct cop_speculator *mlp, const char *prefix, int32_t i,
                                 struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    int32_t inner = heads->inner, inputs = i == 0 ? heads->width : inner;
    enum cop_status status =
        find(mlp, prefix, "emb", "weight", i, heads->vocab, inner, &mlp->emb[i], err);
    if (status == COP_OK) {
        status = find(mlp, prefix, "proj", "weight", i, inner, inputs, &mlp->proj[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, "ln", "weight", i, 0, inner, &mlp->gain[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, "ln", "bias", i, 0, inner, &mlp->shift[i], err);
    }
    return status == COP_OK ? find(mlp, prefix, "head", "weight", i, heads->vocab, inner,
                                   &heads->output[i], err)
                            : status;
}

static enum cop_status read_config(struct cop_speculator *mlp, struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    const struct cop_checkpoint *files = &heads->files;
    const struct cop_json_node *inner =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "inner_dim");
    bool is_same = inner && inner->kind == COP_JSON_INTEGER && inner->integer == 0;
    enum cop_status status =
        cop_checkpoint_int(files, "vocab_size", 1 << 24, 0, &heads->vocab, err);
    if (status == COP_OK) {
        status = cop_checkpoint_int(files, "emb_dim", 1 << 20, 0, &heads->width, err);
    }
    heads->inner = heads->width;
    if (status == COP_OK && !is_same) {
        status =
            cop_checkpoint_int(files, "inner_dim", 1 << 20, heads->width, &heads->inner, err);
    }
    if (status == COP_OK) {
        status =
            cop_checkpoint_int(files, "n_predict", COP_HEADS_LIMIT, 0, &heads->n_heads, err);
    }
    if (status == COP_OK) {
        status = cop_checkpoint_bool(files, "tie_weights", false, &mlp->is_tied, err);
    }
    return status == COP_OK
               ? cop_checkpoint_bool(files, "scale_input", false, &mlp->is_scaled, err)
               : status;
}

static enum cop_status find_all(struct cop_speculator *mlp, struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    enum cop_status status = read_config(mlp, err);
    bool is_bare = !cop_heads_look(heads, "speculator.emb.0.weight") &&
                   cop_heads_look(heads, "emb.0.weight");
    const char *prefix = is_bare ? "" : "speculator.";
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        status = find_head(mlp, prefix, i, err);
    }
    /* The weights of the sum depend on the number of heads: one that is wrong makes another
     * function of it. */
    if (status == COP_OK && !mlp->is_tied &&
        cop_heads_look(heads, "%semb.%d.weight", prefix, heads->n_heads)) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: \"n_predict\" is %d, but there is a tensor "
                        "\"%semb.%d.weight\"",
                        heads->files.name, heads->n_heads, prefix, heads->n_heads);
    }
    return status;
}

/* ---- The LSTM form ------------------------------------------------------------------------
 */

static const char *const gates[COP_SPECULATOR_GATES] = {"forget", "input", "output", "cell"};

/* "<prefix>forget_emb.0.weight" into name [COP_HEADS_NAME_LIMIT], and the tensor, or NULL. */
static const struct cop_tensor *look(const struct cop_speculator *lstm, const char *prefix,
                                     const char *stem, int32_t place, char *name)
{
    (void)snprintf(name, COP_HEADS_NAME_LIMIT, "%s%s.%d.weight", prefix, stem, place);
    return cop_heads_look(&lstm->heads, "%s", name);
}

/* The sizes are those of the first gate's embedding and projection. */
static enum cop_status read_sizes(struct cop_speculator *lstm, const char *prefix,
                                  bool is_packed, struct cop_error *err)
{
    struct cop_heads *heads = &lstm->heads;
    char name[COP_HEADS_NAME_LIMIT];
    const struct cop_tensor *emb = look(lstm, prefix, "forget_emb", 0, name);
    const struct cop_tensor *proj =
        look(lstm, prefix, is_packed ? "proj" : "forget_proj", 0, name);
    heads->vocab = cop_heads_rows(emb);
    bool has_sizes = heads->vocab > 0 && cop_heads_rows(proj) > 0 && emb->dims[0] <= 1 << 20 &&
                     proj->dims[0] <= 1 << 20;
    if (!has_sizes) {
        return cop_fail(
            err, COP_ERR_FORMAT,
            "%s: no LSTM speculator: \"%sforget_emb.0.weight\" or \"%s\" is missing "
            "or no matrix",
            cop_source_name(&heads->files.source), prefix, name);
    }
    heads->inner = (int32_t)emb->dims[0];
    heads->width = (int32_t)proj->dims[0];
    enum cop_status status = cop_checkpoint_int(&heads->files, "n_predict", COP_HEADS_LIMIT, 0,
                                                &heads->n_heads, err);
    return status == COP_OK
               ? cop_checkpoint_bool(&heads->files, "scale_input", false, &lstm->is_scaled, err)
               : status;
}

static enum cop_status find_gates(struct cop_speculator *lstm, const char *prefix,
                                  bool is_packed, struct cop_error *err)
{
    const struct cop_heads *heads = &lstm->heads;
    int32_t inner = heads->inner, n = is_packed ? 1 : COP_SPECULATOR_GATES;
    char name[COP_HEADS_NAME_LIMIT], stem[32];
    enum cop_status status = COP_OK;
    for (int32_t i = 0; i < 2 * n && status == COP_OK; i++) {
        (void)snprintf(stem, sizeof stem, "%s%sproj", is_packed ? "" : gates[i / 2],
                       is_packed ? "" : "_");
        (void)look(lstm, prefix, stem, i % 2, name);
        status =
            cop_heads_find(heads, name, is_packed ? COP_SPECULATOR_GATES * inner : inner,
                           i % 2 ? inner : heads->width, &lstm->gate_proj[i % 2][i / 2], err);
    }
    for (int32_t g = 0; g < COP_SPECULATOR_GATES && status == COP_OK; g++) {
        (void)snprintf(stem, sizeof stem, "%s_emb", gates[g]);
        lstm->gate_emb[g] = lstm->gate_emb[0];
        if (g == 0 || (!lstm->is_tied && look(lstm, prefix, stem, 0, name))) {
            (void)look(lstm, prefix, stem, 0, name);
            status = cop_heads_find(heads, name, heads->vocab, inner, &lstm->gate_emb[g], err);
        }
    }
    return status;
}

/* The norms, and the heads, of which the first may stand for all. */
static enum cop_status find_others(struct cop_speculator *lstm, const char *prefix,
                                   struct cop_error *err)
{
    struct cop_heads *heads = &lstm->heads;
    char name[COP_HEADS_NAME_LIMIT];
    const struct {
        const char *name;
        const struct cop_tensor **out;
    } norms[] = {{"cell_ln.0.weight", &lstm->cell_gain},
                 {"cell_ln.0.bias", &lstm->cell_shift},
                 {"state_ln.0.weight", &lstm->state_gain},
                 {"state_ln.0.bias", &lstm->state_shift}};
    enum cop_status status = COP_OK;
    for (size_t i = 0; i < sizeof norms / sizeof *norms && status == COP_OK; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, norms[i].name);
        status = cop_heads_find(heads, name, 0, heads->inner, norms[i].out, err);
    }
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        heads->output[i] = heads->output[0];
        if (i == 0 || look(lstm, prefix, "head", i, name)) {
            (void)look(lstm, prefix, "head", i, name);
            status =
                cop_heads_find(heads, name, heads->vocab, heads->inner, &heads->output[i], err);
        }
    }
    return status;
}

static enum cop_status find_lstm(struct cop_speculator *lstm, struct cop_error *err)
{
    const struct cop_heads *heads = &lstm->heads;
    const char *prefix =
        cop_heads_look(heads, "speculator.forget_emb.0.weight") ? "speculator." : "";
    char name[COP_HEADS_NAME_LIMIT];
    bool is_packed = look(lstm, prefix, "proj", 0, name) != NULL;
    memset(lstm->gate_proj, 0, sizeof lstm->gate_proj);
    enum cop_status status = read_sizes(lstm, prefix, is_packed, err);
    if (status == COP_OK) { /* of the embeddings here */
        status =
            cop_checkpoint_bool(&heads->files, "tie_lstm_embs", false, &lstm->is_tied, err);
    }
    if (status == COP_OK) {
        status = find_gates(lstm, prefix, is_packed, err);
    }
    if (status == COP_OK) {
        status = find_others(lstm, prefix, err);
    }
    if (status == COP_OK) {
        cop_checkpoint_compare(&heads->files, "vocab_size", heads->vocab, err);
        cop_checkpoint_compare(&heads->files, "input_hidden_dim", heads->width, err);
        cop_checkpoint_compare(&heads->files, "inner_dim", heads->inner, err);
    }
    return status;
}

static enum cop_status read_method(struct cop_speculator *mlp, struct cop_error *err)
{
    const struct cop_checkpoint *files = &mlp->heads.files;
    const struct cop_json_node *method =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "method");
    mlp->is_lstm = cop_json_is(method, "sum_lstm");
    return !method || mlp->is_lstm || cop_json_is(method, "sum_rnn")
               ? COP_OK
               : cop_fail(err, COP_ERR_UNSUPPORTED,
                          "%s: \"method\" is neither \"sum_rnn\" nor \"sum_lstm\"",
                          files->name);
}

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct cop_speculator *mlp = state;
    enum cop_status status = cop_heads_open_files(&mlp->heads, NULL, err);
    if (status != COP_OK) {
        return status;
    }
    status = read_method(mlp, err);
    if (status == COP_OK) {
        status = mlp->is_lstm ? find_lstm(mlp, err) : find_all(mlp, err);
    }
    if (status != COP_OK) {
        cop_heads_release(mlp);
    }
    return status;
}

static enum cop_status open(const void *state, const struct cop_proposer_env *env,
                            void **session, struct cop_error *err)
{
    const struct cop_speculator *mlp = state;
    return cop_heads_open(mlp->is_lstm ? &cop_speculator_lstm : &cop_speculator_plain, state,
                          env, session, err);
}

static const struct cop_option options[] = {COP_HEADS_OPTIONS(struct cop_speculator), {0}};

const struct cop_proposer_ops cop_propose_mlp = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "mlp",
             .help = "a vector that begins as the target's last state takes in a drafted token "
                     "at each head: s ← gelu(norm(proj s + c emb(token))), or an LSTM cell",
             .source = "Wertheimer, Rosenkranz et al. 2024, arXiv:2404.19124; the LSTM form: "
                       "Snowflake's Arctic Inference",
             .synonyms = "MLP speculator, recurrent speculator, Arctic LSTM speculator",
             .state_size = sizeof(struct cop_speculator),
             .options = options,
             .prepare = prepare,
             .release = cop_heads_release},
    COP_HEADS_SLOTS,
    .open = open,
};
