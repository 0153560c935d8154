/* "decoder" and "post_processor" of a tokenizer.json. */
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/json/json_steps.h"

#include <string.h>

/* ---- Decoder ---------------------------------------------------------------------------- */

static enum cop_status show_bytes(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    (void)node;
    steps->rule->is_byte_level = true;
    return COP_OK;
}

static enum cop_status show_fallback(struct cop_json_steps *steps,
                                     const struct cop_json_node *node)
{
    (void)node;
    steps->rule->has_byte_pieces = true;
    steps->decoding->byte_runs = true;
    return COP_OK;
}

static enum cop_status show_fused(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    (void)node;
    steps->is_fused = true;
    return COP_OK;
}

static enum cop_status add_replace(struct cop_json_steps *steps, struct cop_text *from,
                                   struct cop_string to)
{
    struct cop_piece_rule *rule = steps->rule;
    if (rule->n_replaces == COP_PIECE_REPLACES) {
        cop_text_release(from);
        return cop_json_refuse(&steps->place, COP_ERR_LIMIT, "more than %d Replace steps",
                               COP_PIECE_REPLACES);
    }
    size_t row = rule->n_replaces++;
    rule->replaces[row].from = *from;
    return cop_text_append(&rule->replaces[row].to, to.bytes, to.length, steps->place.err);
}

static enum cop_status show_replaced(struct cop_json_steps *steps,
                                     const struct cop_json_node *node)
{
    struct cop_text from = {0};
    struct cop_string content = {NULL, 0};
    if (steps->is_fused || steps->rule->is_byte_level) {
        return cop_json_refuse(&steps->place, COP_ERR_UNSUPPORTED,
                               "Replace behind Fuse or ByteLevel is not built");
    }
    enum cop_status status = cop_json_pattern(steps, node, &from, NULL);
    if (status == COP_OK) {
        status = cop_json_string(&steps->place, node, "content", &content);
    }
    if (status == COP_OK && !content.bytes) {
        status = cop_json_lacks(steps, "content");
    }
    if (status != COP_OK) {
        cop_text_release(&from);
        return status;
    }
    return add_replace(steps, &from, content);
}

static enum cop_status show_stripped(struct cop_json_steps *steps,
                                     const struct cop_json_node *node)
{
    struct cop_string content = {NULL, 0};
    struct cop_decoding *decoding = steps->decoding;
    if (!steps->is_fused || decoding->strip[0]) {
        return cop_json_refuse(&steps->place, COP_ERR_UNSUPPORTED,
                               "Strip is built once, and behind Fuse");
    }
    enum cop_status status = cop_json_string(&steps->place, node, "content", &content);
    size_t used = 0;
    if (status == COP_OK &&
        (content.length == 0 || content.length > 4 ||
         cop_utf8_next(content.bytes, content.length, &used) != COP_UTF8_WHOLE ||
         used < content.length)) {
        return cop_json_refuse(&steps->place, COP_ERR_FORMAT,
                               "\"content\" of Strip is not one character");
    }
    if (status == COP_OK) {
        memcpy(decoding->strip, content.bytes, content.length);
        status = cop_json_count(&steps->place, node, "start", INT32_MAX, &decoding->n_leading);
    }
    return status == COP_OK
               ? cop_json_count(&steps->place, node, "stop", INT32_MAX, &decoding->n_trailing)
               : status;
}

enum cop_status cop_json_read_decoder(const struct cop_json_source *source,
                                      struct cop_decoding *decoding,
                                      struct cop_piece_rule *rule, struct cop_error *err)
{
    static const struct cop_json_row rows[] = {{"ByteFallback", show_fallback, 0},
                                               {"ByteLevel", show_bytes, 0},
                                               {"Fuse", show_fused, 0},
                                               {"Replace", show_replaced, 0},
                                               {"Strip", show_stripped, 0},
                                               {0}};
    struct cop_json_steps steps = {
        .rows = rows, .members = "decoders", .decoding = decoding, .rule = rule};
    struct cop_string text = source->parts[COP_JSON_DECODER];
    /* Without a decoder the library that defines this format puts spaces between tokens. */
    decoding->is_spaced = !text.bytes || memmem(text.bytes, text.length, "{", 1) == NULL;
    return cop_json_read_part(source, COP_JSON_DECODER, &steps, err);
}

/* ---- Post-processor --------------------------------------------------------------------- */

/* The id under a name in "special_tokens", or of the token that is called so; -1: neither. */
static cop_token template_id(const struct cop_json_steps *steps,
                             const struct cop_json_node *node, struct cop_string name)
{
    const struct cop_json_tree *tree = steps->place.tree;
    const struct cop_json_node *row =
        cop_json_first(tree, cop_json_get(tree, node, "special_tokens"));
    while (row &&
           (row->key_length != name.length || memcmp(row->key, name.bytes, name.length) != 0)) {
        row = cop_json_after(tree, row);
    }
    const struct cop_json_node *id = cop_json_first(tree, cop_json_get(tree, row, "ids"));
    bool is_id = id && id->kind == COP_JSON_INTEGER && id->integer >= 0 &&
                 id->integer < cop_tokenizer_size(steps->tokenizer);
    return is_id ? (cop_token)id->integer
                 : cop_tokenizer_id(steps->tokenizer, name.bytes, name.length);
}

/* The id of the special token that a template puts in front of the text, if any. */
static enum cop_status read_template(struct cop_json_steps *steps,
                                     const struct cop_json_node *node)
{
    const struct cop_json_tree *tree = steps->place.tree;
    const struct cop_json_node *first =
        cop_json_first(tree, cop_json_get(tree, node, "single"));
    const struct cop_json_node *special = cop_json_get(tree, first, "SpecialToken");
    struct cop_string name = {NULL, 0};
    enum cop_status status = cop_json_string(&steps->place, special, "id", &name);
    if (status != COP_OK || !name.bytes) {
        return status;
    }
    cop_token id = template_id(steps, node, name);
    if (id < 0) {
        char text[COP_QUOTE_SIZE];
        return cop_json_refuse(&steps->place, COP_ERR_FORMAT, "\"%s\" is no token",
                               cop_quote(text, name.bytes, name.length));
    }
    steps->tokenizer->bos = id;
    steps->tokenizer->adds_bos = true;
    return COP_OK;
}

static enum cop_status pass(struct cop_json_steps *steps, const struct cop_json_node *node)
{
    (void)steps;
    (void)node;
    return COP_OK;
}

enum cop_status cop_json_read_postprocessor(const struct cop_json_source *source,
                                            struct cop_tokenizer *tokenizer,
                                            struct cop_error *err)
{
    static const struct cop_json_row rows[] = {
        {"ByteLevel", pass, 0}, {"TemplateProcessing", read_template, 0}, {0}};
    struct cop_json_steps steps = {
        .rows = rows, .members = "processors", .tokenizer = tokenizer};
    return cop_json_read_part(source, COP_JSON_POSTPROCESSOR, &steps, err);
}
