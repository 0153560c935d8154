/* The alphabet in which byte-level vocabularies write their pieces: one printable character for
 * each of the 256 bytes (GPT-2's table).
 *
 * Bytes that are printable in Latin-1 (21-7E, A1-AC, AE-FF) stand for themselves; the other 68
 * get the characters from U+0100 on, in order. So a space is U+0120 and a line feed U+010A. */
#ifndef COP_TEXT_BYTE_SYMBOLS_H
#define COP_TEXT_BYTE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t cop_byte_symbol(uint8_t byte);

/* Writes the bytes that a piece spells and returns their number (at most `length`). A piece
 * that holds any character outside the alphabet is not in it at all, and is copied as it is. */
size_t cop_byte_symbols_decode(const char *piece, size_t length, char *out);

/* Whether all characters of a piece are in the alphabet. */
bool cop_byte_symbols_only(const char *piece, size_t length);

#endif
