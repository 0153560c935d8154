/* Datastores and retrieval: the sort against a slow twin, the published example, what is
 * refused, and an engine whose tokens do not notice. */
#include "algorithms/history/datastore.h"
#include "algorithms/history/suffix_sort.h"
#include "core/base/hash.h"
#include "tests/algorithms/engine/engine_bench.h"

#include <sys/stat.h>
#include <unistd.h>

static char store_path[64];

static void name_store(void)
{
    (void)snprintf(store_path, sizeof store_path, "/tmp/coppice-store-%d", (int)getpid());
}
static void remove_store(void)
{
    (void)remove(store_path);
}
TestSuite(retrieval, .init = name_store, .fini = remove_store);

static void write_store(const cop_token *ids, int32_t n, int32_t vocab, uint64_t tokenizer)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_datastore_write(store_path, ids, n, vocab, tokenizer, &err), COP_OK, "%s",
                 err.text);
}

/* ---- The sort -----------------------------------------------------------------------------
 */

static const cop_token *sorted_text;
static int32_t sorted_n, sorted_depth;

static int by_suffix(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    for (int32_t i = 0; i < sorted_depth; i++) {
        int32_t x = a + i < sorted_n ? sorted_text[a + i] : -1;
        int32_t y = b + i < sorted_n ? sorted_text[b + i] : -1;
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return (a > b) - (a < b);
}

static void check_sort(const cop_token *text, int32_t n, int32_t vocab, int32_t depth)
{
    int32_t *array = malloc((size_t)n * sizeof *array),
            *twin = malloc((size_t)n * sizeof *twin);
    struct cop_error err = {0};
    cr_assert_eq(cop_suffix_sort(text, n, vocab, depth, array, &err), COP_OK);
    for (int32_t i = 0; i < n; i++) {
        twin[i] = i;
    }
    sorted_text = text;
    sorted_n = n;
    sorted_depth = depth;
    qsort(twin, (size_t)n, sizeof *twin, by_suffix);
    cr_expect_eq(memcmp(array, twin, (size_t)n * sizeof *twin), 0, "n %d, vocab %d, depth %d",
                 n, vocab, depth);
    free(array);
    free(twin);
}

Test(suffix_sort, equals_a_slow_twin)
{
    enum { N = 6000 };
    static cop_token text[N];
    static const int32_t vocabs[] = {1, 2, 5, 255, 256, 65535, 65536, 151936, 1 << 21};
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        for (int32_t i = 0; i < N; i++) { /* few values, long repeats, both ends of the range */
            uint64_t bits = tiny_bits(3 + v, (uint64_t)(i % 2500));
            int32_t low = (int32_t)(bits % 3) < vocabs[v] ? (int32_t)(bits % 3) : 0;
            text[i] = bits >> 20 & 1 ? vocabs[v] - 1 - low : low;
        }
        check_sort(text, N, vocabs[v], 26);
        check_sort(text, 300, vocabs[v], 3);
        check_sort(text, 40, vocabs[v], 1);
        check_sort(text, 1, vocabs[v], 26);
    }
    memset(text, 0, sizeof text); /* the same token everywhere */
    check_sort(text, N, 3, 26);
    for (int32_t i = 0; i < N; i++) {
        text[i] = i % 7;
    }
    check_sort(text, N, 7, 26);
}

/* ---- The store ----------------------------------------------------------------------------
 */

Test(retrieval, ranges_of_a_store)
{
    static const cop_token text[] = {1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 5, 6};
    struct cop_datastore store;
    struct cop_error err = {0};
    for (int wide = 0; wide < 2; wide++) {
        write_store(text, 12, wide ? 70000 : 7, 5);
        cr_assert_eq(cop_datastore_open(&store, store_path, &err), COP_OK, "%s", err.text);
        cr_expect_eq(store.header->token_bytes, wide ? 4 : 2);
        cr_expect_eq(store.header->tokenizer, 5);
        cr_expect_eq(cop_datastore_token(&store, 11), 6);
        cr_expect_eq(cop_datastore_token(&store, 12), -1);
        cr_expect_eq(cop_datastore_token(&store, -1), -1);
        static const int32_t order[] = {0, 4, 1, 5, 8, 2, 6, 9, 3, 7, 10, 11};
        cr_expect_eq(memcmp(store.suffixes, order, sizeof order), 0);
        struct cop_range range = cop_datastore_find(&store, (const cop_token[]){2, 3}, 2);
        cr_expect_eq(range.low, 2);
        cr_expect_eq(range.high, 5);
        cop_token tokens[3];
        cop_datastore_read(&store, range, 2, tokens);
        cr_expect(tokens[0] == 4 && tokens[1] == 4 && tokens[2] == 5);
        range = cop_datastore_find(&store, (const cop_token[]){6}, 1);
        cr_expect_eq(range.high - range.low, 1);
        cop_datastore_read(&store, range, 1, tokens);
        cr_expect_eq(tokens[0], -1, "nothing follows the end");
        range = cop_datastore_find(&store, (const cop_token[]){6, 0}, 2);
        cr_expect_eq(range.low, range.high);
        cop_datastore_close(&store);
    }
}

