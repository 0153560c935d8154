/* Chat families: small templates that carry the marks of the published ones, and what those
 * render. */
#include "core/text/chat/chat.h"
#include "tests/text/toy_tokenizer.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(chat, .timeout = 30);

static struct cop_error err;

/* A tokenizer with bos "<s>", eos "</s>" and a template (NULL: none). */
static struct cop_tokenizer *make(const char *source)
{
    static const char *const pieces[] = {"<s>", "</s>", "a"};
    static const int32_t types[] = {3, 3, 1};
    struct gguf_writer *w = gguf_writer_new();
    struct cop_tokenizer *tokenizer;
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, 3);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, 3);
    gguf_put_strings(w, "tokenizer.ggml.merges", NULL, 0);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 0);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 1);
    if (source) {
        gguf_put_string(w, "tokenizer.chat_template", source);
    }
    cr_assert_eq(toy_tokenizer_open(w, &tokenizer, &err), COP_OK, "%s", err.text);
    gguf_writer_free(w);
    return tokenizer;
}

#define CHATML                                                                                 \
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\\n{{ m['content'] }}<|im_end|>\\n"
#define SMOLLM                                                                                 \
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI "    \
    "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
#define QWEN2                                                                                  \
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou "     \
    "are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
#define LLAMA2                                                                                 \
    "{% set system_message = false %}{% set content = '<<SYS>>\\n' + system_message %}"        \
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{{ ' ' + content.strip() + ' "  \
    "' + eos_token }}"
#define LLAMA3                                                                                 \
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] " \
    "| trim + '<|eot_id|>'"
#define LLAMA31                                                                                \
    LLAMA3 "{%- set date_string = \"26 Jul 2024\" %}{{- \"Cutting Knowledge Date: December "   \
           "2023\\n\" }}"
#define MISTRAL1                                                                               \
    "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + " \
    "eos_token + ' ' }}"
#define MISTRAL2                                                                               \
    "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + " \
    "eos_token}}"
#define MISTRAL3                                                                               \
    "{%- if loop.last and system_message is defined %}{{- \"[INST] \" + system_message + "     \
    "\"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}{{- \" \" + message[\"content\"]|trim " \
    "+ eos_token}}"
#define GEMMA                                                                                  \
    "{{ raise_exception('System role not supported') }}'<start_of_turn>' | trim "              \
    "'<end_of_turn>\\n'"
#define GEMMA3                                                                                 \
    "first_user_prefix = messages[0]['content'] + '\\n\\n' '<start_of_turn>' {{ "              \
    "message['content'] | trim }} '<end_of_turn>\\n'"
#define ZEPHYR                                                                                 \
    "{{ '<|user|>\\n' + message['content'] + eos_token }}{{ '<|system|>\\n' + "                \
    "message['content'] + eos_token }}{{ '<|assistant|>' }}"

#define DATES "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

