/* Typed options: defaults, checked setters with one message style, documentation, printing.
 *
 * Every refusal reads
 *     cop.tree.chain: option "depth" must be an integer from 1 to 4095, got 0
 * A table row whose min and max are both 0 has no range. Ranks of paths count from 0 in memory
 * and from 1 wherever a person reads them. */
#include "core/base/option.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reaching into the state ----------------------------------------------------------------
 */

static void *slot_of(const struct cop_option *option, void *state)
{
    return (char *)state + option->offset;
}

static const void *look_at(const struct cop_option *option, const void *state)
{
    return (const char *)state + option->offset;
}

static bool has_range(const struct cop_option *option)
{
    return option->min != 0 || option->max != 0;
}

static bool starts_absent(const struct cop_option *option)
{
    return (option->flags & (COP_OPTION_REQUIRED | COP_OPTION_ABSENT)) != 0;
}

static void free_slot(const struct cop_option *option, void *state)
{
    void *slot = slot_of(option, state);
    switch (option->type) {
    case COP_OPTION_STRING:
        free(*(char **)slot);
        *(char **)slot = NULL;
        break;
    case COP_OPTION_INTS:
        free(((struct cop_int_list *)slot)->items);
        *(struct cop_int_list *)slot = (struct cop_int_list){0};
        break;
    case COP_OPTION_PATHS:
        free(((struct cop_path_list *)slot)->ranks);
        free(((struct cop_path_list *)slot)->starts);
        *(struct cop_path_list *)slot = (struct cop_path_list){0};
        break;
    case COP_OPTION_INT:
    case COP_OPTION_NUMBER:
    case COP_OPTION_BOOL:
    case COP_OPTION_CHOICE:
    case COP_OPTION_OBJECT: break;
    }
}

void cop_option_defaults(const struct cop_option *options, void *state)
{
    for (const struct cop_option *o = options; o && o->name; o++) {
        void *slot = slot_of(o, state);
        switch (o->type) {
        case COP_OPTION_INT:
        case COP_OPTION_CHOICE:
            *(int32_t *)slot = starts_absent(o) ? INT32_MIN : (int32_t)o->fallback;
            break;
        case COP_OPTION_NUMBER:
            *(double *)slot = starts_absent(o) ? (double)NAN : o->fallback;
            break;
        case COP_OPTION_BOOL: *(bool *)slot = o->fallback != 0; break;
        case COP_OPTION_STRING: *(char **)slot = NULL; break;
        case COP_OPTION_INTS: *(struct cop_int_list *)slot = (struct cop_int_list){0}; break;
        case COP_OPTION_PATHS: *(struct cop_path_list *)slot = (struct cop_path_list){0}; break;
        case COP_OPTION_OBJECT: *(void **)slot = NULL; break;
        }
    }
}

void cop_option_release(const struct cop_option *options, void *state)
{
    for (const struct cop_option *o = options; o && o->name; o++) {
        free_slot(o, state);
    }
}

bool cop_option_is_absent(const struct cop_option *option, const void *state)
{
    const void *slot = look_at(option, state);
    switch (option->type) {
    case COP_OPTION_INT:
    case COP_OPTION_CHOICE: return *(const int32_t *)slot == INT32_MIN;
    case COP_OPTION_NUMBER: return isnan(*(const double *)slot);
    case COP_OPTION_BOOL: return false;
    case COP_OPTION_STRING: return *(char *const *)slot == NULL;
    case COP_OPTION_INTS: return ((const struct cop_int_list *)slot)->count == 0;
    case COP_OPTION_PATHS: return ((const struct cop_path_list *)slot)->count == 0;
    case COP_OPTION_OBJECT: return *(void *const *)slot == NULL;
    }
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------
 */

const struct cop_option *cop_option_find(const struct cop_option *options, const char *name)
{
    for (const struct cop_option *o = options; o && o->name && name; o++) {
        if (strcmp(o->name, name) == 0) {
            return o;
        }
    }
    return NULL;
}

enum { NAME_LIMIT = 64 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) between two names below NAME_LIMIT bytes. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NAME_LIMIT + 1];
    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t replace = above[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = smaller(replace, smaller(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = smaller(now[j], above2[j - 2] + 1);
            }
        }
    }
    return rows[na % 3][nb];
}

