/* SmolLM2's tokenizer, streaming and chat template against values of other systems. */
#include "core/text/tokenizer.h"
#include "tests/support/reference.h"
#include "tests/text/tokenizer_case.h"

#include <criterion/criterion.h>

static struct cop_tokenizer *tokenizer;
static struct cop_error err;

static void open_model(void)
{
    const char *path = reference_model("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    cr_assert_eq(cop_tokenizer_open(&tokenizer, path, &err), COP_OK, "%s", err.text);
}

static void close_model(void)
{
    cop_tokenizer_free(tokenizer);
}

TestSuite(reference, .fini = close_model, .timeout = 60);

Test(reference, every_case_of_smollm2_encodes_and_decodes_alike)
{
    open_model();
    cr_assert_eq(
        reference_lines("reference/tokenizer/smollm2.jsonl", tokenizer_case_check, tokenizer),
        192);
}

Test(reference, streaming_shows_the_chunks_of_the_file)
{
    open_model();
    cr_assert_eq(reference_lines("reference/tokenizer/stream_smollm2.jsonl",
                                 tokenizer_case_stream, tokenizer),
                 24);
}

Test(reference, chat_renders_and_encodes_alike)
{
    open_model();
    cr_assert_eq(reference_lines("reference/tokenizer/chat_smollm2.jsonl", tokenizer_case_chat,
                                 tokenizer),
                 6);
}

Test(reference, smollm2_ends_with_both_of_its_end_tokens)
{
    open_model();
    size_t count;
    const cop_token *eos = cop_tokenizer_eos(tokenizer, &count);
    cr_assert_eq(count, 2);
    cr_expect_eq(eos[0], 2); /* <|im_end|>, which the file declares */
    cr_expect_eq(eos[1], 0); /* <|endoftext|>, known by name */
    cr_expect_eq(cop_tokenizer_bos(tokenizer), 1);
    cr_expect_not(cop_tokenizer_adds_bos(tokenizer));
    cr_expect_eq(cop_tokenizer_size(tokenizer), 49152);
    cr_expect_eq(cop_tokenizer_id(tokenizer, "<|im_end|>", 10), 2);
    cr_expect_eq(cop_tokenizer_id(tokenizer, " the", 4), 260);
    cr_expect_eq(cop_tokenizer_id(tokenizer, "no such piece", 13), -1);
}

Test(reference, draft_and_target_share_a_fingerprint)
{
    open_model();
    const char *path = reference_model("experiments/heads/draft-smollm2-q8_0.gguf");
    struct cop_tokenizer *draft;
    cr_assert_eq(cop_tokenizer_open(&draft, path, &err), COP_OK, "%s", err.text);
    cr_expect_eq(cop_tokenizer_fingerprint(draft), cop_tokenizer_fingerprint(tokenizer));
    cop_tokenizer_free(draft);
}
