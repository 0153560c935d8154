/* Chat templates by family: messages to the text that the model was trained on.
 *
 * A template is recognised by what its source contains and rendered by a row of a table, not by
 * running Jinja. Control tokens inside a message are not escaped (no published template does):
 * they become control tokens when the text is encoded with special = true. */
#ifndef COP_TEXT_CHAT_H
#define COP_TEXT_CHAT_H

#include "core/text/tokenizer.h"

struct cop_message {
    struct cop_string role; /* "system", "user", "assistant" */
    struct cop_string content;
};

/* Appends the rendered text; with `generation` also the opening of the assistant's answer.
 * Fails with COP_ERR_UNSUPPORTED for a template of no known family (the message says to pass a
 * chat function) and with COP_ERR_ARGUMENT for an unknown role or no message. */
enum cop_status cop_chat_render(const struct cop_tokenizer *tokenizer,
                                const struct cop_message *messages, size_t count,
                                bool generation, struct cop_text *text, struct cop_error *err);

#endif
