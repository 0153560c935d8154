/* Typed options: defaults, checked setters with one message style, documentation, printing.
 *
 * Every refusal reads
 *     cop.tree.chain: option "depth" must be an integer from 1 to 4095, got 0
 * A table row whose min and max are both 0 has no range. Ranks of paths count from 0 in memory
 * and from 1 wherever a person reads them. */
#include "core/base/option_text.h"

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
    case COP_OPTION_VOCABULARY:
        free(((struct cop_vocabulary_option *)slot)->ids.items);
        *(struct cop_vocabulary_option *)slot =
            (struct cop_vocabulary_option){.choice = INT32_MIN};
        break;
    case COP_OPTION_NUMBERS:
        free(((struct cop_number_list *)slot)->items);
        *(struct cop_number_list *)slot = (struct cop_number_list){0};
        break;
    case COP_OPTION_PATHS:
    case COP_OPTION_LISTS:
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
        case COP_OPTION_NUMBERS:
            *(struct cop_number_list *)slot = (struct cop_number_list){0};
            break;
        case COP_OPTION_PATHS:
        case COP_OPTION_LISTS: *(struct cop_path_list *)slot = (struct cop_path_list){0}; break;
        case COP_OPTION_VOCABULARY:
            *(struct cop_vocabulary_option *)slot = (struct cop_vocabulary_option){
                .choice = !o->choices || starts_absent(o) ? INT32_MIN : (int32_t)o->fallback};
            break;
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
    case COP_OPTION_NUMBERS: return ((const struct cop_number_list *)slot)->count == 0;
    case COP_OPTION_PATHS:
    case COP_OPTION_LISTS: return ((const struct cop_path_list *)slot)->count == 0;
    case COP_OPTION_VOCABULARY: {
        const struct cop_vocabulary_option *vocabulary = slot;
        return vocabulary->choice == INT32_MIN && vocabulary->size == 0 &&
               vocabulary->ids.count == 0;
    }
    case COP_OPTION_OBJECT: return *(void *const *)slot == NULL;
    }
    return true;
}

const struct cop_option *cop_option_find(const struct cop_option *options, const char *name)
{
    for (const struct cop_option *o = options; o && o->name && name; o++) {
        if (strcmp(o->name, name) == 0) {
            return o;
        }
    }
    return NULL;
}

static enum cop_status refuse(const struct cop_option *option, const char *owner,
                              struct cop_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static enum cop_status refuse(const struct cop_option *option, const char *owner,
                              struct cop_error *err, const char *format, ...)
{
    char wanted[320] = "", got[100];
    struct cop_words words = COP_WORDS(wanted);
    cop_say_wanted(&words, option);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(got, sizeof got, format, args);
    va_end(args);
    return cop_fail(err, COP_ERR_ARGUMENT, "%s: option \"%s\" must be %s, got %s", owner,
                    option->name, wanted, got);
}

static enum cop_status refuse_number(const struct cop_option *option, double value,
                                     const char *owner, struct cop_error *err)
{
    char text[40];
    struct cop_words words = COP_WORDS(text);
    cop_say_number(&words, value);
    return refuse(option, owner, err, "%s", text);
}

static enum cop_status no_memory(const struct cop_option *option, const char *owner,
                                 struct cop_error *err)
{
    return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for option \"%s\"", owner,
                    option->name);
}

/* ---- Setters --------------------------------------------------------------------------------
 */

