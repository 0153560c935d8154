/* The table of chat families: a template is known when what it contains says what it does. */
#include "core/text/chat/chat_families.h"

#include <string.h>

/* Turns that differ by the role's name only. */
#define TURNS(open_left, open_right, assistant, close)                                         \
    {                                                                                          \
        {open_left "system" open_right, close}, {open_left "user" open_right, close},          \
        {                                                                                      \
            open_left assistant open_right, close                                              \
        }                                                                                      \
    }
#define CHATML  TURNS("<|im_start|>", "\n", "assistant", "<|im_end|>\n")
#define HEADERS TURNS("<|start_header_id|>", "<|end_header_id|>\n\n", "assistant", "<|eot_id|>")
#define GEMMA   TURNS("<start_of_turn>", "\n", "model", "<end_of_turn>\n")

static const struct chat_family families[] = {
    {
        .name = "ChatML of SmolLM2",
        .marks = {"<|im_start|>", "You are a helpful AI assistant named SmolLM, trained by "
                                  "Hugging Face<|im_end|>"},
        .turns = CHATML,
        .answer = "<|im_start|>assistant\n",
        .default_system =
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    },
    {
        .name = "ChatML of Qwen2.5",
        .marks = {"<|im_start|>",
                  "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
        .absent = {"<think>"},
        .turns = CHATML,
        .answer = "<|im_start|>assistant\n",
        .default_system =
            "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    },
    {
        .name = "ChatML of Qwen2",
        .marks = {"<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n",
                  "loop.first and messages[0]['role'] != 'system'"},
        .absent = {"<think>", "loop.last", "trim", "strip", "bos_token", "eos_token"},
        .turns = CHATML,
        .answer = "<|im_start|>assistant\n",
        .default_system = "You are a helpful assistant.",
    },
    {
        .name = "ChatML",
        .marks = {"<|im_start|>", "<|im_end|>"},
        .absent = {"<|im_start|>system", "<think>", "loop.last", "trim", "strip", "s_token"},
        .turns = CHATML,
        .answer = "<|im_start|>assistant\n",
    },
    {
        .name = "ChatML after a beginning token",
        .marks = {"<|im_start|>", "<|im_end|>", "{{ bos_token }}{%"},
        .absent = {"<|im_start|>system", "<think>", "loop.last", "trim", "strip", "eos_token"},
        .before = "{bos}",
        .turns = CHATML,
        .answer = "<|im_start|>assistant\n",
    },
    {
        .name = "Llama-3",
        .marks = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "trim"},
        .absent = {"Cutting Knowledge Date", "<think>"},
        .before = "{bos}",
        .turns = HEADERS,
        .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .trim = CHAT_TRIM_CONTENT,
    },
    {
        /* The date is the one that the template falls back to where there is no clock, so that
         * a prompt is the same tomorrow. */
        .name = "Llama-3.1",
        .marks = {"<|start_header_id|>", "<|eot_id|>",
                  "Cutting Knowledge Date: December 2023\n", "26 Jul 2024"},
        .absent = {"<think>"},
        .before = "{bos}",
        .turns = HEADERS,
        .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .default_system = "",
        .system_open = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
        .trim = CHAT_TRIM_CONTENT,
    },
    {
        .name = "Llama-2",
        .marks = {"<<SYS>>\n", "bos_token + '[INST] ' + content.strip() + ' [/INST]'",
                  "content.strip() + ' ' + eos_token", "set system_message = false"},
        .turns = {{NULL, NULL}, {"{bos}[INST] ", " [/INST]"}, {" ", " {eos}"}},
        .system = CHAT_SYSTEM_FIRST_USER,
        .system_open = "<<SYS>>\n",
        .system_close = "\n<</SYS>>\n\n",
        .trim = CHAT_TRIM_TURN,
        .alternates = true,
    },
    {
        .name = "Mistral v0.1",
        .marks = {"'[INST] ' + message['content'] + ' [/INST]'",
                  "message['content'] + eos_token + ' '"},
        .absent = {"<<SYS>>"},
        .before = "{bos}",
        .turns = {{NULL, NULL}, {"[INST] ", " [/INST]"}, {"", "{eos} "}},
        .system = CHAT_SYSTEM_REFUSED,
        .alternates = true,
    },
    {
        .name = "Mistral v0.2",
        .marks = {"{{ bos_token }}", "'[INST] ' + message['content'] + ' [/INST]'",
                  "{{ message['content'] + eos_token}}"},
        .absent = {"<<SYS>>"},
        .before = "{bos}",
        .turns = {{NULL, NULL}, {"[INST] ", " [/INST]"}, {"", "{eos}"}},
        .system = CHAT_SYSTEM_REFUSED,
        .alternates = true,
    },
    {
        .name = "Mistral v0.2 with system texts",
        .marks = {"' [INST] ' + system_message + '\n\n' + message['content'] + ' [/INST]'",
                  "' ' + message['content'] + eos_token"},
        .before = "{bos}",
        .turns = {{NULL, NULL}, {" [INST] ", " [/INST]"}, {" ", "{eos}"}},
        .system = CHAT_SYSTEM_FIRST_USER,
        .system_close = "\n\n",
        .alternates = true,
    },
    {
        .name = "Mistral v0.3",
        .marks =
            {"\"[INST] \" + system_message + \"\n\n\" + message[\"content\"] + \"[/INST]\"",
             "loop.last and system_message is defined",
             "\" \" + message[\"content\"]|trim + eos_token"},
        .before = "{bos}",
        .turns = {{NULL, NULL}, {"[INST] ", "[/INST]"}, {" ", "{eos}"}},
        .system = CHAT_SYSTEM_LAST_USER,
        .system_close = "\n\n",
        .trim = CHAT_TRIM_ANSWERS,
        .alternates = true,
    },
    {
        .name = "Gemma",
        .marks = {"<start_of_turn>", "<end_of_turn>", "System role not supported", "trim"},
        .before = "{bos}",
        .turns = GEMMA,
        .answer = "<start_of_turn>model\n",
        .system = CHAT_SYSTEM_REFUSED,
        .trim = CHAT_TRIM_CONTENT,
        .alternates = true,
    },
    {
        .name = "Gemma 3",
        .marks = {"<start_of_turn>", "<end_of_turn>",
                  "first_user_prefix = messages[0]['content'] + '\n\n'",
                  "message['content'] | trim"},
        .absent = {"tools"},
        .before = "{bos}",
        .turns = GEMMA,
        .answer = "<start_of_turn>model\n",
        .system = CHAT_SYSTEM_FIRST_USER,
        .system_close = "\n\n",
        .trim = CHAT_TRIM_CONTENT,
        .alternates = true,
    },
    {
        .name = "Zephyr",
        .marks = {"'<|user|>\n' + message['content'] + eos_token",
                  "'<|system|>\n' + message['content'] + eos_token", "'<|assistant|>'"},
        .turns = TURNS("<|", "|>\n", "assistant", "{eos}\n"),
        .answer = "<|assistant|>\n",
    },
};
#define N_FAMILIES (sizeof families / sizeof families[0])

/* Whether the source contains a mark; in the source "\\n" and a line feed are the same. */
static bool contains(struct cop_string source, const char *mark)
{
    for (size_t start = 0; start < source.length; start++) {
        size_t at = start;
        const char *wanted = mark;
        while (*wanted && at < source.length) {
            bool is_escape = *wanted == '\n' && at + 1 < source.length &&
                             source.bytes[at] == '\\' && source.bytes[at + 1] == 'n';
            if (!is_escape && source.bytes[at] != *wanted) {
                break;
            }
            at += is_escape ? 2 : 1;
            wanted++;
        }
        if (!*wanted) {
            return true;
        }
    }
    return false;
}

static bool belongs(struct cop_string source, const struct chat_family *family)
{
    size_t n_marks = sizeof family->marks / sizeof family->marks[0];
    size_t n_absent = sizeof family->absent / sizeof family->absent[0];
    for (size_t i = 0; i < n_marks && family->marks[i]; i++) {
        if (!contains(source, family->marks[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < n_absent && family->absent[i]; i++) {
        if (contains(source, family->absent[i])) {
            return false;
        }
    }
    return true;
}

const struct chat_family *cop_chat_family_find(struct cop_string source)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (belongs(source, &families[i])) {
            return &families[i];
        }
    }
    return NULL;
}
