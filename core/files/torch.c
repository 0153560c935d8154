/* A PyTorch file as a table of tensors. */
#include "core/files/torch.h"
#include "core/base/quote.h"
#include "core/files/gguf_layout.h"
#include "core/files/torch_pickle.h"
#include "core/files/zip.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIDES 4

struct entry {
    struct cop_tensor tensor; /* first: a tensor of ours is an entry */
    const char *type;
};

struct cop_torch {
    char *path;
    struct cop_map map;
    bool owns_map;
    struct cop_zip zip;
    struct cop_string prefix; /* "<archive>/" */
    struct torch_pickle pickle;
    struct entry *entries; /* sorted by name */
    size_t n_entries;
};

static const char *name_of(const struct cop_torch *file)
{
    return cop_path_tail(file->path, 160);
}

static struct cop_string text(const char *bytes)
{
    return (struct cop_string){bytes, strlen(bytes)};
}

/* ---- One tensor -------------------------------------------------------------------------- */

static enum cop_status bad(const struct cop_torch *file, struct cop_string tensor,
                           enum cop_status code, struct cop_error *err, const char *what)
{
    char quoted[COP_QUOTE_SIZE];
    return cop_fail(err, code, "%s: tensor \"%s\" %s", name_of(file),
                    cop_quote(quoted, tensor.bytes, tensor.length), what);
}

/* Bytes of a storage that hold `numbers` of them. */
static enum cop_status find_storage(const struct cop_torch *file,
                                    const struct torch_value *storage, struct cop_string tensor,
                                    const struct cop_zip_entry **out, struct cop_error *err)
{
    struct cop_string prefix = file->prefix,
                      key = cop_torch_item(&file->pickle, storage, 2)->of.string;
    int64_t numbers = cop_torch_item(&file->pickle, storage, 4)->of.integer;
    const struct torch_type *type = cop_torch_type(cop_torch_item(&file->pickle, storage, 1));
    char place[COP_QUOTE_SIZE], quoted[COP_QUOTE_SIZE], path[256];
    bool is_short = prefix.length + 5 + key.length <= sizeof path;
    *out = NULL;
    if (is_short) {
        memcpy(path, prefix.bytes, prefix.length);
        memcpy(path + prefix.length, "data/", 5);
        *out = cop_zip_find(&file->zip, (struct cop_string){path, prefix.length + 5}, key);
    }
    if (!*out) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\": its storage \"%s\" is missing from the file",
                        name_of(file), cop_quote(quoted, tensor.bytes, tensor.length),
                        cop_quote(place, key.bytes, key.length));
    }
    if (numbers < 0 || (uint64_t)numbers != (*out)->size / type->bytes ||
        (*out)->size % type->bytes != 0) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: tensor \"%s\": its storage \"%s\" is said to hold %lld numbers of "
                        "%s, and has %zu bytes",
                        name_of(file), cop_quote(quoted, tensor.bytes, tensor.length),
                        cop_quote(place, key.bytes, key.length), (long long)numbers, type->name,
                        (*out)->size);
    }
    return COP_OK;
}

/* The sides of a tensor, fastest first. Strides must be those of rows one behind the other;
 * that of a side of one is never used. */
static enum cop_status read_shape(const struct cop_torch *file, const struct torch_value *value,
                                  struct cop_tensor *tensor, int64_t *n_numbers,
                                  struct cop_error *err)
{
    const struct torch_value *sizes = cop_torch_item(&file->pickle, value, 2);
    const struct torch_value *strides = cop_torch_item(&file->pickle, value, 3);
    if (sizes->count != strides->count || sizes->count > MOST_SIDES) {
        return bad(file, tensor->name, COP_ERR_FORMAT, err,
                   sizes->count > MOST_SIDES ? "has more than 4 sides"
                                             : "has other numbers of sides and of strides");
    }
    tensor->rank = sizes->count;
    *n_numbers = 1;
    for (int32_t i = 0; i < MOST_SIDES; i++) {
        tensor->dims[i] = 1;
    }
    bool is_plain = true;
    for (int32_t i = 0; i < sizes->count; i++) {
        const struct torch_value *size =
            cop_torch_item(&file->pickle, sizes, sizes->count - 1 - i);
        const struct torch_value *stride =
            cop_torch_item(&file->pickle, strides, sizes->count - 1 - i);
        if (size->kind != TORCH_INT || stride->kind != TORCH_INT || size->of.integer < 0) {
            return bad(file, tensor->name, COP_ERR_FORMAT, err, "has a side that is no count");
        }
        is_plain &= size->of.integer <= 1 || stride->of.integer == *n_numbers;
        tensor->dims[i] = size->of.integer;
        if (__builtin_mul_overflow(*n_numbers, size->of.integer, n_numbers)) {
            return bad(file, tensor->name, COP_ERR_FORMAT, err,
                       "has more numbers than 64 bits count");
        }
    }
    return is_plain || *n_numbers == 0
               ? COP_OK
               : bad(file, tensor->name, COP_ERR_FORMAT, err,
                     "has rows that do not lie one behind the other; save it after "
                     ".contiguous()");
}

