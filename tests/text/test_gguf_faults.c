/* Model files without a tokenizer, or with a wrong one: one fault, one message. */
#include "core/text/tokenizer.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>

Test(gguf_faults, a_model_without_a_vocabulary_has_none)
{
    struct gguf_writer *w = gguf_writer_new();
    struct cop_tokenizer *toy = NULL;
    struct cop_error err = {0};
    gguf_put_string(w, "general.name", "x");
    cr_expect_eq(toy_tokenizer_open(w, &toy, &err), COP_OK);
    cr_expect_null(toy);
    gguf_put_string(w, "tokenizer.ggml.model", "no_vocab");
    cr_expect_eq(toy_tokenizer_open(w, &toy, &err), COP_OK);
    cr_expect_null(toy);
    cr_expect_eq(cop_tokenizer_open(&toy, gguf_save(w), &err), COP_ERR_FORMAT);
    cr_expect_null(toy);
    cr_expect_eq(cop_tokenizer_open(&toy, "no/such.gguf", &err), COP_ERR_IO);
    gguf_writer_free(w);
}

/* One key replaced in an otherwise good file, and the words for it. */
static const struct {
    const char *name;
    const char *model, *pre;
    const char *pieces[5];
    int32_t types[5];
    size_t n_types;
    const char *merges[3];
    int32_t bos, eos; /* -1: not there */
    enum cop_status status;
    const char *text;
} faults[] = {
    {"model",
     "bert",
     "gpt-2",
     {"a"},
     {0},
     0,
     {NULL},
     -1,
     -1,
     COP_ERR_UNSUPPORTED,
     "toy.gguf: key \"tokenizer.ggml.model\" is \"bert\"; known are gpt2 (byte-level BPE), "
     "llama (SentencePiece's BPE), no_vocab"},
    {"pre",
     "gpt2",
     "tekken",
     {"a"},
     {0},
     0,
     {NULL},
     -1,
     -1,
     COP_ERR_UNSUPPORTED,
     "toy.gguf: key \"tokenizer.ggml.pre\" is \"tekken\", a pre-tokenizer that is not known; "
     "known are gpt-2, smollm, llama-bpe, qwen2"},
    {"no pre",
     "gpt2",
     NULL,
     {"a"},
     {0},
     0,
     {NULL},
     -1,
     -1,
     COP_ERR_UNSUPPORTED,
     "toy.gguf: key \"tokenizer.ggml.pre\" is absent; known pre-tokenizers are gpt-2, smollm, "
     "llama-bpe, qwen2"},
    {"no pieces",
     "gpt2",
     "gpt-2",
     {NULL},
     {0},
     0,
     {NULL},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.tokens\" has 0 items"},
    {"types",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {1},
     1,
     {NULL},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.token_type\" has 1 items for 2 tokens"},
    {"type",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {1, 7},
     2,
     {NULL},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.token_type\": token 1 has type 7, outside [1, 6]"},
    {"equal pieces",
     "gpt2",
     "gpt-2",
     {"a", "b", "a"},
     {0},
     0,
     {NULL},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: tokens 0 and 2 are both \"a\""},
    {"merge without space",
     "gpt2",
     "gpt-2",
     {"a", "b", "ab"},
     {0},
     0,
     {"a b", "ab"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 1, \"ab\", is not two tokens with one "
     "space between"},
    {"merge with two spaces",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {0},
     0,
     {"a b b"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \"a b b\", is not two tokens with one "
     "space between"},
    {"merge of nothing",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {0},
     0,
     {" a"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \" a\", is not two tokens with one "
     "space between"},
    {"merge of nothing",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {0},
     0,
     {"a "},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \"a \", is not two tokens with one "
     "space between"},
    {"unknown left",
     "gpt2",
     "gpt-2",
     {"a", "xa"},
     {0},
     0,
     {"x a"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \"x a\", begins with what is not a "
     "token"},
    {"unknown right",
     "gpt2",
     "gpt-2",
     {"a", "ax"},
     {0},
     0,
     {"a x"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \"a x\", ends with what is not a "
     "token"},
    {"unknown result",
     "gpt2",
     "gpt-2",
     {"a", "b"},
     {0},
     0,
     {"a b"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 0, \"a b\", makes what is not a token"},
    {"equal merges",
     "gpt2",
     "gpt-2",
     {"a", "b", "ab"},
     {0},
     0,
     {"a b", "a b"},
     -1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.merges\": merge 1, \"a b\", is there twice"},
    {"bos",
     "gpt2",
     "gpt-2",
     {"a"},
     {0},
     0,
     {NULL},
     1,
     -1,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.bos_token_id\" is 1, outside [0, 0]"},
    {"eos",
     "gpt2",
     "gpt-2",
     {"a"},
     {0},
     0,
     {NULL},
     -1,
     5,
     COP_ERR_FORMAT,
     "toy.gguf: key \"tokenizer.ggml.eos_token_id\" is 5, outside [0, 0]"},
};

static size_t count_of(const char *const *list, size_t most)
{
    size_t count = 0;
    while (count < most && list[count]) {
        count++;
    }
    return count;
}

Test(gguf_faults, one_fault_one_message)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct gguf_writer *file = gguf_writer_new();
        gguf_put_string(file, "tokenizer.ggml.model", faults[i].model);
        if (faults[i].pre) {
            gguf_put_string(file, "tokenizer.ggml.pre", faults[i].pre);
        }
        gguf_put_strings(file, "tokenizer.ggml.tokens", faults[i].pieces,
                         count_of(faults[i].pieces, 5));
        if (faults[i].n_types > 0) {
            gguf_put_array(file, "tokenizer.ggml.token_type", GGUF_I32, faults[i].types,
                           faults[i].n_types);
        }
        gguf_put_strings(file, "tokenizer.ggml.merges", faults[i].merges,
                         count_of(faults[i].merges, 3));
        if (faults[i].bos >= 0) {
            gguf_put_u32(file, "tokenizer.ggml.bos_token_id", (uint32_t)faults[i].bos);
        }
        if (faults[i].eos >= 0) {
            gguf_put_u32(file, "tokenizer.ggml.eos_token_id", (uint32_t)faults[i].eos);
        }
        struct cop_tokenizer *made;
        struct cop_error err = {0};
        cr_expect_eq(toy_tokenizer_open(file, &made, &err), faults[i].status, "%s",
                     faults[i].name);
        cr_expect_str_eq(err.text, faults[i].text, "%s", faults[i].name);
        cr_expect_null(made);
        gguf_writer_free(file);
    }
}
