/* Quoting for messages. */
#include "core/base/quote.h"

#include "core/base/utf8.h"
#include <stdio.h>
#include <string.h>

const char *cop_quote(char buffer[COP_QUOTE_SIZE], const char *bytes, size_t length)
{
    static const char ellipsis[] = "...";
    size_t room = COP_QUOTE_SIZE - sizeof ellipsis; /* "..." and the terminator always fit */
    size_t filled = 0;
    size_t at = 0;
    while (at < length) {
        char piece[5];
        size_t used;
        enum cop_utf8 kind = cop_utf8_next(bytes + at, length - at, &used);
        unsigned first = (unsigned char)bytes[at];
        uint32_t character = kind == COP_UTF8_WHOLE ? cop_utf8_read(bytes + at, used) : 0;
        bool is_plain =
            character >= 0x20 && character != 0x7F && (character < 0x80 || character >= 0xA0);
        if (is_plain) {
            memcpy(piece, bytes + at, used);
            piece[used] = '\0';
        } else {
            (void)snprintf(piece, sizeof piece, "\\x%02X", first & 0xFF);
            used = 1;
        }
        size_t size = strlen(piece);
        if (filled + size > room) {
            memcpy(buffer + filled, ellipsis, sizeof ellipsis);
            return buffer;
        }
        memcpy(buffer + filled, piece, size);
        filled += size;
        at += used;
    }
    buffer[filled] = '\0';
    return buffer;
}

const char *cop_path_tail(const char *path, size_t limit)
{
    size_t length = strlen(path);
    return length > limit ? path + (length - limit) : path;
}