/* Messages as role letter and content: "s:…", "u:…", "a:…"; text NULL: refused. */
static const struct {
    const char *source;
    const char *messages[6];
    bool generation;
    const char *text;
} cases[] = {
    {CHATML, {"u: x "}, true, "<|im_start|>user\n x <|im_end|>\n<|im_start|>assistant\n"},
    {CHATML,
     {"u:x", "s:y"},
     false,
     "<|im_start|>user\nx<|im_end|>\n<|im_start|>system\ny<|im_end|>\n"},
    {SMOLLM,
     {"a:x"},
     false,
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n"},
    {QWEN2,
     {"u:x"},
     false,
     "<|im_start|>system\nYou are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\nx<|im_end|>\n"},
    {QWEN2,
     {"s:", "u:x"},
     false,
     "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nx<|im_end|>\n"},
    {LLAMA2, {"u: x ", "a: y ", "u:z"}, true, "<s>[INST] x [/INST] y </s><s>[INST] z [/INST]"},
    {LLAMA2, {"s: q ", "u: x "}, true, "<s>[INST] <<SYS>>\n q \n<</SYS>>\n\n x [/INST]"},
    {LLAMA2, {"u:x", "u:y"}, true, NULL},
    {LLAMA2, {"u:x", "s:y"}, true, NULL},
    {LLAMA2, {"s:q"}, true, NULL}, /* no turn to put it into */
    {MISTRAL3, {"s:q"}, false, NULL},
    {GEMMA3, {"s:q"}, true, NULL},
    {ZEPHYR, {"s:q"}, false, "<|system|>\nq</s>\n"},
    {LLAMA3,
     {"s:q", "u: x\n"},
     true,
     "<s><|start_header_id|>system<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>user"
     "<|end_header_id|>\n\nx<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {LLAMA31,
     {"u:x"},
     false,
     "<s><|start_header_id|>system<|end_header_id|>\n\n" DATES
     "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|>"},
    {LLAMA31,
     {"s: q ", "u:x"},
     false,
     "<s><|start_header_id|>system<|end_header_id|>\n\n" DATES
     "q<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|>"},
    {MISTRAL1, {"u: x", "a:y ", "u:z"}, true, "<s>[INST]  x [/INST]y </s> [INST] z [/INST]"},
    {MISTRAL2, {"u:x", "a:y", "u:z"}, true, "<s>[INST] x [/INST]y</s>[INST] z [/INST]"},
    {MISTRAL2, {"s:q", "u:x"}, true, NULL},
    {MISTRAL3,
     {"s:q", "u: x", "a: y ", "u:z"},
     true,
     "<s>[INST]  x[/INST] y</s>[INST] q\n\nz[/INST]"},
    {MISTRAL3, {"s:q", "u:x", "a:y"}, true, "<s>[INST] x[/INST] y</s>"},
    {GEMMA,
     {"u: x ", "a:y"},
     true,
     "<s><start_of_turn>user\nx<end_of_turn>\n<start_of_turn>model\ny<end_of_turn>\n"
     "<start_of_turn>model\n"},
    {GEMMA, {"s:q", "u:x"}, true, NULL},
    {GEMMA, {"a:x"}, true, NULL},
    {GEMMA3,
     {"s: q ", "u: x "},
     true,
     "<s><start_of_turn>user\n q \n\nx<end_of_turn>\n<start_of_turn>model\n"},
    {ZEPHYR, {"s:q", "u:x"}, true, "<|system|>\nq</s>\n<|user|>\nx</s>\n<|assistant|>\n"},
};

static size_t parse(const char *const *list, struct cop_message *messages)
{
    size_t count = 0;
    while (count < 6 && list[count]) {
        const char *role = list[count][0] == 's'   ? "system"
                           : list[count][0] == 'u' ? "user"
                                                   : "assistant";
        const char *content = list[count] + 2;
        messages[count++] =
            (struct cop_message){{role, strlen(role)}, {content, strlen(content)}};
    }
    return count;
}

Test(chat, families_render_as_published)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cop_tokenizer *tokenizer = make(cases[i].source);
        struct cop_message messages[6];
        size_t count = parse(cases[i].messages, messages);
        struct cop_text text = {0};
        cop_text_append(&text, "> ", 2, NULL);
        enum cop_status status =
            cop_chat_render(tokenizer, messages, count, cases[i].generation, &text, &err);
        if (cases[i].text) {
            cr_expect_eq(status, COP_OK, "row %zu: %s", i, err.text);
            cr_expect_str_eq(text.bytes + 2, cases[i].text, "row %zu", i);
        } else {
            cr_expect_eq(status, COP_ERR_ARGUMENT, "row %zu", i);
            cr_expect_str_eq(text.bytes, "> ", "row %zu", i);
        }
        cop_text_release(&text);
        cop_tokenizer_free(tokenizer);
    }
}

Test(chat, white_space_of_all_kinds_is_trimmed)
{
    struct cop_tokenizer *tokenizer = make(GEMMA);
    struct cop_text text = {0};
    struct cop_message message = {{"user", 4}, {"\u3000\n\u00A0x y\u2003\x1F\t", 14}};
    cr_assert_eq(message.content.length, strlen(message.content.bytes));
    cr_assert_eq(cop_chat_render(tokenizer, &message, 1, false, &text, &err), COP_OK);
    cr_expect_str_eq(text.bytes, "<s><start_of_turn>user\nx y<end_of_turn>\n");
    cop_text_release(&text);
    message.content = (struct cop_string){" \n ", 3};
    cr_assert_eq(cop_chat_render(tokenizer, &message, 1, false, &text, &err), COP_OK);
    cr_expect_str_eq(text.bytes, "<s><start_of_turn>user\n<end_of_turn>\n");
    cop_text_release(&text);
    cop_tokenizer_free(tokenizer);
}

Test(chat, what_is_wrong_is_said)
{
    struct cop_tokenizer *tokenizer = make(CHATML);
    struct cop_text text = {0};
    struct cop_message message = {{"tool", 4}, {"x", 1}};
    cr_expect_eq(cop_chat_render(tokenizer, &message, 1, true, &text, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "message 1: role \"tool\" is none of system, user, assistant");
    cr_expect_eq(cop_chat_render(tokenizer, &message, 0, true, &text, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "no message to render");
    cop_tokenizer_free(tokenizer);
    cr_expect_null(text.bytes);
}

/* Close to a known family, but not of it: guessing would prompt the model wrongly. */
static const char *const unknown[] = {
    NULL,
    "",
    "{{ messages }}",
    CHATML "{{ message.content | trim }}",
    CHATML "<think>\n\n</think>",
    CHATML "{{ '<|im_start|>system\nYou are somebody else<|im_end|>\n' }}",
    CHATML "{{ eos_token }}",
};

Test(chat, unknown_templates_are_not_guessed)
{
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct cop_tokenizer *tokenizer = make(unknown[i]);
        struct cop_message message = {{"user", 4}, {"x", 1}};
        struct cop_text text = {0};
        cr_expect_eq(cop_chat_render(tokenizer, &message, 1, true, &text, &err),
                     COP_ERR_UNSUPPORTED, "row %zu", i);
        cr_expect(strstr(err.text, "pass chat = function(messages, options)"), "row %zu", i);
        cop_tokenizer_free(tokenizer);
    }
}
