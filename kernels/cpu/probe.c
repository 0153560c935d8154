/* What the machine offers. */
#include "kernels/cpu/level.h"
#include "kernels/ops.h"

const char *cop_cpu_best_level(void)
{
    return cop_level_best()->name;
}

double cop_cpu_read_bandwidth(int32_t threads, int32_t tries)
{
    (void)threads;
    (void)tries;
    return 0;
}

double cop_cpu_int8_peak(int32_t threads)
{
    (void)threads;
    return 0;
}
