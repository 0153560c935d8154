/* The matcher behind stop strings: one Knuth-Morris-Pratt automaton for each string. */
#include "core/cycle/stops.h"

#include "core/base/utf8.h"
#include <stdlib.h>
#include <string.h>

static void fill_fallback(struct cop_stop *stop)
{
    size_t border = 0;
    stop->fallback[0] = 0;
    for (size_t i = 1; i < stop->length; i++) {
        while (border > 0 && stop->bytes[i] != stop->bytes[border]) {
            border = stop->fallback[border - 1];
        }
        border += stop->bytes[i] == stop->bytes[border];
        stop->fallback[i] = border;
    }
}

static enum cop_status stop_init(struct cop_stop *stop, const char *string, size_t length,
                                 int32_t number, struct cop_error *err)
{
    if (length == 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "stop string %d is empty: it would end every answer at once",
                        (int)number + 1);
    }
    stop->length = length;
    if (cop_utf8_valid_prefix(string, stop->length) < stop->length) {
        return cop_fail(err, COP_ERR_ARGUMENT, "stop string %d is not well-formed UTF-8",
                        (int)number + 1);
    }
    stop->bytes = malloc(length);
    stop->fallback = calloc(stop->length, sizeof *stop->fallback);
    if (!stop->bytes || !stop->fallback) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for stop strings");
    }
    memcpy(stop->bytes, string, length);
    fill_fallback(stop);
    return COP_OK;
}

enum cop_status cop_stops_init(struct cop_stops *stops, const char *const *strings,
                               const size_t *lengths, int32_t count, struct cop_error *err)
{
    *stops = (struct cop_stops){0};
    if (count == 0) {
        return COP_OK;
    }
    stops->items = calloc((size_t)count, sizeof *stops->items);
    if (!stops->items) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for stop strings");
    }
    stops->count = count;
    for (int32_t i = 0; i < count; i++) {
        size_t length = !strings[i] ? 0 : lengths ? lengths[i] : strlen(strings[i]);
        enum cop_status status = stop_init(&stops->items[i], strings[i], length, i, err);
        if (status != COP_OK) {
            cop_stops_release(stops);
            return status;
        }
    }
    return COP_OK;
}

void cop_stops_release(struct cop_stops *stops)
{
    for (int32_t i = 0; i < stops->count; i++) {
        free(stops->items[i].bytes);
        free(stops->items[i].fallback);
    }
    free(stops->items);
    *stops = (struct cop_stops){0};
}

static bool stop_read(struct cop_stop *stop, char byte)
{
    while (stop->matched > 0 && stop->bytes[stop->matched] != byte) {
        stop->matched = stop->fallback[stop->matched - 1];
    }
    stop->matched += stop->bytes[stop->matched] == byte;
    return stop->matched == stop->length;
}

bool cop_stops_read(struct cop_stops *stops, const char *bytes, size_t count, size_t *end,
                    size_t *length)
{
    for (size_t i = 0; i < count && stops->count > 0; i++) {
        size_t longest = 0;
        for (int32_t s = 0; s < stops->count; s++) {
            struct cop_stop *stop = &stops->items[s];
            if (stop_read(stop, bytes[i]) && stop->length > longest) {
                longest = stop->length;
            }
        }
        if (longest > 0) {
            *end = i + 1;
            *length = longest;
            return true;
        }
    }
    return false;
}

size_t cop_stops_held(const struct cop_stops *stops)
{
    size_t held = 0;
    for (int32_t i = 0; i < stops->count; i++) {
        if (stops->items[i].matched > held) {
            held = stops->items[i].matched;
        }
    }
    return held;
}
