/* The directory of a zip archive. */
#include "core/files/zip.h"
#include "core/base/quote.h"
#include "core/files/gguf_layout.h"

#include <stdlib.h>
#include <string.h>

/* Signatures and sizes of the records. */
#define LOCAL        0x04034b50u
#define CENTRAL      0x02014b50u
#define END          0x06054b50u
#define END_64       0x06064b50u
#define LOCATOR      0x07064b50u
#define LOCAL_SIZE   30
#define CENTRAL_SIZE 46
#define END_SIZE     22
#define END_64_SIZE  56
#define LOCATOR_SIZE 20
#define MOST_COMMENT 0xFFFF
#define IN_EXTRA     0xFFFFFFFFu /* a 32-bit field whose value stands in the zip64 extra field */
#define ZIP_64_EXTRA 1
#define ENCRYPTED    1
#define STORED       0

struct reader {
    const char *name;
    const uint8_t *data;
    size_t size;
    struct cop_error *err;
    uint64_t n_entries, begin, bytes; /* of the central directory */
};

static uint32_t u16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static enum cop_status bad(const struct reader *in, const char *what)
{
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: %s", in->name, what);
}

static enum cop_status bad_entry(const struct reader *in, struct cop_string name,
                                 const char *what)
{
    char quoted[COP_QUOTE_SIZE];
    return cop_fail(in->err, COP_ERR_FORMAT, "%s: entry \"%s\" %s", in->name,
                    cop_quote(quoted, name.bytes, name.length), what);
}

/* ---- The end ----------------------------------------------------------------------------- */

/* The end record is the last thing in the file but for a comment whose length it tells. */
static const uint8_t *find_end(const struct reader *in)
{
    for (size_t back = END_SIZE; back <= in->size && back <= END_SIZE + MOST_COMMENT; back++) {
        const uint8_t *at = in->data + in->size - back;
        if (cop_gguf_u32(at) == END && u16(at + 20) == back - END_SIZE) {
            return at;
        }
    }
    return NULL;
}

static enum cop_status read_end_64(struct reader *in, const uint8_t *locator)
{
    uint64_t offset = cop_gguf_u64(locator + 8);
    uint64_t room = (uint64_t)(locator - in->data);
    if (room < END_64_SIZE || offset > room - END_64_SIZE ||
        cop_gguf_u32(in->data + offset) != END_64) {
        return bad(in, "the zip64 end of its directory is not where its locator says");
    }
    const uint8_t *end = in->data + offset;
    in->n_entries = cop_gguf_u64(end + 32);
    in->bytes = cop_gguf_u64(end + 40);
    in->begin = cop_gguf_u64(end + 48);
    return COP_OK;
}

static enum cop_status read_end(struct reader *in)
{
    const uint8_t *end = find_end(in);
    if (!end) {
        return bad(in, "its zip directory is missing: the file is cut off, or no zip archive");
    }
    in->n_entries = u16(end + 10);
    in->bytes = cop_gguf_u32(end + 12);
    in->begin = cop_gguf_u32(end + 16);
    size_t before = (size_t)(end - in->data);
    const uint8_t *locator = before >= LOCATOR_SIZE ? end - LOCATOR_SIZE : NULL;
    if (locator && cop_gguf_u32(locator) == LOCATOR) {
        enum cop_status status = read_end_64(in, locator);
        if (status != COP_OK) {
            return status;
        }
    }
    if (in->begin > before || in->bytes > before - in->begin) {
        return cop_fail(in->err, COP_ERR_FORMAT,
                        "%s: its zip directory of %llu bytes at %llu is not inside the %zu "
                        "bytes before its end",
                        in->name, (unsigned long long)in->bytes, (unsigned long long)in->begin,
                        before);
    }
    return in->n_entries <= in->bytes / CENTRAL_SIZE
               ? COP_OK
               : bad(in, "its zip directory claims more entries than it has room for");
}

/* ---- Entries ----------------------------------------------------------------------------- */

/* Sizes and place of an entry, with what its zip64 extra field says of them. */
struct place {
    uint64_t compressed, size, begin;
};

static bool read_place(const uint8_t *record, const uint8_t *extra, size_t n_extra,
                       struct place *place)
{
    place->compressed = cop_gguf_u32(record + 20);
    place->size = cop_gguf_u32(record + 24);
    place->begin = cop_gguf_u32(record + 42);
    uint64_t *fields[] = {&place->size, &place->compressed, &place->begin}; /* in this order */
    while (n_extra >= 4) {
        uint32_t id = u16(extra), length = u16(extra + 2);
        if (length > n_extra - 4) {
            return false;
        }
        const uint8_t *at = extra + 4;
        for (size_t i = 0; id == ZIP_64_EXTRA && i < 3; i++) {
            if (*fields[i] == IN_EXTRA) {
                if (at + 8 > extra + 4 + length) {
                    return false;
                }
                *fields[i] = cop_gguf_u64(at);
                at += 8;
            }
        }
        extra += 4 + length;
        n_extra -= 4 + length;
    }
    return true;
}

