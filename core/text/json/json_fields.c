/* Reading fields. */
#include "core/text/json/json_fields.h"

#include "core/base/quote.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum cop_status cop_json_refuse(const struct cop_json_place *place, enum cop_status code,
                                const char *format, ...)
{
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cop_fail(place->err, code, "%s: %s: %s", place->file, place->field, text);
}

enum cop_status cop_json_relay(const struct cop_json_place *place,
                               const struct cop_error *inner)
{
    return cop_json_refuse(place, inner->code, "%s", inner->text);
}

enum cop_status cop_json_bool(const struct cop_json_place *place,
                              const struct cop_json_node *node, const char *key, bool *value)
{
    const struct cop_json_node *member = cop_json_get(place->tree, node, key);
    if (cop_json_is_null(member)) {
        return COP_OK;
    }
    if (member->kind != COP_JSON_TRUE && member->kind != COP_JSON_FALSE) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "\"%s\" is neither true nor false", key);
    }
    *value = member->kind == COP_JSON_TRUE;
    return COP_OK;
}

enum cop_status cop_json_string(const struct cop_json_place *place,
                                const struct cop_json_node *node, const char *key,
                                struct cop_string *value)
{
    const struct cop_json_node *member = cop_json_get(place->tree, node, key);
    if (cop_json_is_null(member)) {
        return COP_OK;
    }
    if (member->kind != COP_JSON_STRING) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "\"%s\" is no string", key);
    }
    *value = (struct cop_string){member->text, member->length};
    return COP_OK;
}

enum cop_status cop_json_count(const struct cop_json_place *place,
                               const struct cop_json_node *node, const char *key, int32_t most,
                               int32_t *value)
{
    const struct cop_json_node *member = cop_json_get(place->tree, node, key);
    if (cop_json_is_null(member)) {
        return COP_OK;
    }
    if (member->kind != COP_JSON_INTEGER) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "\"%s\" is no integer", key);
    }
    if (member->integer < 0 || member->integer > most) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "\"%s\" is %" PRId64 ", outside [0, %d]",
                               key, member->integer, most);
    }
    *value = (int32_t)member->integer;
    return COP_OK;
}

enum cop_status cop_json_choice(const struct cop_json_place *place,
                                const struct cop_json_node *node, const char *key,
                                const char *const *names, int32_t *index)
{
    struct cop_string value = {NULL, 0};
    enum cop_status status = cop_json_string(place, node, key, &value);
    if (status != COP_OK || !value.bytes) {
        return status;
    }
    char known[160];
    size_t filled = 0;
    known[0] = '\0';
    for (int32_t i = 0; names[i]; i++) {
        if (strlen(names[i]) == value.length &&
            memcmp(names[i], value.bytes, value.length) == 0) {
            *index = i;
            return COP_OK;
        }
        int written = snprintf(known + filled, sizeof known - filled, "%s%s", i > 0 ? ", " : "",
                               names[i]);
        filled += written > 0 && (size_t)written < sizeof known - filled ? (size_t)written : 0;
    }
    char quoted[COP_QUOTE_SIZE];
    return cop_json_refuse(place, COP_ERR_UNSUPPORTED, "\"%s\" is \"%s\"; known are %s", key,
                           cop_quote(quoted, value.bytes, value.length), known);
}
