/* Prompt lookup: the published variants on inputs where they differ, and against a slow twin.
 */
#include "tests/algorithms/engine/engine_bench.h"

enum { MOST = 512 };

/* The drafted chain of a proposer with its own shape; returns its length. */
static int32_t draft_chain(struct cop_part *proposer, struct cop_model *target,
                           const cop_token *context, int32_t n, cop_token *out)
{
    struct cop_proposer_env env = {.target = target, .vocab_size = 1000, .context = 100000};
    struct cop_tree tree;
    struct cop_error err = {0};
    double probabilities[MOST];
    cr_assert_eq(cop_tree_init(&tree, MOST, &err), COP_OK);
    cr_assert_eq(cop_propose_once(proposer, NULL, COP_DRAW_AUTO, &env, context, n, 0, &tree,
                                  probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    cr_assert_eq(tree.token[0], context[n - 1]);
    cr_assert(tree.size == 1 || cop_tree_shape(&tree) == COP_SHAPE_CHAIN);
    int32_t length = tree.size - 1;
    for (int32_t i = 0; i < length; i++) {
        cr_expect(probabilities[i + 1] != probabilities[i + 1]); /* points: NaN */
        out[i] = tree.token[i + 1];
    }
    cop_tree_release(&tree);
    return length;
}

static struct cop_part *new_variant(const char *variant, int32_t min, int32_t max, int32_t k)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookup");
    set_string(part, "variant", variant);
    set_number(part, "min_ngram", min);
    set_number(part, "max_ngram", max);
    return ready(set_number(part, "tokens", k));
}

#define A                                                                                      \
    {                                                                                          \
        5, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2                                                        \
    }
#define B                                                                                      \
    {                                                                                          \
        1, 2, 3, 4, 2, 3                                                                       \
    }
#define C                                                                                      \
    {                                                                                          \
        1, 2, 3                                                                                \
    }

static const struct published {
    cop_token context[12];
    int32_t n;
    const char *variant;
    int32_t min, max, k;
    cop_token draft[10];
    int32_t n_draft;
} published[] = {
    {A, 11, "original", 1, 3, 3, {3, 9, 1}, 3},
    {A, 11, "hf", 1, 2, 3, {3, 9, 1}, 3},
    {A, 11, "hf", 1, 3, 3, {3, 9, 1}, 3},
    {A, 11, "vllm", 1, 3, 3, {3, 9, 1}, 3},
    {A, 11, "original", 1, 3, 10, {0}, 0},
    {A, 11, "hf", 1, 2, 10, {3, 9, 1, 2, 4, 7, 1, 2}, 8},
    {A, 11, "hf", 1, 3, 10, {3, 9, 1, 2, 4, 7, 1, 2}, 8},
    {A, 11, "vllm", 1, 3, 10, {3, 9, 1, 2, 4, 7, 1, 2}, 8},
    {B, 6, "original", 1, 3, 3, {4, 2, 3}, 3},
    {B, 6, "hf", 1, 2, 3, {4, 2, 3}, 3},
    {B, 6, "hf", 1, 3, 3, {4, 2, 3}, 3},
    {B, 6, "vllm", 1, 3, 3, {4, 2, 3}, 3},
    {B, 6, "vllm", 2, 3, 4, {4, 2, 3}, 3}, /* its own documentation's example */
    {C, 3, "original", 1, 3, 3, {0}, 0},
    {C, 3, "hf", 1, 2, 5, {0}, 0},
    {C, 3, "hf", 1, 3, 1, {0}, 0},
    {C, 3, "vllm", 1, 3, 3, {0}, 0},
    {{4}, 1, "hf", 1, 3, 3, {0}, 0}, /* a prompt shorter than any n-gram before it */
    {{4, 4}, 2, "hf", 1, 3, 3, {4}, 1},
    {{4, 4}, 2, "original", 1, 3, 1, {0}, 0}, /* 4 follows, but where the last 1-gram stands */
    {{4, 4, 4}, 3, "original", 1, 1, 1, {4}, 1},
    {{7, 8, 7}, 3, "vllm", 2, 3, 3, {0}, 0}, /* only a 1-gram occurred before */
};

Test(lookup, gives_the_published_answers)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const struct published *p = &published[i];
        struct cop_part *part = new_variant(p->variant, p->min, p->max, p->k);
        cop_token draft[MOST];
        int32_t n = draft_chain(part, NULL, p->context, p->n, draft);
        cr_expect_eq(n, p->n_draft, "case %zu: %d tokens, expected %d", i, n, p->n_draft);
        if (n == p->n_draft) {
            cr_expect_arr_eq(draft, p->draft, (size_t)n * sizeof *draft, "case %zu", i);
        }
        cop_part_free(part);
    }
}

