/* Whether a draft and a target have one vocabulary. */
#include "core/model/model.h"
#include "tests/support/tiny_model.h"
#include <criterion/criterion.h>
#include <string.h>

static struct cop_model *open_tiny(const struct tiny_model *description)
{
    struct gguf_writer *file = tiny_model_new(description);
    struct cop_model *model = NULL;
    struct cop_error err = {0};
    const struct cop_model_options options = {.path = gguf_save(file), .threads = 1};
    cr_assert_eq(cop_model_open(&model, &options, &err), COP_OK, "%s", err.text);
    gguf_writer_free(file);
    return model;
}

Test(match, compares_vocabularies)
{
    const struct {
        struct tiny_model target, draft;
        enum cop_status status;
        const char *word;
    } rows[] = {
        {{.vocab = 61}, {.vocab = 61}, COP_OK, ""},
        {{.vocab = 61}, {.vocab = 64}, COP_ERR_ARGUMENT, "64 tokens, the target 61"},
        {{.vocab = 300}, {.vocab = 200}, COP_ERR_ARGUMENT, "200 tokens, the target 300"},
        {{.vocab = 61}, {.vocab = 190}, COP_ERR_ARGUMENT, "190"},
        {{.vocab = 190}, {.vocab = 61}, COP_ERR_ARGUMENT, "61"},
        {{.has_tokenizer = true}, {.has_tokenizer = true, .layers = 1}, COP_OK, ""},
        /* one tokenizer of 264 real ids: the draft lacks some; padding; too much of it */
        {{.has_tokenizer = true, .vocab = 264}, {.vocab = 264}, COP_OK, ""},
        {{.has_tokenizer = true, .vocab = 264}, {.vocab = 263}, COP_ERR_ARGUMENT, "263"},
        {{.has_tokenizer = true, .vocab = 264}, {.vocab = 392}, COP_OK, ""},
        {{.has_tokenizer = true, .vocab = 264}, {.vocab = 393}, COP_ERR_ARGUMENT, "393"},
        {{.has_tokenizer = true, .vocab = 300}, {.vocab = 264}, COP_OK, ""},
        {{.has_tokenizer = true, .vocab = 300}, {.vocab = 260}, COP_ERR_ARGUMENT, "260"},
        {{.vocab = 264}, {.has_tokenizer = true, .vocab = 300}, COP_OK, ""},
        {{.vocab = 300}, {.has_tokenizer = true, .vocab = 264}, COP_ERR_ARGUMENT, "264"},
        /* two tokenizers: only pieces count */
        {{.has_tokenizer = true}, {.has_tokenizer = true, .vocab = 300}, COP_OK, ""},
        {{.has_tokenizer = true, .vocab = 500},
         {.has_tokenizer = true, .vocab = 264},
         COP_OK,
         ""},
        {{.has_tokenizer = true, .vocab = 264},
         {.has_tokenizer = true, .vocab = 260},
         COP_ERR_ARGUMENT,
         "token 260"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cop_model *target = open_tiny(&rows[i].target);
        struct cop_model *draft = open_tiny(&rows[i].draft);
        struct cop_error err = {0};
        cr_expect_eq(cop_model_match(target, draft, &err), rows[i].status, "row %zu: %s", i,
                     err.text);
        cr_expect_not_null(strstr(err.text, rows[i].word), "%s", err.text);
        cop_model_free(target);
        cop_model_free(draft);
    }
}
