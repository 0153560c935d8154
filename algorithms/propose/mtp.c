/* Multi-token prediction: the modules that a model was trained with draft behind it, one token
 * each, the last one as many as are asked for (algorithms/heads/carried/mtp.h). */
#include "algorithms/heads/carried/mtp.h"
#include "algorithms/heads/weights.h"

#include <stdlib.h>
#include <string.h>

enum { HIDDEN_NORMED, HIDDEN_RAW };

struct settings {
    char *path;
    int32_t depth, hidden, weights;
    struct cop_draft_law law;
    struct cop_vocabulary_option vocabulary;
    int32_t n_modules; /* what the files hold, known once prepared */
};

static const struct cop_option options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct settings, path),
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help = "the folder with config.json and the modules' tensors, or the GGUF file: the "
             "target's own will do"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct settings, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .flags = COP_OPTION_ABSENT,
     .help = "length of the chain when no tree is given; absent: a token for each module"},
    {.name = "hidden",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct settings, hidden),
     .fallback = HIDDEN_NORMED,
     .choices = "normed|raw",
     .help = "the target's states that the first module reads: behind its final norm, or "
             "before it"},
    COP_HEAD_WEIGHTS_OPTION(struct settings, weights),
    COP_SUBSET_OPTION(struct settings, vocabulary),
    COP_DRAFT_LAW_OPTIONS(struct settings, law),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct settings *settings = state;
    struct cop_mtp mtp;
    enum cop_status status = cop_mtp_open(&mtp, settings->path, err);
    settings->n_modules = mtp.n_modules;
    cop_mtp_close(&mtp);
    return status;
}

static int32_t own_depth(const void *state)
{
    const struct settings *settings = state;
    return settings->depth > 0 ? settings->depth : settings->n_modules;
}

static int32_t hidden_layers(const void *state, const struct cop_model_info *target,
                             int32_t *layers)
{
    const struct settings *settings = state;
    layers[0] = settings->hidden == HIDDEN_RAW ? target->layers : COP_HIDDEN_NORMED;
    return 1;
}

/* ---- What a session runs ------------------------------------------------------------------
 */

static void close_net(void *net)
{
    cop_mtp_close(net);
    free(net);
}

static const struct cop_block *block_of(const void *net, int32_t stage)
{
    return ((const struct cop_mtp *)net)->modules[stage].block;
}

static enum cop_status fuse(void *net, const float *states, int32_t n, float *x,
                            struct cop_error *err)
{
    (void)err;
    memcpy(x, states, (size_t)n * (size_t)((const struct cop_mtp *)net)->width * sizeof *x);
    return COP_OK;
}

static enum cop_status step(void *net, int32_t stage, struct cop_cache *cache,
                            const struct cop_pair_rows *rows, struct cop_error *err)
{
    return cop_mtp_step(net, stage, cache, rows, err);
}

static enum cop_status logits_of(void *net, int32_t stage, float *y, int32_t n, float *logits,
                                 struct cop_error *err)
{
    return cop_mtp_logits(net, stage, y, n, logits, err);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **session, struct cop_error *err)
{
    const struct settings *settings = state;
    struct cop_mtp *mtp = calloc(1, sizeof *mtp);
    if (!mtp) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for MTP modules");
    }
    enum cop_status status = cop_mtp_open(mtp, settings->path, err);
    if (status == COP_OK) {
        mtp->files.weights = (enum cop_head_weights)settings->weights;
        status = cop_mtp_load(mtp, env->target, &settings->vocabulary, err);
    }
    if (status != COP_OK) {
        close_net(mtp);
        return status;
    }
    const struct cop_carry carry = {.of = "MTP modules",
                                    .n_stages = mtp->n_modules,
                                    .width = mtp->width,
                                    .n_layers = 1,
                                    .ids = mtp->drafted.ids,
                                    .n_ids = mtp->drafted.ids ? mtp->drafted.n_ids : 0,
                                    .net = mtp,
                                    .close = close_net,
                                    .block = block_of,
                                    .fuse = fuse,
                                    .step = step,
                                    .logits = logits_of};
    return cop_carry_open(&carry, &settings->law, env, session, err);
}

const struct cop_proposer_ops cop_propose_mtp = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "mtp",
             .help =
                 "the modules of multi-token prediction that a model was trained with: each "
                 "joins the states before it and a token, head(norm(layer(W [norm E(t); "
                 "norm h]))); the last one goes on alone",
             .source = "DeepSeek-AI 2024, arXiv:2412.19437; Gloeckle et al. 2024, "
                       "arXiv:2404.19737",
             .synonyms = "multi-token prediction, NextN, FastMTP",
             .state_size = sizeof(struct settings),
             .options = options,
             .prepare = prepare},
    COP_CARRY_SLOTS,
    .hidden_layers = hidden_layers,
    .own_depth = own_depth,
    .open = open_session,
};
