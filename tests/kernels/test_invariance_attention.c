/* Attention: the bits do not depend on company, threads or page layout either, nor on whether a
 * token's path is called a chain or a tree. */
#include "tests/kernels/invariance.h"

enum { HEADS = 6, KV_HEADS = 2, HEAD_DIM = 24, WIDTH = HEADS * HEAD_DIM };
enum { POSITIONS = 150, PAGES = 64 };

/* Keys and values of POSITIONS positions, kept as floats, to be laid out in any way. */
struct history {
    float *keys_values; /* [POSITIONS][2 * KV_HEADS * HEAD_DIM] */
    float *q;           /* [POSITIONS][WIDTH] */
};

static struct history make_history(void)
{
    uint64_t state = 17;
    struct history history;
    history.keys_values =
        random_floats((size_t)POSITIONS * 2 * KV_HEADS * HEAD_DIM, &state, 2.0f);
    history.q = random_floats((size_t)POSITIONS * WIDTH, &state, 2.0f);
    return history;
}

struct world {
    struct cop_device *device;
    struct cop_kv_pool kv;
    int32_t table[PAGES];
};

static struct world make_world(int32_t threads, const char *level, bool is_f32, int32_t shuffle)
{
    struct world world = {.device = ops->open(threads, level)};
    world.kv = (struct cop_kv_pool){{is_f32, 2, KV_HEADS, HEAD_DIM}, PAGES, NULL};
    world.kv.data = memory(PAGES, ops->kv_page_bytes(&world.kv.layout));
    for (int32_t i = 0; i < PAGES; i++) {
        world.table[i] = (i * (2 * shuffle + 1) + shuffle) % PAGES;
    }
    return world;
}

static void close_world(struct world *world)
{
    ops->close(world->device);
    free(world->kv.data);
}

static int32_t pool_slot(const struct world *world, int32_t slot)
{
    return world->table[slot / COP_PAGE_SLOTS] * COP_PAGE_SLOTS + slot % COP_PAGE_SLOTS;
}

/* Puts what belongs to `position` into a logical slot. */
static void put(const struct world *world, const struct history *history, int32_t position,
                int32_t slot)
{
    enum { BOTH = 2 * KV_HEADS * HEAD_DIM };
    static const float one = 1.0f, zero = 0.0f;
    const struct cop_rope rope = {&one, &zero, 0, false};
    float row[BOTH];
    const int32_t at = 0, to = pool_slot(world, slot);
    memcpy(row, history->keys_values + (ptrdiff_t)position * BOTH, sizeof row);
    ops->rope_store(world->device, row, 1, 0, &rope, &at, &world->kv, 1, &to);
}

static void attend(const struct world *world, const struct history *history, int32_t first_q,
                   int32_t n, int32_t window, const struct cop_attention_token *tokens,
                   const int32_t *paths, float *out)
{
    const int32_t *tables[1] = {world->table};
    const struct cop_attention in = {.kv = &world->kv,
                                     .layer = 1,
                                     .n = n,
                                     .heads = HEADS,
                                     .window = window,
                                     .scale = 0.2f,
                                     .q = history->q + (ptrdiff_t)first_q * WIDTH,
                                     .q_stride = WIDTH,
                                     .tokens = tokens,
                                     .paths = paths,
                                     .page_tables = tables};
    cr_assert(ops->attention(world->device, &in, out));
}

/* Every position alone, one thread, pages in order: what all other arrangements must give. */
static float *attend_alone(const char *level, bool is_f32, int32_t window,
                           const struct history *history)
{
    struct world world = make_world(1, level, is_f32, 0);
    float *out = memory((size_t)POSITIONS * WIDTH, sizeof *out);
    for (int32_t p = 0; p < POSITIONS; p++) {
        put(&world, history, p, p);
        const struct cop_attention_token token = {0, p, 0, 1};
        attend(&world, history, p, 1, window, &token, &p, out + (ptrdiff_t)p * WIDTH);
    }
    close_world(&world);
    return out;
}

static void expect_rows(const float *out, const float *alone, int32_t from, int32_t n,
                        const char *what)
{
    cr_expect_arr_eq(out, alone + (ptrdiff_t)from * WIDTH, (size_t)n * WIDTH * sizeof *out,
                     "%s: positions %d to %d", what, from, from + n - 1);
}