const char *cop_nearest(const char *name, const char *const *known, size_t count)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > NAME_LIMIT) {
        return NULL;
    }
    const char *best = NULL;
    size_t limit = length / 3 > 2 ? length / 3 : 2;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(known[i]);
        if (other == 0 || other > NAME_LIMIT) {
            continue;
        }
        size_t distance = edit_distance(name, length, known[i], other);
        if (distance <= limit && distance < (length > other ? length : other)) {
            best = known[i];
            limit = distance - (distance > 0); /* later ones must be nearer */
            if (distance == 0) {
                break;
            }
        }
    }
    return best;
}

enum cop_status cop_option_unknown(const struct cop_option *options, const char *name,
                                   const char *owner, struct cop_error *err)
{
    const char *known[64] = {NULL};
    size_t n = 0;
    for (const struct cop_option *o = options; o && o->name && n < 64; o++) {
        known[n++] = o->name;
    }
    const char *near = cop_nearest(name, known, n);
    if (near) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "%s: unknown option \"%s\"; did you mean \"%s\"?", owner, name, near);
    }
    if (n == 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "%s: unknown option \"%s\": it has no options",
                        owner, name);
    }
    char list[256] = "";
    for (size_t i = 0, used = 0; i < n && used < sizeof list; i++) {
        int added = snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", known[i]);
        used += added > 0 ? (size_t)added : 0;
    }
    return cop_fail(err, COP_ERR_ARGUMENT, "%s: unknown option \"%s\"; it has: %s", owner, name,
                    list);
}

/* ---- Messages -------------------------------------------------------------------------------
 */

