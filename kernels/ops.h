/* The tensor operations that a model is made of, behind one table, and the numerical primitives
 * that every device shares. This is the only header of kernels/ that core/ includes.
 *
 * Vocabulary of shapes (fastest index last):
 *   n        tokens of this call, all sequences together: 1 to a few thousand
 *   width    hidden size;  heads, kv_heads, head_dim: attention geometry
 *   rows     outputs of a matrix;  cols: its inputs (a multiple of the format's block)
 *
 * Batch invariance (the promise that makes speculation invisible): the value computed for a
 * token is bit-identical whatever else is in the call, however the work is split over threads,
 * and however slots lie in pages. Every reduction has one order, a function of the token's own
 * position and the model alone. It holds within one device, one precision and one
 * instruction-set level.
 *
 * All operations are called from one thread; they spread over the device's own threads and
 * return when the result is in memory. Shapes are preconditions (checked by assert in debug
 * builds): whoever builds the call checks what came from outside. No operation allocates except
 * where it says so.
 */
#ifndef COP_KERNELS_OPS_H
#define COP_KERNELS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Number formats of stored weights -------------------------------------------------------
 */

enum cop_format {
    COP_FORMAT_F32,
    COP_FORMAT_F16,
    COP_FORMAT_BF16,
    COP_FORMAT_Q8_0,
    COP_FORMAT_Q4_0,
    COP_FORMAT_Q4_1,
    COP_FORMAT_Q5_0,
    COP_FORMAT_Q5_1,
    COP_FORMAT_Q4_K,
    COP_FORMAT_Q5_K,
    COP_FORMAT_Q6_K,
    COP_FORMAT_COUNT
};

/* One row of the format table. A format without `widen` is known by name but not readable. */
struct cop_format_info {
    const char *name;       /* "Q4_1" */
    int32_t block_elements; /* values per block: 1, 32 or 256 */
    int32_t block_bytes;
    bool is_quantised; /* precision "auto" multiplies it in int8 */
    /* values[0..n) from the blocks at `blocks`; n is a multiple of block_elements. Bit-exact:
     * one rounding per value at most. */
    void (*widen)(const void *blocks, int64_t n, float *values);
};
const struct cop_format_info *cop_format_info(enum cop_format format);

float cop_f16_to_f32(uint16_t bits);
uint16_t cop_f32_to_f16(float value); /* round to nearest even; NaN stays NaN */
float cop_bf16_to_f32(uint16_t bits);

/* ---- Shared primitives: the same decisions on every device
 * ------------------------------------- One exponential, one blocked order for sums over the
 * vocabulary, one inverse-CDF pick. */

#define COP_SUM_BLOCK 1024 /* entries per block of a vocabulary sum */

/* e^x in double, by a polynomial without libm: relative error below 1e-15 for x in [-700, 700];
 * 0 below -708 and for -inf; NaN stays NaN. */
double cop_exp(double x);

/* Natural logarithm in double without libm, relative error below 1e-15; -inf at 0. */
double cop_log(double x);

/* The f32 exponential of attention's soft-max; relative error below 2e-7; 0 below -87. */
float cop_expf(float x);

/* Sum of values[0..count), count <= COP_SUM_BLOCK, in the one fixed order. A sum over the
 * vocabulary adds the block sums first to last. */
double cop_sum_block(const double *values, int32_t count);

/* out[i] = scale * values[i], in double. */
void cop_widen(const float *values, int32_t count, double scale, double *out);

/* out[i] = cop_exp((logits[i] - shift) * scale) for i in [0, count), vectorised. */
void cop_exp_block(const float *logits, int32_t count, double shift, double scale, double *out);

/* The same exponentials rounded to f32, for a row that is kept; returns the blocked sum of the
 * rounded values, count <= COP_SUM_BLOCK. */
double cop_exp_row(const float *logits, int32_t count, double shift, double scale, float *out);

/* The sum of squares, entry i in lane i % 8. */
double cop_squares(const float *values, int32_t count);

/* Training. out = gate / (1 + e^-gate) * up, and what a gradient by out becomes; d_gate or d_up
 * may be d_out. */
void cop_swiglu_row(const float *gate, const float *up, int32_t count, float *out);
void cop_swiglu_back_row(const float *gate, const float *up, const float *d_out, int32_t count,
                         float *d_gate, float *d_up);

