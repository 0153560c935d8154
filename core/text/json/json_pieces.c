/* From the lists of a tokenizer.json to tables by id.
 *
 * Every id belongs to a piece of the model, to an added token, to both if they are the same
 * string, or to nothing: a gap, which is an unused piece without text. */
#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/text/byte_symbols.h"
#include "core/text/json/json_source.h"

#include <stdlib.h>
#include <string.h>

/* Longer added tokens are refused: looking for them takes their length at every place. */
#define LONGEST_ADDED 1000

static struct cop_string piece_text(const struct cop_json_source *source, size_t piece)
{
    return (struct cop_string){source->text.bytes + source->pieces[piece].at,
                               source->pieces[piece].length};
}

/* ---- Added tokens ----------------------------------------------------------------------- */

static enum cop_status read_flags(const struct cop_json_place *place,
                                  const struct cop_json_node *node,
                                  struct cop_json_added *added)
{
    static const struct {
        const char *key;
        uint8_t flag;
    } rows[] = {{"lstrip", COP_MARK_LEFT},
                {"rstrip", COP_MARK_RIGHT},
                {"single_word", COP_MARK_WORD},
                {"normalized", COP_MARK_LATE}};
    enum cop_status status = cop_json_bool(place, node, "special", &added->is_special);
    added->flags = added->is_special ? COP_MARK_CONTROL : 0;
    for (size_t i = 0; status == COP_OK && i < sizeof rows / sizeof rows[0]; i++) {
        /* What is not said about normalising: special tokens are as they stand. */
        bool value = rows[i].flag == COP_MARK_LATE && !added->is_special;
        status = cop_json_bool(place, node, rows[i].key, &value);
        added->flags |= value ? rows[i].flag : 0;
    }
    return status;
}

static enum cop_status read_added_token(const struct cop_json_place *place,
                                        const struct cop_json_node *node,
                                        struct cop_json_added *added)
{
    *added = (struct cop_json_added){.id = -1};
    if (node->kind != COP_JSON_OBJECT) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "an item is no object");
    }
    enum cop_status status = cop_json_string(place, node, "content", &added->content);
    if (status == COP_OK) {
        status = cop_json_count(place, node, "id", INT32_MAX / 4, &added->id);
    }
    if (status == COP_OK && (!added->content.bytes || added->id < 0)) {
        return cop_json_refuse(place, COP_ERR_FORMAT, "an item lacks \"id\" or \"content\"");
    }
    if (status == COP_OK && added->content.length > LONGEST_ADDED) {
        return cop_json_refuse(place, COP_ERR_LIMIT, "token %d has %zu bytes, more than %d",
                               added->id, added->content.length, LONGEST_ADDED);
    }
    return status == COP_OK ? read_flags(place, node, added) : status;
}

static enum cop_status read_added(struct cop_json_source *source, struct cop_error *err)
{
    enum cop_status status =
        cop_json_source_part(source, COP_JSON_ADDED, &source->added_tree, err);
    if (status != COP_OK) {
        return status;
    }
    struct cop_json_place place = {source->name, cop_json_part_name(COP_JSON_ADDED),
                                   &source->added_tree, err};
    const struct cop_json_node *list = cop_json_root(&source->added_tree);
    if (!cop_json_is_null(list) && list->kind != COP_JSON_LIST) {
        return cop_json_refuse(&place, COP_ERR_FORMAT, "is no list");
    }
    source->added = malloc((source->added_tree.n_nodes + 1) * sizeof *source->added);
    if (!source->added) {
        return cop_json_refuse(&place, COP_ERR_MEMORY, "no memory");
    }
    const struct cop_json_node *node = cop_json_first(&source->added_tree, list);
    for (; node; node = cop_json_after(&source->added_tree, node)) {
        status = read_added_token(&place, node, &source->added[source->n_added]);
        if (status != COP_OK) {
            return status;
        }
        /* An empty token can neither be met nor shown. */
        source->n_added += source->added[source->n_added].content.length > 0;
    }
    return COP_OK;
}

/* ---- Ids -------------------------------------------------------------------------------- */