static void expect_refused(const char *text)
{
    struct cop_datastore store;
    struct cop_error err = {0};
    cr_expect_eq(cop_datastore_open(&store, store_path, &err), COP_ERR_FORMAT);
    cr_expect_not_null(strstr(err.text, text), "%s, not %s", err.text, text);
}

static void damage(long at, int value)
{
    FILE *file = fopen(store_path, "r+b");
    cr_assert(file && fseek(file, at, SEEK_SET) == 0 && fputc(value, file) != EOF);
    fclose(file);
}

Test(retrieval, damaged_stores)
{
    static const cop_token text[] = {1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 5, 6};
    struct cop_error err = {0};
    write_store(text, 12, 7, 0);
    struct stat facts;
    cr_assert_eq(stat(store_path, &facts), 0);
    cr_expect_eq(facts.st_size, 64 + 24 + 48);
    for (off_t size = 0; size < facts.st_size; size++) {
        write_store(text, 12, 7, 0);
        cr_assert_eq(truncate(store_path, size), 0);
        expect_refused(size < 64 ? "is not a datastore" : "it is cut short");
    }
    write_store(text, 12, 7, 0);
    cr_assert_eq(truncate(store_path, facts.st_size + 4), 0);
    expect_refused("it is too long");
    for (long at = 0; at < 64; at++) {
        write_store(text, 12, 7, 0);
        damage(at, 0xa5);
        expect_refused(at < 8    ? "is not a datastore"
                       : at < 12 ? "of version"
                                 : "has a damaged header");
    }
    /* Wild places and ids: bad drafts, nothing worse. */
    write_store(text, 12, 7, 0);
    for (long at = 64; at < facts.st_size; at++) {
        damage(at, 0xa5);
    }
    struct cop_datastore store;
    cr_assert_eq(cop_datastore_open(&store, store_path, &err), COP_OK);
    struct cop_range range = cop_datastore_find(&store, (const cop_token[]){2, 3}, 2);
    cr_expect(range.low >= 0 && range.low <= range.high && range.high <= 12);
    cop_token tokens[12];
    cop_datastore_read(&store, (struct cop_range){0, 12}, 0, tokens);
    for (int i = 0; i < 12; i++) {
        cr_expect_eq(tokens[i], -1);
    }
    cop_datastore_close(&store);
    cr_expect_eq(cop_datastore_write("/no/such/folder/x", text, 12, 7, 0, &err), COP_ERR_IO);
    cr_expect_eq(cop_datastore_write(store_path, text, 0, 7, 0, &err), COP_ERR_LIMIT);
    cr_expect_eq(cop_datastore_open(&store, "/no/such/file", &err), COP_ERR_IO);
}

/* ---- Drafts -------------------------------------------------------------------------------
 */

static struct cop_part *new_retrieval(int32_t choices)
{
    struct cop_part *part =
        set_string(new_part(COP_PLUG_PROPOSER, "retrieval"), "path", store_path);
    return set_number(part, "choices", choices);
}

/* "4@0 5@0": tokens and parents of the drafted tree, in its own shape. */
static const char *draft_of(struct cop_part *part, const cop_token *context, int32_t n,
                            double *scores, int32_t *matched)
{
    static char text[1024];
    struct cop_proposer_env env = {.vocab_size = 100, .context = 1000};
    struct cop_tree tree;
    struct cop_error err = {0};
    cr_assert_eq(cop_tree_init(&tree, 128, &err), COP_OK);
    cr_assert_eq(cop_propose_once(part, NULL, COP_DRAW_AUTO, &env, context, n, 0, &tree, NULL,
                                  scores, matched, &err),
                 COP_OK, "%s", err.text);
    text[0] = 0;
    for (int32_t node = 1; node < tree.size; node++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%d@%d", node > 1 ? " " : "",
                 tree.token[node], tree.parent[node]);
    }
    cop_tree_release(&tree);
    cop_part_free(part);
    return text;
}

