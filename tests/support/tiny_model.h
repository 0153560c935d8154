/* Small models for tests, written as ordinary GGUF files, so that every test runs through the
 * real loader.
 *
 *     struct gguf_writer *file = tiny_model_new(&(struct tiny_model){.seed = 7});
 *     struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
 *     cop_model_open(&model, &options, &err);
 *     gguf_writer_free(file);     // removes the file; an open model keeps its mapping
 *
 * Every field of a description may be 0: then it has the default in its comment.
 *
 * A draft for a target. Weights are a function of (seed, tensor name, place) alone, so a file
 * with fewer layers shares the rest of its weights with the one with more:
 *     target  {.seed = 7}                                 two layers
 *     draft   {.seed = 7, .noise = 0.1, .noise_seed = 1}   the same with every weight disturbed
 *     draft   {.seed = 7, .layers = 1}                    the same without its upper layer
 *     draft   {.seed = 8}                                 a stranger
 * Share of a target's greedy tokens that are also the draft's best (test_tiny.c asserts
 * bounds), for noise 0.1, noise 0.3, one layer less, a stranger: tied 0.75 to 0.9, 0.4 to 0.7,
 * 0.65 to 0.9, 0.1; with has_output 0.6, 0.2, 0.3, 0.02, and answers vary more (tied models
 * tend to cycle). */
#ifndef TESTS_SUPPORT_TINY_MODEL_H
#define TESTS_SUPPORT_TINY_MODEL_H

#include "kernels/ops.h"
#include "tests/support/gguf_writer.h"
#include <stdbool.h>
#include <stdint.h>

/* A deliberate fault, for tests of the loader: applied to the key or tensor `name`. */
enum tiny_fault {
    TINY_NO_FAULT,
    TINY_DROP,       /* leave the key or tensor out */
    TINY_KEY_U32,    /* write the key with this integer instead */
    TINY_KEY_F32,    /* write the key with this number instead */
    TINY_KEY_STRING, /* write the key with this string instead */
    TINY_SHAPE,      /* write the tensor with dims {integer, integer2} (0: rank 1), zeros */
    TINY_FORMAT,     /* write the tensor, zeros, with the GGUF type `integer` */
    TINY_VALUE,      /* first value of an F32 tensor becomes `number` */
    TINY_EXTRA       /* add an F32 tensor of 32 zeros under this name */
};
struct tiny_edit {
    enum tiny_fault fault;
    const char *name;
    uint32_t integer, integer2;
    float number;
    const char *string;
};

struct tiny_model {
    uint64_t seed;
    double noise; /* added to every weight: noise * its size * a random number of noise_seed */
    uint64_t noise_seed;
    const char *architecture; /* "llama"; "qwen2", "qwen3" (biases; q and k norms) */
    int32_t layers, hidden, heads, kv_heads; /* 2, 32, 4, 2 */
    int32_t head_dim;                        /* hidden / heads; else key_length is written */
    int32_t ffn, vocab, context;             /* 64, 61, 512 */
    double sharpness;                        /* standard deviation of logits, about; 3 */
    enum cop_format format; /* of matrices: F32 (0), F16, BF16, Q8_0, Q4_0, Q4_1 */
    bool has_output;        /* an output matrix of its own; else tied to the embedding */
    bool has_biases;        /* optional biases of q, k, v and output */
    /* A byte-level tokenizer: id b < 256 is the byte b; 256 "<|endoftext|>", 257 "<|im_start|>"
     * (bos), 258 "<|im_end|>" (eos); 259 … pairs "Ġt", "he", "in", "er", "Ġth" as far as
     * `vocab` reaches; the rest unused pieces. Needs vocab >= 259; pre-tokenizer "smollm";
     * SmolLM2's template. Without: "no_vocab". */
    bool has_tokenizer;
    int32_t eos;                   /* another end token; 0: 258 */
    const struct tiny_edit *edits; /* [n_edits] */
    int32_t n_edits;
};

/* Never NULL (aborts without memory). */
struct gguf_writer *tiny_model_new(const struct tiny_model *description);

/* A bigram table as an ordinary model: one layer whose attention output and down projection
 * are zero, the identity as embedding, norm weights 1, head[j][i] = ln P(j | i) / sqrt(vocab).
 * The logits after token i are ln P(· | i), off by less than 1e-4 relative: distribution tests
 * have known numbers. Zero probabilities become ln P = -30. vocab: a multiple of 4, at least 4;
 * 8 gives two heads of 4. */
struct gguf_writer *tiny_bigram_new(int32_t vocab, const double *table /* [vocab, vocab] */);
/* The same, and the caller puts the keys of a tokenizer. */
struct gguf_writer *tiny_bigram_begin(int32_t vocab, const double *table);

/* Weights become such a table: every row is scaled to the sum 1. */
void tiny_bigram_scale(int32_t vocab, double *weights);

/* Random numbers for tests: a mix of (seed, index), uniform in 64 bits, and in [0, 1). */
uint64_t tiny_bits(uint64_t seed, uint64_t index);
double tiny_uniform(uint64_t seed, uint64_t index);

#endif
