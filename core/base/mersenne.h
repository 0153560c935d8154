/* MT19937 (Matsumoto and Nishimura 1998) as Python's `random` module seeds and asks it, so that
 * the sample and the coins of a study that ran in Python can be drawn again. Nothing of ours
 * draws from it: its numbers depend on when they are asked for (see philox.h for the other
 * kind).
 *
 *     random.seed(42): random() -> 0.6394267984578837, then 0.025010755222666936
 */
#ifndef COP_BASE_MERSENNE_H
#define COP_BASE_MERSENNE_H

#include <stdint.h>

#define COP_MERSENNE_WORDS 624

struct cop_mersenne {
    uint32_t words[COP_MERSENNE_WORDS];
    int at; /* next word; COP_MERSENNE_WORDS: none is left */
};

void cop_mersenne_seed(struct cop_mersenne *source, uint32_t seed); /* random.seed(seed) */
double cop_mersenne_uniform(struct cop_mersenne *source);           /* random.random() */
/* random.sample(range(n), count) into out[count], count <= n; pool[n] is scratch. */
void cop_mersenne_sample(struct cop_mersenne *source, uint32_t n, uint32_t count, uint32_t *out,
                         uint32_t *pool);

#endif
