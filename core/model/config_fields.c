/* Single fields of a config.json, checked. */
#include "core/base/quote.h"
#include "core/model/config.h"
#include <math.h>
#include <stdio.h>

const struct cop_json_node *cop_config_get(const struct cop_config *in,
                                           const struct cop_json_node *of, const char *key)
{
    const struct cop_json_node *node = cop_json_get(&in->tree, of, key);
    return node && node->kind != COP_JSON_NULL ? node : NULL;
}

/* What stands there, in words for a message. */
const char *cop_config_text(char buffer[COP_QUOTE_SIZE], const struct cop_json_node *node)
{
    static const char *const words[] = {[COP_JSON_TRUE] = "true",
                                        [COP_JSON_FALSE] = "false",
                                        [COP_JSON_LIST] = "a list",
                                        [COP_JSON_OBJECT] = "an object"};
    if (node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER) {
        (void)snprintf(buffer, COP_QUOTE_SIZE, "%.17g", node->number);
        return buffer;
    }
    if (node->kind == COP_JSON_STRING) {
        return cop_quote(buffer, node->text, node->length);
    }
    return words[node->kind];
}

enum cop_status cop_config_refuse(const struct cop_config *in, const char *key,
                                  const struct cop_json_node *node, const char *expected)
{
    char text[COP_QUOTE_SIZE];
    const char *quote = node->kind == COP_JSON_STRING ? "\"" : "";
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is %s%s%s, expected %s", in->name, key,
                    quote, cop_config_text(text, node), quote, expected);
}

enum cop_status cop_config_lacks(const struct cop_config *in, const char *key)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: \"%s\" is missing", in->name, key);
}

/* fallback 0: the key must be there. */
enum cop_status cop_config_int(const struct cop_config *in, const char *key, int32_t max,
                               int32_t fallback, int32_t *out)
{
    const struct cop_json_node *node = cop_config_get(in, in->root, key);
    *out = fallback;
    if (!node) {
        return fallback > 0 ? COP_OK : cop_config_lacks(in, key);
    }
    bool is_number = node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER;
    if (!is_number || !(node->number >= 1 && node->number <= max) ||
        node->number != floor(node->number)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "an integer from 1 to %d", max);
        return cop_config_refuse(in, key, node, expected);
    }
    *out = (int32_t)node->number;
    return COP_OK;
}

/* A number above 0; fallback 0: the key must be there. */
enum cop_status cop_config_positive(const struct cop_config *in, const struct cop_json_node *of,
                                    const char *key, double max, double fallback, double *out)
{
    const struct cop_json_node *node = cop_config_get(in, of, key);
    *out = fallback;
    if (!node) {
        return fallback > 0 ? COP_OK : cop_config_lacks(in, key);
    }
    bool is_number = node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER;
    if (!is_number || !(node->number > 0 && node->number <= max)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "a number above 0 and at most %g", max);
        return cop_config_refuse(in, key, node, expected);
    }
    *out = node->number;
    return COP_OK;
}

enum cop_status cop_config_bool(const struct cop_config *in, const struct cop_json_node *of,
                                const char *key, bool fallback, bool *out)
{
    const struct cop_json_node *node = cop_config_get(in, of, key);
    *out = node ? node->kind == COP_JSON_TRUE : fallback;
    if (node && node->kind != COP_JSON_TRUE && node->kind != COP_JSON_FALSE) {
        return cop_config_refuse(in, key, node, "true or false");
    }
    return COP_OK;
}
