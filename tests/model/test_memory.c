/* Memory that runs out at the first, second, third … allocation: opening, making a cache and
 * scoring fail with a message, leave nothing behind, and work once there is memory again.
 *
 * The allocation functions of this program are its own: they count and can be told to fail.
 * Sanitizers bring theirs, so there the tests are not built. */
#include "core/model/model.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&  \
    defined(__GLIBC__)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static bool is_counting;
static long n_calls, n_live, fail_at; /* fail_at 0: never */

static bool fails(void)
{
    if (!is_counting) {
        return false;
    }
    n_calls++;
    if (n_calls == fail_at) {
        errno = ENOMEM;
        return true;
    }
    n_live++;
    return false;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    if (fails()) {
        return NULL;
    }
    n_live -= is_counting && memory;
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = aligned_alloc(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void free(void *memory)
{
    n_live -= is_counting && memory;
    __libc_free(memory);
}

static void count_from(long failing_call)
{
    n_calls = 0;
    n_live = 0;
    fail_at = failing_call;
    is_counting = true;
}

Test(memory, opening_survives_every_failure, .timeout = 300)
{
    struct gguf_writer *file = tiny_model_new(
        &(struct tiny_model){.has_tokenizer = true, .has_biases = true, .has_output = true});
    const struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    long n_total = 1;
    for (long at = 0; at <= n_total; at++) {
        memset(&err, 0, sizeof err);
        count_from(at);
        enum cop_status status = cop_model_open(&model, &options, &err);
        is_counting = false;
        if (at == 0) {
            cr_assert_eq(status, COP_OK, "%s", err.text);
            n_total = n_calls;
        }
        if (status != COP_OK) {
            cr_expect_null(model);
            cr_expect(status == COP_ERR_MEMORY || strstr(err.text, "memory"),
                      "allocation %ld of %ld: status %d, %s", at, n_total, status, err.text);
            cr_expect_eq(n_live, 0, "allocation %ld of %ld: %ld left behind", at, n_total,
                         n_live);
        }
        is_counting = true;
        cop_model_free(model);
        is_counting = false;
        cr_expect_eq(n_live, 0, "allocation %ld of %ld: %ld left at the end", at, n_total,
                     n_live);
    }
    cr_expect(n_total > 40, "%ld", n_total);
    gguf_writer_free(file);
}

Test(memory, scoring_survives_every_failure, .timeout = 300)
{
    enum { N = 30, VOCAB = 61 };
    struct gguf_writer *file = tiny_model_new(&(struct tiny_model){.seed = 4});
    const struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    int32_t tokens[N], parents[N];
    float expected[N * VOCAB], logits[N * VOCAB];
    struct cop_error err = {0};
    for (int32_t i = 0; i < N; i++) {
        tokens[i] = (int32_t)(tiny_bits(1, (uint64_t)i) % VOCAB);
        parents[i] = (int32_t)(tiny_bits(2, (uint64_t)i) % (uint64_t)(i + 1)) - 1;
    }
    struct cop_score score = {.n = N, .tokens = tokens, .parents = parents, .logits = expected};
    long n_total = 1;
    for (long at = 0; at <= n_total; at++) {
        struct cop_model *model = NULL;
        struct cop_cache *cache = NULL;
        cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
        count_from(at);
        enum cop_status status = cop_model_cache_new(model, 1, N, &cache, &err);
        if (status == COP_OK) {
            status = cop_model_score(model, cache, &score, &err);
        }
        is_counting = false;
        n_total = at == 0 ? n_calls : n_total;
        if (status != COP_OK) {
            cr_expect_eq(status, COP_ERR_MEMORY, "allocation %ld: %s", at, err.text);
        }
        if (status != COP_OK && cache) {
            cr_expect_eq(cop_cache_check(cache, &err), COP_OK, "%s", err.text);
            cr_expect_eq(cop_cache_speculative(cache, 0), 0, "allocation %ld", at);
            score.logits = logits;
            cr_expect_eq(cop_model_score(model, cache, &score, &err), COP_OK, "%s", err.text);
            cr_expect_eq(memcmp(logits, expected, sizeof logits), 0, "allocation %ld", at);
        }
        cop_cache_free(cache);
        cop_model_free(model);
    }
    cr_expect(n_total > 10, "%ld", n_total);
    gguf_writer_free(file);
}

#else

Test(memory, is_not_tested_under_sanitizers) {}

#endif
