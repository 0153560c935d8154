/* Times the CPU kernels on the shapes of SmolLM2-135M (98 MB of Q4_1 and Q8_0 weights, random
 * contents): bench_kernels [threads [level]]. Minima of several runs; run it under `chrt -f
 * 50`. */
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu/level.h"
#include "kernels/large.h"
#include "kernels/ops.h"
#include "kernels/pool.h"
#include "tests/kernels/numbers.h"

enum { LAYERS = 30, WIDTH = 576, HIDDEN = 1536, HEADS = 9, KV_HEADS = 3, HEAD_DIM = 64 };
enum {
    VOCABULARY = 49152,
    QKV = WIDTH + 2 * KV_HEADS * HEAD_DIM,
    MAX_N = 512,
    MAX_CONTEXT = 2600
};

struct bench {
    const struct cop_ops *ops;
    struct cop_device *device;
    struct cop_weight *qkv[LAYERS], *output[LAYERS], *gate_up[LAYERS], *down[LAYERS], *head;
    float *x, *out; /* [MAX_N, 2 * HIDDEN], [64, VOCABULARY] */
    struct cop_kv_pool kv;
    double bandwidth, peak;
    size_t layer_bytes, head_bytes;
};

/* Gives every thread of the process a processor of its own, or takes that back: on a machine
 * with other work a scheduler may well put threads that wait for each other on one. */
static void pin_threads(bool is_pinned)
{
    cpu_set_t all, one;
    CPU_ZERO(&all);
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < n_cpus; cpu++) {
        CPU_SET(cpu, &all);
    }
    DIR *tasks = opendir("/proc/self/task");
    int cpu = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        int thread = atoi(entry->d_name);
        if (thread > 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu++ % (int)n_cpus, &one);
            sched_setaffinity(thread, sizeof one, is_pinned ? &one : &all);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Large blocks ask for huge pages, as the cache and the weights do. */
static void *memory(size_t bytes)
{
    void *data = cop_large_new(bytes);
    if (!data) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(data, 0, bytes);
    return data;
}

/* Random blocks with scales of about 2^-7. */
static struct cop_weight *random_weight(struct bench *bench, enum cop_format format,
                                        int32_t rows, int32_t cols, const int32_t *part_rows,
                                        int32_t n_parts)
{
    const struct cop_format_info *info = cop_format_info(format);
    size_t blocks = (size_t)rows * (size_t)(cols / info->block_elements);
    uint8_t *data = memory(blocks * (size_t)info->block_bytes);
    static uint64_t state = 7;
    for (size_t b = 0; b < blocks; b++) {
        uint8_t *block = data + b * (size_t)info->block_bytes;
        for (int32_t i = 0; i < info->block_bytes; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            block[i] = (uint8_t)(state >> 56);
        }
        int scale_at = format == COP_FORMAT_Q6_K ? 208 : 0;
        block[scale_at] = 0;
        block[scale_at + 1] = 0x20;
        if (format == COP_FORMAT_Q4_1 || format == COP_FORMAT_Q5_1 ||
            format == COP_FORMAT_Q4_K || format == COP_FORMAT_Q5_K) {
            block[2] = 0;
            block[3] = 0xac;
        }
    }
    struct cop_matrix parts[3];
    size_t at = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        parts[i] = (struct cop_matrix){format, part_rows[i], cols, data + at};
        at += (size_t)part_rows[i] * (size_t)(cols / info->block_elements) *
              (size_t)info->block_bytes;
    }
    struct cop_weight *weight =
        bench->ops->weight_new(bench->device, parts, n_parts, COP_PRECISION_INT8);
    free(data);
    return weight;
}

static struct cop_weight *one_part(struct bench *bench, enum cop_format format, int32_t rows,
                                   int32_t cols)
{
    return random_weight(bench, format, rows, cols, &rows, 1);
}

static void make_weights(struct bench *bench)
{
    static const int32_t qkv_rows[3] = {WIDTH, KV_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM};
    static const int32_t gate_rows[2] = {HIDDEN, HIDDEN};
    for (int i = 0; i < LAYERS; i++) {
        bench->qkv[i] = random_weight(bench, COP_FORMAT_Q4_1, QKV, WIDTH, qkv_rows, 3);
        bench->output[i] = one_part(bench, COP_FORMAT_Q4_1, WIDTH, WIDTH);
        bench->gate_up[i] =
            random_weight(bench, COP_FORMAT_Q4_1, 2 * HIDDEN, WIDTH, gate_rows, 2);
        bench->down[i] = one_part(bench, COP_FORMAT_Q4_1, WIDTH, HIDDEN);
        bench->layer_bytes += bench->ops->weight_bytes(bench->qkv[i]) +
                              bench->ops->weight_bytes(bench->output[i]) +
                              bench->ops->weight_bytes(bench->gate_up[i]) +
                              bench->ops->weight_bytes(bench->down[i]);
    }
    bench->head = one_part(bench, COP_FORMAT_Q8_0, VOCABULARY, WIDTH);
    bench->head_bytes = bench->ops->weight_bytes(bench->head);
}