static enum cop_status read_tensor(const struct cop_torch *file,
                                   const struct torch_value *value, struct entry *entry,
                                   struct cop_error *err)
{
    const struct torch_value *storage = cop_torch_item(&file->pickle, value, 0);
    const struct torch_type *type = cop_torch_type(cop_torch_item(&file->pickle, storage, 1));
    int64_t offset = cop_torch_item(&file->pickle, value, 1)->of.integer, n_numbers = 0;
    struct cop_tensor *tensor = &entry->tensor;
    const struct cop_zip_entry *bytes;
    enum cop_status status = find_storage(file, storage, tensor->name, &bytes, err);
    if (status == COP_OK) {
        status = read_shape(file, value, tensor, &n_numbers, err);
    }
    if (status != COP_OK) {
        return status;
    }
    int64_t has = (int64_t)(bytes->size / type->bytes);
    if (offset < 0 || offset > has || n_numbers > has - offset) {
        char quoted[COP_QUOTE_SIZE];
        return cop_fail(
            err, COP_ERR_FORMAT,
            "%s: tensor \"%s\": %lld numbers from %lld on are not inside its storage "
            "of %lld",
            name_of(file), cop_quote(quoted, tensor->name.bytes, tensor->name.length),
            (long long)n_numbers, (long long)offset, (long long)has);
    }
    entry->type = type->name;
    tensor->format = type->format;
    tensor->data = bytes->data + (size_t)offset * type->bytes;
    tensor->bytes = (size_t)n_numbers * type->bytes;
    return COP_OK;
}

/* ---- All of them ------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    return cop_gguf_compare(a->tensor.name, b->tensor.name);
}

static enum cop_status add(struct cop_torch *file, struct cop_string name,
                           const struct torch_value *value, struct cop_error *err)
{
    struct entry *entry = &file->entries[file->n_entries];
    *entry = (struct entry){.tensor = {.name = name}};
    enum cop_status status = read_tensor(file, value, entry, err);
    file->n_entries += status == COP_OK;
    return status;
}

static enum cop_status add_pair(struct cop_torch *file, const struct torch_value *key,
                                const struct torch_value *value, struct cop_error *err)
{
    if (key->kind != TORCH_STRING) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: a key of its dictionary is no name",
                        name_of(file));
    }
    if (value->kind != TORCH_TENSOR) {
        char quoted[COP_QUOTE_SIZE];
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: \"%s\" is no tensor; a dictionary of tensors is read: save the "
                        "state_dict alone",
                        name_of(file),
                        cop_quote(quoted, key->of.string.bytes, key->of.string.length));
    }
    return add(file, key->of.string, value, err);
}

static enum cop_status add_dictionary(struct cop_torch *file, const struct torch_value *root,
                                      struct cop_error *err)
{
    const struct torch_pickle *pickle = &file->pickle;
    enum cop_status status = COP_OK;
    for (int32_t cell = root->first; status == COP_OK && cell != TORCH_NOTHING;) {
        const struct torch_cell *key = &pickle->cells[cell];
        const struct torch_cell *value = &pickle->cells[key->next];
        status =
            add_pair(file, &pickle->values[key->value], &pickle->values[value->value], err);
        cell = value->next;
    }
    if (status != COP_OK) {
        return status;
    }
    qsort(file->entries, file->n_entries, sizeof *file->entries, compare);
    for (size_t i = 1; i < file->n_entries; i++) {
        if (compare(&file->entries[i - 1], &file->entries[i]) == 0) {
            return bad(file, file->entries[i].tensor.name, COP_ERR_FORMAT, err,
                       "is there twice");
        }
    }
    return COP_OK;
}

static enum cop_status add_tensors(struct cop_torch *file, struct cop_error *err)
{
    const struct torch_value *root = &file->pickle.values[file->pickle.root];
    size_t most = root->kind == TORCH_DICT ? (size_t)root->count / 2 : 1;
    file->entries = malloc((most + 1) * sizeof *file->entries);
    if (!file->entries) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for its tensors", name_of(file));
    }
    switch (root->kind) {
    case TORCH_DICT: return add_dictionary(file, root, err);
    case TORCH_TENSOR: return add(file, text(""), root, err);
    case TORCH_LIST: return COP_OK;
    case TORCH_NONE:
    case TORCH_BOOL:
    case TORCH_INT:
    case TORCH_NUMBER:
    case TORCH_STRING:
    case TORCH_TUPLE:
    case TORCH_GLOBAL:
    case TORCH_STORAGE: break;
    }
    return cop_fail(err, COP_ERR_FORMAT,
                    "%s: holds neither a dictionary of tensors nor a list; save the state_dict",
                    name_of(file));
}

/* ---- The file ---------------------------------------------------------------------------- */

