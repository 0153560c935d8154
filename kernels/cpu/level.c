/* One instruction-set level of the CPU kernels: compiled once per level, with
 * -DCOP_LEVEL=<level>. */
#include "kernels/cpu/level.h"

#include "kernels/cpu/vocabulary.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

#if defined(__AVX512VNNI__)
#define LEVEL_NAME "avx512-vnni"
#elif defined(__AVX512BW__)
#define LEVEL_NAME "avx512"
#elif defined(__AVX2__)
#define LEVEL_NAME "avx2"
#else
#define LEVEL_NAME "plain"
#endif

extern const struct cop_level PASTE(cop_level_, COP_LEVEL);
const struct cop_level PASTE(cop_level_, COP_LEVEL) = {
    .name = LEVEL_NAME,
    .exp_block = exp_block,
    .argmax = argmax,
};
