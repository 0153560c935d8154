/* The shared exponentials in the widest vectors of a level (private to level.c). */
#ifndef COP_CPU_LANES_H
#define COP_CPU_LANES_H

#include "kernels/cpu/vec.h"

#define COP_EXP_LANES_F64 (LANES / 2)
#define COP_EXP_LANES_F32 LANES
#include "kernels/exp_lanes.h"

#endif
