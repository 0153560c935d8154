/* Bit identity: what the model computes for a token depends on the token's own path alone.
 *
 * One sequence of tokens is decoded token by token, each alone in its call, by one thread; then
 * its last TAIL tokens are computed again in other company (chain, tree with strangers, ragged
 * batch), after a prefill in chunks, with other page tables, thread counts and rubbish in free
 * pages. Logits, hidden states of all layers, and the keys and values of every position must be
 * equal byte for byte. */
#include "core/model/model.h"
#include "tests/model/tiny_files.h"
#include "tests/support/reference.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMOLLM2 "models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define QWEN2_5 "models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"

enum { TAIL = 8, TREE = 64, SEQUENCES = 7, MAIN = 4, MAX_CALL = 256 };

/* ThreadSanitizer looks for races, and is some 20 times slower: it gets a few of the cases. */
#ifdef __SANITIZE_THREAD__
enum { IS_SLOW = 1, STRIDE = 14, FEW = 1, LENGTH = TAIL + 3 };
#else
enum { IS_SLOW = 0, STRIDE = 1, FEW = 3, LENGTH = 37 };
#endif

/* What is compared. */
struct trace {
    float *logits; /* [TAIL, vocab] */
    float *hidden; /* [layers + 1, TAIL, width] */
    float *kv;     /* [length, layers, 2, kv_heads * head_dim] */
};

struct bench {
    struct cop_model *model;
    int32_t vocab, width, layers, kv_width;
    const int32_t *tokens; /* [length] */
    int32_t length;        /* context + TAIL */
    uint64_t seed;
};

enum company { ALONE, CHAIN, BUSHY, BATCH, COMPANIES };
static const char *const company_names[] = {"alone", "chain of 8", "tree of 64", "batch of 5"};

struct arrangement {
    enum company company;
    int32_t chunk;   /* of the prefill; 0: none, each token in a call of its own, with logits */
    bool fragmented; /* the pool's pages are in disorder */
};

static void *take(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    cr_assert_not_null(memory);
    return memory;
}

static struct trace new_trace(const struct bench *bench)
{
    return (struct trace){
        .logits = take((size_t)(TAIL * bench->vocab), sizeof(float)),
        .hidden = take((size_t)((bench->layers + 1) * TAIL * bench->width), sizeof(float)),
        .kv = take((size_t)bench->length * (size_t)(bench->layers * 2 * bench->kv_width),
                   sizeof(float))};
}

static void free_trace(struct trace *trace)
{
    free(trace->logits);
    free(trace->hidden);
    free(trace->kv);
}

/* ---- One call ---------------------------------------------------------------------------- */

/* The tokens of one forward pass, built piece by piece. */
struct call {
    int32_t n;
    int32_t tokens[MAX_CALL], sequences[MAX_CALL], parents[MAX_CALL];
    int32_t first[SEQUENCES]; /* call index of a sequence's first token */
    int32_t place[TAIL];      /* call index of each token of the tail, where present */
};

static void add(struct call *call, int32_t sequence, int32_t token, int32_t parent)
{
    cr_assert(call->n < MAX_CALL);
    if (call->n == 0 || call->sequences[call->n - 1] != sequence) {
        call->first[sequence] = call->n;
    }
    call->tokens[call->n] = token;
    call->sequences[call->n] = sequence;
    call->parents[call->n++] = parent;
}

static int32_t draw(const struct bench *bench, uint64_t index, int32_t below)
{
    return (int32_t)(tiny_bits(bench->seed, index) % (uint64_t)below);
}

/* A random tree of `size` nodes. With the tail: its tokens stand on one path, at random places
 * among the strangers. */
