/* Typed option tables: one row per setting of an algorithm, from which the Lua constructors,
 * the range checks, the error messages and the reference documentation are all made.
 *
 *     struct chain_state { int32_t depth; };
 *     static const struct cop_option chain_options[] = {
 *         {.name = "depth", .type = COP_OPTION_INT,
 *          .offset = offsetof(struct chain_state, depth), .min = 1, .max = 4095,
 *          .fallback = 5, .help = "tokens drafted one after another"},
 *         {0}};
 */
#ifndef COP_BASE_OPTION_H
#define COP_BASE_OPTION_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cop_option_type {
    COP_OPTION_INT,     /* int32_t */
    COP_OPTION_NUMBER,  /* double */
    COP_OPTION_BOOL,    /* bool */
    COP_OPTION_CHOICE,  /* int32_t: index into `choices`, "original|hf|vllm" */
    COP_OPTION_STRING,  /* char *, owned by the state, NULL when absent */
    COP_OPTION_INTS,    /* struct cop_int_list: { 4, 2, 2 }; min and max hold for each entry */
    COP_OPTION_PATHS,   /* struct cop_path_list: { {1}, {1,1}, {2} } or { "0", "00", "1" } */
    COP_OPTION_NUMBERS, /* struct cop_number_list: { 0.6, 0.2 }; min and max as for INTS */
    COP_OPTION_LISTS,   /* struct cop_path_list: lists of token ids, as they are */
    COP_OPTION_VOCABULARY, /* struct cop_vocabulary_option: token ids, how many tokens, or,
                              where there are `choices`, one of them */
    COP_OPTION_OBJECT      /* void *, borrowed; `choices` names the type: "model" */
};

enum {
    COP_OPTION_REQUIRED = 1,   /* no default: the constructor refuses to go without */
    COP_OPTION_POSITIONAL = 2, /* may be given without a key: { draft }, { 4, 2, 2 } */
    COP_OPTION_ABSENT = 4,     /* absent by default: NaN, INT32_MIN, NULL or an empty list */
    COP_OPTION_FILLED = 8      /* INTS: an empty list is refused, as it always is of NUMBERS and
                                  PATHS: nobody means by it that the option is absent */
};

struct cop_int_list {
    int32_t *items; /* owned by the state */
    int32_t count;
};
struct cop_number_list {
    double *items; /* owned by the state */
    int32_t count;
};
struct cop_vocabulary_option { /* at most one of the three is given */
    int32_t choice;            /* of `choices`; INT32_MIN: none */
    int32_t size;              /* 0: none */
    struct cop_int_list ids;   /* count 0: none */
};
struct cop_path_list { /* path i is ranks[starts[i] .. starts[i + 1]), ranks from 0 */
    int32_t *ranks, *starts;
    int32_t count;
};

struct cop_option {
    const char *name; /* NULL ends a table */
    enum cop_option_type type;
    size_t offset;   /* into the state */
    double min, max; /* inclusive; for lists: of each entry */
    double fallback; /* default; for CHOICE the index, for BOOL 0 or 1 */
    const char *choices;
    uint32_t flags;
    const char *help; /* unit included, lower case, no stop at the end */
};

/* Defaults into a zeroed state. `options` may be NULL everywhere: no options. */
void cop_option_defaults(const struct cop_option *options, void *state);
/* Frees what the setters below allocated; the state can be given defaults again. */
void cop_option_release(const struct cop_option *options, void *state);

const struct cop_option *cop_option_find(const struct cop_option *options, const char *name);
/* The known name nearest to a misspelt one (small edit distance), or NULL. Also used for names
 * of registries. */
const char *cop_nearest(const char *name, const char *const *known, size_t count);

/* Setters check type and range; `owner` ("cop.tree.chain") begins the message. A number is
 * taken for an INT only when it is integral. After failure the state is unchanged. Strings,
 * lists are copied. */
enum cop_status cop_option_set_number(const struct cop_option *option, void *state,
                                      double value, const char *owner, struct cop_error *err);
enum cop_status cop_option_set_bool(const struct cop_option *option, void *state, bool value,
                                    const char *owner, struct cop_error *err);
enum cop_status cop_option_set_string(const struct cop_option *option, void *state,
                                      const char *value, const char *owner,
                                      struct cop_error *err);
enum cop_status cop_option_set_ints(const struct cop_option *option, void *state,
                                    const int32_t *items, int32_t count, const char *owner,
                                    struct cop_error *err);
enum cop_status cop_option_set_numbers(const struct cop_option *option, void *state,
                                       const double *items, int32_t count, const char *owner,
                                       struct cop_error *err);
/* PATHS and LISTS. ranks from 0; lengths[i] ranks for path i, one after another in `ranks`. */
enum cop_status cop_option_set_paths(const struct cop_option *option, void *state,
                                     const int32_t *ranks, const int32_t *lengths,
                                     int32_t count, const char *owner, struct cop_error *err);
enum cop_status cop_option_set_object(const struct cop_option *option, void *state,
                                      void *object, const char *owner, struct cop_error *err);

/* "depth = 5 (1 to 4095): tokens drafted …": one line of documentation into buffer. */
void cop_option_describe(const struct cop_option *option, char *buffer, size_t size);
/* The value in a state as a script would write it ("5", "\"hf\"", "{4, 2, 2}"): manifests and
 * printing. */
void cop_option_print(const struct cop_option *option, const void *state, char *buffer,
                      size_t size);

/* Whether a setting has no value: NaN, INT32_MIN, NULL or an empty list. */
bool cop_option_is_absent(const struct cop_option *option, const void *state);

#endif
