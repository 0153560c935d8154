/* Marks in a sorted list: the candidates at a place are a range of it, which narrows byte by
 * byte; in a range of depth d the mark that ends there, if any, is the first. */
#include "core/text/marks.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct cop_mark *left = a;
    const struct cop_mark *right = b;
    size_t common = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->bytes, right->bytes, common);
    return order != 0 ? order : (left->length > right->length) - (left->length < right->length);
}

void cop_marks_init(struct cop_marks *marks, struct cop_mark *items, size_t count)
{
    memset(marks, 0, sizeof *marks);
    marks->items = items;
    marks->count = count;
    if (count > 0) {
        qsort(items, count, sizeof *items, compare);
    }
    for (size_t i = 0; i < count; i++) {
        marks->first[(unsigned char)items[i].bytes[0] + 1] = i + 1;
    }
    for (size_t b = 1; b <= 256; b++) {
        if (marks->first[b] < marks->first[b - 1]) {
            marks->first[b] = marks->first[b - 1];
        }
    }
}

void cop_marks_release(struct cop_marks *marks)
{
    free(marks->items);
    memset(marks, 0, sizeof *marks);
}

/* The first of items[low..high) whose byte at `depth` is at least `byte`; all of them agree on
 * the bytes before. A mark that ends at `depth` comes before all bytes. */
static size_t lower_bound(const struct cop_marks *marks, size_t low, size_t high, size_t depth,
                          int byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct cop_mark *mark = &marks->items[middle];
        int found = mark->length == depth ? -1 : (unsigned char)mark->bytes[depth];
        if (found < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest mark with which text[0..length) begins, or NULL. */
static const struct cop_mark *longest(const struct cop_marks *marks, const char *text,
                                      size_t length)
{
    unsigned char first = (unsigned char)text[0];
    size_t low = marks->first[first];
    size_t high = marks->first[first + 1];
    const struct cop_mark *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (marks->items[low].length == depth) {
            best = &marks->items[low];
        }
        if (depth == length) {
            break;
        }
        int byte = (unsigned char)text[depth];
        low = lower_bound(marks, low, high, depth, byte);
        high = lower_bound(marks, low, high, depth, byte + 1);
    }
    return best;
}

const struct cop_mark *cop_marks_find(const struct cop_marks *marks, const char *text,
                                      size_t length, size_t *at)
{
    if (marks->count == 0) {
        *at = length;
        return NULL;
    }
    for (; *at < length; (*at)++) {
        const struct cop_mark *mark = longest(marks, text + *at, length - *at);
        if (mark) {
            return mark;
        }
    }
    return NULL;
}
