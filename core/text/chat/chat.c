/* Rendering messages by the row of their template's family. */
#include "core/text/chat/chat.h"

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/chat/chat_families.h"

#include <string.h>

struct rendering {
    const struct cop_tokenizer *tokenizer;
    const struct chat_family *family;
    struct cop_text *text;
    struct cop_error *err;
};

/* ---- Appending -------------------------------------------------------------------------- */

static enum cop_status append(const struct rendering *to, struct cop_string string)
{
    return cop_text_append(to->text, string.bytes, string.length, to->err);
}

/* A text of the table (NULL: empty), with {bos} and {eos} replaced. */
static enum cop_status append_pattern(const struct rendering *to, const char *pattern)
{
    size_t n_ends;
    const cop_token *ends = cop_tokenizer_eos(to->tokenizer, &n_ends);
    while (pattern && *pattern) {
        const char *brace = strchr(pattern, '{');
        size_t plain = brace ? (size_t)(brace - pattern) : strlen(pattern);
        enum cop_status status = cop_text_append(to->text, pattern, plain, to->err);
        pattern += plain;
        if (status == COP_OK && brace) {
            bool is_bos = strncmp(brace, "{bos}", 5) == 0;
            cop_token id = is_bos ? cop_tokenizer_bos(to->tokenizer) : n_ends ? ends[0] : -1;
            status = append(to, cop_tokenizer_piece(to->tokenizer, id));
            pattern += 5;
        }
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}

/* White space as the templates' language trims it. */
static bool is_white(uint32_t character)
{
    return (character >= 0x09 && character <= 0x0D) ||
           (character >= 0x1C && character <= 0x20) || character == 0x85 || character == 0xA0 ||
           character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
           character == 0x2028 || character == 0x2029 || character == 0x202F ||
           character == 0x205F || character == 0x3000;
}

/* Removes white space at both ends of text[start..). */
static void trim(struct cop_text *text, size_t start)
{
    size_t first = text->length; /* the trimmed text is [first, last) */
    size_t last = start;
    for (size_t at = start; at < text->length;) {
        size_t used;
        bool is_whole =
            cop_utf8_next(text->bytes + at, text->length - at, &used) == COP_UTF8_WHOLE;
        if (!is_whole || !is_white(cop_utf8_read(text->bytes + at, used))) {
            first = first < at ? first : at;
            last = at + used;
        }
        at += used;
    }
    size_t length = last > first ? last - first : 0;
    if (text->bytes) {
        memmove(text->bytes + start, text->bytes + first, length);
        text->length = start + length;
        text->bytes[text->length] = '\0';
    }
}

/* ---- Turns ------------------------------------------------------------------------------ */

/* One turn; `system`, if not NULL, is a system text put in front of the content. */
static enum cop_status append_turn(const struct rendering *to, enum chat_role role,
                                   struct cop_string content, const struct cop_string *system)
{
    const struct chat_family *family = to->family;
    enum cop_status status = append_pattern(to, family->turns[role].open);
    size_t start = to->text->length;
    if (status == COP_OK && system) {
        status = append_pattern(to, family->system_open);
        status = status == COP_OK ? append(to, *system) : status;
        status = status == COP_OK ? append_pattern(to, family->system_close) : status;
    }
    if (family->trim != CHAT_TRIM_TURN) {
        start = to->text->length;
    }
    status = status == COP_OK ? append(to, content) : status;
    bool is_trimmed = family->trim == CHAT_TRIM_CONTENT || family->trim == CHAT_TRIM_TURN ||
                      (family->trim == CHAT_TRIM_ANSWERS && role == CHAT_ASSISTANT);
    if (status == COP_OK && is_trimmed) {
        trim(to->text, start);
    }
    return status == COP_OK ? append_pattern(to, family->turns[role].close) : status;
}

/* The leading system turn, for families that give it one: the message's or the default. */
static enum cop_status append_system_turn(const struct rendering *to, struct cop_string content)
{
    static const struct cop_string nothing = {"", 0};
    return append_turn(to, CHAT_SYSTEM, content, to->family->system_open ? &nothing : NULL);
}

static bool parse_role(struct cop_string name, enum chat_role *role)
{
    static const char *const names[CHAT_ROLES] = {"system", "user", "assistant"};
    for (int i = 0; i < CHAT_ROLES; i++) {
        if (strlen(names[i]) == name.length && memcmp(names[i], name.bytes, name.length) == 0) {
            *role = (enum chat_role)i;
            return true;
        }
    }
    return false;
}

/* Known roles, in an order that the family renders. */
static enum cop_status check(const struct chat_family *family,
                             const struct cop_message *messages, size_t count,
                             struct cop_error *err)
{
    if (count == 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "no message to render");
    }
    size_t turn = 0; /* among those that must alternate */
    for (size_t i = 0; i < count; i++) {
        enum chat_role role;
        if (!parse_role(messages[i].role, &role)) {
            char name[COP_QUOTE_SIZE];
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "message %zu: role \"%s\" is none of system, user, assistant",
                            i + 1,
                            cop_quote(name, messages[i].role.bytes, messages[i].role.length));
        }
        if (role == CHAT_SYSTEM && i == 0 && family->system != CHAT_SYSTEM_REFUSED) {
            continue;
        }
        if (role == CHAT_SYSTEM && family->system != CHAT_SYSTEM_TURN) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "message %zu: the model's template (%s) takes no system message "
                            "%s",
                            i + 1, family->name,
                            family->system == CHAT_SYSTEM_REFUSED ? "at all" : "but the first");
        }
        if (family->alternates && (role == CHAT_USER) != (turn % 2 == 0)) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "message %zu: the model's template (%s) wants user and assistant "
                            "in turn, user first",
                            i + 1, family->name);
        }
        turn++;
    }
    if (turn == 0 && family->system != CHAT_SYSTEM_TURN) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "the system message stands alone: the model's template (%s) puts it "
                        "into a user message",
                        family->name);
    }
    return COP_OK;
}

