/* A pool of threads that run one function together and meet again: fork and join.
 *
 * A product of a small model lasts microseconds, so starting it must cost well under one:
 * workers that wait for work first spin, then give up their time slice again and again, and
 * after about 100 microseconds without work sleep until they are woken. An idle pool uses no
 * processor time.
 *
 * One thread at a time may run a pool, the one that made it or another; the caller is rank 0.
 */
#ifndef COP_KERNELS_POOL_H
#define COP_KERNELS_POOL_H

#include <stdint.h>

struct cop_pool;

/* Called once per rank in [0, size), at the same time, or one rank after another on one thread:
 * ranks never wait for each other. */
typedef void cop_pool_function(void *arg, int32_t rank, int32_t size);

/* size >= 1 threads, the caller's included. NULL: no memory, or no more threads. */
struct cop_pool *cop_pool_new(int32_t size);
void cop_pool_free(struct cop_pool *pool); /* NULL does nothing */

int32_t cop_pool_size(const struct cop_pool *pool);

/* Runs function(arg, rank, size) for every rank; returns when all have returned. A thread that
 * does not come to its rank before the caller is done with its own leaves it to the caller.
 * What the caller wrote before is visible to all, what they wrote is visible to the caller
 * afterwards. */
void cop_pool_run(struct cop_pool *pool, cop_pool_function *function, void *arg);

#endif
