/* Plug-ins that must be refused: built with -DWRONG=1 for another version of the contracts, 2
 * with a table that lacks its function after a good one, 3 without the symbol. */
#include "core/cycle/contract/rule.h"

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)in;
    (void)out;
    return cop_fail(err, COP_ERR_UNSUPPORTED, "never called");
}

static const struct cop_claim claims[] = {{.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops good = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "good"},
    .lossless_for = claims,
    .verify = verify};
static const struct cop_rule_ops bad = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "bad"},
    .lossless_for = claims};
static const struct cop_plug *const plugs[] = {&good.plug, &bad.plug, NULL};

#if WRONG == 3
#define coppice_plugin another_name
#endif
extern const struct cop_plugin coppice_plugin;
const struct cop_plugin coppice_plugin = {
    .abi = COP_PLUG_ABI + (WRONG == 1 ? 1000u : 0u), .name = "wrong", .plugs = plugs};
