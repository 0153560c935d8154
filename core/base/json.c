/* The JSON reader: a state machine over bytes. Containers are bits on a stack of fixed depth,
 * so that no input can exhaust the C stack. */
#include "core/base/json.h"
#include "core/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXPECT_VALUE,        /* a value must come */
    EXPECT_VALUE_OR_END, /* after "[" */
    EXPECT_KEY,          /* after "," in an object */
    EXPECT_KEY_OR_END,   /* after "{" */
    EXPECT_COMMA_OR_END, /* after a value inside a container */
    EXPECT_NOTHING       /* after the outermost value */
};

void cop_json_start(struct cop_json *json, const char *bytes, size_t length)
{
    memset(json, 0, sizeof *json);
    json->bytes = bytes;
    json->at = bytes;
    json->end = bytes + length;
    json->expects = EXPECT_VALUE;
}

void cop_json_release(struct cop_json *json)
{
    free(json->scratch);
    json->scratch = NULL;
    json->scratch_size = 0;
}

static enum cop_status fail(const struct cop_json *json, struct cop_error *err,
                            const char *text)
{
    if (json->at >= json->end) {
        return cop_fail(err, COP_ERR_FORMAT, "JSON ends too early: %s", text);
    }
    return cop_fail(err, COP_ERR_FORMAT, "bad JSON at byte %zu: %s",
                    (size_t)(json->at - json->bytes) + 1, text);
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static void after_value(struct cop_json *json)
{
    json->expects = json->depth ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static bool in_object(const struct cop_json *json)
{
    int top = json->depth - 1;
    return json->depth > 0 && (json->is_object[top / 64] >> (top % 64) & 1u) != 0;
}

/* ---- Strings --------------------------------------------------------------------------------
 */

static int hex_value(char byte)
{
    if (is_digit(byte)) {
        return byte - '0';
    }
    byte = (char)(byte | 0x20);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The four digits after "\u" at `at`, or -1. */
static int32_t read_unit(const struct cop_json *json, const char *at)
{
    int32_t unit = 0;
    if (json->end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

/* The character of the escape "\u" whose digits are at *at, a pair counting as one. */
static int32_t read_unicode(const struct cop_json *json, const char **at)
{
    int32_t unit = read_unit(json, *at);
    if (unit < 0) {
        return -1;
    }
    *at += 4;
    if (unit < 0xD800 || unit > 0xDFFF) {
        return unit;
    }
    if (unit < 0xDC00 && json->end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        int32_t low = read_unit(json, *at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *at += 6;
            return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return 0xFFFD;
}

static char plain_escape(char byte)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found = byte ? strchr(letters, byte) : NULL;
    return found ? meanings[found - letters] : 0;
}

/* Replaces the escapes of raw[0..length): never longer than the raw text. */
static enum cop_status unescape(struct cop_json *json, const char *raw, size_t length,
                                struct cop_json_event *event, struct cop_error *err)
{
    if (json->scratch_size < length) {
        char *grown = realloc(json->scratch, length);
        if (!grown) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for a JSON string of %zu bytes",
                            length);
        }
        json->scratch = grown;
        json->scratch_size = length;
    }
    char *out = json->scratch;
    const char *stop = raw + length;
    while (raw < stop) {
        if (*raw != '\\') {
            *out++ = *raw++;
            continue;
        }
        char meaning = plain_escape(raw[1]);
        const char *escape = raw;
        raw += 2;
        if (meaning) {
            *out++ = meaning;
            continue;
        }
        int32_t character = escape[1] == 'u' ? read_unicode(json, &raw) : -1;
        if (character < 0) {
            json->at = escape;
            return fail(json, err, "unknown escape in a string");
        }
        out += cop_utf8_write((uint32_t)character, out);
    }
    event->bytes = json->scratch;
    event->length = (size_t)(out - json->scratch);
    return COP_OK;
}

static enum cop_status read_string(struct cop_json *json, struct cop_json_event *event,
                                   struct cop_error *err)
{
    const char *raw = json->at + 1, *at = raw;
    bool has_escapes = false;
    while (at < json->end && *at != '"' && *at != '\n') {
        has_escapes |= *at == '\\';
        at += *at == '\\' && json->end - at > 1 && at[1] != '\n' ? 2 : 1;
    }
    if (at >= json->end || *at != '"') {
        json->at = at;
        return fail(json, err, "a string without its closing quote");
    }
    size_t length = (size_t)(at - raw), valid = cop_utf8_valid_prefix(raw, length);
    if (valid < length) {
        json->at = raw + valid;
        return fail(json, err, "a string that is not UTF-8");
    }
    event->bytes = raw;
    event->length = length;
    enum cop_status status = has_escapes ? unescape(json, raw, length, event, err) : COP_OK;
    if (status == COP_OK) {
        json->at = at + 1;
    }
    return status;
}

/* ---- Numbers and words ----------------------------------------------------------------------
 */

static const char *skip_digits(const struct cop_json *json, const char *at)
{
    while (at < json->end && is_digit(*at)) {
        at++;
    }
    return at;
}

/* The end of the number at json->at, or NULL; *integral: neither fraction nor exponent. */
static const char *number_end(const struct cop_json *json, bool *integral)
{
    const char *at = json->at + (*json->at == '-'), *digits = at;
    at = skip_digits(json, at);
    if (at == digits || (*digits == '0' && at - digits > 1)) {
        return NULL;
    }
    *integral = true;
    if (at < json->end && *at == '.') {
        digits = at + 1;
        at = skip_digits(json, digits);
        if (at == digits) {
            return NULL;
        }
        *integral = false;
    }
    if (at < json->end && (*at == 'e' || *at == 'E')) {
        digits = at + 1;
        digits += digits < json->end && (*digits == '+' || *digits == '-');
        at = skip_digits(json, digits);
        if (at == digits) {
            return NULL;
        }
        *integral = false;
    }
    return at;
}

static enum cop_status read_number(struct cop_json *json, struct cop_json_event *event,
                                   struct cop_error *err)
{
    char copy[400]; /* strtod needs an end; longer numbers carry no more information */
    bool integral = false;
    const char *end = number_end(json, &integral);
    if (!end) {
        return fail(json, err, "not a value");
    }
    size_t length = (size_t)(end - json->at);
    if (length >= sizeof copy) {
        return fail(json, err, "a number of more than 399 characters");
    }
    memcpy(copy, json->at, length);
    copy[length] = 0;
    json->at = end;
    event->number = strtod(copy, NULL);
    event->kind = COP_JSON_NUMBER;
    if (integral) {
        errno = 0;
        event->integer = strtoll(copy, NULL, 10);
        event->kind = errno ? COP_JSON_NUMBER : COP_JSON_INTEGER;
    }
    return COP_OK;
}

static bool read_word(struct cop_json *json, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0) {
        return false;
    }
    json->at += length;
    return true;
}

/* ---- The state machine ----------------------------------------------------------------------
 */

static enum cop_status open_container(struct cop_json *json, struct cop_json_event *event,
                                      bool object, struct cop_error *err)
{
    if (json->depth == COP_JSON_DEPTH) {
        return fail(json, err, "lists and objects nested more than 128 deep");
    }
    uint64_t bit = (uint64_t)1 << (json->depth % 64),
             *word = &json->is_object[json->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    json->depth++;
    json->at++;
    json->expects = object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    event->kind = object ? COP_JSON_OBJECT : COP_JSON_LIST;
    return COP_OK;
}

static enum cop_status close_container(struct cop_json *json, struct cop_json_event *event,
                                       struct cop_error *err)
{
    bool object = in_object(json);
    if (*json->at != (object ? '}' : ']')) {
        return fail(json, err, object ? "expected \"}\"" : "expected \"]\"");
    }
    json->at++;
    json->depth--;
    after_value(json);
    event->kind = object ? COP_JSON_OBJECT_END : COP_JSON_LIST_END;
    return COP_OK;
}

static enum cop_status read_value(struct cop_json *json, struct cop_json_event *event,
                                  struct cop_error *err)
{
    enum cop_status status = COP_OK;
    switch (*json->at) {
    case '{': return open_container(json, event, true, err);
    case '[': return open_container(json, event, false, err);
    case '"':
        event->kind = COP_JSON_STRING;
        status = read_string(json, event, err);
        break;
    default:
        if (read_word(json, "null")) {
            event->kind = COP_JSON_NULL;
        } else if (read_word(json, "true")) {
            event->kind = COP_JSON_TRUE;
        } else if (read_word(json, "false")) {
            event->kind = COP_JSON_FALSE;
        } else {
            status = read_number(json, event, err);
        }
    }
    after_value(json);
    return status;
}

static void skip_space(struct cop_json *json)
{
    while (json->at < json->end && is_space(*json->at)) {
        json->at++;
    }
}

static enum cop_status read_key(struct cop_json *json, struct cop_json_event *event,
                                struct cop_error *err)
{
    if (*json->at != '"') {
        return fail(json, err, "expected a key in quotes");
    }
    enum cop_status status = read_string(json, event, err);
    if (status != COP_OK) {
        return status;
    }
    skip_space(json);
    if (json->at >= json->end || *json->at != ':') {
        return fail(json, err, "expected \":\" after a key");
    }
    json->at++;
    json->expects = EXPECT_VALUE;
    event->kind = COP_JSON_KEY;
    return COP_OK;
}

enum cop_status cop_json_next(struct cop_json *json, struct cop_json_event *event,
                              struct cop_error *err)
{
    memset(event, 0, sizeof *event);
    skip_space(json);
    if (json->at >= json->end) {
        event->kind = COP_JSON_END;
        return json->expects == EXPECT_NOTHING ? COP_OK
                                               : fail(json, err, "a value is not complete");
    }
    if (json->expects == EXPECT_COMMA_OR_END && *json->at == ',') {
        json->at++;
        json->expects = in_object(json) ? EXPECT_KEY : EXPECT_VALUE;
        return cop_json_next(json, event, err); /* once: a comma never follows */
    }
    switch (json->expects) {
    case EXPECT_NOTHING: return fail(json, err, "something follows the value");
    case EXPECT_COMMA_OR_END: return close_container(json, event, err);
    case EXPECT_KEY_OR_END:
        if (*json->at == '}') {
            return close_container(json, event, err);
        }
        return read_key(json, event, err);
    case EXPECT_KEY: return read_key(json, event, err);
    case EXPECT_VALUE_OR_END:
        if (*json->at == ']') {
            return close_container(json, event, err);
        }
        return read_value(json, event, err);
    default: return read_value(json, event, err);
    }
}