/* One step of AdamW for `count` numbers:  g = scale gradient,  first and second move to g and
 * g² by 1 - beta,  value -= rate first / (root sqrt(second) + epsilon) + decay value. */
struct cop_adamw_rates {
    float scale, beta1, beta2, rate, root, epsilon, decay;
};
void cop_adamw_row(const struct cop_adamw_rates *rates, const float *gradient, int32_t count,
                   float *value, float *first, float *second);

/* out[i] = the positive part of target_scale * target[i] - draft_scale * draft[i], in double;
 * returns its blocked sum, count <= COP_SUM_BLOCK. out may be NULL. */
double cop_residual_block(const float *target, double target_scale, const float *draft,
                          double draft_scale, int32_t count, double *out);

/* A row of target and draft weights, told apart by a third row: entry i is
 *     (open_target * target[i] + open_draft * draft[i])+   where scale * by[i] >= bar,
 *     (shut_target * target[i] + shut_draft * draft[i])+   elsewhere. */
struct cop_gate {
    double scale, bar;
    double open_target, open_draft, shut_target, shut_draft;
};
/* Such entries, all in double; returns their blocked sum, count <= COP_SUM_BLOCK. out may be
 * NULL. */
double cop_gated_block(const struct cop_gate *gate, const float *target, const float *draft,
                       const float *by, int32_t count, double *out);

/* Blocked sum of the draft[i] with target[i] / draft[i] < p / q, or <= where `or_equal` is set,
 * by products, which are exact if p and q are f32 numbers. */
double cop_ratio_below(const float *target, const float *draft, double p, double q,
                       bool or_equal, int32_t count);

/* target[i] / draft[i] by buckets. Bucket 0: target 0; then ratios from 2^-12 to 2^12 in steps
 * of 1/128 of a power of two, all below in the first, all above (draft 0 too) in the last: a
 * bucket is the word of an f32 above COP_RATIO_SHIFT bits. Where both are 0, any. */
#define COP_RATIO_BUCKETS (1 + 24 * 128)
#define COP_RATIO_SHIFT   16
#define COP_RATIO_LEAST   ((127 - 12) * 128)
void cop_ratio_buckets(const float *target, const float *draft, int32_t count, uint16_t *out);

/* Blocked sums, count <= COP_SUM_BLOCK, of
 *     weights[i] * (logits[i] - shift), over positive weights;
 *     v ln(v + guard), v = scale * weights[i], guard positive;
 *     v ln v, v = target_scale * target[i] + draft_scale * draft[i], where that is positive. */
double cop_energy_block(const float *weights, const float *logits, double shift, int32_t count);
double cop_surprise_block(const float *weights, double scale, double guard, int32_t count);
double cop_mixture_block(const float *target, double target_scale, const float *draft,
                         double draft_scale, int32_t count);

/* out[i] = e^(target_scale * target[i] - draft_scale * draft[i] - shift) of two rows of logits,
 * for a row that is kept: the exponent in double, the power in f32, within 1e-7 of it; 0 below
 * 2^-126. Returns the blocked sum of these values, count <= COP_SUM_BLOCK. */
double cop_contrast_row(const float *target, double target_scale, const float *draft,
                        double draft_scale, double shift, int32_t count, float *out);

/* An estimate, by f32, of the blocked sum of v ln(v + guard), v as in cop_mixture_block: within
 * 1e-5 (mass + |sum|) of it, for v up to 1. The same bits on every machine. */
double cop_mixture_near(const float *target, double target_scale, const float *draft,
                        double draft_scale, double guard, int32_t count);

/* The largest of each COP_MAXIMA_GROUP values (finite or -inf), the last group as far as it
 * goes. */
#define COP_MAXIMA_GROUP 64
void cop_maxima(const float *values, int32_t count, float *out);
/* The largest of all: finite or -inf, count at least 1. */
float cop_largest(const float *values, int32_t count);
/* How many values are above `bar`. */
int32_t cop_count_above(const float *values, int32_t count, float bar);

/* Index of the largest value, ties to the lowest index, and whether every value is finite or
 * -inf (NaN and +inf are not acceptable in a row). Returns -1 when no value is above -inf or
 * one is not acceptable. */
int32_t cop_argmax(const float *values, int32_t count);
/* The same, with cop_maxima(values, count, groups) on the way. */
int32_t cop_argmax_groups(const float *values, int32_t count, float *groups);

