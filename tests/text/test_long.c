/* Long texts: time that is near-linear for every family, and a small stack. */
#include "core/text/tokenizer.h"
#include "tests/support/reference.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

TestSuite(long_texts, .timeout = 300);

#ifdef COP_DEBUG /* sanitizers are slow */
enum { TIMES = 10000 };
#else
enum { TIMES = 100000 };
#endif

/* What slows some way of encoding down when there are 100,000 of it: one word, no word, what
 * almost is a special token and what is one, marks out of order, bytes without a token. */
static const char *const units[] = {
    "a",
    "ab",
    "A",
    "aA1 ",
    "qxjz",
    " ",
    "\n",
    "  \n",
    "7",
    "'s",
    "!",
    "\u00E9",
    "e\u0301",
    "\u4E2D",
    "\xFF",
    "\u0301\u0327",
    "<|im_st",
    "<|im_sta",
    "<|im_start|>",
    "<s>",
    "</s",
    "<0x41>",
    "\u2581",
    "\U00012397",
    "\u1100\u1161\u11A8",
    "<tool_cal",
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void encode_one(const struct cop_tokenizer *tokenizer, const char *unit, bool special)
{
    size_t length = strlen(unit);
    char *text = malloc(length * TIMES);
    for (size_t i = 0; i < TIMES; i++) {
        memcpy(text + i * length, unit, length);
    }
    struct cop_ids ids = {0};
    struct cop_text back = {0};
    struct cop_error err;
    double start = now();
    cr_assert_eq(cop_tokenizer_encode(tokenizer, text, length * TIMES,
                                      (struct cop_encode_options){.special = special}, &ids,
                                      &err),
                 COP_OK, "\"%s\": %s", unit, err.text);
    cr_assert_eq(cop_tokenizer_decode(tokenizer, ids.items, ids.count, true, &back, &err),
                 COP_OK);
    double seconds = now() - start;
    /* A tenth of a second where nobody else computes; a square of time takes minutes. */
    cr_expect_lt(seconds, 5.0, "\"%s\" takes %.2f s", unit, seconds);
    cop_text_release(&back);
    cop_ids_release(&ids);
    free(text);
}

static void *encode_all(void *tokenizer)
{
    for (size_t i = 0; i < 2 * (sizeof units / sizeof units[0]); i++) {
        encode_one(tokenizer, units[i / 2], i % 2 == 1);
    }
    return NULL;
}

static void check(const char *path)
{
    struct cop_tokenizer *tokenizer;
    struct cop_error err;
    pthread_t thread;
    pthread_attr_t attributes;
    double start = now();
    cr_assert_eq(cop_tokenizer_open(&tokenizer, path, &err), COP_OK, "%s", err.text);
    cr_expect_lt(now() - start, 5.0, "%s takes long to open", path);
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, encode_all, tokenizer), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    cop_tokenizer_free(tokenizer);
}

Test(long_texts, llama2)
{
    check(reference_path("data/tokenizers/llama2"));
}

Test(long_texts, llama3)
{
    check(reference_path("data/tokenizers/llama3_1"));
}

Test(long_texts, qwen3)
{
    check(reference_path("data/tokenizers/qwen3"));
}

Test(long_texts, smollm2)
{
    check(reference_model("models/SmolLM2-135M-Instruct.Q4_1.gguf"));
}