static void add_tree(const struct bench *bench, struct call *call, int32_t sequence,
                     int32_t size, bool has_tail, uint64_t salt)
{
    int32_t next = 0, above = -1, first = call->n;
    for (int32_t i = 0; i < size; i++) {
        uint64_t key = 1000 * salt + 4 * (uint64_t)i;
        int32_t left = size - i, missing = has_tail ? TAIL - next : 0;
        if (missing > 0 && draw(bench, key, left) < missing) {
            add(call, sequence, bench->tokens[bench->length - TAIL + next], above);
            above = call->n - 1 - first;
            call->place[next++] = call->n - 1;
        } else {
            add(call, sequence, draw(bench, key + 1, bench->vocab),
                draw(bench, key + 2, i + 1) - 1);
        }
    }
}

/* Runs a call with everything asked for, and keeps the rows of the tail's tokens [from, to). */
static void run(const struct bench *bench, struct cop_cache *cache, const struct call *call,
                int32_t from, int32_t to, struct trace *trace)
{
    struct cop_error err = {0};
    size_t n = (size_t)call->n, vocab = (size_t)bench->vocab, width = (size_t)bench->width;
    int32_t n_layers = bench->layers + 1;
    int32_t *layers = take((size_t)n_layers, sizeof *layers);
    float *logits = take(n * vocab, sizeof *logits);
    float *hidden = take((size_t)n_layers * n * width, sizeof *hidden);
    for (int32_t i = 0; i < n_layers; i++) {
        layers[i] = i;
    }
    const struct cop_score score = {.n = call->n,
                                    .tokens = call->tokens,
                                    .sequences = call->sequences,
                                    .parents = call->parents,
                                    .logits = logits,
                                    .hidden_layers = layers,
                                    .n_hidden = n_layers,
                                    .hidden = hidden};
    cr_assert_eq(cop_model_score(bench->model, cache, &score, &err), COP_OK, "%s", err.text);
    for (int32_t i = from; i < to; i++) {
        size_t place = (size_t)call->place[i];
        memcpy(trace->logits + (size_t)i * vocab, logits + place * vocab,
               vocab * sizeof(float));
        for (size_t layer = 0; layer < (size_t)n_layers; layer++) {
            memcpy(trace->hidden + (layer * TAIL + (size_t)i) * width,
                   hidden + (layer * n + place) * width, width * sizeof(float));
        }
    }
    free(layers);
    free(logits);
    free(hidden);
}

/* ---- Arrangements ------------------------------------------------------------------------ */

/* Takes pages in turns for other sequences and gives every second one back. */
static void fragment(const struct bench *bench, struct cop_cache *cache)
{
    int32_t tokens[COP_PAGE_SLOTS] = {0};
    for (int32_t round = 0; round < 4; round++) {
        for (int32_t s = 5; s < SEQUENCES; s++) {
            cr_assert_eq(cop_model_prefill(bench->model, cache, s, tokens, COP_PAGE_SLOTS, 0,
                                           NULL, NULL),
                         COP_OK);
        }
    }
    cop_cache_reset(cache, 5);
}

/* Pages in no table are filled with NaN (of either format): they must never be read. */
static void poison(const struct cop_cache *cache)
{
    const struct cop_kv_pool *pool = cop_cache_pool(cache);
    size_t page_bytes = cop_cache_usage(cache).page_bytes;
    bool *is_used = take((size_t)pool->n_pages, sizeof *is_used);
    for (int32_t s = 0; s < SEQUENCES; s++) {
        int32_t slots = cop_cache_committed(cache, s) + cop_cache_speculative(cache, s);
        for (int32_t i = 0; i < slots; i++) {
            is_used[cop_cache_pool_slot(cache, s, i) / COP_PAGE_SLOTS] = true;
        }
    }
    for (int32_t page = 0; page < pool->n_pages; page++) {
        if (!is_used[page]) {
            memset((char *)pool->data + (size_t)page * page_bytes, 0xff, page_bytes);
        }
    }
    free(is_used);
}

static void prefill(const struct bench *bench, struct cop_cache *cache, int32_t sequence,
                    int32_t n, int32_t chunk)
{
    struct cop_error err = {0};
    cr_assert_eq(
        cop_model_prefill(bench->model, cache, sequence, bench->tokens, n, chunk, NULL, &err),
        COP_OK, "%s", err.text);
}

