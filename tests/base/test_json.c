/* The JSON reader: what it keeps, what it refuses, and where it says the fault is. */
#include "core/base/json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The events of a text as one line: "{ kid i7 [ sa ] }", ending in "!message" on failure. */
static void trace_events(const char *bytes, size_t length, char *out, size_t size)
{
    struct cop_json json;
    struct cop_json_event event;
    struct cop_error err = {0};
    size_t used = 0;
    out[0] = 0;
    cop_json_start(&json, bytes, length);
    for (;;) {
        enum cop_status status = cop_json_next(&json, &event, &err);
        if (status != COP_OK) {
            (void)snprintf(out + used, size - used, "!%s", err.text);
            break;
        }
        if (event.kind == COP_JSON_END) {
            break;
        }
        int n = 0;
        switch (event.kind) {
        case COP_JSON_NULL: n = snprintf(out + used, size - used, "null "); break;
        case COP_JSON_TRUE: n = snprintf(out + used, size - used, "true "); break;
        case COP_JSON_FALSE: n = snprintf(out + used, size - used, "false "); break;
        case COP_JSON_INTEGER:
            n = snprintf(out + used, size - used, "i%lld ", (long long)event.integer);
            break;
        case COP_JSON_NUMBER:
            n = snprintf(out + used, size - used, "n%.17g ", event.number);
            break;
        case COP_JSON_STRING:
        case COP_JSON_KEY:
            n = snprintf(out + used, size - used, "%c", event.kind == COP_JSON_KEY ? 'k' : 's');
            for (size_t i = 0; i < event.length; i++) { /* zero bytes shown as '0' in braces */
                n += snprintf(out + used + n, size - used - (size_t)n, "%s%c",
                              event.bytes[i] ? "" : "<nul>",
                              event.bytes[i] ? event.bytes[i] : ' ');
            }
            n += snprintf(out + used + n, size - used - (size_t)n, " ");
            break;
        case COP_JSON_LIST: n = snprintf(out + used, size - used, "[ "); break;
        case COP_JSON_LIST_END: n = snprintf(out + used, size - used, "] "); break;
        case COP_JSON_OBJECT: n = snprintf(out + used, size - used, "{ "); break;
        case COP_JSON_OBJECT_END: n = snprintf(out + used, size - used, "} "); break;
        case COP_JSON_END: break;
        }
        used += (size_t)n;
    }
    cop_json_release(&json);
}

static const struct {
    const char *text, *events;
} cases[] = {
    {"{\"id\": 7, \"turns\": [\"a\"]}", "{ kid i7 kturns [ sa ] } "},
    {" [ ] ", "[ ] "},
    {"{}", "{ } "},
    {"[[],{},[1,2]]", "[ [ ] { } [ i1 i2 ] ] "},
    {"[true,false,null]", "[ true false null ] "},
    /* 64-bit integers survive; beyond them the nearest double */
    {"[9007199254740993, -9223372036854775808, 9223372036854775808]",
     "[ i9007199254740993 i-9223372036854775808 n9.2233720368547758e+18 ] "},
    {"[0.1, 1e308, -0.0, 3.0, 1E+2]", "[ n0.10000000000000001 n1e+308 n-0 n3 "
                                      "n100 ] "},
    {"\"a\\u0000b\"", "sa<nul> b "},
    {"\"\\ud83e\\udd99\"", "s\xF0\x9F\xA6\x99 "},
    {"\"\\ud83d\"", "s\xEF\xBF\xBD "},
    {"\"\\udc00\\ud83d\"", "s\xEF\xBF\xBD\xEF\xBF\xBD "},
    {"\"\\ud83dx\\n\\t\\/\\\\\\\"\"", "s\xEF\xBF\xBDx\n\t/\\\" "},
    {"\"line \xE2\x80\xA8 sep \x0b \x0c\"", "sline \xE2\x80\xA8 sep \x0b \x0c "},
    {"{\"a\\u0062\": 1}", "{ kab i1 } "},
    {"", "!JSON ends too early: a value is not complete"},
    {"[1", "[ i1 !JSON ends too early: a value is not complete"},
    {"{\"a\"", "{ !JSON ends too early: expected \":\" after a key"},
    {"[1,]", "[ i1 !bad JSON at byte 4: not a value"},
    {"[1 2]", "[ i1 !bad JSON at byte 4: expected \"]\""},
    {"{\"a\":1,}", "{ ka i1 !bad JSON at byte 8: expected a key in quotes"},
    {"{a:1}", "{ !bad JSON at byte 2: expected a key in quotes"},
    {"1 2", "i1 !bad JSON at byte 3: something follows the value"},
    {"01", "!bad JSON at byte 1: not a value"},
    {"-", "!bad JSON at byte 1: not a value"},
    {"1.", "!bad JSON at byte 1: not a value"},
    {"nul", "!bad JSON at byte 1: not a value"},
    {"NaN", "!bad JSON at byte 1: not a value"},
    {"\"abc", "!JSON ends too early: a string without its closing quote"},
    {"\"abc\\", "!JSON ends too early: a string without its closing quote"},
    {"\"a\nb\"", "!bad JSON at byte 3: a string without its closing quote"},
    {"\"a\\q\"", "!bad JSON at byte 3: unknown escape in a string"},
    {"\"\\u12\"", "!bad JSON at byte 2: unknown escape in a string"},
    {"\"\xC0\xAF\"", "!bad JSON at byte 2: a string that is not UTF-8"},
    {"[}", "[ !bad JSON at byte 2: not a value"},
    {"[1}", "[ i1 !bad JSON at byte 3: expected \"]\""},
    {"[,1]", "[ !bad JSON at byte 2: not a value"},
    {",", "!bad JSON at byte 1: not a value"},
};

Test(json, events_and_messages)
{
    char found[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trace_events(cases[i].text, strlen(cases[i].text), found, sizeof found);
        cr_expect_str_eq(found, cases[i].events, "%s: got \"%s\"", cases[i].text, found);
    }
}

Test(json, nesting_is_limited_but_length_is_not)
{
    static char text[200000], found[1 << 20];
    memset(text, '[', 128);
    memset(text + 128, ']', 128);
    trace_events(text, 256, found, sizeof found);
    cr_expect(strchr(found, '!') == NULL, "%s", found);
    memset(text, '[', 129);
    trace_events(text, 129, found, sizeof found);
    cr_expect(strstr(found, "nested more than 128") != NULL, "%s", found);
    memset(text, 'x', sizeof text);
    text[0] = '"';
    text[sizeof text - 1] = '"';
    trace_events(text, sizeof text, found, sizeof found);
    cr_expect_eq(strlen(found), sizeof text - 2 + 2);
}

/* Every beginning of a good text is refused with a message and reads nothing past its end. */
Test(json, every_truncation_is_refused)
{
    static const char text[] =
        "{\"k\\u00e9y\": [1, -2.5e3, true, null, \"\\ud83e\\udd99\", {}]}";
    char found[512];
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        char *exact = malloc(n ? n : 1);
        memcpy(exact, text, n);
        trace_events(exact, n, found, sizeof found);
        cr_expect(strchr(found, '!') != NULL, "%zu bytes were taken: %s", n, found);
        free(exact);
    }
}