/* The entry of weights[0..count) on which `mass` falls: the first i with w[0]+…+w[i] > mass and
 * w[i] > 0; if rounding carried `mass` past the end, the last entry with w[i] > 0; -1 when none
 * is. *before, when not NULL, receives the sum of the entries before the one returned. */
int32_t cop_pick_block(const double *weights, int32_t count, double mass, double *before);

/* ---- Devices and weights --------------------------------------------------------------------
 */

enum cop_precision {
    COP_PRECISION_F32, /* activations stay f32 */
    COP_PRECISION_INT8 /* activations in int8 blocks of 32, integer dot products */
};

struct cop_device; /* a backend that is open: threads, workspace, instruction-set level */
struct cop_weight; /* a matrix, or several stacked by rows, in the device's own layout */

/* A matrix as it lies in a file: row-major, `format` blocks along cols. Borrowed. */
struct cop_matrix {
    enum cop_format format;
    int32_t rows, cols;
    const void *data;
};

/* ---- Paged keys and values ------------------------------------------------------------------
 * A pool is one array of pages; a page holds COP_PAGE_SLOTS tokens for every layer, K and V.
 * How a page is laid out inside is the device's affair; others go through kv_store, kv_copy and
 * kv_read. A slot is named by page * COP_PAGE_SLOTS + offset. */

#define COP_PAGE_SLOTS 16

struct cop_kv_layout {
    bool is_f32; /* else f16; K and V are rounded to it before anything reads them */
    int32_t layers, kv_heads, head_dim;
};

struct cop_kv_pool {
    struct cop_kv_layout layout;
    int32_t n_pages;
    void *data; /* [n_pages * page_bytes], zeroed on allocation, owned by the cache */
};

/* One token of an attention call. Its keys, by absolute position: positions [0, base) are the
 * sequence's slots in order; positions base, base+1, … are the slots of its own path, the
 * last of which is the token itself. So its position is base + path_length - 1. */
struct cop_attention_token {
    int32_t sequence;    /* row of the page table */
    int32_t base;        /* cached tokens shared by the whole tree */
    int32_t path_offset; /* into paths */
    int32_t path_length; /* >= 1 */
};

struct cop_attention {
    const struct cop_kv_pool *kv;
    int32_t layer;
    int32_t n, heads; /* query heads; heads % kv_heads == 0 */
    int32_t window;   /* keys with position difference < window are visible; 0: all */
    float scale;      /* usually 1 / sqrt(head_dim) */
    const float *q;   /* [n, q_stride], rotated, the first heads * head_dim of a row */
    int32_t q_stride;
    const struct cop_attention_token *tokens; /* [n]; tokens of one sequence are neighbours */
    const int32_t *paths; /* logical slots of the sequence: page_table[slot / PAGE_SLOTS] */
    const int32_t *const *page_tables; /* [sequence][logical page] -> page of the pool */
};

/* Rotary angles, precomputed in double and rounded once. */
struct cop_rope {
    const float *cosines, *sines; /* [positions, dim / 2] */
    int32_t dim;                  /* rotated entries of a head, the first ones */
    bool is_interleaved;          /* pairs (2i, 2i+1); else (i, i + dim/2) */
};

/* A table of floats in memory: entry k of line i is data[i * line_stride + k * entry_stride],
 * one of the strides is 1. */
struct cop_factor {
    const float *data;
    ptrdiff_t line_stride, entry_stride;
};

/* out[t * out_stride + r] (+)= sum over k < depth of left(r, k) * right(t, k), for r < rows and
 * t < n. */
struct cop_multiplication {
    struct cop_factor left, right;
    int32_t rows, n, depth;
    bool accumulate;
    float *out;
    ptrdiff_t out_stride;
};

/* The table. `out` never overlaps an input unless a slot says so. */
struct cop_ops {
    const char *name; /* "cpu", "reference" */

    /* Opens the backend. threads >= 1 (the caller's included). `level` limits the instruction
     * set
     * ("plain", "avx2", "avx512", "avx512-vnni"; NULL: the best of this machine). NULL on
     * failure: no memory, or a level that this machine lacks. */
    struct cop_device *(*open)(int32_t threads, const char *level);
    void (*close)(struct cop_device *device);
    const char *(*level)(const struct cop_device *device); /* "avx512-vnni" */

