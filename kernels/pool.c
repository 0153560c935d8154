/* Fork and join over pthreads and C11 atomics.
 *
 * `epoch` counts the runs. Each rank but the caller's has a seat, whose state in run e is
 *
 *     2 e - 1  free (the run before is over)  ─►  2 e  taken  ─►  2 e + 1  done
 *
 * A worker that sees the epoch move takes its seat and runs. The caller, once its own part is
 * done, takes every seat that is still free: a worker that some other process keeps from its
 * processor holds up nobody, and finds its seat taken when it comes back. Sleeping uses a mutex
 * and a condition variable; a worker announces itself in `n_asleep` and then looks at `epoch`
 * again, the caller moves `epoch` and then looks at `n_asleep`: both sequentially consistent,
 * so one of the two notices the other. */
#include "kernels/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define LINE        64  /* bytes; what different threads write lies on different lines */
#define SPINS       400 /* pauses before the first yield: a few microseconds */
#define SLEEP_NANOS 100000

struct worker {
    _Alignas(LINE) atomic_uint seat;
    struct cop_pool *pool;
    int32_t rank;
    pthread_t thread;
};

struct cop_pool {
    _Alignas(LINE) atomic_uint epoch;
    cop_pool_function *function; /* written before epoch moves */
    void *arg;
    int32_t size;
    int first_cpu;          /* the maker's processor; -1: unknown */
    atomic_bool is_closing; /* a late worker may look while it is set */
    _Alignas(LINE) atomic_int n_asleep;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct worker *workers; /* [size - 1] */
    int32_t n_started;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One step of waiting; the caller of it counts. */
static inline void wait_step(int32_t *n_waited)
{
    if (++*n_waited < SPINS) {
        relax();
    } else {
        sched_yield();
    }
}

static int64_t now_nanos(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_until_moved(struct cop_pool *pool, unsigned seen)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->n_asleep, 1);
    while (atomic_load(&pool->epoch) == seen) {
        pthread_cond_wait(&pool->wake, &pool->mutex);
    }
    atomic_fetch_sub(&pool->n_asleep, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Returns the epoch after `seen`. */
static unsigned wait_for_work(struct cop_pool *pool, unsigned seen)
{
    int32_t n_waited = 0;
    int64_t deadline = 0;
    unsigned epoch;
    while ((epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire)) == seen) {
        wait_step(&n_waited);
        if (n_waited >= SPINS && n_waited % 16 == 0) {
            int64_t now = now_nanos();
            deadline = deadline ? deadline : now + SLEEP_NANOS;
            if (now >= deadline) {
                sleep_until_moved(pool, seen);
            }
        }
    }
    return epoch;
}

/* Puts the calling thread on the processor that lies `steps` behind `from` among those it may
 * use, and then lets it go again: threads that spin from the start give a scheduler little
 * reason to part them. Failure does no harm. */
static void start_apart(int from, int32_t steps)
{
#if defined(__linux__)
    cpu_set_t allowed, one;
    size_t cpu = (size_t)from;
    if (from < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        !CPU_ISSET(cpu, &allowed)) {
        return;
    }
    while (steps > 0) {
        cpu = (cpu + 1) % CPU_SETSIZE;
        steps -= CPU_ISSET(cpu, &allowed) ? 1 : 0;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setaffinity(0, sizeof allowed, &allowed);
#else
    (void)from;
    (void)steps;
#endif
}

static bool take_seat(struct worker *worker, unsigned epoch)
{
    unsigned free = 2 * epoch - 1;
    return atomic_load_explicit(&worker->seat, memory_order_relaxed) == free &&
           atomic_compare_exchange_strong_explicit(&worker->seat, &free, 2 * epoch,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void run_seat(struct worker *worker, unsigned epoch)
{
    struct cop_pool *pool = worker->pool;
    pool->function(pool->arg, worker->rank, pool->size);
    atomic_store_explicit(&worker->seat, 2 * epoch + 1, memory_order_release);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct cop_pool *pool = worker->pool;
    start_apart(pool->first_cpu, worker->rank);
    unsigned epoch = 0;
    for (;;) {
        epoch = wait_for_work(pool, epoch);
        if (atomic_load_explicit(&pool->is_closing, memory_order_relaxed)) {
            return NULL;
        }
        if (take_seat(worker, epoch)) {
            run_seat(worker, epoch);
        }
    }
}

/* Returns the new epoch. */
static unsigned start_run(struct cop_pool *pool)
{
    unsigned epoch = atomic_fetch_add(&pool->epoch, 1) + 1;
    if (atomic_load(&pool->n_asleep) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
    return epoch;
}

struct cop_pool *cop_pool_new(int32_t size)
{
    size_t bytes = (sizeof(struct cop_pool) + LINE - 1) / LINE * LINE;
    struct cop_pool *pool = size < 1 ? NULL : aligned_alloc(LINE, bytes);
    if (!pool) {
        return NULL;
    }
    *pool = (struct cop_pool){.size = size, .first_cpu = -1};
#if defined(__linux__)
    pool->first_cpu = sched_getcpu();
#endif
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = aligned_alloc(LINE, (size_t)size * sizeof *pool->workers);
    bool is_complete = pool->workers != NULL;
    for (int32_t i = 0; is_complete && i < size - 1; i++) {
        struct worker *worker = &pool->workers[i];
        *worker = (struct worker){.seat = 1, .pool = pool, .rank = i + 1};
        is_complete = pthread_create(&worker->thread, NULL, work, worker) == 0;
        pool->n_started += is_complete;
    }
    if (!is_complete) {
        cop_pool_free(pool);
        return NULL;
    }
    return pool;
}

void cop_pool_free(struct cop_pool *pool)
{
    if (!pool) {
        return;
    }
    atomic_store_explicit(&pool->is_closing, true, memory_order_relaxed);
    start_run(pool);
    for (int32_t i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->workers);
    free(pool);
}

int32_t cop_pool_size(const struct cop_pool *pool)
{
    return pool->size;
}

void cop_pool_run(struct cop_pool *pool, cop_pool_function *function, void *arg)
{
    if (pool->size == 1) {
        function(arg, 0, 1);
        return;
    }
    pool->function = function;
    pool->arg = arg;
    unsigned epoch = start_run(pool);
    function(arg, 0, pool->size);
    for (int32_t i = 0; i < pool->size - 1; i++) {
        if (take_seat(&pool->workers[i], epoch)) {
            run_seat(&pool->workers[i], epoch);
        }
    }
    for (int32_t i = 0, n_waited = 0; i < pool->size - 1; i++) {
        const atomic_uint *seat = &pool->workers[i].seat;
        while (atomic_load_explicit(seat, memory_order_acquire) != 2 * epoch + 1) {
            wait_step(&n_waited);
        }
    }
}