static bool in_range(const struct cop_option *option, double value)
{
    return !cop_option_has_range(option) || (value >= option->min && value <= option->max);
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
    if (option->type == COP_OPTION_VOCABULARY && value >= 1 && value <= INT32_MAX &&
        value == floor(value)) {
        free_slot(option, state);
        ((struct cop_vocabulary_option *)slot)->size = (int32_t)value;
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
        int32_t index = cop_choice_index(option->choices, value);
        if (index >= 0) {
            *(int32_t *)slot = index;
            return COP_OK;
        }
    }
    if (option->type == COP_OPTION_VOCABULARY && option->choices) {
        int32_t index = cop_choice_index(option->choices, value);
        if (index >= 0) {
            free_slot(option, state);
            ((struct cop_vocabulary_option *)slot)->choice = index;
            return COP_OK;
        }
    }
    if (option->type != COP_OPTION_STRING) {
        return refuse(option, owner, err, "\"%.80s\"", value);
    }
    char *text = strdup(value);
    if (!text) {
        return no_memory(option, owner, err);
    }
    free(*(char **)slot);
    *(char **)slot = text;
    return COP_OK;
}

enum cop_status cop_option_set_ints(const struct cop_option *option, void *state,
                                    const int32_t *items, int32_t count, const char *owner,
                                    struct cop_error *err)
{
    bool is_vocabulary = option->type == COP_OPTION_VOCABULARY;
    if ((option->type != COP_OPTION_INTS && !is_vocabulary) || count < 0) {
        return refuse(option, owner, err, "a list");
    }
    if (count == 0 && (is_vocabulary || (option->flags & COP_OPTION_FILLED))) {
        return refuse(option, owner, err, "an empty list");
    }
    for (int32_t i = 0; i < count; i++) {
        if (!in_range(option, items[i]) || (is_vocabulary && items[i] < 0)) {
            return refuse_number(option, items[i], owner, err);
        }
    }
    int32_t *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (!copy) {
        return no_memory(option, owner, err);
    }
    memcpy(copy, items, (size_t)count * sizeof *copy);
    free_slot(option, state);
    const struct cop_int_list list = {.items = copy, .count = count};
    if (is_vocabulary) {
        ((struct cop_vocabulary_option *)slot_of(option, state))->ids = list;
    } else {
        *(struct cop_int_list *)slot_of(option, state) = list;
    }
    return COP_OK;
}

enum cop_status cop_option_set_numbers(const struct cop_option *option, void *state,
                                       const double *items, int32_t count, const char *owner,
                                       struct cop_error *err)
{
    if (option->type != COP_OPTION_NUMBERS || count < 0) {
        return refuse(option, owner, err, "a list");
    }
    if (count == 0) {
        return refuse(option, owner, err, "an empty list");
    }
    for (int32_t i = 0; i < count; i++) {
        if (!in_range(option, items[i])) { /* NaN is in no range */
            return refuse_number(option, items[i], owner, err);
        }
    }
    double *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (!copy) {
        return no_memory(option, owner, err);
    }
    memcpy(copy, items, (size_t)count * sizeof *copy);
    free_slot(option, state);
    *(struct cop_number_list *)slot_of(option, state) =
        (struct cop_number_list){.items = copy, .count = count};
    return COP_OK;
}

enum cop_status cop_option_set_paths(const struct cop_option *option, void *state,
                                     const int32_t *ranks, const int32_t *lengths,
                                     int32_t count, const char *owner, struct cop_error *err)
{
    bool are_paths = option->type == COP_OPTION_PATHS;
    if ((!are_paths && option->type != COP_OPTION_LISTS) || count < 0) {
        return refuse(option, owner, err, "a list of paths");
    }
    if (are_paths && count == 0) {
        return refuse(option, owner, err, "an empty list");
    }
    int64_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        if (are_paths && lengths[i] < 1) {
            return refuse(option, owner, err, "an empty path at place %d", (int)i + 1);
        }
        for (int32_t j = 0; j < lengths[i]; j++, total++) {
            if (!in_range(option, ranks[total]) || ranks[total] < 0) {
                return are_paths ? refuse(option, owner, err, "rank %d in path %d",
                                          (int)ranks[total] + 1, (int)i + 1)
                                 : refuse(option, owner, err, "%d in list %d",
                                          (int)ranks[total], (int)i + 1);
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
        return no_memory(option, owner, err);
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
