/* EAGLE: a small layer carries the target's hidden states on (algorithms/heads/carried/eagle.h;
 * how its session keeps to true states: algorithms/heads/carried/carry.h). */
#include "algorithms/heads/carried/eagle.h"
#include "algorithms/heads/carried/carry.h"
#include "algorithms/heads/weights.h"

#include <stdlib.h>

struct settings {
    char *path;
    int32_t depth, weights;
    struct cop_draft_law law;
    struct cop_vocabulary_option vocabulary;
    struct cop_eagle *eagle; /* what the folder holds, for questions about it */
};

static const struct cop_option options[] = {
    {.name = "path",
     .type = COP_OPTION_STRING,
     .offset = offsetof(struct settings, path),
     .flags = COP_OPTION_REQUIRED | COP_OPTION_POSITIONAL,
     .help =
         "of the checkpoint's folder: config.json beside safetensors or a PyTorch file; or of "
         "llama.cpp's GGUF file of an EAGLE-3 head"},
    {.name = "depth",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct settings, depth),
     .min = 1,
     .max = COP_TREE_LIMIT - 1,
     .fallback = 5,
     .help = "length of the chain when no tree is given"},
    COP_HEAD_WEIGHTS_OPTION(struct settings, weights),
    COP_SUBSET_OPTION(struct settings, vocabulary),
    COP_DRAFT_LAW_OPTIONS(struct settings, law),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    struct settings *settings = state;
    settings->eagle = calloc(1, sizeof *settings->eagle);
    enum cop_status status = settings->eagle
                                 ? cop_eagle_open(settings->eagle, settings->path, err)
                                 : cop_fail(err, COP_ERR_MEMORY, "no memory for an EAGLE head");
    if (status == COP_OK && settings->eagle->mask_token >= 0) {
        status = cop_fail(err, COP_ERR_ARGUMENT,
                          "%s: a P-EAGLE head drafts all positions in one pass; write "
                          "cop.propose.parallel { path = … }",
                          settings->eagle->files.name);
        cop_eagle_close(settings->eagle);
    }
    if (status != COP_OK) {
        free(settings->eagle);
        settings->eagle = NULL;
    }
    return status;
}

static void release(void *state)
{
    struct settings *settings = state;
    cop_eagle_close(settings->eagle);
    free(settings->eagle);
    settings->eagle = NULL;
}

static int32_t own_depth(const void *state)
{
    return ((const struct settings *)state)->depth;
}

static int32_t hidden_layers(const void *state, const struct cop_model_info *target,
                             int32_t *layers)
{
    return cop_eagle_taps(((const struct settings *)state)->eagle, target, layers);
}

/* ---- What a session runs ------------------------------------------------------------------
 */

static void close_net(void *net)
{
    cop_eagle_close(net);
    free(net);
}

static const struct cop_block *block_of(const void *net, int32_t stage)
{
    (void)stage;
    return ((const struct cop_eagle *)net)->block;
}

static enum cop_status fuse(void *net, const float *states, int32_t n, float *x,
                            struct cop_error *err)
{
    return cop_eagle_fuse(net, states, n, x, err);
}

static enum cop_status step(void *net, int32_t stage, struct cop_cache *cache,
                            const struct cop_pair_rows *rows, struct cop_error *err)
{
    (void)stage;
    return cop_eagle_step(net, cache, rows, err);
}

static enum cop_status logits_of(void *net, int32_t stage, float *y, int32_t n, float *logits,
                                 struct cop_error *err)
{
    (void)stage;
    return cop_eagle_logits(net, y, n, logits, err);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **session, struct cop_error *err)
{
    const struct settings *settings = state;
    struct cop_eagle *eagle = calloc(1, sizeof *eagle);
    if (!eagle) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for an EAGLE head");
    }
    enum cop_status status = cop_eagle_open(eagle, settings->path, err);
    if (status == COP_OK) {
        eagle->files.weights = (enum cop_head_weights)settings->weights;
        status = cop_eagle_load(eagle, env->target, &settings->vocabulary, err);
    }
    if (status != COP_OK) {
        close_net(eagle);
        return status;
    }
    int32_t taps[COP_EAGLE_TAPS];
    const struct cop_carry carry = {
        .of = "an EAGLE head",
        .n_stages = 1,
        .width = eagle->width,
        .n_layers = cop_eagle_taps(eagle, cop_model_info(env->target), taps),
        .ids = eagle->drafted.ids,
        .n_ids = eagle->drafted.ids ? eagle->drafted.n_ids : 0,
        .net = eagle,
        .close = close_net,
        .block = block_of,
        .fuse = fuse,
        .step = step,
        .logits = logits_of};
    return cop_carry_open(&carry, &settings->law, env, session, err);
}

const struct cop_proposer_ops cop_propose_eagle = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "eagle",
             .help =
                 "one trained layer carries the target's hidden states on (EAGLE-1, 2, 3 by "
                 "checkpoint), one pass of it a level",
             .source = "Li, Wei, Zhang, Zhang 2024, arXiv:2401.15077, 2406.16858; 2025, "
                       "2503.01840",
             .synonyms = "EAGLE head, feature autoregression, HASS",
             .state_size = sizeof(struct settings),
             .options = options,
             .prepare = prepare,
             .release = release},
    COP_CARRY_SLOTS,
    .hidden_layers = hidden_layers,
    .own_depth = own_depth,
    .open = open_session,
};