static enum cop_status render(const struct rendering *to, const struct cop_message *messages,
                              size_t count, bool generation)
{
    const struct chat_family *family = to->family;
    enum chat_role role = CHAT_USER;
    (void)parse_role(messages[0].role, &role);
    bool has_system = role == CHAT_SYSTEM;
    bool is_own_turn = family->system == CHAT_SYSTEM_TURN;
    enum cop_status status = append_pattern(to, family->before);
    if (status == COP_OK && is_own_turn && (has_system || family->default_system)) {
        const char *otherwise = family->default_system ? family->default_system : "";
        struct cop_string fallback = {otherwise, strlen(otherwise)};
        status = append_system_turn(to, has_system ? messages[0].content : fallback);
    }
    size_t first = has_system ? 1 : 0;
    for (size_t i = first; status == COP_OK && i < count; i++) {
        (void)parse_role(messages[i].role, &role);
        bool is_place = family->system == CHAT_SYSTEM_FIRST_USER ? i == first : i + 1 == count;
        bool takes_system = has_system && !is_own_turn && is_place && role == CHAT_USER;
        status = append_turn(to, role, messages[i].content,
                             takes_system ? &messages[0].content : NULL);
    }
    return status == COP_OK && generation ? append_pattern(to, family->answer) : status;
}

enum cop_status cop_chat_render(const struct cop_tokenizer *tokenizer,
                                const struct cop_message *messages, size_t count,
                                bool generation, struct cop_text *text, struct cop_error *err)
{
    struct cop_string source = cop_tokenizer_template(tokenizer);
    const struct chat_family *family = cop_chat_family_find(source);
    if (!family) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "%s; pass chat = function(messages, options) … end (known are the "
                        "templates of ChatML, Llama-2, Llama-3, Mistral, Gemma, Zephyr)",
                        source.length > 0 ? "the model's chat template is of no known family"
                                          : "the model has no chat template");
    }
    enum cop_status status = check(family, messages, count, err);
    if (status != COP_OK) {
        return status;
    }
    struct rendering to = {tokenizer, family, text, err};
    size_t start = text->length;
    status = render(&to, messages, count, generation);
    if (status != COP_OK && text->bytes) {
        text->length = start;
        text->bytes[start] = '\0';
    }
    return status;
}
