/* Bytes to symbols and back. */
#include "core/text/byte_symbols.h"

#include "core/base/utf8.h"
#include <string.h>

#define FIRST_MOVED 0x100 /* the symbol of the first byte that is not printable */

static int is_printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/* How many bytes below this one are not printable. */
static uint32_t moved_before(uint32_t byte)
{
    uint32_t count = byte < 0x21 ? byte : 0x21;
    count += byte <= 0x7F ? 0 : byte < 0xA1 ? byte - 0x7F : 0xA1 - 0x7F;
    return count + (byte > 0xAD);
}

uint32_t cop_byte_symbol(uint8_t byte)
{
    return is_printable(byte) ? byte : FIRST_MOVED + moved_before(byte);
}

/* The byte of a symbol, or -1. The moved bytes are 00-20, 7F-A0 and AD, in this order. */
static int byte_of(uint32_t symbol)
{
    if (symbol < FIRST_MOVED) {
        return is_printable(symbol) ? (int)symbol : -1;
    }
    uint32_t rank = symbol - FIRST_MOVED;
    return rank < 0x21    ? (int)rank
           : rank < 0x43  ? (int)(0x7F + rank - 0x21)
           : rank == 0x43 ? 0xAD
                          : -1;
}

/* The byte of the symbol at the beginning, or -1. */
static int read_symbol(const char *piece, size_t length, size_t *used)
{
    return cop_utf8_next(piece, length, used) == COP_UTF8_WHOLE
               ? byte_of(cop_utf8_read(piece, *used))
               : -1;
}

bool cop_byte_symbols_only(const char *piece, size_t length)
{
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        if (read_symbol(piece + at, length - at, &used) < 0) {
            return false;
        }
    }
    return true;
}

size_t cop_byte_symbols_decode(const char *piece, size_t length, char *out)
{
    size_t written = 0;
    size_t used;
    for (size_t at = 0; at < length; at += used) {
        int byte = read_symbol(piece + at, length - at, &used);
        if (byte < 0) {
            memcpy(out, piece, length);
            return length;
        }
        out[written++] = (char)byte;
    }
    return written;
}
