/* Damage to a JSON text that stays JSON, mostly: values take the place of others. A parser that
 * refuses broken syntax in its first lines is not tested by broken bytes; what lies behind is
 * reached by values of the wrong kind, size or number under the right key. */
#include "tests/support/mutate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SPANS = 1024, DEEPEST = 64 };

struct span {
    size_t start, end;
    bool is_key;
};

struct spans {
    struct span items[MOST_SPANS];
    size_t count;
};

static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2",
    "1.5",
    "-0.0",
    "1e-320",
    "1e400",
    "255",
    "2147483647",
    "2147483648",
    "4294967296",
    "1152921504606846976",
    "9223372036854775807",
    "18446744073709551616",
    "\"\"",
    "\"x\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"\xC3\xA9 \xE2\x96\x81\"",
    "\"(((((a*)*)*)*)*)$\"",
    "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
    "[]",
    "[[]]",
    "[null]",
    "[0,1,2]",
    "[\"a\",\"b\"]",
    "{}",
    "{\"a\":{}}",
    "{\"type\":\"x\"}",
};

static size_t below(uint64_t *state, size_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return limit == 0 ? 0 : (size_t)((*state >> 33) % limit);
}

static size_t string_end(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++) {
        at += text[at] == '\\';
    }
    return at < size ? at + 1 : size;
}

static size_t word_end(const char *text, size_t size, size_t at)
{
    while (at < size && !strchr(",:]} \t\r\n\"[{", text[at])) {
        at++;
    }
    return at;
}

/* Where values and keys lie; of broken text, where they seem to. */
static void find_spans(const char *text, size_t size, struct spans *out)
{
    size_t open[DEEPEST], depth = 0;
    out->count = 0;
    for (size_t at = 0; at < size && out->count < MOST_SPANS;) {
        char c = text[at];
        struct span *span = &out->items[out->count];
        if (c == '{' || c == '[') {
            *span = (struct span){at++, size, false};
            if (depth < DEEPEST) {
                open[depth++] = out->count++;
            }
        } else if (c == '}' || c == ']') {
            at++;
            if (depth > 0) {
                out->items[open[--depth]].end = at;
            }
        } else if (strchr(",: \t\r\n", c)) {
            at++;
        } else {
            size_t end = c == '"' ? string_end(text, size, at) : word_end(text, size, at);
            end = end > at ? end : at + 1;
            *span = (struct span){at, end, end < size && text[end] == ':'};
            out->count++;
            at = end;
        }
    }
}

/* text[span] becomes `with`; there is room. */
static size_t put(char *text, size_t size, struct span span, const char *with, size_t length)
{
    memmove(text + span.start + length, text + span.end, size - span.end);
    memcpy(text + span.start, with, length);
    return size - (span.end - span.start) + length;
}

static size_t edit(char *text, size_t size, struct spans *spans, char *work, uint64_t *state)
{
    find_spans(text, size, spans);
    if (spans->count == 0) {
        return size;
    }
    struct span span = spans->items[below(state, spans->count)];
    struct span other = spans->items[below(state, spans->count)];
    int length = (int)(span.end - span.start);
    size_t choice = below(state, 8);
    if (span.is_key || choice < 2) { /* another's place */
        length = (int)(other.end - other.start);
        memcpy(work, text + other.start, (size_t)length);
    } else if (choice == 2) { /* a neighbour more, or none */
        bool twice = below(state, 2);
        length = snprintf(work, 2 * size + 64, "%.*s%s%.*s", length, text + span.start,
                          twice ? "," : "", twice ? length : 0, text + span.start);
    } else if (choice == 3) {
        bool is_list = below(state, 2);
        length = snprintf(work, 2 * size + 64, is_list ? "[%.*s]" : "{\"x\":%.*s}", length,
                          text + span.start);
    } else {
        const char *value = values[below(state, sizeof values / sizeof *values)];
        length = (int)strlen(value);
        memcpy(work, value, (size_t)length);
    }
    return put(text, size, span, work, (size_t)length);
}

uint8_t *mutate_json(const char *text, size_t size, uint64_t seed, size_t *mutated_size)
{
    if (seed % 2 == 0) {
        return mutate((const uint8_t *)text, size, seed, mutated_size);
    }
    uint64_t state = seed * 0x9E3779B97F4A7C15u;
    struct spans *spans = malloc(sizeof *spans);
    size_t n_edits = 1 + below(&state, 3);
    char *room = malloc(16 * size + 1024); /* an edit doubles it at most */
    char *work = malloc(16 * size + 1024);
    memcpy(room, text, size);
    for (size_t i = 0; i < n_edits; i++) {
        size = edit(room, size, spans, work, &state);
    }
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, room, size);
    free(spans);
    free(room);
    free(work);
    *mutated_size = size;
    return exact;
}
