/* The header of one safetensors file: types, shapes, and a layout without holes. */
#include "core/base/quote.h"
#include "core/files/gguf_layout.h"
#include "core/files/safetensors_layout.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIDES 4

/* The types of the format, and which of them we read. */
static const struct {
    const char *name;
    size_t bits;
    enum cop_format format;
} types[] = {
    {"F32", 32, COP_FORMAT_F32},      {"F16", 16, COP_FORMAT_F16},
    {"BF16", 16, COP_FORMAT_BF16},    {"F64", 64, COP_FORMAT_COUNT},
    {"I64", 64, COP_FORMAT_COUNT},    {"U64", 64, COP_FORMAT_COUNT},
    {"C64", 64, COP_FORMAT_COUNT},    {"I32", 32, COP_FORMAT_COUNT},
    {"U32", 32, COP_FORMAT_COUNT},    {"I16", 16, COP_FORMAT_COUNT},
    {"U16", 16, COP_FORMAT_COUNT},    {"I8", 8, COP_FORMAT_COUNT},
    {"U8", 8, COP_FORMAT_COUNT},      {"BOOL", 8, COP_FORMAT_COUNT},
    {"F8_E4M3", 8, COP_FORMAT_COUNT}, {"F8_E5M2", 8, COP_FORMAT_COUNT},
    {"F8_E8M0", 8, COP_FORMAT_COUNT}, {"F6_E2M3", 6, COP_FORMAT_COUNT},
    {"F6_E3M2", 6, COP_FORMAT_COUNT}, {"F4", 4, COP_FORMAT_COUNT},
};
#define N_TYPES (sizeof types / sizeof *types)

struct header {
    struct cop_safetensors *files;
    struct safetensors_shard *shard;
    int32_t number; /* of the shard */
    struct cop_error *err;
    const uint8_t *data;
    size_t size; /* of the data area */
};

static const char *file_of(const struct header *in)
{
    return cop_path_tail(in->shard->path, 160);
}

static enum cop_status bad(const struct header *in, const struct cop_tensor *tensor,
                           const char *what)
{
    char quoted[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"%s\": %s", file_of(in),
                    cop_quote(quoted, tensor->name.bytes, tensor->name.length), what);
}

/* The member `key` of a tensor's description: there, once. */
static enum cop_status member(const struct header *in, const struct cop_json_node *node,
                              const struct cop_tensor *tensor, const char *key,
                              enum cop_json_kind kind, const struct cop_json_node **out)
{
    const struct cop_json_tree *tree = &in->shard->header;
    const struct cop_json_node *child = cop_json_first(tree, node);
    char quoted[COP_QUOTE_SIZE];
    int n_found = 0;
    *out = NULL;
    for (; child; child = cop_json_after(tree, child)) {
        if (child->key_length == strlen(key) &&
            memcmp(child->key, key, child->key_length) == 0) {
            *out = child;
            n_found++;
        }
    }
    if (n_found == 1 && (*out)->kind == kind) {
        return COP_OK;
    }
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: tensor \"%s\": \"%s\" %s", file_of(in),
                    cop_quote(quoted, tensor->name.bytes, tensor->name.length), key,
                    n_found == 0   ? "is missing"
                    : n_found == 1 ? "has a wrong type"
                                   : "is there twice");
}

static enum cop_status read_type(const struct header *in, const struct cop_json_node *node,
                                 struct safetensors_entry *entry, size_t *bits)
{
    const struct cop_json_node *name;
    enum cop_status status = member(in, node, &entry->tensor, "dtype", COP_JSON_STRING, &name);
    for (size_t i = 0; status == COP_OK && i < N_TYPES; i++) {
        if (cop_json_is(name, types[i].name)) {
            entry->type = types[i].name;
            entry->tensor.format = types[i].format;
            *bits = types[i].bits;
            return COP_OK;
        }
    }
    if (status == COP_OK) {
        char quoted[COP_QUOTE_SIZE], type[COP_QUOTE_SIZE];
        const struct cop_string *tensor = &entry->tensor.name;
        return cop_fail(in->err, COP_ERR_UNSUPPORTED,
                        "%s: tensor \"%s\": no type \"%s\"; F32, F16 and BF16 are read",
                        file_of(in), cop_quote(quoted, tensor->bytes, tensor->length),
                        cop_quote(type, name->text, name->length));
    }
    return status;
}

