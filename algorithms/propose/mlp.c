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

/* Lists of tensors, one for each head; of tied ones the first alone is stored, of projections
 * the first two. */
enum kind { EMB, PROJ, LN, HEAD, KINDS };
static const char *const kinds[KINDS] = {"emb", "proj", "ln", "head"};

static enum cop_status find(const struct cop_speculator *mlp, const char *prefix,
                            enum kind kind, const char *what, int32_t i, int32_t rows,
                            int32_t cols, const struct cop_tensor **out, struct cop_error *err)
{
    char name[COP_HEADS_NAME_LIMIT];
    int32_t last = kind == PROJ ? 1 : 0;
    int32_t place = mlp->is_tied && i > last ? last : i;
    (void)snprintf(name, sizeof name, "%s%s.%d.%s", prefix, kinds[kind], place, what);
    return cop_heads_find(&mlp->heads, name, rows, cols, out, err);
}

static enum cop_status find_head(struct cop_speculator *mlp, const char *prefix, int32_t i,
                                 struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    int32_t inner = heads->inner, inputs = i == 0 ? heads->width : inner;
    enum cop_status status =
        find(mlp, prefix, EMB, "weight", i, heads->vocab, inner, &mlp->emb[i], err);
    if (status == COP_OK) {
        status = find(mlp, prefix, PROJ, "weight", i, inner, inputs, &mlp->proj[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, LN, "weight", i, 0, inner, &mlp->gain[i], err);
    }
    if (status == COP_OK) {
        status = find(mlp, prefix, LN, "bias", i, 0, inner, &mlp->shift[i], err);
    }
    return status == COP_OK ? find(mlp, prefix, HEAD, "weight", i, heads->vocab, inner,
                                   &heads->output[i], err)
                            : status;
}

/* The first embedding and projection say how large everything is. */
static enum cop_status read_sizes_of_first(struct cop_speculator *mlp, const char *prefix,
                                           struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    const struct cop_tensor *emb = cop_heads_look(heads, "%semb.0.weight", prefix);
    const struct cop_tensor *proj = cop_heads_look(heads, "%sproj.0.weight", prefix);
    heads->vocab = cop_heads_rows(emb);
    bool has_sizes = heads->vocab > 0 && cop_heads_rows(proj) > 0 && emb->dims[0] <= 1 << 20 &&
                     proj->dims[0] <= 1 << 20;
    if (!has_sizes) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: no MLP speculator: \"%semb.0.weight\" or \"%sproj.0.weight\" is "
                        "missing or no matrix",
                        cop_source_name(&heads->files.source), prefix, prefix);
    }
    heads->inner = (int32_t)emb->dims[0];
    heads->width = (int32_t)proj->dims[0];
    return cop_checkpoint_bool(&heads->files, "scale_input", false, &mlp->is_scaled, err);
}

/* As many as are stored; of one that may stand for all the configuration says how many. */
static enum cop_status read_n_heads(struct cop_heads *heads, int32_t stored,
                                    struct cop_error *err)
{
    int32_t said = 0;
    if (stored > COP_HEADS_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT, "%s: more than %d heads",
                        cop_source_name(&heads->files.source), COP_HEADS_LIMIT);
    }
    enum cop_status status = cop_checkpoint_int(&heads->files, "n_predict", COP_HEADS_LIMIT,
                                                stored > 1 ? stored : 0, &said, err);
    heads->n_heads = stored > 1 ? stored : said;
    return status;
}

static bool owns(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_speculator *mlp = context;
    bool is_own = false;
    for (int32_t i = 0; i < mlp->heads.n_heads && !is_own; i++) {
        is_own = tensor == mlp->emb[i] || tensor == mlp->proj[i] || tensor == mlp->gain[i] ||
                 tensor == mlp->shift[i] || tensor == mlp->heads.output[i];
    }
    return is_own;
}

/* One warning: of several it is the last. "inner_dim" 0 means that of "emb_dim". */
static void compare(const struct cop_speculator *mlp, struct cop_error *err)
{
    const struct cop_heads *heads = &mlp->heads;
    const struct cop_checkpoint *files = &heads->files;
    const struct cop_json_node *root = cop_json_root(&files->tree);
    const struct cop_json_node *inner = cop_json_get(&files->tree, root, "inner_dim");
    const struct cop_json_node *tied = cop_json_get(&files->tree, root, "tie_weights");
    cop_checkpoint_compare(files, "vocab_size", heads->vocab, err);
    cop_checkpoint_compare(files, "emb_dim", heads->width, err);
    if (inner && !(inner->kind == COP_JSON_INTEGER && inner->integer == 0)) {
        cop_checkpoint_compare(files, "inner_dim", heads->inner, err);
    }
    if (tied && tied->kind == COP_JSON_FALSE && heads->n_heads > 1 && mlp->is_tied) {
        cop_warn(err,
                 "%s: \"tie_weights\" is false, but there are tensors of one head for all %d: "
                 "the tensors are used",
                 files->name, heads->n_heads);
    }
    cop_checkpoint_compare(files, "n_predict", heads->n_heads, err);
}

