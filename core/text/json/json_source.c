/* Reading a tokenizer.json from front to back. */
#include "core/text/json/json_source.h"

#include "core/base/quote.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_FILE ((size_t)1 << 30)
#define LARGEST_ID   (INT32_MAX / 4)

static const struct {
    const char *key;  /* of the outermost object, or of "model" */
    const char *name; /* in messages */
    bool of_model;
} parts[COP_JSON_PARTS] = {
    [COP_JSON_ADDED] = {"added_tokens", "added_tokens", false},
    [COP_JSON_NORMALIZER] = {"normalizer", "normalizer", false},
    [COP_JSON_PRETOKENIZER] = {"pre_tokenizer", "pre_tokenizer", false},
    [COP_JSON_POSTPROCESSOR] = {"post_processor", "post_processor", false},
    [COP_JSON_DECODER] = {"decoder", "decoder", false},
    [COP_JSON_TYPE] = {"type", "model.type", true},
    [COP_JSON_DROPOUT] = {"dropout", "model.dropout", true},
    [COP_JSON_UNKNOWN] = {"unk_token", "model.unk_token", true},
    [COP_JSON_PREFIX] = {"continuing_subword_prefix", "model.continuing_subword_prefix", true},
    [COP_JSON_SUFFIX] = {"end_of_word_suffix", "model.end_of_word_suffix", true},
    [COP_JSON_FUSE] = {"fuse_unk", "model.fuse_unk", true},
    [COP_JSON_FALLBACK] = {"byte_fallback", "model.byte_fallback", true},
    [COP_JSON_IGNORE] = {"ignore_merges", "model.ignore_merges", true},
};

const char *cop_json_part_name(enum cop_json_part part)
{
    return parts[part].name;
}

void cop_json_source_release(struct cop_json_source *source)
{
    cop_text_release(&source->text);
    free(source->pieces);
    free(source->merges);
    cop_json_tree_release(&source->added_tree);
    free(source->added);
    free(source->piece_of);
    free(source->added_of);
    cop_names_release(&source->ids);
}

enum cop_status cop_json_source_part(const struct cop_json_source *source,
                                     enum cop_json_part part, struct cop_json_tree *tree,
                                     struct cop_error *err)
{
    struct cop_string text = source->parts[part];
    struct cop_json_place place = {source->name, parts[part].name, NULL, err};
    struct cop_error inner;
    text = text.bytes ? text : (struct cop_string){"null", 4};
    enum cop_status status = cop_json_tree_read(tree, text.bytes, text.length, &inner);
    return status == COP_OK ? COP_OK : cop_json_relay(&place, &inner);
}

/* ---- Events ----------------------------------------------------------------------------- */

struct reading {
    struct cop_json_source *source;
    struct cop_json json;
    struct cop_json_event event;
    struct cop_error *err;
};

static enum cop_status next(struct reading *reading)
{
    struct cop_error inner;
    enum cop_status status = cop_json_next(&reading->json, &reading->event, &inner);
    return status == COP_OK
               ? COP_OK
               : cop_fail(reading->err, status, "%s: %s", reading->source->name, inner.text);
}

/* Passes a value whose first event has been read. */
static enum cop_status skip(struct reading *reading)
{
    int depth = 0;
    for (;;) {
        enum cop_json_kind kind = reading->event.kind;
        depth += kind == COP_JSON_LIST || kind == COP_JSON_OBJECT;
        depth -= kind == COP_JSON_LIST_END || kind == COP_JSON_OBJECT_END;
        if (depth == 0) {
            return COP_OK;
        }
        enum cop_status status = next(reading);
        if (status != COP_OK) {
            return status;
        }
    }
}

static bool is_key(const struct cop_json_event *event, const char *key)
{
    return strlen(key) == event->length && memcmp(key, event->bytes, event->length) == 0;
}

/* Doubles a list that is full. */
static void *grow(void *items, size_t count, size_t *room, size_t item_size)
{
    if (count < *room) {
        return items;
    }
    size_t larger = *room ? 2 * *room : 1024;
    void *moved = realloc(items, larger * item_size);
    *room = moved ? larger : *room;
    return moved;
}

static enum cop_status no_memory(const struct reading *reading)
{
    return cop_fail(reading->err, COP_ERR_MEMORY, "%s: no memory", reading->source->name);
}

/* ---- The vocabulary --------------------------------------------------------------------- */