/* snprintf at *used, which stays inside the buffer. */
static void append(char *buffer, size_t size, size_t *used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void append(char *buffer, size_t size, size_t *used, const char *format, ...)
{
    if (*used + 1 >= size) {
        return;
    }
    va_list args;
    va_start(args, format);
    int added = vsnprintf(buffer + *used, size - *used, format, args);
    va_end(args);
    if (added > 0) {
        size_t left = size - 1 - *used;
        *used += (size_t)added < left ? (size_t)added : left;
    }
}

/* The shortest decimal text that reads back as the same double. */
static void append_number(char *buffer, size_t size, size_t *used, double value)
{
    if (isnan(value)) {
        append(buffer, size, used, "nan");
    } else if (isinf(value)) {
        append(buffer, size, used, value > 0 ? "inf" : "-inf");
    } else {
        char text[40];
        int digits = 1;
        do {
            (void)snprintf(text, sizeof text, "%.*g", digits++, value);
        } while (digits <= 17 && strtod(text, NULL) != value);
        if (fabs(value) < 1e15 && value == floor(value)) {
            (void)snprintf(text, sizeof text, "%.0f", value);
        }
        append(buffer, size, used, "%s", text);
    }
}

static void append_range(char *buffer, size_t size, size_t *used,
                         const struct cop_option *option)
{
    if (!has_range(option)) {
        return;
    }
    if (option->max >= HUGE_VAL) {
        append(buffer, size, used, " of at least ");
        append_number(buffer, size, used, option->min);
    } else if (option->min <= -HUGE_VAL) {
        append(buffer, size, used, " of at most ");
        append_number(buffer, size, used, option->max);
    } else {
        append(buffer, size, used, " from ");
        append_number(buffer, size, used, option->min);
        append(buffer, size, used, " to ");
        append_number(buffer, size, used, option->max);
    }
}

/* Calls `each` with every choice of "a|b|c"; stops when it returns true, and returns the index
 * then, else -1. */
static int32_t walk_choices(const char *choices,
                            bool (*each)(void *context, const char *start, size_t length),
                            void *context)
{
    int32_t index = 0;
    for (const char *at = choices; at; index++) {
        const char *bar = strchr(at, '|');
        size_t length = bar ? (size_t)(bar - at) : strlen(at);
        if (each(context, at, length)) {
            return index;
        }
        at = bar ? bar + 1 : NULL;
    }
    return -1;
}

struct message {
    char text[320];
    size_t used;
    int32_t countdown; /* print only the choice at 0 */
};

static bool list_choice(void *context, const char *start, size_t length)
{
    struct message *m = context;
    append(m->text, sizeof m->text, &m->used, m->countdown++ ? ", \"%.*s\"" : "\"%.*s\"",
           (int)length, start);
    return false;
}

static bool nth_choice(void *context, const char *start, size_t length)
{
    struct message *m = context;
    if (m->countdown-- > 0) {
        return false;
    }
    append(m->text, sizeof m->text, &m->used, "%.*s", (int)length, start);
    return true;
}

static bool same_choice(void *context, const char *start, size_t length)
{
    const char *value = context;
    return strlen(value) == length && memcmp(value, start, length) == 0;
}

static void append_wanted(struct message *m, const struct cop_option *option)
{
    char *text = m->text;
    size_t size = sizeof m->text;
    switch (option->type) {
    case COP_OPTION_INT:
        append(text, size, &m->used, "an integer");
        append_range(text, size, &m->used, option);
        break;
    case COP_OPTION_NUMBER:
        append(text, size, &m->used, "a number");
        append_range(text, size, &m->used, option);
        break;
    case COP_OPTION_BOOL: append(text, size, &m->used, "true or false"); break;
    case COP_OPTION_CHOICE:
        append(text, size, &m->used, "one of ");
        m->countdown = 0;
        (void)walk_choices(option->choices, list_choice, m);
        break;
    case COP_OPTION_STRING: append(text, size, &m->used, "a string"); break;
    case COP_OPTION_INTS:
        append(text, size, &m->used, "a list of integers");
        if (has_range(option)) {
            append(text, size, &m->used, ", each");
            append_range(text, size, &m->used, option);
        }
        break;
    case COP_OPTION_PATHS:
        append(text, size, &m->used, "a list of paths such as {1}, {1, 1}, {2}");
        if (has_range(option)) {
            append(text, size, &m->used, ", ranks from ");
            append_number(text, size, &m->used, option->min + 1);
            append(text, size, &m->used, " to ");
            append_number(text, size, &m->used, option->max + 1);
        }
        break;
    case COP_OPTION_OBJECT:
        append(text, size, &m->used, "a %s", option->choices ? option->choices : "object");
        break;
    }
}

static enum cop_status refuse(const struct cop_option *option, const char *owner,
                              struct cop_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static enum cop_status refuse(const struct cop_option *option, const char *owner,
                              struct cop_error *err, const char *format, ...)
{
    struct message wanted = {.used = 0};
    append_wanted(&wanted, option);
    char got[100];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    return cop_fail(err, COP_ERR_ARGUMENT, "%s: option \"%s\" must be %s, got %s", owner,
                    option->name, wanted.text, got);
}

static enum cop_status refuse_number(const struct cop_option *option, double value,
                                     const char *owner, struct cop_error *err)
{
    char text[40];
    size_t used = 0;
    append_number(text, sizeof text, &used, value);
    return refuse(option, owner, err, "%s", text);
}

/* ---- Setters --------------------------------------------------------------------------------
 */

static bool in_range(const struct cop_option *option, double value)
{
    return !has_range(option) || (value >= option->min && value <= option->max);
}

enum cop_status cop_option_set_number(const struct cop_option *option, void *state,
                                      double value, const char *owner, struct cop_error *err)
{
    void *slot = slot_of(option, state);
    if (option->type == COP_OPTION_NUMBER && !isnan(value) && in_range(option, value)) {
        *(double *)slot = value;
        return COP_OK;
    }
    /* INT32_MIN stands for "absent", so it is no value. */
    if (option->type == COP_OPTION_INT && value > INT32_MIN && value <= INT32_MAX &&
        value == floor(value) && in_range(option, value)) {
        *(int32_t *)slot = (int32_t)value;
        return COP_OK;
    }
    return refuse_number(option, value, owner, err);
}

enum cop_status cop_option_set_bool(const struct cop_option *option, void *state, bool value,
                                    const char *owner, struct cop_error *err)
{
    if (option->type != COP_OPTION_BOOL) {
        return refuse(option, owner, err, value ? "true" : "false");
    }
    *(bool *)slot_of(option, state) = value;
    return COP_OK;
}

enum cop_status cop_option_set_string(const struct cop_option *option, void *state,
                                      const char *value, const char *owner,
                                      struct cop_error *err)
{
    void *slot = slot_of(option, state);
    if (option->type == COP_OPTION_CHOICE) {
        char copy[NAME_LIMIT + 1];
        (void)snprintf(copy, sizeof copy, "%s", value);
        int32_t index = walk_choices(option->choices, same_choice, copy);
        if (index >= 0) {
            *(int32_t *)slot = index;
            return COP_OK;
        }
    }
    if (option->type != COP_OPTION_STRING) {
        return refuse(option, owner, err, "\"%.80s\"", value);
    }
    char *text = strdup(value);
    if (!text) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for option \"%s\"", owner,
                        option->name);
    }
    free(*(char **)slot);
    *(char **)slot = text;
    return COP_OK;
}