static enum cop_status find_all(struct cop_speculator *mlp, struct cop_error *err)
{
    struct cop_heads *heads = &mlp->heads;
    bool is_bare = !cop_heads_look(heads, "speculator.emb.0.weight") &&
                   cop_heads_look(heads, "emb.0.weight");
    const char *prefix = is_bare ? "" : "speculator.";
    enum cop_status status = read_sizes_of_first(mlp, prefix, err);
    if (status == COP_OK) {
        char stem[COP_HEADS_NAME_LIMIT];
        (void)snprintf(stem, sizeof stem, "%semb.", prefix);
        int32_t stored = cop_heads_count(heads, stem);
        mlp->is_tied = stored == 1;
        status = read_n_heads(heads, stored, err);
    }
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        status = find_head(mlp, prefix, i, err);
    }
    if (status == COP_OK) {
        status = cop_heads_refuse_strangers(heads, (const char *const[]){prefix, NULL}, owns,
                                            mlp, err);
    }
    if (status == COP_OK) {
        compare(mlp, err);
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
    (void)snprintf(name, sizeof name, "%shead.", prefix);
    enum cop_status status = read_n_heads(heads, cop_heads_count(heads, name), err);
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
    lstm->is_tied = true; /* unless more than the first gate has an embedding */
    for (int32_t g = 1; g < COP_SPECULATOR_GATES; g++) {
        (void)snprintf(stem, sizeof stem, "%s_emb", gates[g]);
        lstm->is_tied &= !look(lstm, prefix, stem, 0, name);
    }
    for (int32_t g = 0; g < COP_SPECULATOR_GATES && status == COP_OK; g++) {
        (void)snprintf(stem, sizeof stem, "%s_emb", gates[g]);
        lstm->gate_emb[g] = lstm->gate_emb[0];
        if (g == 0 || !lstm->is_tied) {
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
    bool has_one = !look(lstm, prefix, "head", heads->n_heads - 1, name);
    for (int32_t i = 0; i < heads->n_heads && status == COP_OK; i++) {
        heads->output[i] = heads->output[0];
        if (i == 0 || !has_one) {
            (void)look(lstm, prefix, "head", i, name);
            status =
                cop_heads_find(heads, name, heads->vocab, heads->inner, &heads->output[i], err);
        }
    }
    return status;
}

/* "cell_ln.2.weight" that holds what "cell_ln.0.weight" does: a list of one module, stored as
 * often as it is used. Of projections the second is repeated. */
static bool is_repeated(const struct cop_speculator *lstm, const struct cop_tensor *tensor)
{
    static const char digits[] = "0123456789";
    char name[COP_HEADS_NAME_LIMIT];
    (void)snprintf(name, sizeof name, "%.*s", (int)tensor->name.length, tensor->name.bytes);
    size_t at = strcspn(name, digits), n = strspn(name + at, digits);
    const char *first = strstr(name, "proj.") ? "1" : "0";
    const struct cop_tensor *one =
        cop_heads_look(&lstm->heads, "%.*s%s%s", (int)at, name, first, name + at + n);
    return n > 0 && one && one != tensor && one->format == tensor->format &&
           one->rank == tensor->rank && one->bytes == tensor->bytes &&
           memcmp(one->data, tensor->data, one->bytes) == 0;
}

static bool owns_of_lstm(const void *context, const struct cop_tensor *tensor)
{
    const struct cop_speculator *lstm = context;
    bool is_own = tensor == lstm->cell_gain || tensor == lstm->cell_shift ||
                  tensor == lstm->state_gain || tensor == lstm->state_shift;
    for (int32_t g = 0; g < COP_SPECULATOR_GATES; g++) {
        is_own |= tensor == lstm->gate_emb[g] || tensor == lstm->gate_proj[0][g] ||
                  tensor == lstm->gate_proj[1][g];
    }
    for (int32_t i = 0; i < lstm->heads.n_heads; i++) {
        is_own |= tensor == lstm->heads.output[i];
    }
    return is_own || is_repeated(lstm, tensor);
}

/* One warning: of several it is the last. */
static void compare_lstm(const struct cop_speculator *lstm, struct cop_error *err)
{
    const struct cop_checkpoint *files = &lstm->heads.files;
    const struct cop_json_node *tied =
        cop_json_get(&files->tree, cop_json_root(&files->tree), "tie_lstm_embs");
    cop_checkpoint_compare(files, "vocab_size", lstm->heads.vocab, err);
    cop_checkpoint_compare(files, "input_hidden_dim", lstm->heads.width, err);
    cop_checkpoint_compare(files, "inner_dim", lstm->heads.inner, err);
    if (tied && tied->kind == (lstm->is_tied ? COP_JSON_FALSE : COP_JSON_TRUE)) {
        cop_warn(err,
                 "%s: \"tie_lstm_embs\" is %s, but there are embeddings of %s: the tensors are "
                 "used",
                 files->name, lstm->is_tied ? "false" : "true",
                 lstm->is_tied ? "one gate only" : "all gates");
    }
    cop_checkpoint_compare(files, "n_predict", lstm->heads.n_heads, err);
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
    if (status == COP_OK) {
        status = find_gates(lstm, prefix, is_packed, err);
    }
    if (status == COP_OK) {
        status = find_others(lstm, prefix, err);
    }
    if (status == COP_OK) {
        status = cop_heads_refuse_strangers(heads, (const char *const[]){prefix, NULL},
                                            owns_of_lstm, lstm, err);
    }
    if (status == COP_OK) {
        compare_lstm(lstm, err);
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
