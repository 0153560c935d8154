/* A plug-in as a user would write it: a rule that never accepts a drafted token, and so is
 * lossless for every draw and shape. */
#include "core/cycle/contract/rule.h"

struct never {
    int32_t seed; /* does nothing: an option to set */
};

static const struct cop_option options[] = {{.name = "seed",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct never, seed),
                                             .max = 100,
                                             .help = "does nothing"},
                                            {0}};

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    const struct cop_row *target = cop_rows_at(&in->target, 0);
    if (!target) {
        return cop_fail(err, COP_ERR_ARGUMENT, "no target row at the root");
    }
    struct cop_weights weights = cop_row_weights(target);
    out->n_accepted = 0;
    out->last = cop_pick(in->draws, cop_purpose("never"), in->tree->key[0], &weights);
    out->origin = in->tree->size > 1 ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    return COP_OK;
}

static const struct cop_claim claims[] = {{.draw = COP_DRAW_COUNT, .shape = COP_SHAPE_TREE},
                                          {.draw = COP_DRAW_AUTO}};

static const struct cop_rule_ops never = {.plug = {.abi = COP_PLUG_ABI,
                                                   .kind = COP_PLUG_RULE,
                                                   .name = "never",
                                                   .help = "accepts nothing",
                                                   .source = "tests",
                                                   .state_size = sizeof(struct never),
                                                   .options = options},
                                          .lossless_for = claims,
                                          .verify = verify};

static const struct cop_plug *const plugs[] = {&never.plug, NULL};
extern const struct cop_plugin coppice_plugin;
const struct cop_plugin coppice_plugin = {
    .abi = COP_PLUG_ABI, .name = "example", .plugs = plugs};
