/* The thread pool: every rank runs once per run, the caller does what others leave, sleepers
 * wake; and shares: every item is taken once. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "kernels/cpu/product/share.h"
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
    int32_t values[MAX_SIZE], next[MAX_SIZE];
    atomic_int n_wrong;
};

/* Adds up what all ranks wrote in the run before. */
static void pass_on(void *arg, int32_t rank, int32_t size)
{
    struct relay *relay = arg;
    int32_t sum = 0;
    for (int32_t i = 0; i < size; i++) {
        sum += relay->values[i];
    }
    if (sum != size * relay->values[0]) {
        atomic_fetch_add(&relay->n_wrong, 1);
    }
    relay->next[rank] = relay->values[rank] + 1;
}

Test(pool, a_run_sees_what_every_rank_wrote_before)
{
    for (int32_t size = 1; size <= MAX_SIZE; size++) {
        struct cop_pool *pool = cop_pool_new(size);
        struct relay relay = {{0}, {0}, 0};
        for (int run = 1; run <= 2000; run++) {
            cop_pool_run(pool, pass_on, &relay);
            for (int32_t rank = 0; rank < size; rank++) {
                cr_assert_eq(relay.next[rank], run);
                relay.values[rank] = relay.next[rank];
            }
        }
        cr_expect_eq(atomic_load(&relay.n_wrong), 0);
        cop_pool_free(pool);
    }
}

static void note_thread(void *arg, int32_t rank, int32_t size)
{
    (void)size;
    ((pthread_t *)arg)[rank] = pthread_self();
}

/* A sleeper needs far longer to wake than the caller to find its seat free. */
Test(pool, the_caller_runs_the_rank_of_a_thread_that_is_late)
{
    struct cop_pool *pool = cop_pool_new(2);
    pthread_t threads[2];
    bool was_late = false, was_on_time = false;
    for (int run = 0; run < 1000 && !(was_late && was_on_time); run++) {
        if (run % 2 == 0) {
            pause_ms(3);
        }
        cop_pool_run(pool, note_thread, threads);
        cr_assert(pthread_equal(threads[0], pthread_self()));
        bool is_late = pthread_equal(threads[1], pthread_self());
        was_late |= is_late;
        was_on_time |= !is_late;
    }
    cr_expect(was_late);
    cop_pool_free(pool);
}

enum { N_ITEMS = 1000 };

struct taking {
    struct cop_share shares[MAX_SIZE];
    atomic_int times[N_ITEMS];
};

static void take_items(void *arg, int32_t rank, int32_t size)
{
    struct taking *taking = arg;
    int32_t first, end;
    while (cop_share_take(taking->shares, rank, size, 2, 7, &first, &end)) {
        cr_assert_lt(first, end);
        for (; first < end; first++) {
            atomic_fetch_add(&taking->times[first], 1);
        }
    }
}

Test(share, every_item_is_taken_once)
{
    struct cop_pool *pool = cop_pool_new(MAX_SIZE);
    static struct taking taking;
    for (int run = 1; run <= 200; run++) {
        for (int32_t rank = 0, first = 0; rank < MAX_SIZE; rank++) { /* unequal: 0, 100, … */
            cop_share_deal(&taking.shares[rank], first, first + 100 * rank);
            first += 100 * rank;
        }
        cop_pool_run(pool, take_items, &taking);
        for (int32_t i = 0; i < N_ITEMS; i++) {
            cr_assert_eq(atomic_load(&taking.times[i]), run, "item %d in run %d", i, run);
        }
    }
    cop_pool_free(pool);
}

Test(share, half_of_a_stretch_within_the_limits_own_from_the_front_others_from_the_end)
{
    struct cop_share shares[2];
    static const int32_t expected[][3] = {/* rank, first, end */
                                          {0, 0, 8},
                                          {0, 8, 14},
                                          {1, 17, 20},
                                          {1, 15, 17},
                                          {0, 14, 15}};
    cop_share_deal(&shares[0], 0, 20);
    cop_share_deal(&shares[1], 20, 20);
    int32_t first, end;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        cr_assert(cop_share_take(shares, expected[i][0], 2, 2, 8, &first, &end));
        cr_expect_eq(first, expected[i][1], "take %zu: first %d", i, first);
        cr_expect_eq(end, expected[i][2], "take %zu: end %d", i, end);
    }
    cr_expect_not(cop_share_take(shares, 0, 2, 2, 8, &first, &end));
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
