/* The files beside a tokenizer.json: which tokens begin and end a text, and the chat template.
 *
 * Each may be absent. End tokens of all of them count: a model that one file lets end at two
 * tokens must not run on because another names only one. */
#include "core/base/quote.h"
#include "core/text/json/json_source.h"

#include <inttypes.h>
#include <string.h>

static enum cop_status read_tree(const struct cop_json_text *file, struct cop_json_tree *tree,
                                 struct cop_error *err)
{
    struct cop_error inner;
    enum cop_status status =
        cop_json_tree_read(tree, file->text.bytes, file->text.length, &inner);
    if (status != COP_OK) {
        return cop_fail(err, status, "%s: %s", file->name, inner.text);
    }
    if (cop_json_root(tree)->kind != COP_JSON_OBJECT) {
        cop_json_tree_release(tree);
        return cop_fail(err, COP_ERR_FORMAT, "%s: is no JSON object", file->name);
    }
    return COP_OK;
}

/* ---- Token ids -------------------------------------------------------------------------- */

static enum cop_status check_id(const struct cop_json_place *place,
                                const struct cop_tokenizer *tokenizer,
                                const struct cop_json_node *node, cop_token *id)
{
    if (node->kind != COP_JSON_INTEGER) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "is neither an id nor a list of ids");
    }
    if (node->integer < 0 || node->integer >= tokenizer->vocabulary.size) {
        return cop_json_refuse(place, COP_ERR_FORMAT,
                               "id %" PRId64 " is outside the vocabulary of %d", node->integer,
                               tokenizer->vocabulary.size);
    }
    *id = (cop_token)node->integer;
    return COP_OK;
}

/* Some files write -1 for "none". */
static bool is_none(const struct cop_json_node *node)
{
    return cop_json_is_null(node) || (node->kind == COP_JSON_INTEGER && node->integer == -1);
}

static enum cop_status read_end_ids(struct cop_json_place place,
                                    struct cop_tokenizer *tokenizer)
{
    place.field = "eos_token_id";
    const struct cop_json_node *node =
        cop_json_get(place.tree, cop_json_root(place.tree), place.field);
    if (is_none(node)) {
        return COP_OK;
    }
    bool is_list = node->kind == COP_JSON_LIST;
    enum cop_status status = COP_OK;
    for (node = is_list ? cop_json_first(place.tree, node) : node; node && status == COP_OK;
         node = is_list ? cop_json_after(place.tree, node) : NULL) {
        cop_token id;
        status = check_id(&place, tokenizer, node, &id);
        if (status == COP_OK) {
            status = cop_tokenizer_add_eos(tokenizer, id, place.err);
        }
    }
    return status;
}

static enum cop_status read_begin_id(struct cop_json_place place,
                                     struct cop_tokenizer *tokenizer)
{
    place.field = "bos_token_id";
    const struct cop_json_node *node =
        cop_json_get(place.tree, cop_json_root(place.tree), place.field);
    if (is_none(node) || tokenizer->bos >= 0) {
        return COP_OK;
    }
    return check_id(&place, tokenizer, node, &tokenizer->bos);
}

