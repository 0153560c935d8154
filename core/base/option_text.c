/* Printing options: values as Lua literals, one line of documentation, what a setter wanted. */
#include "core/base/option_text.h"
#include "core/base/hash.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cop_say(struct cop_words *words, const char *format, ...)
{
    if (words->used + 1 >= words->size) {
        return;
    }
    size_t left = words->size - words->used;
    va_list args;
    va_start(args, format);
    int added = vsnprintf(words->text + words->used, left, format, args);
    va_end(args);
    if (added > 0) {
        words->used += (size_t)added < left ? (size_t)added : left - 1;
    }
}

void cop_say_number(struct cop_words *words, double value)
{
    char text[40] = "nan";
    if (isinf(value)) {
        (void)snprintf(text, sizeof text, value > 0 ? "inf" : "-inf");
    } else if (fabs(value) < 1e15 && value == floor(value)) {
        (void)snprintf(text, sizeof text, "%.0f", value);
    } else if (!isnan(value)) {
        int digits = 0;
        do {
            (void)snprintf(text, sizeof text, "%.*g", ++digits, value);
        } while (digits < 17 && strtod(text, NULL) != value);
    }
    cop_say(words, "%s", text);
}

/* ---- Ranges and choices
 * ---------------------------------------------------------------------- */

bool cop_option_has_range(const struct cop_option *option)
{
    return option->min != 0 || option->max != 0;
}

/* Ranks count from 1 wherever a person reads them. */
static void say_range(struct cop_words *words, const struct cop_option *option, bool is_title)
{
    double shift = option->type == COP_OPTION_PATHS ? 1 : 0;
    if (option->max >= HUGE_VAL) {
        cop_say(words, is_title ? "at least " : "of at least ");
        cop_say_number(words, option->min + shift);
    } else if (option->min <= -HUGE_VAL) {
        cop_say(words, is_title ? "at most " : "of at most ");
        cop_say_number(words, option->max + shift);
    } else {
        cop_say(words, is_title ? "" : "from ");
        cop_say_number(words, option->min + shift);
        cop_say(words, " to ");
        cop_say_number(words, option->max + shift);
    }
}

/* The stretch of "a|b|c" at *at, which moves past it (NULL after the last one). */
static size_t next_choice(const char **at, const char **start)
{
    const char *bar = strchr(*at, '|');
    *start = *at;
    size_t length = bar ? (size_t)(bar - *at) : strlen(*at);
    *at = bar ? bar + 1 : NULL;
    return length;
}

int32_t cop_choice_index(const char *choices, const char *name)
{
    int32_t index = 0;
    for (const char *at = choices, *start; at; index++) {
        size_t length = next_choice(&at, &start);
        if (strlen(name) == length && memcmp(name, start, length) == 0) {
            return index;
        }
    }
    return -1;
}

static void say_choice(struct cop_words *words, const char *choices, int32_t index)
{
    for (const char *at = choices, *start; at; index--) {
        size_t length = next_choice(&at, &start);
        if (index == 0) {
            cop_say(words, "\"%.*s\"", (int)length, start);
        }
    }
}

static void say_choices(struct cop_words *words, const char *choices)
{
    for (const char *at = choices, *start; at;) {
        size_t length = next_choice(&at, &start);
        cop_say(words, at ? "\"%.*s\", " : "\"%.*s\"", (int)length, start);
    }
}

static const char *noun(const struct cop_option *option)
{
    switch (option->type) {
    case COP_OPTION_INT: return "an integer";
    case COP_OPTION_NUMBER: return "a number";
    case COP_OPTION_BOOL: return "true or false";
    case COP_OPTION_CHOICE: return "one of ";
    case COP_OPTION_STRING: return "a string";
    case COP_OPTION_INTS: return "a list of integers";
    case COP_OPTION_NUMBERS: return "a list of numbers";
    case COP_OPTION_PATHS: return "a list of paths such as {1}, {1, 1}, {2}";
    case COP_OPTION_LISTS: return "a list of lists of token ids";
    case COP_OPTION_VOCABULARY: return "a list of token ids (from 0)";
    case COP_OPTION_OBJECT: return "a ";
    }
    return "something else";
}

void cop_say_wanted(struct cop_words *words, const struct cop_option *option)
{
    cop_say(words, "%s", noun(option));
    if (option->type == COP_OPTION_CHOICE) {
        say_choices(words, option->choices);
    } else if (option->type == COP_OPTION_VOCABULARY) {
        cop_say(words, option->choices ? ", a number of tokens, or one of "
                                       : " or a number of tokens");
        say_choices(words, option->choices);
    } else if (option->type == COP_OPTION_OBJECT) {
        cop_say(words, "%s", option->choices ? option->choices : "object");
    } else if (cop_option_has_range(option)) {
        cop_say(words, "%s",
                option->type == COP_OPTION_INTS || option->type == COP_OPTION_NUMBERS
                    ? ", each "
                : option->type == COP_OPTION_PATHS ? ", ranks "
                : option->type == COP_OPTION_LISTS ? ", ids "
                                                   : " ");
        say_range(words, option, false);
    }
}

/* ---- Values
 * ---------------------------------------------------------------------------------- */

/* A Lua string literal. */
static void say_quoted(struct cop_words *words, const char *text)
{
    cop_say(words, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            cop_say(words, "\\%c", *c);
        } else if (*c == '\n') {
            cop_say(words, "\\n");
        } else {
            cop_say(words, *c < 32 || *c == 127 ? "\\%03d" : "%c", *c);
        }
    }
    cop_say(words, "\"");
}

