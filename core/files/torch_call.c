/* What a pickle may name, and what we answer where Python would call it. */
#include "core/base/quote.h"
#include "core/files/torch_machine.h"

#include <string.h>

enum role { ROLE_DICT, ROLE_TENSOR, ROLE_PARAMETER, ROLE_SIZE, ROLE_TYPE };

/* All that a pickle may name. */
static const struct {
    const char *module, *name;
    enum role role;
    struct torch_type type;
} globals[] = {
    {"collections", "OrderedDict", ROLE_DICT, {NULL, 0, COP_FORMAT_COUNT}},
    {"torch._utils", "_rebuild_tensor_v2", ROLE_TENSOR, {NULL, 0, COP_FORMAT_COUNT}},
    {"torch._utils", "_rebuild_parameter", ROLE_PARAMETER, {NULL, 0, COP_FORMAT_COUNT}},
    {"torch", "Size", ROLE_SIZE, {NULL, 0, COP_FORMAT_COUNT}},
    {"torch", "FloatStorage", ROLE_TYPE, {"F32", 4, COP_FORMAT_F32}},
    {"torch", "HalfStorage", ROLE_TYPE, {"F16", 2, COP_FORMAT_F16}},
    {"torch", "BFloat16Storage", ROLE_TYPE, {"BF16", 2, COP_FORMAT_BF16}},
    {"torch", "DoubleStorage", ROLE_TYPE, {"F64", 8, COP_FORMAT_COUNT}},
    {"torch", "LongStorage", ROLE_TYPE, {"I64", 8, COP_FORMAT_COUNT}},
    {"torch", "IntStorage", ROLE_TYPE, {"I32", 4, COP_FORMAT_COUNT}},
    {"torch", "ShortStorage", ROLE_TYPE, {"I16", 2, COP_FORMAT_COUNT}},
    {"torch", "CharStorage", ROLE_TYPE, {"I8", 1, COP_FORMAT_COUNT}},
    {"torch", "ByteStorage", ROLE_TYPE, {"U8", 1, COP_FORMAT_COUNT}},
    {"torch", "BoolStorage", ROLE_TYPE, {"BOOL", 1, COP_FORMAT_COUNT}},
};
#define N_GLOBALS (sizeof globals / sizeof *globals)

static bool is_equal(struct cop_string string, const char *text)
{
    return string.length == strlen(text) && memcmp(string.bytes, text, string.length) == 0;
}

enum cop_status cop_torch_name(struct torch_machine *in, struct cop_string module,
                               struct cop_string name)
{
    for (size_t i = 0; i < N_GLOBALS; i++) {
        if (is_equal(module, globals[i].module) && is_equal(name, globals[i].name)) {
            struct torch_value value = cop_torch_value(TORCH_GLOBAL);
            value.of.integer = (int64_t)i;
            return cop_torch_push(in, value);
        }
    }
    char left[COP_QUOTE_SIZE], right[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_FORMAT,
                    "%s: data.pkl, byte %zu: names \"%s.%s\", which is not among what rebuilds "
                    "tensors, and nothing was run; save the state_dict alone",
                    in->name, in->opcode_at, cop_quote(left, module.bytes, module.length),
                    cop_quote(right, name.bytes, name.length));
}

/* ---- What Python would call -------------------------------------------------------------- */

static bool is_kind(const struct torch_value *value, enum torch_kind kind)
{
    return value && value->kind == kind;
}

/* (storage, offset, sizes, strides, requires_grad, hooks[, metadata]) */
static bool fits_tensor(const struct torch_pickle *out, const struct torch_value *args)
{
    return (args->count == 6 || args->count == 7) &&
           is_kind(cop_torch_item(out, args, 0), TORCH_STORAGE) &&
           is_kind(cop_torch_item(out, args, 1), TORCH_INT) &&
           is_kind(cop_torch_item(out, args, 2), TORCH_TUPLE) &&
           is_kind(cop_torch_item(out, args, 3), TORCH_TUPLE);
}

enum cop_status cop_torch_call(struct torch_machine *in)
{
    enum cop_status status = cop_torch_need(in, 2);
    if (status != COP_OK) {
        return status;
    }
    const struct torch_value called = *cop_torch_top(in, 1), args = *cop_torch_top(in, 0);
    if (called.kind != TORCH_GLOBAL || args.kind != TORCH_TUPLE) {
        return cop_torch_bad(in, "calls what is no name of the list");
    }
    const struct torch_pickle *out = in->out;
    int32_t first = args.count > 0 ? out->cells[args.first].value : TORCH_NOTHING;
    struct torch_value tensor = args;
    tensor.kind = TORCH_TENSOR;
    in->n_stack -= 2;
    switch (globals[called.of.integer].role) {
    case ROLE_DICT:
        if (args.count == 0) {
            return cop_torch_push(in, cop_torch_value(TORCH_DICT));
        }
        break;
    case ROLE_TENSOR:
        if (fits_tensor(out, &args)) {
            return cop_torch_push(in, tensor);
        }
        break;
    case ROLE_PARAMETER:
        if (args.count == 3 && out->values[first].kind == TORCH_TENSOR) {
            return cop_torch_push_index(in, first);
        }
        break;
    case ROLE_SIZE:
        if (args.count == 1 && out->values[first].kind == TORCH_TUPLE) {
            return cop_torch_push_index(in, first);
        }
        break;
    case ROLE_TYPE: break;
    }
    return cop_torch_bad(in, "calls a name of the list with other arguments than PyTorch does");
}

/* ("storage", type, key, place, numbers) */
enum cop_status cop_torch_persistent(struct torch_machine *in)
{
    enum cop_status status = cop_torch_need(in, 1);
    if (status != COP_OK) {
        return status;
    }
    const struct torch_pickle *out = in->out;
    struct torch_value storage = *cop_torch_top(in, 0);
    const struct torch_value *word = cop_torch_item(out, &storage, 0);
    const struct torch_value *type = cop_torch_item(out, &storage, 1);
    if (storage.kind != TORCH_TUPLE || storage.count != 5 || !is_kind(word, TORCH_STRING) ||
        !is_equal(word->of.string, "storage") || !is_kind(type, TORCH_GLOBAL) ||
        !cop_torch_type(type) || !is_kind(cop_torch_item(out, &storage, 2), TORCH_STRING) ||
        !is_kind(cop_torch_item(out, &storage, 4), TORCH_INT)) {
        return cop_torch_bad(in, "a persistent id that describes no storage of tensors");
    }
    storage.kind = TORCH_STORAGE;
    in->n_stack--;
    return cop_torch_push(in, storage);
}

/* What a dictionary carries besides its items (a state_dict: versions of modules) is let go. */
enum cop_status cop_torch_build(struct torch_machine *in)
{
    enum cop_status status = cop_torch_need(in, 2);
    if (status == COP_OK && cop_torch_top(in, 1)->kind != TORCH_DICT) {
        return cop_torch_bad(in, "sets attributes of what is no dictionary");
    }
    in->n_stack -= status == COP_OK;
    return status;
}

const struct torch_type *cop_torch_type(const struct torch_value *global)
{
    const struct torch_type *type = &globals[global->of.integer].type;
    return type->name ? type : NULL;
}
