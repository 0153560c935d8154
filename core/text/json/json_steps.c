/* Reading lists of steps. */
#include "core/text/json/json_steps.h"

#include "core/base/quote.h"
#include <stdio.h>
#include <string.h>

/* ---- Sequences -------------------------------------------------------------------------- */

static enum cop_status read_steps(struct cop_json_steps *steps,
                                  const struct cop_json_node *node);

static enum cop_status unknown_type(struct cop_json_steps *steps, struct cop_string type)
{
    char known[240] = "";
    size_t filled = 0;
    for (const struct cop_json_row *row = steps->rows; row->type; row++) {
        int written = snprintf(known + filled, sizeof known - filled, "%s, ", row->type);
        filled += written > 0 && (size_t)written < sizeof known - filled ? (size_t)written : 0;
    }
    char quoted[COP_QUOTE_SIZE];
    return cop_json_refuse(&steps->place, COP_ERR_UNSUPPORTED,
                           "type \"%s\" is not built; known are %sSequence",
                           cop_quote(quoted, type.bytes, type.length), known);
}

static enum cop_status read_sequence(struct cop_json_steps *steps,
                                     const struct cop_json_node *node)
{
    const struct cop_json_node *list = cop_json_get(steps->place.tree, node, steps->members);
    if (!list || list->kind != COP_JSON_LIST) {
        return cop_json_refuse(&steps->place, COP_ERR_FORMAT,
                               "a Sequence without its list \"%s\"", steps->members);
    }
    enum cop_status status = COP_OK;
    for (node = cop_json_first(steps->place.tree, list); status == COP_OK && node;
         node = cop_json_after(steps->place.tree, node)) {
        status = read_steps(steps, node);
    }
    return status;
}

/* As deep as the reader of JSON lets sequences nest. */
static enum cop_status read_steps(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    struct cop_string type = {NULL, 0};
    if (cop_json_is_null(node)) {
        return COP_OK;
    }
    enum cop_status status = cop_json_string(&steps->place, node, "type", &type);
    if (status != COP_OK || !type.bytes) {
        return status != COP_OK
                   ? status
                   : cop_json_refuse(&steps->place, COP_ERR_FORMAT, "a step has no \"type\"");
    }
    if (type.length == 8 && memcmp(type.bytes, "Sequence", 8) == 0) {
        return read_sequence(steps, node);
    }
    for (steps->row = steps->rows; steps->row->type; steps->row++) {
        const char *known = steps->row->type;
        if (strlen(known) == type.length && memcmp(known, type.bytes, type.length) == 0) {
            return steps->is_over
                       ? cop_json_refuse(&steps->place, COP_ERR_UNSUPPORTED,
                                         "a step (%s) behind the one that must be last", known)
                       : steps->row->read(steps, node);
        }
    }
    return unknown_type(steps, type);
}

enum cop_status cop_json_read_part(const struct cop_json_source *source,
                                   enum cop_json_part part, struct cop_json_steps *steps,
                                   struct cop_error *err)
{
    struct cop_json_tree tree;
    enum cop_status status = cop_json_source_part(source, part, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    steps->place = (struct cop_json_place){source->name, cop_json_part_name(part), &tree, err};
    status = read_steps(steps, cop_json_root(&tree));
    cop_json_tree_release(&tree);
    return status;
}

/* ---- What several of them have ----------------------------------------------------------- */

enum cop_status cop_json_lacks(const struct cop_json_steps *steps, const char *key)
{
    return cop_json_refuse(&steps->place, COP_ERR_FORMAT, "%s without \"%s\"", steps->row->type,
                           key);
}

/* A string that must be there and not be empty. */
enum cop_status cop_json_text(const struct cop_json_steps *steps,
                              const struct cop_json_node *node, const char *key,
                              struct cop_text *text)
{
    struct cop_string value = {NULL, 0};
    enum cop_status status = cop_json_string(&steps->place, node, key, &value);
    if (status == COP_OK && value.length == 0) {
        return cop_json_lacks(steps, key);
    }
    return status == COP_OK ? cop_text_append(text, value.bytes, value.length, steps->place.err)
                            : status;
}

enum cop_status cop_json_compile(const struct cop_json_steps *steps, struct cop_string pattern,
                                 struct cop_regex **regex)
{
    struct cop_error inner;
    enum cop_status status =
        cop_regex_new(regex, pattern.bytes, pattern.length, COP_REGEX_FOREIGN, &inner);
    return status == COP_OK ? COP_OK : cop_json_relay(&steps->place, &inner);
}

/* {"String": "…"} into *text, or {"Regex": "…"} into *regex. */
enum cop_status cop_json_pattern(const struct cop_json_steps *steps,
                                 const struct cop_json_node *node, struct cop_text *text,
                                 struct cop_regex **regex)
{
    const struct cop_json_node *pattern = cop_json_get(steps->place.tree, node, "pattern");
    struct cop_string expression = {NULL, 0};
    enum cop_status status = cop_json_string(&steps->place, pattern, "Regex", &expression);
    if (status == COP_OK && expression.bytes && regex) {
        return cop_json_compile(steps, expression, regex);
    }
    if (status == COP_OK && expression.bytes) {
        return cop_json_refuse(&steps->place, COP_ERR_UNSUPPORTED,
                               "%s with a \"Regex\" is not built", steps->row->type);
    }
    return status == COP_OK ? cop_json_text(steps, pattern, "String", text) : status;
}

/* The character that stands for a space. */
enum cop_status cop_json_replacement(const struct cop_json_steps *steps,
                                     const struct cop_json_node *node,
                                     struct cop_string *replacement)
{
    *replacement = (struct cop_string){COP_SPACE_SYMBOL, strlen(COP_SPACE_SYMBOL)};
    enum cop_status status = cop_json_string(&steps->place, node, "replacement", replacement);
    return status == COP_OK && (replacement->length == 0 || replacement->length > 4)
               ? cop_json_refuse(&steps->place, COP_ERR_FORMAT,
                                 "\"replacement\" is not one character")
               : status;
}

enum cop_status cop_json_prepends(const struct cop_json_steps *steps,
                                  const struct cop_json_node *node,
                                  enum cop_json_scheme *scheme)
{
    static const char *const schemes[] = {[COP_JSON_ALWAYS] = "always",
                                          [COP_JSON_FIRST] = "first",
                                          [COP_JSON_NEVER] = "never",
                                          NULL};
    bool has_prefix = true; /* how older files say it */
    enum cop_status status =
        cop_json_bool(&steps->place, node, "add_prefix_space", &has_prefix);
    int32_t index = has_prefix ? COP_JSON_ALWAYS : COP_JSON_NEVER;
    if (status == COP_OK) {
        status = cop_json_choice(&steps->place, node, "prepend_scheme", schemes, &index);
    }
    *scheme = (enum cop_json_scheme)index;
    return status;
}