static enum cop_status find_size(struct cop_json_source *source, struct cop_error *err)
{
    cop_token largest = -1;
    for (size_t i = 0; i < source->n_pieces; i++) {
        largest = source->pieces[i].id > largest ? source->pieces[i].id : largest;
    }
    for (size_t i = 0; i < source->n_added; i++) {
        largest = source->added[i].id > largest ? source->added[i].id : largest;
    }
    size_t n_tokens = source->n_pieces + source->n_added;
    if (n_tokens == 0) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: model.vocab: is empty", source->name);
    }
    if ((size_t)largest > 4 * n_tokens + 65536) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: id %d is far beyond the number of tokens, %zu", source->name,
                        largest, n_tokens);
    }
    source->size = largest + 1;
    source->piece_of = malloc((size_t)source->size * sizeof *source->piece_of);
    source->added_of = malloc((size_t)source->size * sizeof *source->added_of);
    if (!source->piece_of || !source->added_of ||
        !cop_names_init(&source->ids, source->n_pieces)) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for %d tokens", source->name,
                        source->size);
    }
    for (int32_t id = 0; id < source->size; id++) {
        source->piece_of[id] = source->added_of[id] = -1;
    }
    return COP_OK;
}

static enum cop_status index_pieces(struct cop_json_source *source, struct cop_error *err)
{
    char text[COP_QUOTE_SIZE];
    char other[COP_QUOTE_SIZE];
    for (size_t i = 0; i < source->n_pieces; i++) {
        struct cop_string piece = piece_text(source, i);
        cop_token id = source->pieces[i].id;
        if (source->piece_of[id] >= 0) {
            struct cop_string holder = piece_text(source, (size_t)source->piece_of[id]);
            return cop_fail(err, COP_ERR_FORMAT,
                            "%s: model.vocab: \"%s\" and \"%s\" both have the id %d",
                            source->name, cop_quote(other, holder.bytes, holder.length),
                            cop_quote(text, piece.bytes, piece.length), id);
        }
        source->piece_of[id] = (int32_t)i;
        if (cop_names_add(&source->ids, piece.bytes, piece.length, id) != id) {
            return cop_fail(err, COP_ERR_FORMAT, "%s: model.vocab: \"%s\" is there twice",
                            source->name, cop_quote(text, piece.bytes, piece.length));
        }
    }
    return COP_OK;
}

static enum cop_status index_added(struct cop_json_source *source, struct cop_error *err)
{
    struct cop_json_place place = {source->name, cop_json_part_name(COP_JSON_ADDED), NULL, err};
    char text[COP_QUOTE_SIZE];
    for (size_t i = 0; i < source->n_added; i++) {
        struct cop_string content = source->added[i].content;
        cop_token id = source->added[i].id;
        cop_token other = cop_names_find(&source->ids, content.bytes, content.length);
        if (other >= 0 && other != id) {
            return cop_json_refuse(&place, COP_ERR_FORMAT,
                                   "\"%s\" has the id %d, but %d in model.vocab",
                                   cop_quote(text, content.bytes, content.length), id, other);
        }
        int32_t holder = source->added_of[id];
        bool is_same = holder < 0 || (source->added[holder].content.length == content.length &&
                                      memcmp(source->added[holder].content.bytes, content.bytes,
                                             content.length) == 0);
        if (!is_same || (other < 0 && source->piece_of[id] >= 0)) {
            return cop_json_refuse(&place, COP_ERR_FORMAT,
                                   "the id %d of \"%s\" is that of another token", id,
                                   cop_quote(text, content.bytes, content.length));
        }
        source->added_of[id] = (int32_t)i;
    }
    return COP_OK;
}

enum cop_status cop_json_source_index(struct cop_json_source *source, struct cop_error *err)
{
    enum cop_status status = read_added(source, err);
    if (status == COP_OK) {
        status = find_size(source, err);
    }
    if (status == COP_OK) {
        status = index_pieces(source, err);
    }
    return status == COP_OK ? index_added(source, err) : status;
}

/* ---- Text of pieces --------------------------------------------------------------------- */

void cop_piece_rule_release(struct cop_piece_rule *rule)
{
    for (size_t i = 0; i < COP_PIECE_REPLACES; i++) {
        cop_text_release(&rule->replaces[i].from);
        cop_text_release(&rule->replaces[i].to);
    }
}