/* The tokens from `first` to before `end`, each in a call of its own and committed. */
static void run_alone(const struct bench *bench, struct cop_cache *cache, int32_t first,
                      int32_t end, struct trace *trace)
{
    int32_t context = bench->length - TAIL;
    for (int32_t i = first; i < end; i++) {
        struct call call = {0};
        add(&call, MAIN, bench->tokens[i], -1);
        run(bench, cache, &call, i < context ? 0 : i - context,
            i < context ? 0 : i - context + 1, trace);
        cop_cache_commit(cache, MAIN, (int32_t[]){0}, 1);
    }
}

static void run_together(const struct bench *bench, struct cop_cache *cache,
                         enum company company, struct trace *trace)
{
    struct call *call = take(1, sizeof *call);
    if (company == CHAIN) {
        add_tree(bench, call, MAIN, TAIL, true, 1);
    } else if (company == BUSHY) {
        add_tree(bench, call, MAIN, TREE, true, 2);
    } else {
        add_tree(bench, call, 2, 1, false, 3);
        add_tree(bench, call, 0, 19, false, 4);
        add_tree(bench, call, MAIN, 33, true, 5);
        add_tree(bench, call, 3, 5, false, 6);
        add_tree(bench, call, 1, 2, false, 7);
    }
    run(bench, cache, call, 0, TAIL, trace);
    int32_t path[TAIL];
    for (int32_t i = 0; i < TAIL; i++) {
        path[i] = call->place[i] - call->first[MAIN];
    }
    cop_cache_commit(cache, MAIN, path, TAIL);
    free(call);
}

static void read_kv(const struct bench *bench, const struct cop_cache *cache,
                    struct trace *trace)
{
    const struct cop_ops *ops = cop_model_ops(bench->model);
    float *at = trace->kv;
    cr_assert_eq(cop_cache_committed(cache, MAIN), bench->length);
    for (int32_t i = 0; i < bench->length; i++) {
        for (int32_t layer = 0; layer < bench->layers; layer++) {
            ops->kv_read(cop_cache_pool(cache), layer, cop_cache_pool_slot(cache, MAIN, i), at,
                         at + bench->kv_width);
            at += 2 * bench->kv_width;
        }
    }
}

static struct trace arrange(const struct bench *bench, const struct arrangement *how)
{
    struct trace trace = new_trace(bench);
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_model_cache_new(bench->model, SEQUENCES, TREE, &cache, &err), COP_OK, "%s",
                 err.text);
    if (how->fragmented) {
        fragment(bench, cache);
    }
    int32_t context = bench->length - TAIL;
    for (int32_t s = 0; how->company == BATCH && s < MAIN; s++) {
        prefill(bench, cache, s, (7 * s + 3) % (context + 1), 0);
    }
    if (how->chunk == 0) {
        run_alone(bench, cache, 0, context, &trace);
    } else {
        prefill(bench, cache, MAIN, context, how->chunk);
    }
    poison(cache);
    if (how->company == ALONE) {
        run_alone(bench, cache, context, bench->length, &trace);
    } else {
        run_together(bench, cache, how->company, &trace);
    }
    read_kv(bench, cache, &trace);
    cr_expect_eq(cop_cache_check(cache, &err), COP_OK, "%s", err.text);
    cop_cache_free(cache);
    return trace;
}

/* ---- Comparing --------------------------------------------------------------------------- */

static void expect_equal(const struct bench *bench, const struct trace *a,
                         const struct trace *b, const char *what)
{
    cr_expect_eq(memcmp(a->logits, b->logits, (size_t)(TAIL * bench->vocab) * sizeof(float)), 0,
                 "%s: logits differ", what);
    for (int32_t layer = 0; layer <= bench->layers; layer++) {
        size_t count = (size_t)(TAIL * bench->width), at = (size_t)layer * count;
        cr_expect_eq(memcmp(a->hidden + at, b->hidden + at, count * sizeof(float)), 0,
                     "%s: hidden states after layer %d differ", what, layer);
    }
    size_t per_token = (size_t)(bench->layers * 2 * bench->kv_width);
    for (int32_t i = 0; i < bench->length; i++) {
        size_t at = (size_t)i * per_token;
        cr_expect_eq(memcmp(a->kv + at, b->kv + at, per_token * sizeof(float)), 0,
                     "%s: keys or values at position %d differ", what, i);
    }
}

