/* The stack machine. */
#include "core/files/torch_machine.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (16u << 20) /* of a pickle: some 80,000 tensors */

/* ---- Failing ----------------------------------------------------------------------------- */

enum cop_status cop_torch_bad(const struct torch_machine *in, const char *what)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: data.pkl, byte %zu: %s", in->name,
                    in->opcode_at, what);
}

static enum cop_status refuse_opcode(const struct torch_machine *in, uint8_t opcode)
{
    static const struct {
        uint8_t opcode;
        const char *name;
    } known[] = {
        {'i', "INST"},     {'o', "OBJ"},       {0x81, "NEWOBJ"},    {0x92, "NEWOBJ_EX"},
        {0x82, "EXT1"},    {0x83, "EXT2"},     {0x84, "EXT4"},      {'P', "PERSID"},
        {'U', "a string"}, {'T', "a string"},  {'C', "bytes"},      {'B', "bytes"},
        {0x96, "bytes"},   {0x97, "a buffer"}, {0x8f, "EMPTY_SET"}, {0x91, "FROZENSET"},
        {'0', "POP"},      {'2', "DUP"},       {'1', "POP_MARK"},   {'I', "a text number"},
        {'F', "a number"}, {'L', "a number"},  {'V', "a string"},   {'S', "a string"},
    };
    const char *name = "unknown";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        name = known[i].opcode == opcode ? known[i].name : name;
    }
    return cop_fail(
        in->err, COP_ERR_FORMAT,
        "%s: data.pkl, byte %zu: opcode 0x%02x (%s) is not among those that a "
        "dictionary of tensors needs, and nothing was run; save the state_dict alone",
        in->name, in->opcode_at, opcode, name);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static bool grow(void **items, int32_t count, int32_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return true;
    }
    int32_t wanted = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*items, (size_t)wanted * item_size);
    if (grown) {
        *items = grown;
        *capacity = wanted;
    }
    return grown != NULL;
}

static enum cop_status no_memory(const struct torch_machine *in)
{
    return cop_fail(in->err, COP_ERR_MEMORY, "%s: no memory for its pickle", in->name);
}

enum cop_status cop_torch_push_index(struct torch_machine *in, int32_t value)
{
    if (!grow((void **)&in->stack, in->n_stack, &in->stack_capacity, sizeof *in->stack)) {
        return no_memory(in);
    }
    in->stack[in->n_stack++] = value;
    return COP_OK;
}

enum cop_status cop_torch_push(struct torch_machine *in, struct torch_value value)
{
    struct torch_pickle *out = in->out;
    if (!grow((void **)&out->values, out->n_values, &out->values_capacity,
              sizeof *out->values)) {
        return no_memory(in);
    }
    out->values[out->n_values] = value;
    return cop_torch_push_index(in, out->n_values++);
}

struct torch_value cop_torch_value(enum torch_kind kind)
{
    return (struct torch_value){.kind = kind, .first = TORCH_NOTHING, .last = TORCH_NOTHING};
}

static enum cop_status append(struct torch_machine *in, int32_t container, int32_t value)
{
    struct torch_pickle *out = in->out;
    if (!grow((void **)&out->cells, out->n_cells, &out->cells_capacity, sizeof *out->cells)) {
        return no_memory(in);
    }
    struct torch_value *list = &out->values[container];
    out->cells[out->n_cells] = (struct torch_cell){.value = value, .next = TORCH_NOTHING};
    if (list->last == TORCH_NOTHING) {
        list->first = out->n_cells;
    } else {
        out->cells[list->last].next = out->n_cells;
    }
    list->last = out->n_cells++;
    list->count++;
    return COP_OK;
}

/* ---- The stack --------------------------------------------------------------------------- */

/* Values above the last mark, or above the bottom. */
static int32_t height(const struct torch_machine *in)
{
    return in->n_stack - (in->n_marks > 0 ? in->marks[in->n_marks - 1] : 0);
}

enum cop_status cop_torch_need(const struct torch_machine *in, int32_t count)
{
    return height(in) >= count ? COP_OK
                               : cop_torch_bad(in, "takes more from the stack than is there");
}

