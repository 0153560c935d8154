/* Stop strings in a stream of text that arrives in pieces of any size.
 *
 *     stops "END", "\n\n"     pieces  "xxE" "N" "Dyy"
 *     held back after each            1     2    stop: 2 bytes before it are text
 *
 * A stop may begin in one piece and end in another, or begin and end inside one. The text is
 * read byte by byte, so what is found never depends on how it was cut into pieces: the stop
 * that is complete first wins, among those complete at the same byte the longest. Text that may
 * still become part of a stop is held back, everything before it may be shown. */
#ifndef COP_CYCLE_STOPS_H
#define COP_CYCLE_STOPS_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cop_stop {
    char *bytes;
    size_t length;
    size_t *fallback; /* [length]: longest proper prefix of bytes[0..i] that also ends it */
    size_t matched;   /* bytes of it that the text read so far ends with */
};
struct cop_stops { /* zeroed: no stops */
    struct cop_stop *items;
    int32_t count;
};

/* Copies the strings; `lengths` NULL: C strings, else bytes, zero ones too. Refuses an empty
 * one and one that is not well-formed UTF-8 (a match would cut a character). *stops is empty
 * after failure. */
enum cop_status cop_stops_init(struct cop_stops *stops, const char *const *strings,
                               const size_t *lengths, int32_t count, struct cop_error *err);
void cop_stops_release(struct cop_stops *stops);

/* Reads bytes[0..count) as the continuation of what was read before. True when a stop is
 * complete: *end is then the number of these bytes up to its last one, *length its length
 * (which may exceed *end). Nothing may be read after that. */
bool cop_stops_read(struct cop_stops *stops, const char *bytes, size_t count, size_t *end,
                    size_t *length);

/* How many of the last bytes read may still become part of a stop. */
size_t cop_stops_held(const struct cop_stops *stops);

#endif
