/* The stack machine of a pickle while it runs; private to core/files. torch_pickle.c moves
 * values about; torch_call.c knows names. */
#ifndef COP_FILES_TORCH_MACHINE_H
#define COP_FILES_TORCH_MACHINE_H

#include "core/files/torch_pickle.h"

struct torch_machine {
    struct torch_pickle *out;
    const char *name;
    struct cop_error *err;
    const uint8_t *data;
    size_t size, at;
    size_t opcode_at;
    /* Grown by need. */
    int32_t *stack, *marks, *memo; /* values; heights of the stack; values */
    int32_t n_stack, n_marks, n_memo, stack_capacity, marks_capacity, memo_capacity;
};

/* Begins with the file and the byte of the opcode. */
enum cop_status cop_torch_bad(const struct torch_machine *in, const char *what);
/* A new value, and one that is there already, onto the stack. */
enum cop_status cop_torch_push(struct torch_machine *in, struct torch_value value);
enum cop_status cop_torch_push_index(struct torch_machine *in, int32_t value);
struct torch_value cop_torch_value(enum torch_kind kind); /* empty */
/* That `count` values lie above the last mark; the one that lies so many below the top. */
enum cop_status cop_torch_need(const struct torch_machine *in, int32_t count);
struct torch_value *cop_torch_top(struct torch_machine *in, int32_t below);

/* torch_call.c: the opcodes that name, call and describe storages. */
enum cop_status cop_torch_name(struct torch_machine *in, struct cop_string module,
                               struct cop_string name);
enum cop_status cop_torch_call(struct torch_machine *in);
enum cop_status cop_torch_persistent(struct torch_machine *in);
enum cop_status cop_torch_build(struct torch_machine *in);

#endif