/* Where the data of an entry begin: behind its local header, which repeats the name. */
static enum cop_status find_data(const struct reader *in, struct cop_zip_entry *entry,
                                 uint64_t begin)
{
    if (begin > in->begin || in->begin - begin < LOCAL_SIZE ||
        cop_gguf_u32(in->data + begin) != LOCAL) {
        return bad_entry(in, entry->name, "is not where the zip directory says");
    }
    const uint8_t *local = in->data + begin;
    uint64_t room = in->begin - begin - LOCAL_SIZE;
    uint32_t n_name = u16(local + 26), n_extra = u16(local + 28);
    if (n_name != entry->name.length || n_name > room ||
        memcmp(local + LOCAL_SIZE, entry->name.bytes, n_name) != 0) {
        return bad_entry(in, entry->name, "has another name at its place in the file");
    }
    if (n_extra > room - n_name || entry->size > room - n_name - n_extra) {
        return bad_entry(in, entry->name, "reaches past the data of the file");
    }
    entry->begin = (size_t)begin;
    entry->data = local + LOCAL_SIZE + n_name + n_extra;
    return COP_OK;
}

/* *at moves behind the record. */
static enum cop_status read_entry(const struct reader *in, size_t *at,
                                  struct cop_zip_entry *entry)
{
    const uint8_t *record = in->data + *at;
    size_t room = (size_t)(in->begin + in->bytes) - *at;
    if (room < CENTRAL_SIZE || cop_gguf_u32(record) != CENTRAL) {
        return bad(in, "its zip directory is cut off");
    }
    size_t n_name = u16(record + 28), n_extra = u16(record + 30), n_comment = u16(record + 32);
    if (n_name + n_extra + n_comment > room - CENTRAL_SIZE) {
        return bad(in, "its zip directory is cut off");
    }
    *at += CENTRAL_SIZE + n_name + n_extra + n_comment;
    struct place place;
    entry->name = (struct cop_string){(const char *)record + CENTRAL_SIZE, n_name};
    if (!read_place(record, record + CENTRAL_SIZE + n_name, n_extra, &place)) {
        return bad_entry(in, entry->name, "has no size: its zip64 field is cut off");
    }
    if (u16(record + 10) != STORED || (u16(record + 8) & ENCRYPTED) != 0) {
        return bad_entry(in, entry->name,
                         "is compressed or encrypted; PyTorch stores entries as they are");
    }
    if (place.size != place.compressed) {
        return bad_entry(in, entry->name, "has two sizes");
    }
    entry->size = place.size;
    return find_data(in, entry, place.begin);
}

static int by_place(const void *left, const void *right)
{
    const struct cop_zip_entry *a = left, *b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

static enum cop_status check_overlaps(const struct reader *in, const struct cop_zip *zip)
{
    for (size_t i = 1; i < zip->n_entries; i++) {
        const struct cop_zip_entry *before = &zip->entries[i - 1];
        if (before->data + before->size > in->data + zip->entries[i].begin) {
            return bad_entry(in, zip->entries[i].name, "overlaps the one before it");
        }
    }
    return COP_OK;
}

static int by_name(const void *left, const void *right)
{
    const struct cop_zip_entry *a = left, *b = right;
    return cop_gguf_compare(a->name, b->name);
}

static enum cop_status check_names(const struct reader *in, const struct cop_zip *zip)
{
    for (size_t i = 1; i < zip->n_entries; i++) {
        if (by_name(&zip->entries[i - 1], &zip->entries[i]) == 0) {
            return bad_entry(in, zip->entries[i].name, "is there twice");
        }
    }
    return COP_OK;
}

enum cop_status cop_zip_open(struct cop_zip *out, const char *name, const uint8_t *data,
                             size_t size, struct cop_error *err)
{
    struct reader in = {.name = name, .data = data, .size = size, .err = err};
    *out = (struct cop_zip){0};
    enum cop_status status = read_end(&in);
    if (status != COP_OK) {
        return status;
    }
    out->entries = malloc(((size_t)in.n_entries + 1) * sizeof *out->entries);
    if (!out->entries) {
        return cop_fail(err, COP_ERR_MEMORY, "%s: no memory for its directory", name);
    }
    size_t at = (size_t)in.begin;
    for (uint64_t i = 0; status == COP_OK && i < in.n_entries; i++) {
        status = read_entry(&in, &at, &out->entries[out->n_entries++]);
    }
    if (status == COP_OK) {
        qsort(out->entries, out->n_entries, sizeof *out->entries, by_place);
        status = check_overlaps(&in, out);
    }
    if (status == COP_OK) {
        qsort(out->entries, out->n_entries, sizeof *out->entries, by_name);
        status = check_names(&in, out);
    }
    if (status != COP_OK) {
        cop_zip_close(out);
    }
    return status;
}

void cop_zip_close(struct cop_zip *zip)
{
    free(zip->entries);
    *zip = (struct cop_zip){0};
}

const struct cop_zip_entry *cop_zip_find(const struct cop_zip *zip, struct cop_string prefix,
                                         struct cop_string name)
{
    char whole[512];
    size_t length = prefix.length + name.length;
    if (length > sizeof whole || zip->n_entries == 0) {
        return NULL;
    }
    memcpy(whole, prefix.bytes, prefix.length);
    memcpy(whole + prefix.length, name.bytes, name.length);
    const struct cop_zip_entry wanted = {.name = {whole, length}};
    return bsearch(&wanted, zip->entries, zip->n_entries, sizeof *zip->entries, by_name);
}