Test(retrieval, published_example)
{
    static const cop_token text[] = {1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 5, 6};
    static const cop_token query[] = {2, 3}, other[] = {9, 2, 3}, none[] = {2, 9};
    double scores[128];
    int32_t matched;
    write_store(text, 12, 7, 0);
    cr_expect_str_eq(draft_of(ready(new_retrieval(2)), query, 2, scores, &matched), "4@0 5@0");
    cr_expect_eq(matched, 2);
    cr_expect_float_eq(scores[1], 2.0 / 3, 1e-15);
    cr_expect_float_eq(scores[2], 1.0 / 3, 1e-15);
    /* Of count 1: 5 at depth 1, then by path 4 1, 4 2, 5 6, then depth 3. */
    cr_expect_str_eq(draft_of(ready(new_retrieval(5)), query, 2, scores, &matched),
                     "4@0 5@0 1@1 2@1 6@2");
    cr_expect_str_eq(draft_of(ready(new_retrieval(1)), other, 3, scores, &matched), "4@0");
    cr_expect_eq(matched, 2);
    cr_expect_str_eq(draft_of(ready(new_retrieval(1)), none, 2, scores, &matched), "");
    cr_expect_eq(matched, 0);
    cr_expect_str_eq(
        draft_of(ready(set_number(new_retrieval(9), "tokens", 1)), query, 2, scores, &matched),
        "4@0 5@0");
    cr_expect_str_eq(
        draft_of(ready(set_number(set_number(new_retrieval(9), "occurrences", 1), "tokens", 3)),
                 query, 2, scores, &matched),
        "4@0 1@1 2@2");
    cr_expect_float_eq(scores[3], 1, 0);
}

/* The longest n-gram decides, up to max_ngram. */
Test(retrieval, longest_match)
{
    cop_token text[64], query[16];
    for (int32_t i = 0; i < 30; i++) {
        text[i] = i;
        text[30 + i] = i < 10 ? 90 : i; /* 10 … 29 again, after something else */
    }
    text[60] = 7;
    for (int32_t i = 0; i < 16; i++) {
        query[i] = 14 + i; /* 14 … 29: both places; behind one of them the text ends with 7 */
    }
    write_store(text, 61, 100, 0);
    double scores[128];
    int32_t matched;
    cr_expect_str_eq(draft_of(ready(new_retrieval(2)), query, 16, scores, &matched),
                     "7@0 90@0");
    cr_expect_eq(matched, 16);
    struct cop_part *part = set_number(new_retrieval(2), "max_ngram", 5);
    (void)draft_of(ready(part), query, 16, scores, &matched);
    cr_expect_eq(matched, 5);
    query[11] = 99;
    (void)draft_of(ready(new_retrieval(2)), query, 16, scores, &matched);
    cr_expect_eq(matched, 4);
}

Test(retrieval, what_does_not_fit)
{
    static const cop_token text[] = {1, 2, 3};
    struct cop_error err = {0};
    write_store(text, 3, 70, 0);
    struct cop_part *part = set_number(new_retrieval(2), "tokens", 20);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "sorted by 26 tokens"), "%s", err.text);
    cop_part_free(part);
    part = ready(new_retrieval(2));
    struct cop_proposer_env env = {.vocab_size = 69, .n_sequences = 1, .capacity = 4};
    void *session = NULL;
    const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)part->plug;
    cr_expect_eq(ops->open(part->state, &env, &session, &err), COP_ERR_ARGUMENT);
    cr_expect_not_null(strstr(err.text, "a vocabulary of 70, the target one of 69"), "%s",
                       err.text);
    cop_part_free(part);
    part = new_retrieval(2);
    remove_store();
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_IO);
    cop_part_free(part);
}

/* ---- Engines ------------------------------------------------------------------------------
 */

enum { PROMPT = 24, ANSWER = 60 };

/* The store holds plain decoding's own answer, and noise around it. */
Test(retrieval, tokens_equal_plain_decoding, .timeout = 60)
{
    struct cop_model *target = open_tiny((struct tiny_model){.seed = 7});
    static struct trial plain, trial;
    cop_token prompt[PROMPT], text[3 * ANSWER];
    random_prompt(prompt, PROMPT, 61, 1);
    trial_init(&plain, prompt, PROMPT, ANSWER);
    struct cop_engine_options options = {.target = target};
    run_trials(&options, &plain, 1);
    for (int32_t i = 0; i < 3 * ANSWER; i++) {
        bool is_noise = i % 9 == 8 || i >= plain.result.n_tokens;
        text[i] =
            is_noise ? (cop_token)(tiny_bits(5, (uint64_t)i) % 61) : plain.result.tokens[i];
    }
    write_store(text, 3 * ANSWER, 61, 0);
    static const int32_t widths[] = {2, 2, 1};
    for (int arm = 0; arm < 3; arm++) {
        options.proposer = ready(new_retrieval(16));
        options.builder = arm == 0 ? NULL : arm == 1 ? new_chain(5) : new_widths(widths, 3);
        trial_init(&trial, prompt, PROMPT, ANSWER);
        run_trials(&options, &trial, 1);
        expect_equal_tokens(&trial.result, &plain.result, "retrieval");
        cr_expect_gt(trial.result.drafted, trial.result.accepted);
        cr_expect_gt(trial.result.accepted, 10);
        trial_release(&trial);
        cop_part_free(options.proposer);
        cop_part_free(options.builder);
    }
    trial_release(&plain);
    cop_model_free(target);
}