static struct bench new_bench(const char *path, int32_t threads,
                              enum cop_precision_choice precision, bool kv_f32,
                              const char *level, const int32_t *tokens, int32_t length)
{
    struct bench bench = {.tokens = tokens, .length = length, .seed = 11};
    struct cop_error err = {0};
    const struct cop_model_options options = {.path = path,
                                              .precision = precision,
                                              .kv_f32 = kv_f32,
                                              .context = 320,
                                              .pages = 64,
                                              .threads = threads,
                                              .level = level};
    cr_assert_eq(cop_model_open(&bench.model, &options, &err), COP_OK, "%s", err.text);
    const struct cop_model_info *info = cop_model_info(bench.model);
    bench.vocab = info->vocab_size;
    bench.width = info->hidden_size;
    bench.layers = info->layers;
    bench.kv_width = info->kv_heads * info->head_dim;
    return bench;
}

/* All companies, chunks and page orders, by 1, 2 and 3 threads, against one token at a time. */
static void check_file(const char *path, enum cop_precision_choice precision, bool kv_f32,
                       const char *level, const int32_t *tokens, int32_t length,
                       int32_t n_arrangements, const struct arrangement *arrangements)
{
    const struct arrangement simplest = {ALONE, 0, false};
    struct trace expected = {0};
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct bench bench = new_bench(path, threads, precision, kv_f32, level, tokens, length);
        if (threads == 1) {
            expected = arrange(&bench, &simplest);
            cr_assert(expected.logits[0] == expected.logits[0], "not NaN");
        }
        /* Of a long list, more threads take every second one in turns. */
        int32_t step = threads > 1 && n_arrangements > 3 ? 2 : 1;
        for (int32_t i = step > 1 ? threads % 2 : 0; i < n_arrangements; i += step) {
            const struct arrangement *how = &arrangements[i];
            char what[128];
            struct trace found = arrange(&bench, how);
            (void)snprintf(what, sizeof what,
                           "%s, length %d, chunk %d%s, %d threads, %s, %s, %s",
                           company_names[how->company], length, how->chunk,
                           how->fragmented ? ", fragmented" : "", threads,
                           precision == COP_PRECISION_CHOOSE_INT8 ? "int8" : "f32",
                           kv_f32 ? "kv f32" : "kv f16", cop_model_info(bench.model)->level);
            expect_equal(&bench, &expected, &found, what);
            free_trace(&found);
        }
        cop_model_free(bench.model);
    }
    free_trace(&expected);
}

static const struct arrangement all[] = {
    {ALONE, 7, false},   {ALONE, 256, true}, {CHAIN, 1, true}, {CHAIN, 7, false},
    {CHAIN, 256, false}, {BUSHY, 1, false},  {BUSHY, 7, true}, {BUSHY, 256, false},
    {BATCH, 7, false},   {BATCH, 256, true},
};
enum { N_ALL = sizeof all / sizeof *all };

/* ---- Tiny models: many cases ------------------------------------------------------------- */

