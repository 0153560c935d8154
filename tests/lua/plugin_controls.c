/* The controls of tests/algorithms/accept/controls.h as a plug-in. */
#include "tests/algorithms/accept/controls.h"

extern const struct cop_plugin coppice_plugin;
const struct cop_plugin coppice_plugin = {
    .abi = COP_PLUG_ABI, .name = "controls", .plugs = control_plugs};