/* The sides, fastest first, and how many bytes they need. */
static enum cop_status read_shape(const struct header *in, const struct cop_json_node *node,
                                  struct cop_tensor *tensor, size_t bits)
{
    const struct cop_json_tree *tree = &in->shard->header;
    const struct cop_json_node *list;
    int64_t shape[MOST_SIDES], n_elements = 1, n_bits;
    enum cop_status status = member(in, node, tensor, "shape", COP_JSON_LIST, &list);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *side = cop_json_first(tree, list);
    for (; side; side = cop_json_after(tree, side)) {
        if (side->kind != COP_JSON_INTEGER || side->integer < 0) {
            return bad(in, tensor, "a side of \"shape\" is not a count");
        }
        if (tensor->rank == MOST_SIDES) {
            return bad(in, tensor, "\"shape\" has more than 4 sides");
        }
        shape[tensor->rank++] = side->integer;
        if (__builtin_mul_overflow(n_elements, side->integer, &n_elements)) {
            return bad(in, tensor, "\"shape\" has more elements than 64 bits count");
        }
    }
    for (int32_t i = 0; i < MOST_SIDES; i++) {
        tensor->dims[i] = i < tensor->rank ? shape[tensor->rank - 1 - i] : 1;
    }
    if (__builtin_mul_overflow(n_elements, (int64_t)bits, &n_bits) || n_bits % 8 != 0) {
        return bad(in, tensor, "\"shape\" and \"dtype\" do not give a number of bytes");
    }
    tensor->bytes = (size_t)n_bits / 8;
    return COP_OK;
}

static enum cop_status read_offsets(const struct header *in, const struct cop_json_node *node,
                                    struct safetensors_entry *entry)
{
    const struct cop_json_tree *tree = &in->shard->header;
    struct cop_tensor *tensor = &entry->tensor;
    const struct cop_json_node *list;
    enum cop_status status = member(in, node, tensor, "data_offsets", COP_JSON_LIST, &list);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *begin = cop_json_first(tree, list);
    const struct cop_json_node *end = cop_json_after(tree, begin);
    if (!end || cop_json_after(tree, end) || begin->kind != COP_JSON_INTEGER ||
        end->kind != COP_JSON_INTEGER || begin->integer < 0) {
        return bad(in, tensor, "\"data_offsets\" is not a pair of counts");
    }
    char quoted[COP_QUOTE_SIZE];
    (void)cop_quote(quoted, tensor->name.bytes, tensor->name.length);
    if (begin->integer > end->integer || (uint64_t)end->integer > in->size) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\": offsets [%lld, %lld) are not inside the %zu bytes "
                        "of data",
                        file_of(in), quoted, (long long)begin->integer, (long long)end->integer,
                        in->size);
    }
    entry->begin = (size_t)begin->integer;
    entry->end = (size_t)end->integer;
    if (entry->end - entry->begin != tensor->bytes) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\": offsets [%zu, %zu) hold %zu bytes, but %s of its "
                        "shape needs %zu",
                        file_of(in), quoted, entry->begin, entry->end,
                        entry->end - entry->begin, entry->type, tensor->bytes);
    }
    tensor->data = in->data + entry->begin;
    return COP_OK;
}

static enum cop_status read_entry(const struct header *in, const struct cop_json_node *node)
{
    struct cop_safetensors *files = in->files;
    if (!cop_safetensors_grow((void **)&files->entries, files->n_entries,
                              &files->entries_capacity, sizeof *files->entries)) {
        return cop_fail(in->err, COP_ERR_MEMORY, "%s: no memory for its tensors", file_of(in));
    }
    struct safetensors_entry *entry = &files->entries[files->n_entries];
    *entry = (struct safetensors_entry){.tensor = {.name = {node->key, node->key_length}},
                                        .shard = in->number};
    size_t bits = 0;
    if (node->kind != COP_JSON_OBJECT) {
        return bad(in, &entry->tensor, "its description is not an object");
    }
    enum cop_status status = read_type(in, node, entry, &bits);
    if (status == COP_OK) {
        status = read_shape(in, node, &entry->tensor, bits);
    }
    if (status == COP_OK) {
        status = read_offsets(in, node, entry);
    }
    files->n_entries += status == COP_OK;
    return status;
}

static enum cop_status check_metadata(const struct header *in, const struct cop_json_node *node)
{
    const struct cop_json_tree *tree = &in->shard->header;
    bool is_map = node->kind == COP_JSON_OBJECT;
    const struct cop_json_node *child = cop_json_first(tree, node);
    for (; is_map && child; child = cop_json_after(tree, child)) {
        is_map = child->kind == COP_JSON_STRING;
    }
    if (!is_map) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: \"__metadata__\" is not an object of strings", file_of(in));
    }
    return COP_OK;
}

