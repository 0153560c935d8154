/* The thread pool: every rank runs once per run, barriers hold, sleepers wake. */
#include <criterion/criterion.h>

#include <stdatomic.h>
#include <time.h>

#include "kernels/pool.h"

enum { MAX_SIZE = 5 };

struct counts {
    int32_t
        of_rank[MAX_SIZE]; /* each written by its rank alone: the pool orders the accesses */
    int32_t size;
};

static void count(void *arg, int32_t rank, int32_t size)
{
    struct counts *counts = arg;
    counts->of_rank[rank]++;
    if (rank == 0) {
        counts->size = size;
    }
}

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

Test(pool, every_rank_runs_once_per_run)
{
    for (int32_t size = 1; size <= MAX_SIZE; size++) {
        struct cop_pool *pool = cop_pool_new(size);
        cr_assert_not_null(pool);
        cr_expect_eq(cop_pool_size(pool), size);
        struct counts counts = {0};
        for (int run = 1; run <= 2000; run++) {
            cop_pool_run(pool, count, &counts);
            for (int32_t rank = 0; rank < size; rank++) {
                cr_assert_eq(counts.of_rank[rank], run, "rank %d of %d in run %d", rank, size,
                             run);
            }
        }
        cr_expect_eq(counts.size, size);
        cop_pool_free(pool);
    }
}

struct relay {
    struct cop_pool *pool;
    int32_t values[2][MAX_SIZE];
    atomic_int n_wrong;
};

/* Between barriers, each rank adds up what the others wrote before. */
static void pass_on(void *arg, int32_t rank, int32_t size)
{
    struct relay *relay = arg;
    for (int step = 0; step < 200; step++) {
        const int32_t *from = relay->values[step % 2];
        int32_t sum = 0;
        for (int32_t i = 0; i < size; i++) {
            sum += from[i];
        }
        if (sum != step * size) {
            atomic_fetch_add(&relay->n_wrong, 1);
        }
        relay->values[(step + 1) % 2][rank] = step + 1;
        cop_pool_barrier(relay->pool);
    }
}

Test(pool, barriers_let_everyone_see_what_was_written)
{
    for (int32_t size = 1; size <= MAX_SIZE; size++) {
        struct cop_pool *pool = cop_pool_new(size);
        for (int run = 0; run < 20; run++) {
            struct relay relay = {.pool = pool};
            cop_pool_run(pool, pass_on, &relay);
            cr_expect_eq(atomic_load(&relay.n_wrong), 0);
        }
        cop_pool_free(pool);
    }
}

Test(pool, sleepers_wake_and_an_idle_pool_uses_no_time)
{
    struct cop_pool *pool = cop_pool_new(3);
    struct counts counts = {0};
    for (int run = 1; run <= 5; run++) {
        cop_pool_run(pool, count, &counts);
        pause_ms(3);
        cr_expect_eq(counts.of_rank[2], run);
    }
    pause_ms(10);
    clock_t before = clock(); /* processor time of the whole process */
    pause_ms(200);
    double busy = (double)(clock() - before) / CLOCKS_PER_SEC;
    cr_expect_lt(busy, 0.05, "%g s of processor time in 0.2 s of rest", busy);
    cop_pool_free(pool);
}

Test(pool, opens_and_closes_without_work)
{
    for (int i = 0; i < 50; i++) {
        cop_pool_free(cop_pool_new(1 + i % MAX_SIZE));
    }
    cop_pool_free(NULL);
    cr_expect_null(cop_pool_new(0));
}
