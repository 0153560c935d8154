/* The two growing things that text functions fill: lists of ids and strings of bytes. */
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* At least `needed` items of `item_size` bytes; doubles, so that appending is linear. */
static bool reserve(void **items, size_t *capacity, size_t needed, size_t item_size)
{
    if (needed <= *capacity) {
        return true;
    }
    size_t larger = *capacity < 16 ? 32 : *capacity * 2;
    if (larger < needed) {
        larger = needed;
    }
    if (larger > SIZE_MAX / 2 / item_size) {
        return false;
    }
    void *moved = realloc(*items, larger * item_size);
    if (moved) {
        *items = moved;
        *capacity = larger;
    }
    return moved != NULL;
}

void cop_ids_release(struct cop_ids *ids)
{
    free(ids->items);
    *ids = (struct cop_ids){NULL, 0, 0};
}

enum cop_status cop_ids_push(struct cop_ids *ids, cop_token id, struct cop_error *err)
{
    void *items = ids->items;
    if (!reserve(&items, &ids->capacity, ids->count + 1, sizeof id)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu token ids", ids->count + 1);
    }
    ids->items = items;
    ids->items[ids->count++] = id;
    return COP_OK;
}

void cop_text_release(struct cop_text *text)
{
    free(text->bytes);
    *text = (struct cop_text){NULL, 0, 0};
}

enum cop_status cop_text_append(struct cop_text *text, const char *bytes, size_t length,
                                struct cop_error *err)
{
    void *room = text->bytes;
    if (length > SIZE_MAX / 4 - text->length ||
        !reserve(&room, &text->capacity, text->length + length + 1, 1)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a text of %zu more bytes", length);
    }
    text->bytes = room;
    if (length > 0) {
        memcpy(text->bytes + text->length, bytes, length);
        text->length += length;
    }
    text->bytes[text->length] = '\0';
    return COP_OK;
}