/* Before 1.6, torch.save wrote pickles one behind the other, the first of them this number. */
static bool is_legacy(const struct cop_map *map)
{
    static const uint8_t magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c,
                                    0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    return map->size >= sizeof magic && memcmp(map->data, magic, sizeof magic) == 0;
}

static enum cop_status refuse_legacy(const struct cop_torch *file, struct cop_error *err)
{
    return cop_fail(
        err, COP_ERR_FORMAT,
        "%s: written in PyTorch's format from before 1.6, which is not read; write it "
        "anew: python3 -c \"import torch; f = 'FILE'; torch.save(torch.load(f, "
        "map_location='cpu', weights_only=True), f)\"",
        name_of(file));
}

/* The archive's name is that of the file as it was saved, or "archive". */
static const struct cop_zip_entry *find_pickle(struct cop_torch *file)
{
    static const char suffix[] = "/data.pkl";
    size_t length = sizeof suffix - 1;
    const struct cop_zip_entry *found = NULL;
    for (size_t i = 0; i < file->zip.n_entries && !found; i++) {
        const struct cop_string *name = &file->zip.entries[i].name;
        if (name->length > length &&
            memcmp(name->bytes + name->length - length, suffix, length) == 0) {
            found = &file->zip.entries[i];
            file->prefix = (struct cop_string){name->bytes, name->length - length + 1};
        }
    }
    return found;
}

static enum cop_status check_byteorder(const struct cop_torch *file, struct cop_error *err)
{
    const struct cop_zip_entry *entry =
        cop_zip_find(&file->zip, file->prefix, text("byteorder"));
    bool is_little = !entry || (entry->size == 6 && memcmp(entry->data, "little", 6) == 0);
    return is_little
               ? COP_OK
               : cop_fail(err, COP_ERR_FORMAT,
                          "%s: its numbers are not little-endian; save it on another machine",
                          name_of(file));
}

static enum cop_status read_file(struct cop_torch *file, struct cop_error *err)
{
    if (is_legacy(&file->map)) {
        return refuse_legacy(file, err);
    }
    enum cop_status status =
        cop_zip_open(&file->zip, name_of(file), file->map.data, file->map.size, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_zip_entry *pickle = find_pickle(file);
    if (!pickle) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: is no file of torch.save: it has no data.pkl",
                        name_of(file));
    }
    status = check_byteorder(file, err);
    if (status == COP_OK) {
        status = cop_torch_pickle_read(&file->pickle, name_of(file), pickle->data, pickle->size,
                                       err);
    }
    return status == COP_OK ? add_tensors(file, err) : status;
}

static enum cop_status open_any(struct cop_torch **out, const char *path,
                                const struct cop_map *memory, struct cop_error *err)
{
    *out = NULL;
    struct cop_torch *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a PyTorch file");
    }
    file->owns_map = !memory;
    file->map = memory ? *memory : (struct cop_map){0};
    enum cop_status status = memory ? COP_OK : cop_map_open(&file->map, path, err);
    if (status == COP_OK) {
        status = read_file(file, err);
    }
    if (status != COP_OK) {
        cop_torch_close(file);
        return status;
    }
    *out = file;
    return COP_OK;
}

