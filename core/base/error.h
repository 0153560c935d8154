/* The error record: what went wrong, said once, in words for the person who wrote the script.
 *
 * Every function that can fail returns a status and fills the record that the caller lent.
 * Nothing below lua/ prints, exits or raises. */
#ifndef COP_BASE_ERROR_H
#define COP_BASE_ERROR_H

enum cop_status {
    COP_OK = 0,
    COP_ERR_IO = -1,     /* a file that is missing, unreadable, full */
    COP_ERR_FORMAT = -2, /* bytes from outside that are not what they claim */
    COP_ERR_MEMORY = -3, /* no memory, or no page left in a pool */
    COP_ERR_LIMIT =
        -4, /* a number past a limit; the text names the limit and how to raise it */
    COP_ERR_ARGUMENT = -5,    /* a broken contract: wrong type, out of range, unknown name */
    COP_ERR_UNSUPPORTED = -6, /* known, but not built */
    COP_ERR_UNSOUND = -7,     /* not lossless and not marked relaxed */
    COP_ERR_NUMERIC = -8,     /* a row that is not finite */
    COP_ERR_CALLBACK = -9,    /* a script's function failed */
    COP_ERR_CANCELLED = -10
};

struct cop_error {
    enum cop_status code;
    char text[480];
};

/* Fills *err (if not NULL) and returns `code`, so that a failing function ends with
 * `return cop_fail(err, COP_ERR_FORMAT, "…", …);`. Text starts in lower case, ends without a
 * stop. */
enum cop_status cop_fail(struct cop_error *err, enum cop_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For a function that goes well all the same: *err (if not NULL) gets a text beside COP_OK,
 * which whoever called may show. */
void cop_warn(struct cop_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "io", "format", "memory", …: the third value that Lua returns. */
const char *cop_status_name(enum cop_status code);

#endif
