/* UTF-8, one character at a time: the only place that knows which byte sequences are legal.
 *
 * The text of strangers may hold anything. Ill-formed bytes are grouped as the Unicode standard
 * recommends ("maximal subparts"): a part is the longest beginning of a legal character, or a
 * single byte that begins none; each part stands for one U+FFFD. */
#ifndef COP_BASE_UTF8_H
#define COP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cop_utf8 {
    COP_UTF8_WHOLE,     /* `used` bytes are one character */
    COP_UTF8_ILL,       /* `used` bytes are one maximal ill-formed part */
    COP_UTF8_UNFINISHED /* all `length` bytes begin a character that more bytes could end */
};

/* Looks at the first bytes of bytes[0..length), length >= 1. */
enum cop_utf8 cop_utf8_next(const char *bytes, size_t length, size_t *used);

/* The number of bytes before the first ill-formed part; an unfinished end is ill-formed. */
size_t cop_utf8_valid_prefix(const char *bytes, size_t length);

/* Writes the character (0 to 0x10FFFF) and returns its length, 1 to 4. */
size_t cop_utf8_write(uint32_t character, char out[4]);

/* The character that the bytes of a COP_UTF8_WHOLE spell. */
uint32_t cop_utf8_read(const char *bytes, size_t used);

#define COP_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

#endif
