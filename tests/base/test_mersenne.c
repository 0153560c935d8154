/* Numbers of Python 3's random module. */
#include "core/base/mersenne.h"

#include <criterion/criterion.h>

static struct cop_mersenne seeded(uint32_t seed)
{
    struct cop_mersenne source = {0};
    cop_mersenne_seed(&source, seed);
    return source;
}

Test(mersenne, uniforms_are_those_of_python)
{
    struct cop_mersenne source = seeded(42);
    cr_expect_eq(cop_mersenne_uniform(&source), 0.6394267984578837);
    cr_expect_eq(cop_mersenne_uniform(&source), 0.025010755222666936);
}

static void check_sample(struct cop_mersenne *source, uint32_t n, uint32_t count,
                         const uint32_t *first, int n_first, double after)
{
    static uint32_t out[300], pool[5000];
    cop_mersenne_sample(source, n, count, out, pool);
    for (int i = 0; i < n_first; i++) {
        cr_expect_eq(out[i], first[i], "entry %d", i);
    }
    cr_expect_eq(cop_mersenne_uniform(source), after);
}

/* random.seed(42); random.sample(range(500), 300) and so on, and what random() says next. */
Test(mersenne, samples_are_those_of_python)
{
    struct cop_mersenne source = seeded(42);
    check_sample(&source, 500, 300, (const uint32_t[]){327, 57, 12, 379, 140, 125, 114, 71}, 8,
                 0.9689962572847513);
    source = seeded(42);
    check_sample(&source, 5000, 10,
                 (const uint32_t[]){912, 204, 2253, 2006, 1828, 1143, 839, 4467, 712, 4837}, 10,
                 0.4219218196852704);
    source = seeded(7);
    check_sample(&source, 20, 3, (const uint32_t[]){10, 4, 12}, 3, 0.6509344730398537);
}
