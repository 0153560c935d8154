/* Strings of strangers, made fit for one line of an error message.
 *
 * What is not printable UTF-8 appears as \xNN, and what is long is cut with "...", so that a
 * hostile name cannot fill the message or steer a terminal. */
#ifndef COP_BASE_QUOTE_H
#define COP_BASE_QUOTE_H

#include <stddef.h>

#define COP_QUOTE_SIZE 80

/* Fills the buffer and returns it: cop_fail(err, …, "key \"%s\"", cop_quote(buffer, key, n)).
 */
const char *cop_quote(char buffer[COP_QUOTE_SIZE], const char *bytes, size_t length);

/* The end of a path, where the file name is, at most `limit` bytes of it (whole characters are
 * not promised). Borrowed from `path`. */
const char *cop_path_tail(const char *path, size_t limit);

#endif