/* Chunks of prefill: base may be the chunk's start with a shared path, or each token's own
 * position. */
static void check_chunks(const char *level, bool is_f32, int32_t window,
                         const struct history *history, const float *alone)
{
    static const int32_t chunks[] = {7, 16, 64, 150};
    float *out = memory((size_t)POSITIONS * WIDTH, sizeof *out);
    struct cop_attention_token tokens[POSITIONS];
    int32_t path[POSITIONS];
    for (int32_t threads = 1; threads <= 3; threads++) {
        for (size_t i = 0; i < 4; i++) {
            struct world world = make_world(threads, level, is_f32, (int32_t)i + 3);
            for (int32_t from = 0; from < POSITIONS; from += chunks[i]) {
                int32_t n = POSITIONS - from < chunks[i] ? POSITIONS - from : chunks[i];
                for (int32_t t = 0; t < n; t++) {
                    put(&world, history, from + t, from + t);
                    path[t] = from + t;
                    tokens[t] = i % 2 ? (struct cop_attention_token){0, from, 0, t + 1}
                                      : (struct cop_attention_token){0, from + t, t, 1};
                }
                attend(&world, history, from, n, window, tokens, path, out);
                expect_rows(out, alone, from, n, "chunk");
            }
            close_world(&world);
        }
    }
    free(out);
}

/* A sequence of `base` committed positions, then its last positions as a path through a tree
 * whose other nodes hold garbage: node i of the path sits in slot base + 1 + 3 i, in reverse
 * order if `backwards`. */
static void check_tree(const char *level, bool is_f32, int32_t window,
                       const struct history *history, const float *alone, int32_t base,
                       bool backwards)
{
    enum { MAX_DEPTH = 24 };
    int32_t depth = POSITIONS - base < MAX_DEPTH ? POSITIONS - base : MAX_DEPTH;
    struct cop_attention_token tokens[MAX_DEPTH];
    int32_t paths[MAX_DEPTH];
    float out[MAX_DEPTH * WIDTH];
    for (int32_t threads = 1; threads <= 3; threads++) {
        struct world world = make_world(threads, level, is_f32, 9);
        size_t bytes = PAGES * ops->kv_page_bytes(&world.kv.layout);
        memset(world.kv.data, 0xff, bytes); /* NaN in every slot that is not written */
        for (int32_t p = 0; p < base; p++) {
            put(&world, history, p, p);
        }
        for (int32_t i = 0; i < depth; i++) {
            paths[i] = base + 1 + 3 * (backwards ? depth - 1 - i : i);
            put(&world, history, base + i, paths[i]);
            tokens[i] = (struct cop_attention_token){0, base, 0, i + 1};
        }
        attend(&world, history, base, depth, window, tokens, paths, out);
        expect_rows(out, alone, base, depth, backwards ? "backward tree" : "tree");
        /* One of its tokens, alone in the call. */
        attend(&world, history, base + depth - 1, 1, window, &tokens[depth - 1], paths, out);
        expect_rows(out, alone, base + depth - 1, 1, "tip of the tree");
        close_world(&world);
    }
}

static void check_attention(const char *level, bool is_f32, int32_t window)
{
    struct history history = make_history();
    float *alone = attend_alone(level, is_f32, window, &history);
    for (int32_t i = 0; i < POSITIONS * WIDTH; i++) {
        cr_assert(isfinite(alone[i]));
    }
    check_chunks(level, is_f32, window, &history, alone);
    check_tree(level, is_f32, window, &history, alone, 0, false);
    check_tree(level, is_f32, window, &history, alone, 16, true);
    check_tree(level, is_f32, window, &history, alone, 77, false);
    check_tree(level, is_f32, window, &history, alone, 127, true);
    free(alone);
    free(history.keys_values);
    free(history.q);
}

Test(invariance, attention_does_not_depend_on_arrangement)
{
    const struct cop_level *level;
    for (int32_t at = 0; (level = cop_level_at(at)); at++) {
        check_attention(level->name, false, 0);
        check_attention(level->name, true, 0);
        check_attention(level->name, false, 11);
        check_attention(level->name, true, 40);
    }
}

