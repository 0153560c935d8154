/* The controls of tests/algorithms/controls.h as a plug-in. */
#include "tests/algorithms/controls.h"

extern const struct cop_plugin coppice_plugin;
const struct cop_plugin coppice_plugin = {
    .abi = COP_PLUG_ABI, .name = "controls", .plugs = control_plugs};