static const struct {
    struct tiny_model model;
    bool int8;
} tiny[] = {
    {{.seed = 1}, false},
    {{.seed = 2, .hidden = 96, .heads = 6, .kv_heads = 2, .ffn = 160, .layers = 3}, false},
    {{.seed = 3, .format = COP_FORMAT_F16, .hidden = 36, .heads = 3, .kv_heads = 1, .ffn = 52},
     false},
    {{.seed = 4, .format = COP_FORMAT_Q8_0, .hidden = 64, .heads = 2, .kv_heads = 1}, true},
    {{.seed = 5, .format = COP_FORMAT_Q4_1, .hidden = 96, .heads = 3, .kv_heads = 3}, true},
    {{.seed = 6, .format = COP_FORMAT_Q4_0, .hidden = 64, .head_dim = 32, .has_biases = true},
     true},
    {{.seed = 7, .architecture = "qwen3", .hidden = 48, .head_dim = 20, .has_output = true},
     false},
    {{.seed = 8,
      .n_edits = 1,
      .edits = (const struct tiny_edit[]){{TINY_KEY_U32, "llama.attention.sliding_window", 21,
                                           0, 0, NULL}}},
     false},
};
enum { N_TINY = sizeof tiny / sizeof *tiny };

/* Tails that cross pages of 16 and blocks of attention at 64, 128, 256. */
static const int32_t lengths[] = {TAIL, TAIL + 1, 20,  23,  24,  39,  40,
                                  63,   67,       130, 135, 200, 259, 263};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static void check_tiny(int32_t which, const char *level, int32_t step)
{
    struct gguf_writer *file = tiny_model_new(&tiny[which].model);
    const char *path = gguf_save(file);
    int32_t tokens[300];
    for (int32_t i = 0; i < 300; i++) {
        tokens[i] = (int32_t)(tiny_bits(99, (uint64_t)i) % 61);
    }
    /* Each length with one combination of formats; over the lengths, all combinations. */
    for (int32_t i = which % step; i < N_LENGTHS; i += step) {
        bool int8 = tiny[which].int8 && i % 2 == 0;
        check_file(path, int8 ? COP_PRECISION_CHOOSE_INT8 : COP_PRECISION_CHOOSE_F32,
                   (i / 2 + which) % 2 == 0, level, tokens, lengths[i], N_ALL, all);
    }
    gguf_writer_free(file);
}

Test(identity, tiny_models, .timeout = 600)
{
    for (int32_t i = 0; i < N_TINY; i++) {
        check_tiny(i, NULL, STRIDE);
    }
}

/* Every instruction-set level that this machine has is identical within itself. */
Test(identity, tiny_models_on_all_levels, .timeout = 600)
{
    static const char *const levels[] = {"plain", "avx2", "avx512", "avx512-vnni"};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        struct cop_device *device = cop_ops_cpu.open(1, levels[i]);
        if (!device) {
            cr_log_info("level %s: not on this machine", levels[i]);
            continue;
        }
        cop_ops_cpu.close(device);
        check_tiny(1, levels[i], 4 * STRIDE);
        check_tiny(4, levels[i], 4 * STRIDE);
    }
}

/* Every architecture, format and kind of file: one length that crosses blocks, one combination
 * of formats each, and int8 where the file is quantised. */
Test(identity, tiny_files, .timeout = 120)
{
    int32_t tokens[300];
    for (int32_t i = 0; i < 300; i++) {
        tokens[i] = (int32_t)(tiny_bits(98, (uint64_t)i) % 150);
    }
    for (int32_t i = 0; i < N_TINY_FILES; i += STRIDE) {
        char file[128], path[512];
        (void)snprintf(path, sizeof path, "%s",
                       reference_path(tiny_path(file, tiny_files[i].name)));
        check_file(path, COP_PRECISION_CHOOSE_F32, i % 2 == 0, NULL, tokens, 67 + i, N_ALL,
                   all);
        if (tiny_files[i].int8 > 0) {
            check_file(path, COP_PRECISION_CHOOSE_INT8, i % 2 != 0, NULL, tokens, 67 + i, N_ALL,
                       all);
        }
    }
}

/* ---- Real models: few cases -------------------------------------------------------------- */

