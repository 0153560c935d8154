/* Writing, checking and searching a datastore. */
#include "algorithms/history/datastore.h"

#include "algorithms/history/suffix_sort.h"
#include "core/base/hash.h"
#include "core/base/path.h"
#include "core/base/quote.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = {'c', 'o', 'p', 's', 't', 'o', 'r', 'e'};
enum { VERSION = 1, NARROW = 1 << 16, VOCAB_MOST = 1 << 21 };

_Static_assert(sizeof(struct cop_datastore_header) == 64, "the header has no holes");

static uint64_t check_of(const struct cop_datastore_header *header)
{
    return cop_hash_bytes(header, offsetof(struct cop_datastore_header, check), 0);
}

static size_t padded(size_t size)
{
    return (size + 7) / 8 * 8;
}

/* ---- Writing ----------------------------------------------------------------------------- */

/* The ids as the file holds them, in blocks. */
static bool put_tokens(FILE *file, const cop_token *ids, int64_t n, uint32_t bytes)
{
    uint16_t block[4096];
    for (int64_t first = 0; first < n && bytes == 2; first += 4096) {
        size_t count = n - first < 4096 ? (size_t)(n - first) : 4096;
        for (size_t i = 0; i < count; i++) {
            block[i] = (uint16_t)ids[first + (int64_t)i];
        }
        if (fwrite(block, sizeof *block, count, file) != count) {
            return false;
        }
    }
    if (bytes == 4 && fwrite(ids, sizeof *ids, (size_t)n, file) != (size_t)n) {
        return false;
    }
    static const char zeros[8];
    size_t size = (size_t)n * bytes;
    return fwrite(zeros, 1, padded(size) - size, file) == padded(size) - size;
}

static bool put_all(FILE *file, const struct cop_datastore_header *header, const cop_token *ids,
                    const int32_t *suffixes)
{
    size_t n = (size_t)header->n_tokens;
    return fwrite(header, sizeof *header, 1, file) == 1 &&
           put_tokens(file, ids, (int64_t)n, header->token_bytes) &&
           fwrite(suffixes, sizeof *suffixes, n, file) == n && fflush(file) == 0 &&
           fsync(fileno(file)) == 0;
}

static enum cop_status write_file(const char *path, const struct cop_datastore_header *header,
                                  const cop_token *ids, const int32_t *suffixes,
                                  struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    size_t length = strlen(path);
    size_t room = length + 32; /* ".new" and the process that writes it */
    char *fresh = malloc(room);
    if (!fresh) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a path");
    }
    (void)snprintf(fresh, room, "%s.new%ld", path, (long)getpid());
    FILE *file = fopen(fresh, "wb");
    bool is_written = file && put_all(file, header, ids, suffixes);
    int reason = errno;
    if (file && fclose(file) != 0 && is_written) {
        is_written = false;
        reason = errno;
    }
    if (is_written && !cop_path_replace(fresh, path)) {
        is_written = false;
        reason = errno;
    }
    if (file && !is_written) {
        (void)remove(fresh);
    }
    free(fresh);
    return is_written ? COP_OK
                      : cop_fail(err, COP_ERR_IO, "cannot write the datastore \"%s\": %s",
                                 cop_quote(quoted, path, length), strerror(reason));
}

enum cop_status cop_datastore_write(const char *path, const cop_token *ids, int64_t n,
                                    int32_t vocab, uint64_t tokenizer, struct cop_error *err)
{
    if (n < 1 || n > INT32_MAX || vocab < 1 || vocab > VOCAB_MOST) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "a datastore holds 1 to %d tokens of a vocabulary of at most %d, not "
                        "%lld of %d",
                        INT32_MAX, VOCAB_MOST, (long long)n, vocab);
    }
    struct cop_datastore_header header = {.version = VERSION,
                                          .token_bytes = vocab <= NARROW ? 2 : 4,
                                          .n_tokens = (uint64_t)n,
                                          .tokenizer = tokenizer,
                                          .vocab = (uint32_t)vocab,
                                          .order = COP_DATASTORE_ORDER};
    memcpy(header.magic, magic, sizeof magic);
    header.check = check_of(&header);
    int32_t *suffixes = malloc((size_t)n * sizeof *suffixes);
    enum cop_status status =
        suffixes ? cop_suffix_sort(ids, (int32_t)n, vocab, COP_DATASTORE_ORDER, suffixes, err)
                 : cop_fail(err, COP_ERR_MEMORY, "no memory for %lld suffixes", (long long)n);
    if (status == COP_OK) {
        status = write_file(path, &header, ids, suffixes, err);
    }
    free(suffixes);
    return status;
}

/* ---- Opening ----------------------------------------------------------------------------- */

