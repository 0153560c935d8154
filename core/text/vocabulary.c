/* Building and searching the table of pieces. */
#include "core/text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

enum cop_status cop_vocabulary_init(struct cop_vocabulary *vocabulary, size_t limit,
                                    size_t n_bytes, struct cop_error *err)
{
    memset(vocabulary, 0, sizeof *vocabulary);
    vocabulary->bytes = malloc(n_bytes + 1);
    vocabulary->starts = calloc(limit + 1, sizeof *vocabulary->starts);
    vocabulary->kinds = calloc(limit + 1, sizeof *vocabulary->kinds);
    if (!vocabulary->bytes || !vocabulary->starts || !vocabulary->kinds) {
        cop_vocabulary_release(vocabulary);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a vocabulary of %zu pieces", limit);
    }
    return COP_OK;
}

void cop_vocabulary_release(struct cop_vocabulary *vocabulary)
{
    cop_names_release(&vocabulary->normal);
    cop_names_release(&vocabulary->others);
    free(vocabulary->bytes);
    free(vocabulary->starts);
    free(vocabulary->kinds);
    memset(vocabulary, 0, sizeof *vocabulary);
}

void cop_vocabulary_add(struct cop_vocabulary *vocabulary, const char *text, size_t length,
                        enum cop_piece_kind kind)
{
    int32_t id = vocabulary->size++;
    size_t start = vocabulary->starts[id];
    memcpy(vocabulary->bytes + start, text, length);
    vocabulary->starts[id + 1] = start + length;
    vocabulary->kinds[id] = (uint8_t)kind;
}

/* Empty pieces cannot be matched. */
static bool is_mark(const struct cop_vocabulary *vocabulary, int32_t id)
{
    uint8_t kind = vocabulary->kinds[id];
    return (kind == COP_PIECE_ADDED || kind == COP_PIECE_CONTROL) &&
           vocabulary->starts[id + 1] > vocabulary->starts[id];
}

enum cop_status cop_vocabulary_marks(const struct cop_vocabulary *vocabulary,
                                     struct cop_marks *marks, struct cop_error *err)
{
    size_t count = 0;
    for (int32_t id = 0; id < vocabulary->size; id++) {
        count += is_mark(vocabulary, id);
    }
    struct cop_mark *items = count > 0 ? malloc(count * sizeof *items) : NULL;
    if (count > 0 && !items) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu special tokens", count);
    }
    size_t filled = 0;
    for (int32_t id = 0; id < vocabulary->size && items; id++) {
        if (is_mark(vocabulary, id)) {
            struct cop_string text = cop_vocabulary_text(vocabulary, id);
            bool is_control = vocabulary->kinds[id] == COP_PIECE_CONTROL;
            items[filled++] = (struct cop_mark){text.bytes, text.length, id,
                                                is_control ? COP_MARK_CONTROL : 0};
        }
    }
    cop_marks_init(marks, items, filled);
    return COP_OK;
}

enum cop_status cop_vocabulary_finish(struct cop_vocabulary *vocabulary, struct cop_error *err)
{
    size_t n_normal = 0;
    for (int32_t id = 0; id < vocabulary->size; id++) {
        n_normal += vocabulary->kinds[id] == COP_PIECE_NORMAL;
    }
    if (!cop_names_init(&vocabulary->normal, n_normal) ||
        !cop_names_init(&vocabulary->others, (size_t)vocabulary->size - n_normal)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a vocabulary of %d pieces",
                        vocabulary->size);
    }
    for (int32_t id = 0; id < vocabulary->size; id++) {
        struct cop_string text = cop_vocabulary_text(vocabulary, id);
        bool is_normal = vocabulary->kinds[id] == COP_PIECE_NORMAL;
        if (text.length > 0) {
            cop_names_add(is_normal ? &vocabulary->normal : &vocabulary->others, text.bytes,
                          text.length, id);
        }
    }
    return COP_OK;
}

struct cop_string cop_vocabulary_text(const struct cop_vocabulary *vocabulary, cop_token id)
{
    if (id < 0 || id >= vocabulary->size) {
        return (struct cop_string){"", 0};
    }
    size_t start = vocabulary->starts[id];
    return (struct cop_string){vocabulary->bytes + start, vocabulary->starts[id + 1] - start};
}

cop_token cop_vocabulary_find(const struct cop_vocabulary *vocabulary, const char *text,
                              size_t length)
{
    cop_token other = cop_names_find(&vocabulary->others, text, length);
    cop_token normal = cop_names_find(&vocabulary->normal, text, length);
    bool is_matched = other >= 0 && (vocabulary->kinds[other] == COP_PIECE_CONTROL ||
                                     vocabulary->kinds[other] == COP_PIECE_ADDED);
    return is_matched || normal < 0 ? other : normal;
}

uint64_t cop_vocabulary_fingerprint(const struct cop_vocabulary *vocabulary)
{
    uint64_t hash = (uint64_t)vocabulary->size;
    for (int32_t id = 0; id < vocabulary->size; id++) {
        struct cop_string text = cop_vocabulary_text(vocabulary, id);
        hash = cop_hash_bytes(text.bytes, text.length, hash);
    }
    return hash;
}