static void run_layers(struct bench *bench, int32_t n)
{
    const struct cop_ops *ops = bench->ops;
    for (int i = 0; i < LAYERS; i++) {
        ops->matmul(bench->device, bench->qkv[i], bench->x, n, NULL, false, bench->out);
        ops->matmul(bench->device, bench->output[i], bench->x, n, NULL, true, bench->out);
        ops->matmul(bench->device, bench->gate_up[i], bench->x, n, NULL, false, bench->out);
        ops->matmul(bench->device, bench->down[i], bench->x, n, NULL, true, bench->out);
    }
}

static void run_head(struct bench *bench, int32_t n)
{
    bench->ops->matmul(bench->device, bench->head, bench->x, n, NULL, false, bench->out);
}

/* Layers and head in turn, as in a pass, so that neither finds its weights in the cache. */
static double best_products(struct bench *bench, int32_t n, bool has_head, double *layers,
                            double *head)
{
    double best = HUGE_VAL;
    *layers = *head = 0.0;
    for (int i = 0; i < (n > 64 ? 5 : 30); i++) {
        double start = now_ms();
        run_layers(bench, n);
        double middle = now_ms();
        if (has_head) {
            run_head(bench, n);
        }
        double end = now_ms();
        if (end - start < best) {
            best = end - start;
            *layers = middle - start;
            *head = end - middle;
        }
    }
    return best;
}

static void bench_products(struct bench *bench)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 512};
    const double layer_macs = (double)LAYERS * WIDTH * (QKV + WIDTH + 3.0 * HIDDEN);
    const double head_macs = (double)VOCABULARY * WIDTH;
    double first = 0.0;
    printf("\nproducts (%.1f MB in layers, %.1f MB in the head)\n",
           (double)bench->layer_bytes * 1e-6, (double)bench->head_bytes * 1e-6);
    printf("%5s %9s %9s %9s %7s %9s %7s %8s\n", "n", "layers ms", "head ms", "total ms",
           "x n=1", "roof ms", "of roof", "GMAC/s");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int32_t n = sizes[i];
        bool has_head = n <= 64;
        double layers, head, total = best_products(bench, n, has_head, &layers, &head);
        double macs = layer_macs + (has_head ? head_macs : 0.0);
        size_t bytes = bench->layer_bytes + (has_head ? bench->head_bytes : 0);
        double roof = fmax((double)bytes / bench->bandwidth, macs * n / bench->peak) * 1e3;
        first = n == 1 ? total : first;
        printf("%5d %9.3f %9.3f %9.3f %7.2f %9.3f %6.0f%% %8.1f\n", n, layers, head, total,
               total / first, roof, 100.0 * roof / total, macs * n / total * 1e-6);
    }
}

/* One large matrix of each block format: weights per second beside Q4_1's, and beside what the
 * bandwidth allows for the format's bytes. */
static void bench_formats(struct bench *bench)
{
    enum { ROWS = 1 << 17, COLS = 3 * 512, N_SIZES = 4 };
    static const enum cop_format formats[] = {COP_FORMAT_Q4_1, COP_FORMAT_Q4_0, COP_FORMAT_Q5_0,
                                              COP_FORMAT_Q5_1, COP_FORMAT_Q8_0, COP_FORMAT_Q4_K,
                                              COP_FORMAT_Q5_K, COP_FORMAT_Q6_K};
    static const int32_t sizes[N_SIZES] = {1, 4, 8, 16};
    const double weights = (double)ROWS * COLS;
    double of_first[N_SIZES] = {0};
    printf("\nformats: weights per ns (share of Q4_1's, of the bandwidth's limit)\n%-6s %5s",
           "", "bits");
    for (int s = 0; s < N_SIZES; s++) {
        printf("        n = %-2d      ", sizes[s]);
    }
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        struct cop_weight *weight = one_part(bench, formats[f], ROWS, COLS);
        double bytes = (double)bench->ops->weight_bytes(weight);
        printf("\n%-6s %5.2f", cop_format_info(formats[f])->name, 8 * bytes / weights);
        for (int s = 0; s < N_SIZES; s++) {
            double best = HUGE_VAL;
            for (int i = 0; i < 12; i++) {
                double start = now_ms();
                bench->ops->matmul(bench->device, weight, bench->x, sizes[s], NULL, false,
                                   bench->out);
                best = fmin(best, now_ms() - start);
            }
            double speed = weights / best * 1e-6;
            of_first[s] = f == 0 ? speed : of_first[s];
            printf("  %5.1f (%4.2f, %4.2f)", speed, speed / of_first[s],
                   speed * bytes / weights * 1e9 / bench->bandwidth);
        }
        bench->ops->weight_free(bench->device, weight);
    }
    printf("\n");
}

