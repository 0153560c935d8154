/* The tiny models of the reference folder: every architecture, format and kind of file. */
#ifndef TESTS_MODEL_TINY_FILES_H
#define TESTS_MODEL_TINY_FILES_H

#include "tests/support/reference.h"
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *name;
    double tolerance; /* f32 */
    double int8;      /* 0: the file has no block-quantised weights */
} tiny_files[] = {
    {"llama_F32", 1e-4, 0},
    {"llama_F16", 1e-4, 0},
    {"llama_BF16", 1e-4, 0},
    {"llama_Q8_0", 1e-4, 0.5},
    {"llama_Q4_0", 1e-4, 0.5},
    {"llama_Q4_1", 1e-4, 0.5},
    {"llama_Q5_0", 1e-4, 0.5},
    {"llama_Q5_1", 1e-4, 0.5},
    {"llama_tied_F16", 1e-4, 0},
    {"llama_head_dim_BF16", 1e-4, 0},
    {"llama_rope_linear_F32", 1e-4, 0},
    {"llama_rope_llama3_F32", 1e-4, 0},
    {"llama_kquants", 3e-4, 0.5},
    {"qwen2_F16", 1e-4, 0},
    {"qwen3_F32", 1e-4, 0},
    /* Hugging Face folders */
    {"llama_gqa", 1e-4, 0},
    {"llama_attention_bias", 1e-4, 0},
    {"llama_mlp_bias", 1e-4, 0},
    {"llama_bf16", 1e-4, 0},
    {"llama_head_dim", 1e-4, 0},
    {"llama_rope_linear", 1e-4, 0},
    {"llama_rope_llama3", 1e-4, 0},
    {"llama_sharded", 1e-4, 0},
    {"llama_tied", 1e-4, 0},
    {"llama_with_tokenizer", 1e-4, 0},
    {"mistral_sliding", 1e-4, 0},
    {"qwen2", 1e-4, 0},
    {"qwen3", 1e-4, 0},
    {"gemma3_optional", 1e-4, 0},
};
enum { N_TINY_FILES = sizeof tiny_files / sizeof *tiny_files };

/* A GGUF file with its numbers beside it, or a folder with both. */
static inline bool tiny_is_gguf(const char *name)
{
    char file[128];
    (void)snprintf(file, sizeof file, "reference/tiny/gguf/%s.gguf", name);
    return access(reference_path(file), F_OK) == 0;
}

static inline const char *tiny_path(char file[128], const char *name)
{
    (void)snprintf(file, 128,
                   tiny_is_gguf(name) ? "reference/tiny/gguf/%s.gguf" : "reference/tiny/%s",
                   name);
    return file;
}

static inline const char *tiny_numbers(char file[128], const char *name)
{
    (void)snprintf(file, 128,
                   tiny_is_gguf(name) ? "reference/tiny/gguf/%s.json"
                                      : "reference/tiny/%s/reference.json",
                   name);
    return file;
}

#endif