static void say_ints(struct cop_words *words, const int32_t *items, int32_t count,
                     int32_t shift)
{
    cop_say(words, "{");
    for (int32_t i = 0; i < count; i++) {
        cop_say(words, i ? ", %d" : "%d", (int)(items[i] + shift));
    }
    cop_say(words, "}");
}

static void say_paths(struct cop_words *words, const struct cop_path_list *list)
{
    cop_say(words, "{");
    for (int32_t i = 0; i < list->count; i++) {
        cop_say(words, i ? ", " : "");
        say_ints(words, list->ranks + list->starts[i], list->starts[i + 1] - list->starts[i],
                 1);
    }
    cop_say(words, "}");
}

static void say_numbers(struct cop_words *words, const struct cop_number_list *list)
{
    cop_say(words, "{");
    for (int32_t i = 0; i < list->count; i++) {
        cop_say(words, i ? ", " : "");
        cop_say_number(words, list->items[i]);
    }
    cop_say(words, "}");
}

/* Ids may be many: their number, and a fingerprint by which two lists differ. */
static void say_vocabulary(struct cop_words *words, const struct cop_option *option,
                           const struct cop_vocabulary_option *vocabulary)
{
    size_t bytes = (size_t)vocabulary->ids.count * sizeof(int32_t);
    if (vocabulary->ids.count > 0) {
        cop_say(words, "<%d ids, %08x>", (int)vocabulary->ids.count,
                (unsigned)cop_hash_bytes(vocabulary->ids.items, bytes, 0));
    } else if (vocabulary->size > 0) {
        cop_say(words, "%d", (int)vocabulary->size);
    } else {
        say_choice(words, option->choices, vocabulary->choice);
    }
}

static void say_value(struct cop_words *words, const struct cop_option *option,
                      const void *state)
{
    const void *slot = (const char *)state + option->offset;
    if (option->type == COP_OPTION_INTS) {
        say_ints(words, ((const struct cop_int_list *)slot)->items,
                 ((const struct cop_int_list *)slot)->count, 0);
    } else if (option->type == COP_OPTION_NUMBERS) {
        say_numbers(words, slot);
    } else if (option->type == COP_OPTION_LISTS) { /* a corpus may be a million tokens */
        const struct cop_path_list *lists = slot;
        cop_say(words, "<%d lists, %d ids>", (int)lists->count,
                lists->count ? (int)lists->starts[lists->count] : 0);
    } else if (option->type == COP_OPTION_PATHS) {
        say_paths(words, slot);
    } else if (cop_option_is_absent(option, state)) {
        cop_say(words, "nil");
    } else if (option->type == COP_OPTION_VOCABULARY) {
        say_vocabulary(words, option, slot);
    } else if (option->type == COP_OPTION_INT) {
        cop_say(words, "%d", (int)*(const int32_t *)slot);
    } else if (option->type == COP_OPTION_NUMBER && isinf(*(const double *)slot)) {
        cop_say(words, *(const double *)slot > 0 ? "math.huge" : "-math.huge");
    } else if (option->type == COP_OPTION_NUMBER) {
        cop_say_number(words, *(const double *)slot);
    } else if (option->type == COP_OPTION_BOOL) {
        cop_say(words, *(const bool *)slot ? "true" : "false");
    } else if (option->type == COP_OPTION_CHOICE) {
        say_choice(words, option->choices, *(const int32_t *)slot);
    } else if (option->type == COP_OPTION_STRING) {
        say_quoted(words, *(char *const *)slot);
    } else {
        cop_say(words, "<%s>", option->choices ? option->choices : "object");
    }
}

void cop_option_print(const struct cop_option *option, const void *state, char *buffer,
                      size_t size)
{
    struct cop_words words = {.text = buffer, .size = size};
    if (size > 0) {
        buffer[0] = '\0';
    }
    say_value(&words, option, state);
}

/* The default, through a state that holds nothing else. */
static void say_default(struct cop_words *words, const struct cop_option *option)
{
    union {
        int32_t integer;
        double number;
        void *pointer;
        struct cop_int_list ints;
        struct cop_path_list paths;
        struct cop_vocabulary_option vocabulary;
    } value = {.vocabulary = {0}};
    struct cop_option row[2] = {*option, {0}};
    row[0].offset = 0;
    cop_option_defaults(row, &value);
    say_value(words, &row[0], &value);
}

void cop_option_describe(const struct cop_option *option, char *buffer, size_t size)
{
    struct cop_words words = {.text = buffer, .size = size};
    cop_say(&words, "%s", option->name);
    if (option->flags & COP_OPTION_REQUIRED) {
        cop_say(&words, ", required");
    } else {
        cop_say(&words, " = ");
        say_default(&words, option);
    }
    bool has_choices = option->choices && (option->type == COP_OPTION_CHOICE ||
                                           option->type == COP_OPTION_VOCABULARY);
    if (has_choices || cop_option_has_range(option)) {
        cop_say(&words, " (");
        if (has_choices) {
            say_choices(&words, option->choices);
        } else {
            say_range(&words, option, true);
        }
        cop_say(&words, ")");
    }
    if (option->help) {
        cop_say(&words, ": %s", option->help);
    }
}