/* n tokens on top of a context: a chain, prefill's and verification's ordinary case. */
static void bench_attention(struct bench *bench, int32_t n, int32_t context)
{
    struct cop_attention_token *tokens = memory((size_t)n * sizeof *tokens);
    int32_t *path = memory((size_t)n * sizeof *path);
    int32_t *table = memory((size_t)bench->kv.n_pages * sizeof *table);
    const int32_t *tables[1] = {table};
    for (int32_t i = 0; i < bench->kv.n_pages; i++) {
        table[i] = (i * 7 + 3) % bench->kv.n_pages;
    }
    for (int32_t t = 0; t < n; t++) {
        path[t] = context + t;
        tokens[t] = (struct cop_attention_token){0, context, 0, t + 1};
    }
    struct cop_attention in = {.kv = &bench->kv,
                               .n = n,
                               .heads = HEADS,
                               .scale = 0.125f,
                               .q = bench->x,
                               .q_stride = QKV,
                               .tokens = tokens,
                               .paths = path,
                               .page_tables = tables};
    double best = HUGE_VAL;
    for (int i = 0; i < (n > 64 ? 3 : 20); i++) {
        double start = now_ms();
        for (in.layer = 0; in.layer < LAYERS; in.layer++) {
            bench->ops->attention(bench->device, &in, bench->out);
        }
        best = fmin(best, now_ms() - start);
    }
    printf("%8d %8d %10.3f ms in %d layers\n", context, n, best, LAYERS);
    free(tokens);
    free(path);
    free(table);
}

static void bench_attentions(struct bench *bench)
{
    static const int32_t contexts[] = {64, 1024, 2048}, sizes[] = {1, 8, 16, 64};
    struct cop_kv_layout layout = {false, LAYERS, KV_HEADS, HEAD_DIM};
    bench->kv = (struct cop_kv_pool){layout, MAX_CONTEXT / COP_PAGE_SLOTS + 1, NULL};
    bench->kv.data = memory((size_t)bench->kv.n_pages * bench->ops->kv_page_bytes(&layout));
    printf("\nattention\n%8s %8s\n", "context", "n");
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < 4; i++) {
            bench_attention(bench, sizes[i], contexts[c]);
        }
    }
    bench_attention(bench, 512, 0);
    free(bench->kv.data);
}

/* ---- A whole forward pass: what verifying n nodes costs
 * ------------------------------------------ */

struct pass {
    struct cop_rope rope;
    int32_t *slots, *positions, *path, *table;
    struct cop_attention_token *tokens;
    float *stream, *normed, *qkv, *mixed, *gate_up, *gated, *gain;
    int32_t context;
};

static void run_pass(struct bench *bench, struct pass *pass, int32_t n)
{
    const struct cop_ops *ops = bench->ops;
    struct cop_device *device = bench->device;
    const int32_t *tables[1] = {pass->table};
    struct cop_attention in = {.kv = &bench->kv,
                               .n = n,
                               .heads = HEADS,
                               .scale = 0.125f,
                               .q = pass->qkv,
                               .q_stride = QKV,
                               .tokens = pass->tokens,
                               .paths = pass->path,
                               .page_tables = tables};
    memcpy(pass->stream, bench->x, (size_t)n * WIDTH * sizeof *pass->stream);
    for (int32_t i = 0; i < LAYERS; i++) {
        ops->rms_norm(device, pass->stream, pass->gain, 1e-5f, n, WIDTH, WIDTH, pass->normed);
        ops->matmul(device, bench->qkv[i], pass->normed, n, NULL, false, pass->qkv);
        ops->rope_store(device, pass->qkv, n, HEADS, &pass->rope, pass->positions, &bench->kv,
                        i, pass->slots);
        in.layer = i;
        ops->attention(device, &in, pass->mixed);
        ops->matmul(device, bench->output[i], pass->mixed, n, NULL, true, pass->stream);
        ops->rms_norm(device, pass->stream, pass->gain, 1e-5f, n, WIDTH, WIDTH, pass->normed);
        ops->matmul(device, bench->gate_up[i], pass->normed, n, NULL, false, pass->gate_up);
        ops->swiglu(device, pass->gate_up, n, HIDDEN, pass->gated);
        ops->matmul(device, bench->down[i], pass->gated, n, NULL, true, pass->stream);
    }
    ops->rms_norm(device, pass->stream, pass->gain, 1e-5f, n, WIDTH, WIDTH, pass->normed);
    if (n <= 64) {
        ops->matmul(device, bench->head, pass->normed, n, NULL, false, bench->out);
    }
}

