/* Reading the training data of a file. */
#include "algorithms/train/corpus.h"
#include "algorithms/train/corpus_file.h"
#include "core/base/hash.h"
#include "core/base/quote.h"

#include <stdlib.h>
#include <string.h>

size_t cop_corpus_record_bytes(const struct cop_corpus_header *header, int32_t n)
{
    size_t rows = (size_t)n, labels = (size_t)header->labels;
    size_t states = (size_t)header->n_layers * rows * (size_t)header->width;
    size_t bytes = sizeof(struct cop_corpus_mark) +
                   rows * (sizeof(cop_token) + labels * (sizeof(cop_token) + sizeof(float))) +
                   states * sizeof(uint16_t);
    return (bytes + 7) / 8 * 8 + sizeof(uint64_t);
}

uint64_t cop_corpus_header_hash(const struct cop_corpus_header *header)
{
    return cop_hash_bytes(header, offsetof(struct cop_corpus_header, hash), COP_CORPUS_VERSION);
}

static bool is_text(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static enum cop_status check_header(const struct cop_corpus *corpus, const char *name,
                                    struct cop_error *err)
{
    const struct cop_corpus_header *header = &corpus->header;
    if (corpus->map.size < sizeof *header ||
        memcmp(header->magic, COP_CORPUS_MAGIC, sizeof header->magic) != 0) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: no training data of this program", name);
    }
    if (header->version != COP_CORPUS_VERSION) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: training data of version %u, known is %d",
                        name, header->version, COP_CORPUS_VERSION);
    }
    bool is_sane = header->hash == cop_corpus_header_hash(header) && header->width >= 1 &&
                   header->width <= 1 << 20 && header->vocab >= 1 &&
                   header->labels == COP_CORPUS_LABELS && header->n_layers >= 1 &&
                   header->n_layers <= COP_CORPUS_LAYERS &&
                   is_text(header->target, sizeof header->target) &&
                   is_text(header->recipe, sizeof header->recipe);
    return is_sane ? COP_OK : cop_fail(err, COP_ERR_FORMAT, "%s: the header is damaged", name);
}

/* The record at `at`; false: it is not whole. */
static bool read_record(const struct cop_corpus *corpus, size_t at,
                        struct cop_corpus_record *out, size_t *bytes)
{
    const struct cop_corpus_header *header = &corpus->header;
    struct cop_corpus_mark mark;
    if (corpus->map.size - at < sizeof mark) {
        return false;
    }
    const uint8_t *from = corpus->map.data + at;
    memcpy(&mark, from, sizeof mark);
    if (mark.mark != COP_CORPUS_MARK || mark.n < 1 || mark.n > COP_CORPUS_ROWS ||
        mark.n_prompt < 0 || mark.n_prompt > mark.n) {
        return false;
    }
    *bytes = cop_corpus_record_bytes(header, mark.n);
    if (corpus->map.size - at < *bytes) {
        return false;
    }
    uint64_t hash;
    memcpy(&hash, from + *bytes - sizeof hash, sizeof hash);
    if (hash != cop_hash_bytes(from, *bytes - sizeof hash, COP_CORPUS_VERSION)) {
        return false;
    }
    size_t rows = (size_t)mark.n, labels = (size_t)header->labels;
    const void *tokens = from + sizeof mark; /* records begin at multiples of 8 */
    *out = (struct cop_corpus_record){
        .index = mark.index, .n = mark.n, .n_prompt = mark.n_prompt, .tokens = tokens};
    out->ids = out->tokens + rows;
    out->logits = (const float *)(const void *)(out->ids + rows * labels);
    out->states = (const uint16_t *)(const void *)(out->logits + rows * labels);
    for (size_t i = 0; i < rows * (labels + 1); i++) {
        if (out->tokens[i] < 0 || out->tokens[i] >= header->vocab) {
            return false;
        }
    }
    return true;
}

static enum cop_status read_records(struct cop_corpus *corpus, struct cop_error *err)
{
    size_t capacity = 0, at = sizeof corpus->header, bytes = 0;
    struct cop_corpus_record record;
    while (at < corpus->map.size && corpus->n < INT32_MAX &&
           read_record(corpus, at, &record, &bytes)) {
        if ((size_t)corpus->n == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct cop_corpus_record *more = realloc(corpus->records, capacity * sizeof *more);
            if (!more) {
                return cop_fail(err, COP_ERR_MEMORY, "no memory for %zu texts", capacity);
            }
            corpus->records = more;
        }
        corpus->records[corpus->n++] = record;
        at += bytes;
    }
    corpus->whole_bytes = at;
    return COP_OK;
}

enum cop_status cop_corpus_open(struct cop_corpus *out, const char *path, struct cop_error *err)
{
    *out = (struct cop_corpus){0};
    enum cop_status status = cop_map_open(&out->map, path, err);
    if (status != COP_OK) {
        return status;
    }
    if (out->map.size >= sizeof out->header) {
        memcpy(&out->header, out->map.data, sizeof out->header);
    }
    status = check_header(out, cop_path_tail(path, 200), err);
    if (status == COP_OK) {
        status = read_records(out, err);
    }
    if (status != COP_OK) {
        cop_corpus_close(out);
    }
    return status;
}

void cop_corpus_close(struct cop_corpus *corpus)
{
    free(corpus->records);
    cop_map_close(&corpus->map);
    *corpus = (struct cop_corpus){0};
}

int32_t cop_corpus_layer(const struct cop_corpus *corpus, int32_t layer)
{
    for (int32_t i = 0; i < corpus->header.n_layers; i++) {
        if (corpus->header.layers[i] == layer) {
            return i;
        }
    }
    return -1;
}