static void check_real(const char *file, enum cop_precision_choice precision, bool kv_f32)
{
    static const struct arrangement few[] = {
        {BUSHY, 7, true}, {CHAIN, 256, false}, {BATCH, 256, false}};
    const char *path = reference_model(file);
    if (IS_SLOW && (precision != COP_PRECISION_CHOOSE_INT8 || kv_f32)) {
        return;
    }
    int32_t tokens[300];
    for (int32_t i = 0; i < 300; i++) {
        tokens[i] = (int32_t)(tiny_bits(5, (uint64_t)i) % 49152);
    }
    check_file(path, precision, kv_f32, NULL, tokens, LENGTH, FEW, few);
}

Test(identity, smollm2_int8_kv_f16, .timeout = 600)
{
    check_real(SMOLLM2, COP_PRECISION_CHOOSE_INT8, false);
}
Test(identity, smollm2_int8_kv_f32, .timeout = 600)
{
    check_real(SMOLLM2, COP_PRECISION_CHOOSE_INT8, true);
}
Test(identity, smollm2_f32_kv_f16, .timeout = 600)
{
    check_real(SMOLLM2, COP_PRECISION_CHOOSE_F32, false);
}
Test(identity, smollm2_f32_kv_f32, .timeout = 600)
{
    check_real(SMOLLM2, COP_PRECISION_CHOOSE_F32, true);
}

Test(identity, qwen2_5_int8, .timeout = 120)
{
    check_real(QWEN2_5, COP_PRECISION_CHOOSE_INT8, false);
}

/* ---- Commits ----------------------------------------------------------------------------- */

/* Ten rounds of random trees, each committed along a random path: K and V at committed
 * positions equal those of a fresh prefill of the committed tokens, byte for byte. */
Test(identity, committed_paths_equal_a_fresh_prefill)
{
    enum { ROUNDS = 10 };
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct gguf_writer *file = tiny_model_new(&(struct tiny_model){.seed = seed});
        int32_t tokens[ROUNDS * 41];
        struct bench bench = new_bench(gguf_save(file), 1, COP_PRECISION_CHOOSE_F32,
                                       seed % 4 < 2, NULL, tokens, 0);
        struct cop_cache *cache = NULL;
        cr_assert_eq(cop_model_cache_new(bench.model, SEQUENCES, TREE, &cache, NULL), COP_OK);
        bench.seed = seed;
        for (int32_t round = 0; round < ROUNDS; round++) {
            struct call call = {0};
            uint64_t salt = 50 + (uint64_t)round;
            int32_t size = 2 + draw(&bench, 2 * salt, 39);
            add_tree(&bench, &call, MAIN, size, false, salt);
            const struct cop_score score = {.n = call.n,
                                            .tokens = call.tokens,
                                            .sequences = call.sequences,
                                            .parents = call.parents};
            cr_assert_eq(cop_model_score(bench.model, cache, &score, NULL), COP_OK);
            int32_t leaf = draw(&bench, 2 * salt + 1, size);
            int32_t path[64], depth = cop_cache_depth(cache, MAIN, leaf);
            for (int32_t i = depth, node = leaf; i >= 0; i--, node = call.parents[node]) {
                path[i] = node;
                tokens[bench.length + i] = call.tokens[node];
            }
            cop_cache_commit(cache, MAIN, path, depth + 1);
            bench.length += depth + 1;
        }
        struct trace spoken = new_trace(&bench), fresh = new_trace(&bench);
        read_kv(&bench, cache, &spoken);
        cop_cache_reset(cache, MAIN);
        if (seed % 2 == 0) {
            prefill(&bench, cache, MAIN, bench.length, 0);
        } else {
            run_alone(&bench, cache, 0, bench.length, &fresh);
        }
        read_kv(&bench, cache, &fresh);
        size_t bytes = (size_t)(bench.length * bench.layers * 2 * bench.kv_width) * 4;
        cr_expect_eq(memcmp(spoken.kv, fresh.kv, bytes), 0, "seed %d", (int)seed);
        free_trace(&spoken);
        free_trace(&fresh);
        cop_cache_free(cache);
        cop_model_free(bench.model);
        gguf_writer_free(file);
    }
}
