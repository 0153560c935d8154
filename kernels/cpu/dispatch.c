/* Chooses an instruction-set level by what the processor says it can do.
 *
 * The table runs upwards; each level contains the ones before it, so the best is the last that
 * the machine runs. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/level.h"

extern const struct cop_level cop_level_plain;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
#include <cpuid.h>

extern const struct cop_level cop_level_avx2, cop_level_avx512, cop_level_vnni;

/* Not every compiler's __builtin_cpu_supports knows it: leaf 1, ECX bit 29. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}

static bool has_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

#endif

static const struct {
    const struct cop_level *level;
    bool (*is_supported)(void);
} levels[] = {
    {&cop_level_plain, always},
#if defined(__x86_64__)
    {&cop_level_avx2, has_avx2},
    {&cop_level_avx512, has_avx512},
    {&cop_level_vnni, has_vnni},
#endif
};

#define N_LEVELS ((int32_t)(sizeof levels / sizeof levels[0]))

const struct cop_level *cop_level_at(int32_t index)
{
    if (index < 0 || index >= N_LEVELS || !levels[index].is_supported()) {
        return NULL;
    }
    return levels[index].level;
}

/* Remembered, for the primitives ask for every row and CPUID costs more than an arg max.
 * Threads that race store the same pointer. */
const struct cop_level *cop_level_best(void)
{
    static _Atomic(const struct cop_level *) known;
    const struct cop_level *level = atomic_load_explicit(&known, memory_order_acquire);
    if (level) {
        return level;
    }
    int32_t best = N_LEVELS - 1;
    while (!levels[best].is_supported()) {
        best--;
    }
    atomic_store_explicit(&known, levels[best].level, memory_order_release);
    return levels[best].level;
}

const struct cop_level *cop_level_find(const char *name)
{
    for (int32_t i = 0; i < N_LEVELS; i++) {
        if (strcmp(levels[i].level->name, name) == 0) {
            return cop_level_at(i);
        }
    }
    return NULL;
}