Test(invariance, ragged_sequences_do_not_see_each_other)
{
    enum { N = 5 };
    static const int32_t lengths[N] = {1, 17, 32, 100, 150};
    struct history history = make_history();
    float *alone = attend_alone(NULL, false, 0, &history);
    struct world world = make_world(2, NULL, false, 4);
    int32_t tables[N][POSITIONS / COP_PAGE_SLOTS + 1];
    const int32_t *pointers[N];
    struct cop_attention_token tokens[N];
    int32_t paths[N], next_page = 0;
    float q[N * WIDTH], out[N * WIDTH];
    for (int32_t s = 0; s < N; s++) {
        int32_t n_pages = (lengths[s] + COP_PAGE_SLOTS - 1) / COP_PAGE_SLOTS;
        for (int32_t i = 0; i < n_pages; i++) {
            tables[s][i] = next_page++;
        }
        pointers[s] = tables[s];
        memcpy(world.table, tables[s], (size_t)n_pages * sizeof tables[s][0]);
        for (int32_t p = 0; p < lengths[s]; p++) {
            put(&world, &history, p, p);
        }
        paths[s] = lengths[s] - 1;
        tokens[s] = (struct cop_attention_token){s, lengths[s] - 1, s, 1};
        memcpy(q + s * WIDTH, history.q + (ptrdiff_t)(lengths[s] - 1) * WIDTH,
               WIDTH * sizeof *q);
    }
    const struct cop_attention in = {.kv = &world.kv,
                                     .layer = 1,
                                     .n = N,
                                     .heads = HEADS,
                                     .scale = 0.2f,
                                     .q = q,
                                     .q_stride = WIDTH,
                                     .tokens = tokens,
                                     .paths = paths,
                                     .page_tables = pointers};
    cr_assert(ops->attention(world.device, &in, out));
    for (int32_t s = 0; s < N; s++) {
        expect_rows(out + s * WIDTH, alone, lengths[s] - 1, 1, "ragged");
    }
    close_world(&world);
    free(alone);
    free(history.keys_values);
    free(history.q);
}

/* Nodes behind a long context in the shapes of real models: threads take whole units, or share
 * each out, depending on how many there are. Every second node is a child of the root. */
enum { LONG = 1000, NODES = 16, LONG_DIM = 64 };

struct long_world {
    struct cop_kv_pool kv;
    int32_t heads, width; /* of a row: queries, keys, values */
    int32_t table[(LONG + NODES) / COP_PAGE_SLOTS + 1];
    float *rows; /* [LONG + NODES][width] */
    int32_t paths[NODES * NODES];
    struct cop_attention_token tokens[NODES];
};

static void make_long_world(struct long_world *world, int32_t heads, int32_t kv_heads)
{
    enum { N = LONG + NODES };
    static const float one = 1.0f, zero = 0.0f;
    const struct cop_rope rope = {&one, &zero, 0, false};
    uint64_t state = 23;
    int32_t positions[N] = {0}, slots[N], n_paths = 0;
    world->heads = heads;
    world->width = (heads + 2 * kv_heads) * LONG_DIM;
    world->kv = (struct cop_kv_pool){{false, 1, kv_heads, LONG_DIM}, PAGES, NULL};
    world->kv.data = memory(PAGES, ops->kv_page_bytes(&world->kv.layout));
    world->rows = random_floats((size_t)N * (size_t)world->width, &state, 2.0f);
    for (int32_t p = 0; p < N; p++) {
        world->table[p / COP_PAGE_SLOTS] = (p / COP_PAGE_SLOTS * 5 + 2) % PAGES;
        slots[p] = world->table[p / COP_PAGE_SLOTS] * COP_PAGE_SLOTS + p % COP_PAGE_SLOTS;
    }
    struct cop_device *device = ops->open(1, NULL);
    ops->rope_store(device, world->rows, N, heads, &rope, positions, &world->kv, 0, slots);
    ops->close(device);
    for (int32_t i = 0; i < NODES; i++) { /* 0 - 1 - 3 - 5 …, 0 - 2, 0 - 4, … */
        world->tokens[i] = (struct cop_attention_token){0, LONG, n_paths, 0};
        for (int32_t above = 0; above < i; above++) {
            if (above == 0 || (i % 2 == 1 && above % 2 == 1)) {
                world->paths[n_paths++] = LONG + above;
            }
        }
        world->paths[n_paths++] = LONG + i;
        world->tokens[i].path_length = n_paths - world->tokens[i].path_offset;
    }
}