struct torch_value *cop_torch_top(struct torch_machine *in, int32_t below)
{
    return &in->out->values[in->stack[in->n_stack - 1 - below]];
}

/* The top `count` values become a tuple. */
static enum cop_status make_tuple(struct torch_machine *in, int32_t count)
{
    enum cop_status status = cop_torch_need(in, count);
    if (status == COP_OK) {
        status = cop_torch_push(in, cop_torch_value(TORCH_TUPLE));
    }
    if (status != COP_OK) {
        return status;
    }
    int32_t tuple = in->stack[--in->n_stack];
    for (int32_t i = count; i > 0 && status == COP_OK; i--) {
        status = append(in, tuple, in->stack[in->n_stack - i]);
    }
    in->n_stack -= count;
    return status == COP_OK ? cop_torch_push_index(in, tuple) : status;
}

/* Takes the last mark away; *count: values above it. */
static enum cop_status pop_mark(struct torch_machine *in, int32_t *count)
{
    *count = height(in);
    if (in->n_marks == 0) {
        return cop_torch_bad(in, "asks for a mark that is not there");
    }
    in->n_marks--;
    return COP_OK;
}

/* The top `count` values go into the list or dictionary below them. */
static enum cop_status put(struct torch_machine *in, int32_t count, enum torch_kind kind)
{
    enum cop_status status = cop_torch_need(in, count + 1);
    if (status != COP_OK) {
        return status;
    }
    if (cop_torch_top(in, count)->kind != kind || (kind == TORCH_DICT && count % 2 != 0)) {
        return cop_torch_bad(in, "puts items into what is no list or dictionary for them");
    }
    int32_t container = in->stack[in->n_stack - 1 - count];
    for (int32_t i = count; i > 0 && status == COP_OK; i--) {
        status = append(in, container, in->stack[in->n_stack - i]);
    }
    in->n_stack -= count;
    return status;
}

static enum cop_status put_marked(struct torch_machine *in, enum torch_kind kind)
{
    int32_t count;
    enum cop_status status = pop_mark(in, &count);
    return status == COP_OK ? put(in, count, kind) : status;
}