enum cop_status cop_option_set_ints(const struct cop_option *option, void *state,
                                    const int32_t *items, int32_t count, const char *owner,
                                    struct cop_error *err)
{
    if (option->type != COP_OPTION_INTS || count < 0) {
        return refuse(option, owner, err, "a list");
    }
    for (int32_t i = 0; i < count; i++) {
        if (!in_range(option, items[i])) {
            return refuse_number(option, items[i], owner, err);
        }
    }
    int32_t *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (!copy) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for option \"%s\"", owner,
                        option->name);
    }
    memcpy(copy, items, (size_t)count * sizeof *copy);
    free_slot(option, state);
    *(struct cop_int_list *)slot_of(option, state) =
        (struct cop_int_list){.items = copy, .count = count};
    return COP_OK;
}

enum cop_status cop_option_set_paths(const struct cop_option *option, void *state,
                                     const int32_t *ranks, const int32_t *lengths,
                                     int32_t count, const char *owner, struct cop_error *err)
{
    if (option->type != COP_OPTION_PATHS || count < 0) {
        return refuse(option, owner, err, "a list of paths");
    }
    int64_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        if (lengths[i] < 1) {
            return refuse(option, owner, err, "an empty path at place %d", (int)i + 1);
        }
        for (int32_t j = 0; j < lengths[i]; j++, total++) {
            if (!in_range(option, ranks[total]) || ranks[total] < 0) {
                return refuse(option, owner, err, "rank %d in path %d", (int)ranks[total] + 1,
                              (int)i + 1);
            }
        }
        if (total > INT32_MAX / 2) {
            return cop_fail(err, COP_ERR_LIMIT, "%s: option \"%s\" is too long", owner,
                            option->name);
        }
    }
    struct cop_path_list list = {.count = count};
    list.ranks = malloc(((size_t)total + 1) * sizeof *list.ranks);
    list.starts = malloc(((size_t)count + 1) * sizeof *list.starts);
    if (!list.ranks || !list.starts) {
        free(list.ranks);
        free(list.starts);
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for option \"%s\"", owner,
                        option->name);
    }
    memcpy(list.ranks, ranks, (size_t)total * sizeof *ranks);
    list.starts[0] = 0;
    for (int32_t i = 0; i < count; i++) {
        list.starts[i + 1] = list.starts[i] + lengths[i];
    }
    free_slot(option, state);
    *(struct cop_path_list *)slot_of(option, state) = list;
    return COP_OK;
}

enum cop_status cop_option_set_object(const struct cop_option *option, void *state,
                                      void *object, const char *owner, struct cop_error *err)
{
    if (option->type != COP_OPTION_OBJECT) {
        return refuse(option, owner, err, "an object");
    }
    *(void **)slot_of(option, state) = object;
    return COP_OK;
}

/* ---- Printing -------------------------------------------------------------------------------
 */

/* A Lua string literal. */
static void append_quoted(char *buffer, size_t size, size_t *used, const char *text)
{
    append(buffer, size, used, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            append(buffer, size, used, "\\%c", *c);
        } else if (*c == '\n') {
            append(buffer, size, used, "\\n");
        } else if (*c < 32 || *c == 127) {
            append(buffer, size, used, "\\%03d", *c);
        } else {
            append(buffer, size, used, "%c", *c);
        }
    }
    append(buffer, size, used, "\"");
}

