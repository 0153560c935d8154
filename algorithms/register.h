/* The register of published ideas: the only list of what exists. A new algorithm is one file
 * and one line in register.c. */
#ifndef COP_ALGORITHMS_REGISTER_H
#define COP_ALGORITHMS_REGISTER_H

#include "core/cycle/contract/plug.h"

/* Adds all of them. COP_ERR_ARGUMENT: a name is taken already; what came before it is there. */
enum cop_status cop_register_all(struct cop_registry *registry, struct cop_error *err);

#endif