static void set_context(struct pass *pass, int32_t n, int32_t context)
{
    for (int32_t t = 0; t < n; t++) {
        int32_t slot = context + t;
        pass->path[t] = pass->positions[t] = slot;
        pass->slots[t] =
            pass->table[slot / COP_PAGE_SLOTS] * COP_PAGE_SLOTS + slot % COP_PAGE_SLOTS;
        pass->tokens[t] = (struct cop_attention_token){0, context, 0, t + 1};
    }
}

static void bench_passes(struct bench *bench)
{
    static const int32_t contexts[] = {64, 1024}, sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64};
    enum { N_SIZES = 10, ROUNDS = 30 };
    struct cop_kv_layout layout = {false, LAYERS, KV_HEADS, HEAD_DIM};
    bench->kv = (struct cop_kv_pool){layout, MAX_CONTEXT / COP_PAGE_SLOTS + 1, NULL};
    bench->kv.data = memory((size_t)bench->kv.n_pages * bench->ops->kv_page_bytes(&layout));
    struct pass pass = {.slots = memory(MAX_N * sizeof(int32_t)),
                        .positions = memory(MAX_N * sizeof(int32_t)),
                        .path = memory(MAX_N * sizeof(int32_t)),
                        .table = memory((size_t)bench->kv.n_pages * sizeof(int32_t)),
                        .tokens = memory(MAX_N * sizeof(struct cop_attention_token)),
                        .stream = memory(MAX_N * WIDTH * sizeof(float)),
                        .normed = memory(MAX_N * WIDTH * sizeof(float)),
                        .qkv = memory(MAX_N * QKV * sizeof(float)),
                        .mixed = memory(MAX_N * WIDTH * sizeof(float)),
                        .gate_up = memory((size_t)MAX_N * 2 * HIDDEN * sizeof(float)),
                        .gated = memory((size_t)MAX_N * HIDDEN * sizeof(float)),
                        .gain = memory(WIDTH * sizeof(float))};
    float *angles = memory((size_t)MAX_CONTEXT * HEAD_DIM * sizeof *angles);
    pass.rope = (struct cop_rope){angles, angles + MAX_CONTEXT * HEAD_DIM / 2, HEAD_DIM, true};
    for (int i = 0; i < MAX_CONTEXT * HEAD_DIM / 2; i++) {
        angles[i] = cosf((float)i);
        angles[MAX_CONTEXT * HEAD_DIM / 2 + i] = sinf((float)i);
    }
    for (int i = 0; i < WIDTH; i++) {
        pass.gain[i] = 1.0f;
    }
    for (int32_t i = 0; i < bench->kv.n_pages; i++) {
        pass.table[i] = (i * 7 + 3) % bench->kv.n_pages;
    }
    for (int c = 0; c < 2; c++) {
        double best[N_SIZES];
        printf("\nwhole pass at context %d\n%5s %9s %7s %10s\n", contexts[c], "n", "ms",
               "x n=1", "tokens/s");
        for (int i = 0; i < N_SIZES; i++) {
            best[i] = HUGE_VAL;
        }
        for (int round = 0; round < ROUNDS; round++) { /* all sizes see the same disturbances */
            for (int i = 0; i < N_SIZES; i++) {
                set_context(&pass, sizes[i], contexts[c]);
                double start = now_ms();
                run_pass(bench, &pass, sizes[i]);
                best[i] = fmin(best[i], now_ms() - start);
            }
        }
        for (int i = 0; i < N_SIZES; i++) {
            printf("%5d %9.3f %7.2f %10.0f\n", sizes[i], best[i], best[i] / best[0],
                   sizes[i] / best[i] * 1e3);
        }
    }
    double prefill = HUGE_VAL;
    for (int round = 0; round < 3; round++) {
        set_context(&pass, MAX_N, 0);
        double start = now_ms();
        run_pass(bench, &pass, MAX_N);
        prefill = fmin(prefill, now_ms() - start);
    }
    printf("prefill of %d without the head: %.1f ms, %.0f tokens/s\n", MAX_N, prefill,
           MAX_N / prefill * 1e3);
    free(bench->kv.data);
}