/* The text of a token as a decoder shows it; borrowed from the source or the buffers. */
static enum cop_status show(const struct cop_piece_rule *rule, struct cop_string *piece,
                            bool is_added, struct cop_text buffers[2], struct cop_error *err)
{
    struct cop_text *out = &buffers[0]; /* never the one in which the piece lies */
    enum cop_status status = COP_OK;
    for (size_t i = 0; status == COP_OK && i < rule->n_replaces; i++) {
        struct cop_string from = {rule->replaces[i].from.bytes, rule->replaces[i].from.length};
        struct cop_string to = {rule->replaces[i].to.bytes, rule->replaces[i].to.length};
        if (!memmem(piece->bytes, piece->length, from.bytes, from.length)) {
            continue;
        }
        out->length = 0;
        status = cop_replace(*piece, from, to, out, err);
        *piece = (struct cop_string){out->bytes ? out->bytes : "", out->length};
        out = out == &buffers[0] ? &buffers[1] : &buffers[0];
    }
    if (status != COP_OK || !rule->is_byte_level || is_added) {
        return status;
    }
    out->length = 0;
    status = cop_text_append(out, piece->bytes, piece->length, err); /* room */
    if (status == COP_OK) {
        out->length = cop_byte_symbols_decode(piece->bytes, piece->length, out->bytes);
        *piece = (struct cop_string){out->bytes, out->length};
    }
    return status;
}

/* One id's kind and text. Control tokens are shown as they stand in a template. */
static enum cop_status describe(const struct cop_json_source *source,
                                const struct cop_piece_rule *rule, int32_t id,
                                struct cop_text buffers[2], char *byte, struct cop_string *text,
                                enum cop_piece_kind *kind, struct cop_error *err)
{
    if (source->added_of[id] >= 0) {
        const struct cop_json_added *added = &source->added[source->added_of[id]];
        *text = added->content;
        *kind = added->is_special ? COP_PIECE_CONTROL : COP_PIECE_ADDED;
        return added->is_special ? COP_OK : show(rule, text, true, buffers, err);
    }
    if (source->piece_of[id] < 0) {
        *text = (struct cop_string){"", 0};
        *kind = COP_PIECE_UNUSED;
        return COP_OK;
    }
    *text = piece_text(source, (size_t)source->piece_of[id]);
    *kind = COP_PIECE_NORMAL;
    if (rule->has_byte_pieces && cop_is_byte_piece(*text, byte)) {
        *text = (struct cop_string){byte, 1};
        *kind = COP_PIECE_BYTE;
        return COP_OK;
    }
    return show(rule, text, false, buffers, err);
}

/* Decoders may lengthen pieces: two passes, one for the size. */
static enum cop_status add_pieces(const struct cop_json_source *source,
                                  const struct cop_piece_rule *rule,
                                  struct cop_vocabulary *vocabulary, size_t *n_bytes,
                                  struct cop_error *err)
{
    struct cop_text buffers[2] = {{0}};
    enum cop_status status = COP_OK;
    *n_bytes = 0;
    for (int32_t id = 0; status == COP_OK && id < source->size; id++) {
        struct cop_string text;
        enum cop_piece_kind kind;
        char byte;
        status = describe(source, rule, id, buffers, &byte, &text, &kind, err);
        if (status != COP_OK) {
            break;
        }
        *n_bytes += text.length;
        if (*n_bytes > COP_LONGEST_TEXT) {
            status = cop_fail(err, COP_ERR_LIMIT,
                              "%s: decoder: makes tokens of more than %zu bytes together",
                              source->name, COP_LONGEST_TEXT);
        } else if (vocabulary) {
            cop_vocabulary_add(vocabulary, text.bytes, text.length, kind);
        }
    }
    cop_text_release(&buffers[0]);
    cop_text_release(&buffers[1]);
    return status;
}

enum cop_status cop_json_source_vocabulary(const struct cop_json_source *source,
                                           const struct cop_piece_rule *rule,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err)
{
    struct cop_vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t n_bytes;
    enum cop_status status = add_pieces(source, rule, NULL, &n_bytes, err);
    if (status == COP_OK) {
        status = cop_vocabulary_init(vocabulary, (size_t)source->size, n_bytes, err);
    }
    if (status == COP_OK) {
        status = add_pieces(source, rule, vocabulary, &n_bytes, err);
    }
    if (status == COP_OK) {
        status = cop_vocabulary_finish(vocabulary, err);
    }
    tokenizer->fingerprint = status == COP_OK ? cop_vocabulary_fingerprint(vocabulary) : 0;
    return status;
}