/* The rules as they are told, by scanning from the left. */
static int32_t slow_twin(const char *variant, int32_t min, int32_t max, int32_t k,
                         const cop_token *t, int32_t len, cop_token *out)
{
    bool is_original = strcmp(variant, "original") == 0;
    for (int32_t n = max; n >= min; n--) {
        for (int32_t i = 0; n < len && i + n <= len; i++) {
            if (memcmp(t + i, t + len - n, (size_t)n * sizeof *t) != 0) {
                continue;
            }
            int32_t start = i + n, stop = start + k;
            bool is_taken = is_original ? stop <= len && start < len - n : start < len;
            if (is_taken) {
                int32_t count = (stop < len ? stop : len) - start;
                memcpy(out, t + start, (size_t)count * sizeof *out);
                return count;
            }
        }
    }
    return 0;
}

Test(lookup, agrees_with_a_scan_from_the_left)
{
    static const char *const variants[] = {"original", "hf", "vllm"};
    int32_t n_drafted = 0;
    for (uint64_t round = 0; round < 600; round++) {
        cop_token context[64], fast[MOST], slow[MOST];
        int32_t n = 1 + (int32_t)(tiny_bits(1, round) % 60);
        int32_t vocab = 2 + (int32_t)(tiny_bits(2, round) % 6);
        int32_t min = 1 + (int32_t)(tiny_bits(3, round) % 3);
        int32_t max = min + (int32_t)(tiny_bits(4, round) % 3);
        int32_t k = 1 + (int32_t)(tiny_bits(5, round) % 12);
        const char *variant = variants[round % 3];
        random_prompt(context, n, vocab, 100 + round);
        struct cop_part *part = new_variant(variant, min, max, k);
        int32_t n_fast = draft_chain(part, NULL, context, n, fast);
        int32_t n_slow = slow_twin(variant, min, max, k, context, n, slow);
        cr_assert_eq(n_fast, n_slow, "round %d: %d and %d", (int)round, n_fast, n_slow);
        cr_assert_arr_eq(fast, slow, (size_t)n_fast * sizeof *fast, "round %d", (int)round);
        n_drafted += n_fast > 0;
        cop_part_free(part);
    }
    cr_expect_gt(n_drafted, 300);
}

Test(lookup, hf_stops_before_an_end_token)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 1, .has_tokenizer = true});
    cop_token context[] = {65, 66, 67, 258, 68, 65, 66}, draft[MOST]; /* 258 ends answers */
    struct cop_part *hf = new_variant("hf", 1, 2, 5), *vllm = new_variant("vllm", 1, 2, 5);
    cr_expect_eq(draft_chain(hf, target, context, 7, draft), 1);
    cr_expect_eq(draft[0], 67);
    cr_expect_eq(draft_chain(vllm, target, context, 7, draft), 5);
    cop_token at_once[] = {65, 258, 65};
    cr_expect_eq(draft_chain(hf, target, at_once, 3, draft), 0);
    cop_part_free(hf);
    cop_part_free(vllm);
    cop_model_free(target);
}

Test(lookup, refuses_min_above_max)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "lookup");
    struct cop_error err = {0};
    set_number(part, "min_ngram", 4);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "cop.propose.lookup: min_ngram = 4 is above max_ngram = 3");
    cop_part_free(part);
}