static enum cop_status mark(struct torch_machine *in)
{
    if (!grow((void **)&in->marks, in->n_marks, &in->marks_capacity, sizeof *in->marks)) {
        return no_memory(in);
    }
    in->marks[in->n_marks++] = in->n_stack;
    return COP_OK;
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* The next `count` bytes, or NULL. */
static const uint8_t *take(struct torch_machine *in, uint64_t count)
{
    if (count > in->size - in->at) {
        return NULL;
    }
    const uint8_t *bytes = in->data + in->at;
    in->at += (size_t)count;
    return bytes;
}

static enum cop_status cut_off(const struct torch_machine *in)
{
    return cop_torch_bad(in, "the pickle is cut off");
}

/* A little-endian number of `width` bytes, at most 8. */
static enum cop_status take_number(struct torch_machine *in, size_t width, uint64_t *out)
{
    const uint8_t *bytes = take(in, width);
    *out = 0;
    for (size_t i = 0; bytes && i < width; i++) {
        *out |= (uint64_t)bytes[i] << 8 * i;
    }
    return bytes ? COP_OK : cut_off(in);
}

/* An integer that is stored in `width` bytes, signed where it is not of the short ones. */
static enum cop_status push_integer(struct torch_machine *in, size_t width, bool is_signed)
{
    struct torch_value value = cop_torch_value(TORCH_INT);
    uint64_t bits;
    enum cop_status status = take_number(in, width, &bits);
    if (is_signed && width > 0 && width < 8 && bits >> (8 * width - 1)) {
        bits |= ~(uint64_t)0 << 8 * width;
    }
    memcpy(&value.of.integer, &bits, sizeof bits);
    return status == COP_OK ? cop_torch_push(in, value) : status;
}

static enum cop_status push_long(struct torch_machine *in)
{
    uint64_t width;
    enum cop_status status = take_number(in, 1, &width);
    if (status == COP_OK && width > 8) {
        return cop_torch_bad(in, "an integer of more than 64 bits");
    }
    return status == COP_OK ? push_integer(in, (size_t)width, true) : status;
}

static enum cop_status push_string(struct torch_machine *in, size_t width)
{
    struct torch_value value = cop_torch_value(TORCH_STRING);
    uint64_t length;
    enum cop_status status = take_number(in, width, &length);
    const uint8_t *bytes = status == COP_OK ? take(in, length) : NULL;
    if (!bytes) {
        return cut_off(in);
    }
    value.of.string = (struct cop_string){(const char *)bytes, (size_t)length};
    return cop_torch_push(in, value);
}

/* Up to the end of the line. */
static bool take_line(struct torch_machine *in, struct cop_string *out)
{
    const uint8_t *from = in->data + in->at;
    const uint8_t *end = memchr(from, '\n', in->size - in->at);
    if (!end) {
        return false;
    }
    *out = (struct cop_string){(const char *)from, (size_t)(end - from)};
    in->at += out->length + 1;
    return true;
}

static enum cop_status read_global(struct torch_machine *in)
{
    struct cop_string module, name;
    return take_line(in, &module) && take_line(in, &name) ? cop_torch_name(in, module, name)
                                                          : cut_off(in);
}

static enum cop_status stack_global(struct torch_machine *in)
{
    enum cop_status status = cop_torch_need(in, 2);
    if (status != COP_OK) {
        return status;
    }
    const struct torch_value module = *cop_torch_top(in, 1), name = *cop_torch_top(in, 0);
    if (module.kind != TORCH_STRING || name.kind != TORCH_STRING) {
        return cop_torch_bad(in, "a global without a name");
    }
    in->n_stack -= 2;
    return cop_torch_name(in, module.of.string, name.of.string);
}

/* ---- The memo ---------------------------------------------------------------------------- */

/* Python numbers what it remembers in order; it may remember a number anew. */
static enum cop_status remember(struct torch_machine *in, uint64_t number)
{
    enum cop_status status = cop_torch_need(in, 1);
    if (status != COP_OK) {
        return status;
    }
    if (number > (uint64_t)in->n_memo) {
        return cop_torch_bad(in, "remembers a value under a number that is not the next one");
    }
    if (!grow((void **)&in->memo, in->n_memo, &in->memo_capacity, sizeof *in->memo)) {
        return no_memory(in);
    }
    in->memo[number] = in->stack[in->n_stack - 1];
    in->n_memo += number == (uint64_t)in->n_memo;
    return COP_OK;
}

static enum cop_status put_memo(struct torch_machine *in, size_t width)
{
    uint64_t number;
    enum cop_status status = take_number(in, width, &number);
    return status == COP_OK ? remember(in, number) : status;
}

static enum cop_status get_memo(struct torch_machine *in, size_t width)
{
    uint64_t number;
    enum cop_status status = take_number(in, width, &number);
    if (status == COP_OK && number >= (uint64_t)in->n_memo) {
        return cop_torch_bad(in, "asks for a value that was never remembered");
    }
    return status == COP_OK ? cop_torch_push_index(in, in->memo[number]) : status;
}

/* ---- The loop ---------------------------------------------------------------------------- */

static enum cop_status push_bool(struct torch_machine *in, bool is_true)
{
    struct torch_value value = cop_torch_value(TORCH_BOOL);
    value.of.integer = is_true;
    return cop_torch_push(in, value);
}

static enum cop_status push_float(struct torch_machine *in)
{
    return take(in, 8) ? cop_torch_push(in, cop_torch_value(TORCH_NUMBER)) : cut_off(in);
}

static enum cop_status check_version(struct torch_machine *in)
{
    const uint8_t *version = take(in, 1);
    return !version ? cut_off(in)
           : *version >= 2 && *version <= 5
               ? COP_OK
               : cop_torch_bad(in, "a pickle protocol that is not 2 to 5");
}

static enum cop_status run_opcode(struct torch_machine *in, uint8_t opcode)
{
    int32_t count;
    enum cop_status status;
    switch (opcode) {
    case 0x80: return check_version(in);
    case 0x95: return take(in, 8) ? COP_OK : cut_off(in); /* FRAME: how long a part is */
    case '(': return mark(in);
    case 'N': return cop_torch_push(in, cop_torch_value(TORCH_NONE));
    case 0x88: return push_bool(in, true);
    case 0x89: return push_bool(in, false);
    case 'J': return push_integer(in, 4, true);
    case 'K': return push_integer(in, 1, false);
    case 'M': return push_integer(in, 2, false);
    case 0x8a: return push_long(in);
    case 'G': return push_float(in);
    case 'X': return push_string(in, 4);
    case 0x8c: return push_string(in, 1);
    case 0x8d: return push_string(in, 8);
    case ')': return cop_torch_push(in, cop_torch_value(TORCH_TUPLE));
    case 0x85: return make_tuple(in, 1);
    case 0x86: return make_tuple(in, 2);
    case 0x87: return make_tuple(in, 3);
    case 't':
        status = pop_mark(in, &count);
        return status == COP_OK ? make_tuple(in, count) : status;
    case ']': return cop_torch_push(in, cop_torch_value(TORCH_LIST));
    case 'a': return put(in, 1, TORCH_LIST);
    case 'e': return put_marked(in, TORCH_LIST);
    case '}': return cop_torch_push(in, cop_torch_value(TORCH_DICT));
    case 's': return put(in, 2, TORCH_DICT);
    case 'u': return put_marked(in, TORCH_DICT);
    case 'c': return read_global(in);
    case 0x93: return stack_global(in);
    case 'R': return cop_torch_call(in);
    case 'Q': return cop_torch_persistent(in);
    case 'b': return cop_torch_build(in);
    case 'q': return put_memo(in, 1);
    case 'r': return put_memo(in, 4);
    case 0x94: return remember(in, (uint64_t)in->n_memo);
    case 'h': return get_memo(in, 1);
    case 'j': return get_memo(in, 4);
    default: return refuse_opcode(in, opcode);
    }
}

static enum cop_status run(struct torch_machine *in)
{
    enum cop_status status = COP_OK;
    while (status == COP_OK) {
        in->opcode_at = in->at;
        const uint8_t *opcode = take(in, 1);
        if (!opcode) {
            return cut_off(in);
        }
        if (*opcode == '.') {
            bool is_whole = in->n_stack == 1 && in->n_marks == 0;
            in->out->root = is_whole ? in->stack[0] : TORCH_NOTHING;
            return is_whole ? COP_OK : cop_torch_bad(in, "ends with other than one value");
        }
        status = run_opcode(in, *opcode);
    }
    return status;
}

enum cop_status cop_torch_pickle_read(struct torch_pickle *out, const char *name,
                                      const uint8_t *data, size_t size, struct cop_error *err)
{
    struct torch_machine in = {
        .out = out, .name = name, .err = err, .data = data, .size = size};
    *out = (struct torch_pickle){.root = TORCH_NOTHING};
    if (size > MOST_BYTES) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: data.pkl has %zu bytes; at most %u are read",
                        name, size, MOST_BYTES);
    }
    enum cop_status status = run(&in);
    free(in.stack);
    free(in.marks);
    free(in.memo);
    if (status != COP_OK) {
        cop_torch_pickle_release(out);
    }
    return status;
}

void cop_torch_pickle_release(struct torch_pickle *pickle)
{
    free(pickle->values);
    free(pickle->cells);
    *pickle = (struct torch_pickle){.root = TORCH_NOTHING};
}

const struct torch_value *cop_torch_item(const struct torch_pickle *pickle,
                                         const struct torch_value *value, int32_t i)
{
    int32_t cell = value->first;
    for (; i > 0 && cell != TORCH_NOTHING; i--) {
        cell = pickle->cells[cell].next;
    }
    return cell == TORCH_NOTHING ? NULL : &pickle->values[pickle->cells[cell].value];
}
