/* Marks: strings that are cut out of a text before anything else looks at it (control tokens
 * and added tokens). At each place the longest mark wins, and the leftmost place first. */
#ifndef COP_TEXT_MARKS_H
#define COP_TEXT_MARKS_H

#include "core/text/tokenizer.h"

struct cop_mark {
    const char *bytes; /* borrowed */
    size_t length;     /* >= 1 */
    cop_token id;
};

struct cop_marks {
    struct cop_mark *items; /* sorted by bytes */
    size_t count;
    size_t first[257]; /* marks that begin with byte b: items[first[b] .. first[b + 1]) */
};

/* Takes over `items`, which were allocated with malloc (NULL if count is 0), and sorts them. */
void cop_marks_init(struct cop_marks *marks, struct cop_mark *items, size_t count);
void cop_marks_release(struct cop_marks *marks);

/* The next mark at or after *at: its place in *at, or NULL and *at = length. The time is the
 * length passed over times that of the longest mark. */
const struct cop_mark *cop_marks_find(const struct cop_marks *marks, const char *text,
                                      size_t length, size_t *at);

#endif