    /* Stacks parts with equal cols by rows into the device's layout, once, at load. The data
     * may be unmapped afterwards. NULL: no memory, or no product for the format in this
     * precision. Allocates. */
    struct cop_weight *(*weight_new)(struct cop_device *device, const struct cop_matrix *parts,
                                     int32_t n_parts, enum cop_precision precision);
    void (*weight_free)(struct cop_device *device, struct cop_weight *weight);
    size_t (*weight_bytes)(const struct cop_weight *weight);
    size_t (*held)(const struct cop_device *device); /* bytes of all weights that live */

    /* out[t, r] = sum over k of weight[r, k] * x[t, k]  (+ bias[r] if bias)  (+ out[t, r] if
     * accumulate: the residual stream). Reads each weight once for all n tokens. The workspace
     * of the device may grow (allocates; false: no memory, out is then undefined). */
    bool (*matmul)(struct cop_device *device, const struct cop_weight *weight, const float *x,
                   int32_t n, const float *bias, bool accumulate, float *out);

    /* Products of tables that both change with every use (training): n of them, none of which
     * reads or writes what another writes. Sums have one order, whatever the threads. The
     * workspace may grow (allocates; false: no memory, nothing is written then). */
    bool (*multiply)(struct cop_device *device, const struct cop_multiplication *list,
                     int32_t n);
    /* Calls work(arg, rank, size) once for each rank in [0, size), on the device's threads. */
    void (*together)(struct cop_device *device,
                     void (*work)(void *arg, int32_t rank, int32_t size), void *arg);

    /* out[t] = row tokens[t] of a matrix as it lies in the file, widened. Ids are in range. */
    void (*embed)(struct cop_device *device, const struct cop_matrix *table,
                  const int32_t *tokens, int32_t n, float *out);

    /* out[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * gain, over rows of `width` that lie
     * `stride` apart; x and out may be the same (q and k norms: n * heads rows of head_dim). */
    void (*rms_norm)(struct cop_device *device, const float *x, const float *gain,
                     float epsilon, int32_t n, int32_t width, int32_t stride, float *out);

    /* Rotates the query and key parts of qkv [n, (heads + 2 kv_heads) * head_dim] in place by
     * positions[t], rounds K and V to the pool's format and writes them to slots[t] (pool
     * slots). */
    void (*rope_store)(struct cop_device *device, float *qkv, int32_t n, int32_t heads,
                       const struct cop_rope *rope, const int32_t *positions,
                       const struct cop_kv_pool *kv, int32_t layer, const int32_t *slots);

    /* out [n, heads * head_dim]: soft-max attention of every token over its keys. The workspace
     * may grow (allocates; false: no memory). */
    bool (*attention)(struct cop_device *device, const struct cop_attention *in, float *out);

    /* out[t, i] = silu(gate_up[t, i]) * gate_up[t, width + i], gate_up [n, 2 * width]. */
    void (*swiglu)(struct cop_device *device, const float *gate_up, int32_t n, int32_t width,
                   float *out);

    /* The same with gelu (its tanh form) in place of silu. */
    void (*geglu)(struct cop_device *device, const float *gate_up, int32_t n, int32_t width,
                  float *out);

    size_t (*kv_page_bytes)(const struct cop_kv_layout *layout);
    /* Copies the K and V of all layers from one slot to another. */
    void (*kv_copy)(const struct cop_kv_pool *kv, int32_t from_slot, int32_t to_slot);
    /* key and value of one slot and layer as f32, [kv_heads * head_dim] each (exact widening).
     */
    void (*kv_read)(const struct cop_kv_pool *kv, int32_t layer, int32_t slot, float *key,
                    float *value);
    size_t (*kv_slot_bytes)(const struct cop_kv_layout *layout); /* moved by one kv_copy */
};

/* The backends of this build. */
extern const struct cop_ops cop_ops_cpu;       /* fast: kernels/cpu */
extern const struct cop_ops cop_ops_reference; /* slow twins in double: kernels/reference */

/* What the machine offers: the best level, the bandwidth that `threads` threads reach when
 * reading 1 GiB (best of `tries`, bytes per second; 0 without memory), and the int8
 * multiply-accumulates per second of the best kernel from registers. Used by bench and `cost`.
 */
const char *cop_cpu_best_level(void);
double cop_cpu_read_bandwidth(int32_t threads, int32_t tries);
double cop_cpu_int8_peak(int32_t threads);

#endif
