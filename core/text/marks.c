/* Marks in a sorted list: the candidates at a place are a range of it, which narrows byte by
 * byte; in a range of depth d the mark that ends there, if any, is the first. */
#include "core/text/marks.h"

#include "core/base/utf8.h"
#include "core/text/split/unicode.h"
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct cop_mark *left = a;
    const struct cop_mark *right = b;
    size_t common = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->bytes, right->bytes, common);
    order =
        order != 0 ? order : (left->length > right->length) - (left->length < right->length);
    return order != 0 ? order : (left->id > right->id) - (left->id < right->id);
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

/* ---- Cutting a text at marks ------------------------------------------------------------- */

/* The character that ends at `end`, in valid text of which something lies before. */
static uint32_t character_before(const char *text, size_t end, size_t *start)
{
    *start = end - 1;
    while (*start > 0 && ((unsigned char)text[*start] & 0xC0) == 0x80) {
        (*start)--;
    }
    return cop_utf8_read(text + *start, end - *start);
}

static uint32_t character_at(const char *text, size_t length, size_t at, size_t *used)
{
    (void)cop_utf8_next(text + at, length - at, used);
    return cop_utf8_read(text + at, *used);
}

static bool is_in_word(const char *text, size_t length, size_t start, size_t end)
{
    size_t unused;
    return (start > 0 && cop_is_word(character_before(text, start, &unused))) ||
           (end < length && cop_is_word(character_at(text, length, end, &unused)));
}

static size_t white_before(const char *text, size_t start, size_t limit)
{
    size_t previous = start;
    while (start > limit && cop_is_white(character_before(text, start, &previous))) {
        start = previous;
    }
    return start;
}

static size_t white_behind(const char *text, size_t length, size_t end)
{
    size_t used = 0;
    while (end < length && cop_is_white(character_at(text, length, end, &used))) {
        end += used;
    }
    return end;
}

bool cop_marks_next(const struct cop_marks *marks, const char *text, size_t length,
                    bool special, struct cop_marking *marking, struct cop_marked *part)
{
    while (!marking->has_found && marking->at < length) {
        const struct cop_mark *mark = cop_marks_find(marks, text, length, &marking->at);
        if (!mark) {
            break;
        }
        size_t start = marking->at;
        size_t end = start + mark->length;
        marking->at = end;
        if (((mark->flags & COP_MARK_CONTROL) && !special) ||
            ((mark->flags & COP_MARK_WORD) && is_in_word(text, length, start, end))) {
            continue;
        }
        if (mark->flags & COP_MARK_LEFT) {
            start = start > marking->from ? white_before(text, start, marking->from)
                                          : marking->from;
        }
        if (mark->flags & COP_MARK_RIGHT) {
            /* A mark inside that white space ends where it does. */
            end =
                end < marking->white_end ? marking->white_end : white_behind(text, length, end);
            marking->white_end = end;
        }
        if (start >= end) {
            continue; /* white space that the mark before has taken in */
        }
        marking->found = (struct cop_marked){start, end, mark};
        marking->has_found = true;
    }
    size_t until = marking->has_found ? marking->found.start : length;
    if (marking->from < until) {
        *part = (struct cop_marked){marking->from, until, NULL};
        marking->from = until;
        return true;
    }
    if (marking->has_found) {
        *part = marking->found;
        marking->from = marking->found.end;
        marking->has_found = false;
        return true;
    }
    return false;
}
