/* Reading JSON (RFC 8259) as a stream of events, without building anything.
 *
 *     {"id": 7, "turns": ["a"]}   ->   { KEY id  INTEGER 7  KEY turns  [ STRING a ]  }  END
 *
 * Text from outside is hostile: nesting is limited, strings must be UTF-8, and every error
 * names the byte. What other readers lose is kept: integers of 64 bits, "\u0000" inside
 * strings. Half a surrogate pair becomes U+FFFD. Control characters inside strings are taken as
 * they are, except the end of a line. */
#ifndef COP_BASE_JSON_H
#define COP_BASE_JSON_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COP_JSON_DEPTH 128 /* lists and objects inside each other, at most */

enum cop_json_kind {
    COP_JSON_END, /* the value is over and only white space follows */
    COP_JSON_NULL,
    COP_JSON_TRUE,
    COP_JSON_FALSE,
    COP_JSON_INTEGER, /* no fraction, no exponent, fits 64 bits */
    COP_JSON_NUMBER,
    COP_JSON_STRING,
    COP_JSON_KEY, /* the value follows */
    COP_JSON_LIST,
    COP_JSON_LIST_END,
    COP_JSON_OBJECT,
    COP_JSON_OBJECT_END
};

struct cop_json_event {
    enum cop_json_kind kind;
    int64_t integer;
    double number;
    const char *bytes; /* STRING, KEY [length]: valid until the next event */
    size_t length;
};

struct cop_json {
    const char *bytes, *at, *end;
    char *scratch; /* a string whose escapes had to be replaced */
    size_t scratch_size;
    int depth;
    uint64_t is_object[COP_JSON_DEPTH / 64]; /* bit d: the container at depth d */
    int expects;                             /* what may come next (json.c) */
};

void cop_json_start(struct cop_json *json, const char *bytes, size_t length);
/* The next event. COP_ERR_FORMAT says what is wrong at which byte (from 1). */
enum cop_status cop_json_next(struct cop_json *json, struct cop_json_event *event,
                              struct cop_error *err);
void cop_json_release(struct cop_json *json); /* idempotent */

#endif
