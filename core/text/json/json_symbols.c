/* What encoding needs of a tokenizer.json: symbols, words, merges, marks. */
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/byte_symbols.h"
#include "core/text/json/json_source.h"

#include <stdlib.h>
#include <string.h>

/* ---- Symbols and words ------------------------------------------------------------------ */

/* The model's pieces as words spell them: for bytes, in the bytes that they stand for. */
static enum cop_status index_words(const struct cop_json_source *source,
                                   struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    struct cop_text *text = &tokenizer->word_text;
    text->bytes = malloc(source->text.length + 1); /* never longer than in the file */
    text->capacity = text->bytes ? source->text.length + 1 : 0;
    if (!text->bytes || !cop_names_init(&tokenizer->words, source->n_pieces)) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for %zu tokens", source->name,
                        source->n_pieces);
    }
    for (size_t i = 0; i < source->n_pieces; i++) {
        const struct cop_json_piece *piece = &source->pieces[i];
        const char *bytes = source->text.bytes + piece->at;
        char *kept = text->bytes + text->length;
        size_t length = piece->length;
        if (tokenizer->symbols == COP_SYMBOLS_BYTES) {
            if (!cop_byte_symbols_only(bytes, length)) {
                continue; /* no word is spelt so */
            }
            length = cop_byte_symbols_decode(bytes, length, kept);
        } else {
            memcpy(kept, bytes, length);
        }
        text->length += length;
        (void)cop_names_add(&tokenizer->words, kept, length, piece->id);
    }
    return COP_OK;
}

static cop_token find_token(const struct cop_json_source *source, struct cop_string text)
{
    cop_token id = cop_names_find(&source->ids, text.bytes, text.length);
    for (size_t i = 0; id < 0 && i < source->n_added; i++) {
        struct cop_string content = source->added[i].content;
        if (content.length == text.length &&
            memcmp(content.bytes, text.bytes, text.length) == 0) {
            id = source->added[i].id;
        }
    }
    return id;
}

static enum cop_status read_unknown(const struct cop_json_source *source,
                                    struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    struct cop_json_tree tree;
    enum cop_status status = cop_json_source_part(source, COP_JSON_UNKNOWN, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_json_place place = {source->name, cop_json_part_name(COP_JSON_UNKNOWN), &tree,
                                   err};
    const struct cop_json_node *node = cop_json_root(&tree);
    if (!cop_json_is_null(node)) {
        bool is_string = node->kind == COP_JSON_STRING;
        tokenizer->unknown =
            is_string ? find_token(source, (struct cop_string){node->text, node->length}) : -1;
        if (tokenizer->unknown < 0) {
            char text[COP_QUOTE_SIZE];
            status = cop_json_refuse(&place, COP_ERR_FORMAT, "\"%s\" is no token",
                                     is_string ? cop_quote(text, node->text, node->length)
                                               : "(no string)");
        }
    }
    cop_json_tree_release(&tree);
    return status;
}

enum cop_status cop_json_source_symbols(const struct cop_json_source *source,
                                        struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char symbol[4];
        size_t length = cop_utf8_write(cop_byte_symbol((uint8_t)byte), symbol);
        tokenizer->byte_ids[byte] = cop_names_find(&source->ids, symbol, length);
    }
    enum cop_status status = read_unknown(source, tokenizer, err);
    bool has_words = tokenizer->symbols == COP_SYMBOLS_LETTERS || tokenizer->ignore_merges;
    return status == COP_OK && has_words ? index_words(source, tokenizer, err) : status;
}

/* ---- Merges ----------------------------------------------------------------------------- */

static enum cop_status add_merge(const struct cop_json_source *source, size_t number,
                                 struct cop_merges *merges, struct cop_error *err)
{
    const struct cop_json_merge *merge = &source->merges[number];
    const char *bytes = source->text.bytes + merge->at;
    size_t length = (size_t)merge->left + merge->right;
    cop_token left = cop_names_find(&source->ids, bytes, merge->left);
    cop_token right = cop_names_find(&source->ids, bytes + merge->left, merge->right);
    cop_token whole = cop_names_find(&source->ids, bytes, length);
    const char *what = left < 0    ? "begins with what is not a token"
                       : right < 0 ? "ends with what is not a token"
                       : whole < 0 ? "makes what is not a token"
                       : cop_merges_add(merges, left, right, whole) >= 0 ? "is there twice"
                                                                         : NULL;
    if (!what) {
        return COP_OK;
    }
    char text[COP_QUOTE_SIZE];
    char other[COP_QUOTE_SIZE];
    return cop_fail(err, COP_ERR_FORMAT, "%s: model.merges: merge %zu, \"%s\" and \"%s\", %s",
                    source->name, number, cop_quote(text, bytes, merge->left),
                    cop_quote(other, bytes + merge->left, merge->right), what);
}

enum cop_status cop_json_source_merges(const struct cop_json_source *source,
                                       struct cop_merges *merges, struct cop_error *err)
{
    enum cop_status status = cop_merges_init(merges, source->n_merges, err);
    for (size_t i = 0; status == COP_OK && i < source->n_merges; i++) {
        status = add_merge(source, i, merges, err);
    }
    return status;
}

/* ---- Marks ------------------------------------------------------------------------------ */

/* The marks of one kind. Late ones are looked for in normalised text, so they are normalised
 * themselves. Their texts are kept one after another; `bytes` come when all are there. */
static enum cop_status build(const struct cop_json_source *source, bool is_late,
                             struct cop_tokenizer *tokenizer, struct cop_mark *items,
                             size_t *count, struct cop_error *err)
{
    struct cop_normalize_work work = {0};
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < source->n_added; i++) {
        const struct cop_json_added *added = &source->added[i];
        struct cop_string text = added->content;
        if (((added->flags & COP_MARK_LATE) != 0) != is_late ||
            source->added_of[added->id] != (int32_t)i) {
            continue;
        }
        if (is_late) {
            status = cop_normalize(&tokenizer->normalizer, text, &work, &text, err);
        }
        if (status == COP_OK) {
            status = cop_text_append(&tokenizer->mark_text, text.bytes, text.length, err);
        }
        if (status == COP_OK && text.length > 0) {
            items[(*count)++] = (struct cop_mark){NULL, text.length, added->id, added->flags};
        }
    }
    cop_normalize_work_release(&work);
    return status;
}

enum cop_status cop_json_source_marks(const struct cop_json_source *source,
                                      struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    struct cop_mark *items[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    for (int late = 0; status == COP_OK && late < 2; late++) {
        items[late] = malloc((source->n_added + 1) * sizeof **items);
        status = items[late]
                     ? build(source, late == 1, tokenizer, items[late], &counts[late], err)
                     : cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source->name);
    }
    if (status != COP_OK) {
        free(items[0]);
        free(items[1]);
        return status;
    }
    const char *at = tokenizer->mark_text.bytes;
    for (int late = 0; late < 2; late++) {
        for (size_t i = 0; i < counts[late]; i++) {
            items[late][i].bytes = at;
            at += items[late][i].length;
        }
    }
    cop_marks_init(&tokenizer->marks, items[0], counts[0]);
    cop_marks_init(&tokenizer->late, items[1], counts[1]);
    return COP_OK;
}