static enum cop_status check_header(const struct cop_map *map, const char *name,
                                    struct cop_error *err)
{
    const struct cop_datastore_header *h = (const void *)map->data;
    if (map->size < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0) {
        return cop_fail(err, COP_ERR_FORMAT, "\"%s\" is not a datastore", name);
    }
    if (h->version != VERSION) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "\"%s\" is a datastore of version %u; this program reads version %d: "
                        "build it again with cop.datastore",
                        name, h->version, VERSION);
    }
    bool is_sound = h->check == check_of(h) && (h->token_bytes == 2 || h->token_bytes == 4) &&
                    h->n_tokens >= 1 && h->n_tokens <= INT32_MAX && h->vocab >= 1 &&
                    h->vocab <= VOCAB_MOST && h->order >= 2 && h->order <= 4096;
    if (!is_sound) {
        return cop_fail(err, COP_ERR_FORMAT, "\"%s\" has a damaged header", name);
    }
    size_t size = sizeof *h + padded((size_t)h->n_tokens * h->token_bytes) +
                  (size_t)h->n_tokens * sizeof(int32_t);
    return map->size == size
               ? COP_OK
               : cop_fail(err, COP_ERR_FORMAT,
                          "\"%s\" has %zu bytes and should have %zu: it is %s", name, map->size,
                          size, map->size < size ? "cut short" : "too long");
}

enum cop_status cop_datastore_open(struct cop_datastore *store, const char *path,
                                   struct cop_error *err)
{
    char quoted[COP_QUOTE_SIZE];
    *store = (struct cop_datastore){0};
    enum cop_status status = cop_map_open(&store->map, path, err);
    if (status == COP_OK) {
        status = check_header(&store->map, cop_quote(quoted, path, strlen(path)), err);
    }
    if (status != COP_OK) {
        cop_datastore_close(store);
        return status;
    }
    const uint8_t *data = store->map.data;
    store->header = (const void *)data;
    store->tokens = data + sizeof *store->header;
    store->suffixes =
        (const void *)(data + sizeof *store->header +
                       padded((size_t)store->header->n_tokens * store->header->token_bytes));
    return COP_OK;
}

void cop_datastore_close(struct cop_datastore *store)
{
    cop_map_close(&store->map);
    *store = (struct cop_datastore){0};
}

/* ---- Searching --------------------------------------------------------------------------- */

cop_token cop_datastore_token(const struct cop_datastore *store, int64_t at)
{
    const struct cop_datastore_header *h = store->header;
    if (at < 0 || at >= (int64_t)h->n_tokens) {
        return -1;
    }
    uint32_t id = h->token_bytes == 2 ? ((const uint16_t *)store->tokens)[at]
                                      : ((const uint32_t *)store->tokens)[at];
    return id < h->vocab ? (cop_token)id : -1;
}

static cop_token token_of(const struct cop_datastore *store, int32_t suffix, int32_t depth)
{
    int64_t place = store->suffixes[suffix];
    return place < 0 ? -1 : cop_datastore_token(store, place + depth);
}

/* Below, equal to or above ids[0..n): -1, 0, 1. */
static int compare(const struct cop_datastore *store, int32_t suffix, const cop_token *ids,
                   int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        cop_token token = token_of(store, suffix, i);
        if (token != ids[i]) {
            return token < ids[i] ? -1 : 1;
        }
    }
    return 0;
}

/* The first suffix from `low` on that compares at least (above: more than) equal. */
static int32_t bound(const struct cop_datastore *store, const cop_token *ids, int32_t n,
                     int32_t low, bool above)
{
    int32_t high = (int32_t)store->header->n_tokens;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (compare(store, middle, ids, n) < (above ? 1 : 0)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct cop_range cop_datastore_find(const struct cop_datastore *store, const cop_token *ids,
                                    int32_t n)
{
    int32_t low = bound(store, ids, n, 0, false);
    bool is_there = low < (int32_t)store->header->n_tokens && compare(store, low, ids, n) == 0;
    return (struct cop_range){low, is_there ? bound(store, ids, n, low, true) : low};
}

/* The places lie all over the text: their lines are sent for ahead. */
void cop_datastore_read(const struct cop_datastore *store, struct cop_range range,
                        int32_t depth, cop_token *out)
{
    enum { AHEAD = 24 };
    const int32_t *places = store->suffixes + range.low;
    int32_t n = range.high - range.low;
    uint64_t size = store->header->n_tokens;
    for (int32_t i = 0; i < n; i++) {
        int64_t ahead = (int64_t)places[i + AHEAD < n ? i + AHEAD : i] + depth;
        if (ahead >= 0 && (uint64_t)ahead < size) {
            __builtin_prefetch((const char *)store->tokens +
                               (size_t)ahead * store->header->token_bytes);
        }
        out[i] = token_of(store, range.low + i, depth);
    }
}