/* A member of "vocab", whose key is the current event. */
static enum cop_status read_piece(struct reading *reading)
{
    struct cop_json_source *source = reading->source;
    struct cop_json_piece *pieces = grow(source->pieces, source->n_pieces,
                                         &source->room_for_pieces, sizeof *source->pieces);
    if (!pieces) {
        return no_memory(reading);
    }
    source->pieces = pieces;
    struct cop_json_piece *piece = &pieces[source->n_pieces++];
    *piece = (struct cop_json_piece){source->text.length, (uint32_t)reading->event.length, -1};
    enum cop_status status = cop_text_append(&source->text, reading->event.bytes,
                                             reading->event.length, reading->err);
    status = status == COP_OK ? next(reading) : status;
    if (status != COP_OK) {
        return status;
    }
    int64_t id = reading->event.integer;
    if (reading->event.kind == COP_JSON_INTEGER && id >= 0 && id <= LARGEST_ID) {
        piece->id = (cop_token)id;
        return COP_OK;
    }
    char text[COP_QUOTE_SIZE];
    (void)cop_quote(text, source->text.bytes + piece->at, piece->length);
    if (reading->event.kind != COP_JSON_INTEGER) {
        return cop_fail(reading->err, COP_ERR_FORMAT,
                        "%s: model.vocab: the id of \"%s\" is no integer", source->name, text);
    }
    return cop_fail(reading->err, COP_ERR_FORMAT,
                    "%s: model.vocab: the id of \"%s\" is %" PRId64 ", outside [0, %d]",
                    source->name, text, id, LARGEST_ID);
}

static enum cop_status read_vocabulary(struct reading *reading)
{
    if (reading->event.kind != COP_JSON_OBJECT) {
        return skip(reading); /* another type of model; said later */
    }
    if (reading->source->has_vocab) {
        return cop_fail(reading->err, COP_ERR_FORMAT, "%s: model.vocab: is there twice",
                        reading->source->name);
    }
    reading->source->has_vocab = true;
    enum cop_status status = next(reading);
    while (status == COP_OK && reading->event.kind == COP_JSON_KEY) {
        status = read_piece(reading);
        status = status == COP_OK ? next(reading) : status;
    }
    return status;
}

/* ---- Merges ----------------------------------------------------------------------------- */

static enum cop_status bad_merge(const struct reading *reading, const char *what)
{
    return cop_fail(reading->err, COP_ERR_FORMAT, "%s: model.merges: merge %zu %s",
                    reading->source->name, reading->source->n_merges, what);
}

static enum cop_status add_merge(struct reading *reading, size_t at, size_t left, size_t right)
{
    struct cop_json_source *source = reading->source;
    struct cop_json_merge *merges = grow(source->merges, source->n_merges,
                                         &source->room_for_merges, sizeof *source->merges);
    if (!merges) {
        return no_memory(reading);
    }
    source->merges = merges;
    merges[source->n_merges++] = (struct cop_json_merge){at, (uint32_t)left, (uint32_t)right};
    return COP_OK;
}

static enum cop_status keep_string(struct reading *reading, size_t *length)
{
    *length = reading->event.length;
    return cop_text_append(&reading->source->text, reading->event.bytes, reading->event.length,
                           reading->err);
}

/* "a b" */
static enum cop_status read_merge_line(struct reading *reading)
{
    const struct cop_json_event *event = &reading->event;
    size_t at = reading->source->text.length;
    size_t left = 0;
    while (left < event->length && event->bytes[left] != ' ') {
        left++;
    }
    size_t behind = left + 1;
    size_t right = behind <= event->length ? event->length - behind : 0;
    if (left == 0 || right == 0 || memchr(event->bytes + behind, ' ', right)) {
        return bad_merge(reading, "is not two tokens with one space between");
    }
    struct cop_text *text = &reading->source->text;
    enum cop_status status = cop_text_append(text, event->bytes, left, reading->err);
    if (status == COP_OK) {
        status = cop_text_append(text, event->bytes + behind, right, reading->err);
    }
    return status == COP_OK ? add_merge(reading, at, left, right) : status;
}