static void append_paths(char *buffer, size_t size, size_t *used,
                         const struct cop_path_list *list)
{
    append(buffer, size, used, "{");
    for (int32_t i = 0; i < list->count; i++) {
        append(buffer, size, used, i ? ", {" : "{");
        for (int32_t j = list->starts[i]; j < list->starts[i + 1]; j++) {
            append(buffer, size, used, j > list->starts[i] ? ", %d" : "%d",
                   (int)list->ranks[j] + 1);
        }
        append(buffer, size, used, "}");
    }
    append(buffer, size, used, "}");
}

static void append_value(char *buffer, size_t size, size_t *used,
                         const struct cop_option *option, const void *state)
{
    const void *slot = look_at(option, state);
    if (cop_option_is_absent(option, state) && option->type != COP_OPTION_INTS &&
        option->type != COP_OPTION_PATHS) {
        append(buffer, size, used, "nil");
        return;
    }
    switch (option->type) {
    case COP_OPTION_INT: append(buffer, size, used, "%d", *(const int32_t *)slot); break;
    case COP_OPTION_NUMBER:
        if (isinf(*(const double *)slot)) {
            append(buffer, size, used, *(const double *)slot > 0 ? "math.huge" : "-math.huge");
        } else {
            append_number(buffer, size, used, *(const double *)slot);
        }
        break;
    case COP_OPTION_BOOL:
        append(buffer, size, used, *(const bool *)slot ? "true" : "false");
        break;
    case COP_OPTION_CHOICE: {
        struct message choice = {.countdown = *(const int32_t *)slot};
        (void)walk_choices(option->choices, nth_choice, &choice);
        append_quoted(buffer, size, used, choice.text);
        break;
    }
    case COP_OPTION_STRING: append_quoted(buffer, size, used, *(char *const *)slot); break;
    case COP_OPTION_INTS: {
        const struct cop_int_list *list = slot;
        append(buffer, size, used, "{");
        for (int32_t i = 0; i < list->count; i++) {
            append(buffer, size, used, i ? ", %d" : "%d", (int)list->items[i]);
        }
        append(buffer, size, used, "}");
        break;
    }
    case COP_OPTION_PATHS: append_paths(buffer, size, used, slot); break;
    case COP_OPTION_OBJECT:
        append(buffer, size, used, "<%s>", option->choices ? option->choices : "object");
        break;
    }
}

void cop_option_print(const struct cop_option *option, const void *state, char *buffer,
                      size_t size)
{
    size_t used = 0;
    if (size > 0) {
        buffer[0] = '\0';
        append_value(buffer, size, &used, option, state);
    }
}

/* The default as append_value prints it, without a state to look into. */
static void append_default(char *buffer, size_t size, size_t *used,
                           const struct cop_option *option)
{
    union {
        int32_t integer;
        double number;
        bool boolean;
        void *pointer;
        struct cop_int_list ints;
        struct cop_path_list paths;
    } value;
    memset(&value, 0, sizeof value);
    struct cop_option row[2] = {*option, {0}};
    row[0].offset = 0;
    cop_option_defaults(row, &value);
    append_value(buffer, size, used, &row[0], &value);
}

void cop_option_describe(const struct cop_option *option, char *buffer, size_t size)
{
    if (size == 0) {
        return;
    }
    size_t used = 0;
    buffer[0] = '\0';
    append(buffer, size, &used, "%s", option->name);
    if (option->flags & COP_OPTION_REQUIRED) {
        append(buffer, size, &used, ", required");
    } else {
        append(buffer, size, &used, " = ");
        append_default(buffer, size, &used, option);
    }
    if (option->type == COP_OPTION_CHOICE) {
        struct message list = {.used = 0};
        (void)walk_choices(option->choices, list_choice, &list);
        append(buffer, size, &used, " (%s)", list.text);
    } else if (has_range(option)) {
        double shift = option->type == COP_OPTION_PATHS ? 1 : 0;
        append(buffer, size, &used, " (");
        append_number(buffer, size, &used, option->min + shift);
        append(buffer, size, &used, " to ");
        append_number(buffer, size, &used, option->max + shift);
        append(buffer, size, &used, ")");
    }
    if (option->help) {
        append(buffer, size, &used, ": %s", option->help);
    }
}