static enum cop_status read_entries(const struct header *in)
{
    static const char metadata[] = "__metadata__";
    const struct cop_json_tree *tree = &in->shard->header;
    const struct cop_json_node *node = cop_json_first(tree, cop_json_root(tree));
    enum cop_status status = COP_OK;
    for (; status == COP_OK && node; node = cop_json_after(tree, node)) {
        bool is_metadata = node->key_length == sizeof metadata - 1 &&
                           memcmp(node->key, metadata, sizeof metadata - 1) == 0;
        status = is_metadata ? check_metadata(in, node) : read_entry(in, node);
    }
    return status;
}

/* ---- The layout -------------------------------------------------------------------------- */

static int by_place(const void *left, const void *right)
{
    const struct safetensors_entry *a = *(const struct safetensors_entry *const *)left;
    const struct safetensors_entry *b = *(const struct safetensors_entry *const *)right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    return a->end < b->end ? -1 : a->end > b->end;
}

static enum cop_status check_order(const struct header *in,
                                   const struct safetensors_entry **entries, size_t count)
{
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        char quoted[COP_QUOTE_SIZE], before[COP_QUOTE_SIZE];
        const struct cop_string *name = &entries[i]->tensor.name;
        (void)cop_quote(quoted, name->bytes, name->length);
        if (entries[i]->begin > end) {
            return cop_fail(in->err, COP_ERR_FORMAT,
                            "%s: a hole of %zu bytes in front of tensor \"%s\"", file_of(in),
                            entries[i]->begin - end, quoted);
        }
        if (entries[i]->begin < end) {
            name = &entries[i - 1]->tensor.name;
            return cop_fail(in->err, COP_ERR_FORMAT,
                            "%s: tensor \"%s\" at %zu overlaps tensor \"%s\", which ends at "
                            "%zu",
                            file_of(in), quoted, entries[i]->begin,
                            cop_quote(before, name->bytes, name->length), end);
        }
        end = entries[i]->end;
    }
    if (end < in->size) {
        return cop_fail(in->err, COP_ERR_FORMAT, "%s: %zu bytes follow the last tensor",
                        file_of(in), in->size - end);
    }
    return COP_OK;
}

static enum cop_status check_layout(const struct header *in, size_t first)
{
    struct cop_safetensors *files = in->files;
    size_t count = files->n_entries - first;
    const struct safetensors_entry **entries = malloc((count + 1) * sizeof *entries);
    if (!entries) {
        return cop_fail(in->err, COP_ERR_MEMORY, "%s: no memory for its tensors", file_of(in));
    }
    for (size_t i = 0; i < count; i++) {
        entries[i] = &files->entries[first + i];
    }
    qsort(entries, count, sizeof *entries, by_place);
    enum cop_status status = check_order(in, entries, count);
    free(entries);
    return status;
}

/* ---- The file ---------------------------------------------------------------------------- */

static enum cop_status read_json(struct header *in)
{
    const struct cop_map *map = &in->shard->map;
    if (map->size < 8) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: %zu bytes are no safetensors file: it begins with the length of "
                        "its header in 8 bytes",
                        file_of(in), map->size);
    }
    uint64_t length = cop_gguf_u64(map->data);
    if (length > map->size - 8) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: the header is said to have %llu bytes, but %zu follow",
                        file_of(in), (unsigned long long)length, map->size - 8);
    }
    const char *text = (const char *)map->data + 8;
    if (length == 0 || text[0] != '{') {
        return cop_fail(in->err, COP_ERR_FORMAT, "%s: the header does not begin with a brace",
                        file_of(in));
    }
    struct cop_error inner = {.text = ""};
    enum cop_status status =
        cop_json_tree_read(&in->shard->header, text, (size_t)length, &inner);
    if (status != COP_OK) {
        return cop_fail(in->err, status, "%s: the header: %.300s", file_of(in), inner.text);
    }
    in->data = map->data + 8 + length;
    in->size = map->size - 8 - (size_t)length;
    return COP_OK;
}

enum cop_status cop_safetensors_read(struct cop_safetensors *files, struct cop_error *err)
{
    struct header in = {.files = files,
                        .shard = &files->shards[files->n_shards - 1],
                        .number = (int32_t)files->n_shards - 1,
                        .err = err};
    size_t first = files->n_entries;
    enum cop_status status = read_json(&in);
    if (status == COP_OK) {
        status = read_entries(&in);
    }
    if (status == COP_OK) {
        status = cop_safetensors_sort(files, err);
    }
    if (status == COP_OK) {
        status = check_layout(&in, first);
    }
    return status;
}
