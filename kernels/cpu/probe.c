/* What the machine offers: read bandwidth and int8 throughput, measured. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cpu/level.h"
#include "kernels/ops.h"
#include "kernels/pool.h"

#define READ_BYTES  ((size_t)1 << 30)
#define PEAK_ROUNDS 20000
#define PEAK_TRIES  20

const char *cop_cpu_best_level(void)
{
    return cop_level_best()->name;
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct probe {
    const struct cop_level *level;
    uint8_t *memory;
    uint64_t *results; /* [threads], so that the work is not optimised away */
};

/* This thread's stretch of the memory, in whole pages. */
static size_t stretch_start(int32_t rank, int32_t size)
{
    return READ_BYTES / 4096 * (size_t)rank / (size_t)size * 4096;
}

static void fill_stretch(void *arg, int32_t rank, int32_t size)
{
    const struct probe *probe = arg;
    size_t from = stretch_start(rank, size), end = stretch_start(rank + 1, size);
    memset(probe->memory + from, rank + 1, end - from);
}

static void read_stretch(void *arg, int32_t rank, int32_t size)
{
    const struct probe *probe = arg;
    size_t from = stretch_start(rank, size), end = stretch_start(rank + 1, size);
    probe->results[rank] += probe->level->read(probe->memory + from, end - from);
}

static void multiply(void *arg, int32_t rank, int32_t size)
{
    const struct probe *probe = arg;
    int32_t sink = 0;
    (void)size;
    probe->results[rank] = (uint64_t)probe->level->int8_peak(PEAK_ROUNDS, &sink);
    if (sink == 1) { /* as good as never, but the compiler cannot know */
        probe->results[rank]++;
    }
}

/* Shortest of `tries` runs on all threads, in seconds. */
static double shortest(struct cop_pool *pool, cop_pool_function *run, struct probe *probe,
                       int32_t tries)
{
    double best = 0.0;
    for (int32_t i = 0; i < tries; i++) {
        double start = now_seconds();
        cop_pool_run(pool, run, probe);
        double seconds = now_seconds() - start;
        best = i == 0 || seconds < best ? seconds : best;
    }
    return best;
}

double cop_cpu_read_bandwidth(int32_t threads, int32_t tries)
{
    struct cop_pool *pool = cop_pool_new(threads);
    struct probe probe = {.level = cop_level_best(),
                          .memory = aligned_alloc(4096, READ_BYTES),
                          .results = calloc((size_t)threads, sizeof(uint64_t))};
    double bandwidth = 0.0;
    if (pool && probe.memory && probe.results) {
        cop_pool_run(pool, fill_stretch, &probe);
        bandwidth = (double)READ_BYTES / shortest(pool, read_stretch, &probe, tries);
    }
    cop_pool_free(pool);
    free(probe.memory);
    free(probe.results);
    return bandwidth;
}

double cop_cpu_int8_peak(int32_t threads)
{
    struct cop_pool *pool = cop_pool_new(threads);
    struct probe probe = {.level = cop_level_best(),
                          .results = calloc((size_t)threads, sizeof(uint64_t))};
    double peak = 0.0;
    if (pool && probe.results) {
        double seconds = shortest(pool, multiply, &probe, PEAK_TRIES);
        for (int32_t rank = 0; rank < threads; rank++) {
            peak += (double)probe.results[rank] / seconds;
        }
    }
    cop_pool_free(pool);
    free(probe.results);
    return peak;
}