enum cop_status cop_torch_open(struct cop_torch **out, const char *path, struct cop_error *err)
{
    return open_any(out, path, NULL, err);
}

enum cop_status cop_torch_open_memory(struct cop_torch **out, const char *name,
                                      const void *data, size_t size, struct cop_error *err)
{
    const struct cop_map memory = {.data = data, .size = size};
    return open_any(out, name, &memory, err);
}

void cop_torch_close(struct cop_torch *file)
{
    if (!file) {
        return;
    }
    cop_torch_pickle_release(&file->pickle);
    cop_zip_close(&file->zip);
    if (file->owns_map) {
        cop_map_close(&file->map);
    }
    free(file->entries);
    free(file->path);
    free(file);
}

/* ---- Asking ------------------------------------------------------------------------------ */

const char *cop_torch_path(const struct cop_torch *file)
{
    return file->path;
}

size_t cop_torch_bytes(const struct cop_torch *file)
{
    return file->map.size;
}

const struct cop_tensor *cop_torch_tensor(const struct cop_torch *file, const char *name)
{
    const struct entry wanted = {.tensor = {.name = text(name)}};
    const struct entry *found =
        file->n_entries == 0
            ? NULL
            : bsearch(&wanted, file->entries, file->n_entries, sizeof *file->entries, compare);
    return found ? &found->tensor : NULL;
}

size_t cop_torch_count(const struct cop_torch *file)
{
    return file->n_entries;
}

const struct cop_tensor *cop_torch_at(const struct cop_torch *file, size_t index)
{
    return &file->entries[index].tensor;
}

const char *cop_torch_type_name(const struct cop_torch *file, const struct cop_tensor *tensor)
{
    const struct entry wanted = {.tensor = {.name = tensor->name}};
    const struct entry *found =
        bsearch(&wanted, file->entries, file->n_entries, sizeof *file->entries, compare);
    return found ? found->type : "";
}

/* ---- Lists of integers ------------------------------------------------------------------- */

/* Little-endian, signed, `width` bytes. */
static int64_t read_integer(const uint8_t *at, size_t width)
{
    uint64_t bits = width == 8 ? cop_gguf_u64(at) : cop_gguf_u32(at);
    int64_t value;
    if (width == 4 && bits >> 31) {
        bits |= ~(uint64_t)0 << 32;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool list_integers(const struct torch_pickle *pickle, const struct torch_value *root,
                          int64_t *out)
{
    for (int32_t cell = root->first; cell != TORCH_NOTHING; cell = pickle->cells[cell].next) {
        const struct torch_value *value = &pickle->values[pickle->cells[cell].value];
        if (value->kind != TORCH_INT) {
            return false;
        }
        *out++ = value->of.integer;
    }
    return true;
}

enum cop_status cop_torch_integers(const struct cop_torch *file, int64_t **out, size_t *count,
                                   struct cop_error *err)
{
    const struct torch_value *root = &file->pickle.values[file->pickle.root];
    const struct entry *entry = root->kind == TORCH_TENSOR ? &file->entries[0] : NULL;
    bool is_tensor = entry && entry->tensor.rank == 1 &&
                     (strcmp(entry->type, "I64") == 0 || strcmp(entry->type, "I32") == 0);
    *out = NULL;
    *count = is_tensor ? (size_t)entry->tensor.dims[0] : (size_t)root->count;
    bool is_list = is_tensor || root->kind == TORCH_LIST;
    if (is_list && !(*out = malloc((*count + 1) * sizeof **out))) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for its integers", name_of(file));
    }
    for (size_t i = 0; is_tensor && i < *count; i++) {
        size_t width = entry->tensor.bytes / *count;
        (*out)[i] = read_integer((const uint8_t *)entry->tensor.data + i * width, width);
    }
    if (is_list && !is_tensor) {
        is_list = list_integers(&file->pickle, root, *out);
    }
    if (!is_list) {
        free(*out);
        *out = NULL;
        return cop_fail(err, COP_ERR_FORMAT,
                        "%s: holds neither a list of integers nor one tensor of them",
                        name_of(file));
    }
    return COP_OK;
}
