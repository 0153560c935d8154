/* Marks: strings that are cut out of a text before anything else looks at it (control tokens
 * and added tokens). At each place the longest mark wins, and the leftmost place first. */
#ifndef COP_TEXT_MARKS_H
#define COP_TEXT_MARKS_H

#include "core/text/tokenizer.h"

enum { /* a mark's flags; those of a piece that is one (core/text/vocabulary.h) */
       COP_MARK_CONTROL = 1, /* counts only where special tokens are asked for */
       COP_MARK_LEFT = 2,    /* takes in the white space before it */
       COP_MARK_RIGHT = 4,   /* and behind it */
       COP_MARK_WORD = 8,    /* does not count inside a word */
       COP_MARK_LATE = 16    /* is looked for in normalised text */
};

struct cop_mark {
    const char *bytes; /* borrowed */
    size_t length;     /* >= 1 */
    cop_token id;
    uint8_t flags;
};

struct cop_marks {
    struct cop_mark *items; /* sorted by bytes */
    size_t count;
    size_t first[257]; /* marks that begin with byte b: items[first[b] .. first[b + 1]) */
};

/* Takes over `items`, which were allocated with malloc (NULL if count is 0), and sorts them. */
void cop_marks_init(struct cop_marks *marks, struct cop_mark *items, size_t count);
void cop_marks_release(struct cop_marks *marks);

/* A part of a text: what lies between marks, or (mark not NULL) a mark with the white space
 * that it takes in. */
struct cop_marked {
    size_t start, end;
    const struct cop_mark *mark;
};
/* Where cutting a text has come to; start with {0}. */
struct cop_marking {
    size_t from;      /* all before has been handed out */
    size_t at;        /* where the next mark is looked for */
    size_t white_end; /* of the last white space behind a mark */
    bool has_found;   /* `found` is still to be handed out */
    struct cop_marked found;
};
/* The next part; false: there is none. Control marks count only with `special`; one that does
 * not count is text, also where a shorter mark lies inside it. */
bool cop_marks_next(const struct cop_marks *marks, const char *text, size_t length,
                    bool special, struct cop_marking *marking, struct cop_marked *part);

/* The next mark at or after *at: its place in *at, or NULL and *at = length. The time is the
 * length passed over times that of the longest mark. */
const struct cop_mark *cop_marks_find(const struct cop_marks *marks, const char *text,
                                      size_t length, size_t *at);

#endif