/* generation_config.json and config.json */
static enum cop_status read_ids(const struct cop_json_text *file,
                                struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    struct cop_json_tree tree;
    if (!file->text.bytes) {
        return COP_OK;
    }
    enum cop_status status = read_tree(file, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_json_place place = {file->name, "", &tree, err};
    status = read_end_ids(place, tokenizer);
    if (status == COP_OK) {
        status = read_begin_id(place, tokenizer);
    }
    cop_json_tree_release(&tree);
    return status;
}

/* ---- tokenizer_config.json -------------------------------------------------------------- */

/* "<s>" or {"content": "<s>"}: its id, or -1 where there is none. */
static enum cop_status read_token(struct cop_json_place place, const char *key,
                                  const struct cop_tokenizer *tokenizer, cop_token *id)
{
    const struct cop_json_node *root = cop_json_root(place.tree);
    const struct cop_json_node *node = cop_json_get(place.tree, root, key);
    bool is_object = node && node->kind == COP_JSON_OBJECT;
    struct cop_string text = {NULL, 0};
    place.field = key;
    *id = -1;
    enum cop_status status =
        cop_json_string(&place, is_object ? node : root, is_object ? "content" : key, &text);
    if (status != COP_OK || !text.bytes) {
        return status;
    }
    *id = cop_tokenizer_id(tokenizer, text.bytes, text.length);
    char quoted[COP_QUOTE_SIZE];
    return *id >= 0 ? COP_OK
                    : cop_json_refuse(&place, COP_ERR_FORMAT, "\"%s\" is no token",
                                      cop_quote(quoted, text.bytes, text.length));
}

/* A string, or a list of {"name", "template"} of which the one named "default" counts. */
static enum cop_status read_template(struct cop_json_place place,
                                     struct cop_tokenizer *tokenizer)
{
    place.field = "chat_template";
    const struct cop_json_node *root = cop_json_root(place.tree);
    const struct cop_json_node *node = cop_json_get(place.tree, root, place.field);
    struct cop_string text = {NULL, 0};
    enum cop_status status = COP_OK;
    if (!node || node->kind != COP_JSON_LIST) {
        status = cop_json_string(&place, root, place.field, &text);
    } else {
        for (node = cop_json_first(place.tree, node); node && status == COP_OK;
             node = cop_json_after(place.tree, node)) {
            if (cop_json_is(cop_json_get(place.tree, node, "name"), "default")) {
                status = cop_json_string(&place, node, "template", &text);
            }
        }
    }
    return status == COP_OK && tokenizer->chat_template.length == 0
               ? cop_text_append(&tokenizer->chat_template, text.bytes, text.length, place.err)
               : status;
}

static enum cop_status read_tokens(struct cop_json_place place, struct cop_tokenizer *tokenizer)
{
    cop_token bos;
    cop_token eos = -1;
    enum cop_status status = read_token(place, "bos_token", tokenizer, &bos);
    if (status == COP_OK) {
        tokenizer->bos = bos >= 0 ? bos : tokenizer->bos;
        status = read_token(place, "eos_token", tokenizer, &eos);
    }
    return status == COP_OK && eos >= 0 ? cop_tokenizer_add_eos(tokenizer, eos, place.err)
                                        : status;
}

/* tokenizer_config.json; special_tokens_map.json has its two tokens and nothing else of it. */
static enum cop_status read_tokenizer_config(const struct cop_json_text *file, bool is_map,
                                             struct cop_tokenizer *tokenizer,
                                             struct cop_error *err)
{
    struct cop_json_tree tree;
    if (!file->text.bytes) {
        return COP_OK;
    }
    enum cop_status status = read_tree(file, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_json_place place = {file->name, "", &tree, err};
    status = read_tokens(place, tokenizer);
    if (status == COP_OK && !is_map) {
        place.field = "add_bos_token";
        status = cop_json_bool(&place, cop_json_root(&tree), place.field, &tokenizer->adds_bos);
    }
    if (status == COP_OK && !is_map) {
        status = read_template(place, tokenizer);
    }
    cop_json_tree_release(&tree);
    return status;
}

enum cop_status cop_json_read_configs(const struct cop_json_text files[COP_JSON_FILES],
                                      struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    const struct cop_string *jinja = &files[COP_FILE_CHAT_TEMPLATE].text;
    enum cop_status status =
        cop_text_append(&tokenizer->chat_template, jinja->bytes, jinja->length, err);
    if (status == COP_OK) {
        status = read_tokenizer_config(&files[COP_FILE_SPECIAL_TOKENS], true, tokenizer, err);
    }
    if (status == COP_OK) {
        status =
            read_tokenizer_config(&files[COP_FILE_TOKENIZER_CONFIG], false, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_ids(&files[COP_FILE_GENERATION_CONFIG], tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_ids(&files[COP_FILE_CONFIG], tokenizer, err);
    }
    return status == COP_OK ? cop_tokenizer_add_known_ends(tokenizer, err) : status;
}