static void nothing(void *arg, int32_t rank, int32_t size)
{
    (void)arg;
    (void)rank;
    (void)size;
}

static void bench_small(struct bench *bench, int32_t threads)
{
    enum { ROUNDS = 2000 };
    const struct cop_ops *ops = bench->ops;
    double best[6] = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    struct cop_pool *pool = cop_pool_new(threads);
    double *row = memory(VOCABULARY * sizeof *row);
    for (int try = 0; try < 10; try++) {
        double start = now_ms();
        for (int i = 0; i < ROUNDS; i++) {
            cop_pool_run(pool, nothing, NULL);
        }
        best[0] = fmin(best[0], (now_ms() - start) / ROUNDS);
        start = now_ms();
        for (int i = 0; i < ROUNDS; i++) {
            ops->rms_norm(bench->device, bench->x, bench->x + WIDTH, 1e-5f, 1, WIDTH, WIDTH,
                          bench->out);
        }
        best[1] = fmin(best[1], (now_ms() - start) / ROUNDS);
        start = now_ms();
        for (int i = 0; i < ROUNDS; i++) {
            ops->swiglu(bench->device, bench->x, 1, HIDDEN, bench->out);
        }
        best[2] = fmin(best[2], (now_ms() - start) / ROUNDS);
        start = now_ms();
        int32_t sink = 0;
        for (int i = 0; i < 10; i++) {
            sink += cop_argmax(bench->out, VOCABULARY);
        }
        best[3] = fmin(best[3], (now_ms() - start) / 10);
        start = now_ms();
        for (int i = 0; i < 10; i++) {
            cop_exp_block(bench->out, VOCABULARY, 3.0, 1.0, row);
        }
        best[4] = fmin(best[4], (now_ms() - start) / 10);
        start = now_ms();
        double sum = 0.0;
        for (int i = 0; i < VOCABULARY; i += COP_SUM_BLOCK) {
            sum += cop_sum_block(row + i, COP_SUM_BLOCK);
        }
        best[5] = fmin(best[5], now_ms() - start);
        row[0] = sum + sink;
    }
    static const char *const names[6] = {"fork and join", "rms_norm 576", "swiglu 1536",
                                         "argmax 49152",  "exp 49152",    "sum 49152"};
    printf("\n");
    for (int i = 0; i < 6; i++) {
        printf("%-14s %8.3f us\n", names[i], best[i] * 1e3);
    }
    cop_pool_free(pool);
    free(row);
}

int main(int argc, char **argv)
{
    int32_t threads = argc > 1 ? atoi(argv[1]) : 2;
    struct bench bench = {.ops = &cop_ops_cpu};
    const char *sections = argc > 3 ? argv[3] : "pfwas";
    bench.device =
        bench.ops->open(threads, argc > 2 && strcmp(argv[2], "best") != 0 ? argv[2] : NULL);
    if (!bench.device) {
        fprintf(stderr, "usage: bench_kernels [threads [level or best [sections]]]\n");
        return 1;
    }
    bench.bandwidth = cop_cpu_read_bandwidth(threads, 10);
    bench.peak = cop_cpu_int8_peak(threads);
    printf("%s, %d threads: reads %.1f GB/s, int8 %.0f GMAC/s\n",
           bench.ops->level(bench.device), threads, bench.bandwidth * 1e-9, bench.peak * 1e-9);
    bench.x = memory((size_t)MAX_N * 2 * HIDDEN * sizeof *bench.x);
    bench.out = memory((size_t)64 * VOCABULARY * sizeof *bench.out) /* >= 16 << 17 */;
    uint64_t state = 1;
    for (int i = 0; i < MAX_N * 2 * HIDDEN; i++) {
        bench.x[i] = (float)test_uniform(&state) - 0.5f;
    }
    make_weights(&bench);
    pin_threads(true);
    if (strchr(sections, 'p')) {
        bench_products(&bench);
    }
    if (strchr(sections, 'f')) {
        bench_formats(&bench);
    }
    if (strchr(sections, 'w')) {
        bench_passes(&bench);
    }
    if (strchr(sections, 'a')) {
        bench_attentions(&bench);
    }
    pin_threads(false);
    if (strchr(sections, 's')) {
        bench_small(&bench, threads);
    }
    pin_threads(false);
    printf("reads %.1f GB/s at the end\n", cop_cpu_read_bandwidth(threads, 10) * 1e-9);
    return 0;
}