static void attend_long(const struct long_world *world, struct cop_device *device,
                        int32_t first, int32_t n, float *out)
{
    const int32_t *tables[1] = {world->table};
    const struct cop_attention in = {.kv = &world->kv,
                                     .n = n,
                                     .heads = world->heads,
                                     .scale = 0.125f,
                                     .q =
                                         world->rows + (ptrdiff_t)(LONG + first) * world->width,
                                     .q_stride = world->width,
                                     .tokens = world->tokens + first,
                                     .paths = world->paths,
                                     .page_tables = tables};
    cr_assert(ops->attention(device, &in, out));
}

Test(invariance, nodes_of_a_long_context_do_not_depend_on_company_or_threads)
{
    static const int32_t shapes[2][2] = {{9, 3}, {14, 2}}; /* query heads, key heads */
    for (int shape = 0; shape < 2; shape++) {
        struct long_world world;
        make_long_world(&world, shapes[shape][0], shapes[shape][1]);
        size_t row = (size_t)world.heads * LONG_DIM;
        float *alone = memory(NODES * row, sizeof *alone);
        float *together = memory(NODES * row, sizeof *together);
        for (int32_t threads = 1; threads <= 3; threads++) {
            struct cop_device *device = ops->open(threads, NULL);
            for (int32_t i = 0; threads == 1 && i < NODES; i++) {
                attend_long(&world, device, i, 1, alone + (size_t)i * row);
            }
            for (int32_t n = 1; n <= NODES; n++) {
                attend_long(&world, device, NODES - n, n, together);
                cr_expect_arr_eq(together, alone + (size_t)(NODES - n) * row,
                                 (size_t)n * row * sizeof *alone,
                                 "%d heads, %d nodes, %d threads", world.heads, n, threads);
            }
            ops->close(device);
        }
        free(alone);
        free(together);
        free(world.rows);
        free(world.kv.data);
    }
}

Test(invariance, a_copied_slot_reads_as_the_original)
{
    struct history history = make_history();
    for (int is_f32 = 0; is_f32 < 2; is_f32++) {
        struct world world = make_world(1, NULL, is_f32, 2);
        enum { HALF = KV_HEADS * HEAD_DIM };
        float before[2][HALF], after[2][HALF], other[2][HALF], still[2][HALF];
        put(&world, &history, 3, 5);
        put(&world, &history, 4, 6);
        put(&world, &history, 9, 40);
        ops->kv_read(&world.kv, 1, pool_slot(&world, 40), before[0], before[1]);
        ops->kv_read(&world.kv, 1, pool_slot(&world, 6), other[0], other[1]);
        ops->kv_copy(&world.kv, pool_slot(&world, 40), pool_slot(&world, 5));
        ops->kv_read(&world.kv, 1, pool_slot(&world, 5), after[0], after[1]);
        ops->kv_read(&world.kv, 1, pool_slot(&world, 6), still[0], still[1]);
        cr_expect_arr_eq(after, before, sizeof after);
        cr_expect_arr_eq(still, other, sizeof still, "the neighbour was touched");
        const float *row = history.keys_values + 9 * 2 * HALF;
        for (int i = 0; i < HALF; i++) {
            cr_expect_eq(after[0][i], is_f32 ? row[i] : cop_f16_to_f32(cop_f32_to_f16(row[i])));
            cr_expect_eq(after[1][i], is_f32 ? row[HALF + i]
                                             : cop_f16_to_f32(cop_f32_to_f16(row[HALF + i])));
        }
        cr_expect_eq(ops->kv_slot_bytes(&world.kv.layout),
                     (size_t)(2 * 2 * HALF * (is_f32 ? 4 : 2)));
        close_world(&world);
    }
    free(history.keys_values);
    free(history.q);
}