/* ["a", "b"], whose opening bracket is the current event */
static enum cop_status read_merge_pair(struct reading *reading)
{
    size_t at = reading->source->text.length;
    size_t lengths[2] = {0, 0};
    for (size_t i = 0; i < 3; i++) {
        enum cop_status status = next(reading);
        bool is_fine = reading->event.kind == (i < 2 ? COP_JSON_STRING : COP_JSON_LIST_END);
        if (status == COP_OK && !is_fine) {
            return bad_merge(reading, "is not a list of two strings");
        }
        if (status == COP_OK && i < 2) {
            status = keep_string(reading, &lengths[i]);
        }
        if (status != COP_OK) {
            return status;
        }
    }
    return lengths[0] > 0 && lengths[1] > 0 ? add_merge(reading, at, lengths[0], lengths[1])
                                            : bad_merge(reading, "names an empty token");
}

/* Files made from a merges.txt may begin with its first line. */
static bool is_version(const struct cop_json_event *event)
{
    return event->length >= 8 && memcmp(event->bytes, "#version", 8) == 0;
}

static enum cop_status read_merges(struct reading *reading)
{
    if (reading->event.kind != COP_JSON_LIST || reading->source->has_merges) {
        return cop_fail(reading->err, COP_ERR_FORMAT, "%s: model.merges: %s",
                        reading->source->name,
                        reading->source->has_merges ? "is there twice" : "is no list");
    }
    reading->source->has_merges = true;
    enum cop_status status = next(reading);
    while (status == COP_OK && reading->event.kind != COP_JSON_LIST_END) {
        if (reading->event.kind == COP_JSON_STRING) {
            status = is_version(&reading->event) ? COP_OK : read_merge_line(reading);
        } else if (reading->event.kind == COP_JSON_LIST) {
            status = read_merge_pair(reading);
        } else {
            status = bad_merge(reading, "is neither a string nor a list of two");
        }
        status = status == COP_OK ? next(reading) : status;
    }
    return status;
}

/* ---- Members ---------------------------------------------------------------------------- */

static enum cop_status read_members(struct reading *reading, bool of_model);

static enum cop_status read_member(struct reading *reading, bool of_model)
{
    struct cop_json_source *source = reading->source;
    bool is_model = !of_model && is_key(&reading->event, "model");
    bool is_vocab = of_model && is_key(&reading->event, "vocab");
    bool is_merges = of_model && is_key(&reading->event, "merges");
    size_t part = 0;
    while (part < COP_JSON_PARTS &&
           (parts[part].of_model != of_model || !is_key(&reading->event, parts[part].key))) {
        part++;
    }
    const char *start = reading->json.at;
    enum cop_status status = next(reading);
    if (status != COP_OK) {
        return status;
    }
    if (is_model && reading->event.kind == COP_JSON_OBJECT) {
        source->has_model = true;
        return read_members(reading, true);
    }
    if (is_vocab || is_merges) {
        return is_vocab ? read_vocabulary(reading) : read_merges(reading);
    }
    status = skip(reading);
    if (status == COP_OK && part < COP_JSON_PARTS) {
        source->parts[part] = (struct cop_string){start, (size_t)(reading->json.at - start)};
    }
    return status;
}

/* The members of an object whose opening brace is the current event. */
static enum cop_status read_members(struct reading *reading, bool of_model)
{
    enum cop_status status = next(reading);
    while (status == COP_OK && reading->event.kind == COP_JSON_KEY) {
        status = read_member(reading, of_model);
        status = status == COP_OK ? next(reading) : status;
    }
    return status;
}

enum cop_status cop_json_source_read(struct cop_json_source *source, struct cop_string file,
                                     struct cop_error *err)
{
    if (file.length > LARGEST_FILE) {
        return cop_fail(err, COP_ERR_LIMIT, "%s: has %zu bytes, more than %zu", source->name,
                        file.length, LARGEST_FILE);
    }
    struct reading reading = {.source = source, .err = err};
    cop_json_start(&reading.json, file.bytes, file.length);
    enum cop_status status = next(&reading);
    if (status == COP_OK && reading.event.kind != COP_JSON_OBJECT) {
        status = cop_fail(err, COP_ERR_FORMAT, "%s: is no JSON object", source->name);
    }
    status = status == COP_OK ? read_members(&reading, false) : status;
    status = status == COP_OK ? next(&reading) : status; /* nothing follows */
    cop_json_release(&reading.json);
    if (status == COP_OK && !source->has_model) {
        status = cop_fail(err, COP_ERR_FORMAT, "%s: model: is no object", source->name);
    }
    return status;
}
