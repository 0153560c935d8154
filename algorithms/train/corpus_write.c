/* Writing training data: the target reads a text once, and its states and likeliest tokens go
 * to the file. */
#include "algorithms/train/corpus_file.h"
#include "core/base/hash.h"
#include "core/base/quote.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { CHUNK = 128 }; /* tokens of a pass: its logits are held at once */

struct cop_corpus_writer {
    struct cop_model *target;
    struct cop_corpus_header header;
    FILE *file;
    char name[201];
    struct cop_cache *cache;
    float *logits, *hidden; /* of a chunk */
    int32_t *chain;         /* -1, 0, 1, … */
    uint8_t *record;
    size_t capacity;
};

static enum cop_status fail_io(const struct cop_corpus_writer *writer, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_IO, "cannot write \"%s\": %s", writer->name, strerror(errno));
}

/* ---- Beginning, or going on ---------------------------------------------------------------
 */

static void fill_header(struct cop_corpus_header *header,
                        const struct cop_corpus_source *source)
{
    const struct cop_model_info *info = cop_model_info(source->target);
    memset(header, 0, sizeof *header);
    memcpy(header->magic, COP_CORPUS_MAGIC, sizeof header->magic);
    header->version = COP_CORPUS_VERSION;
    header->width = info->hidden_size;
    header->vocab = info->vocab_size;
    header->labels = COP_CORPUS_LABELS;
    header->n_layers = source->n_layers;
    memcpy(header->layers, source->layers, sizeof header->layers);
    (void)snprintf(header->target, COP_CORPUS_NAME, "%s", source->fingerprint);
    (void)snprintf(header->recipe, COP_CORPUS_NAME, "%s", source->recipe);
    header->hash = cop_corpus_header_hash(header);
}

static enum cop_status check_same(const struct cop_corpus_writer *writer,
                                  const struct cop_corpus *corpus, struct cop_error *err)
{
    const struct cop_corpus_header *want = &writer->header, *have = &corpus->header;
    if (strcmp(have->target, want->target) != 0 || have->width != want->width ||
        have->vocab != want->vocab) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "\"%s\" holds training data of another target: give another `cache` or "
                        "remove it",
                        writer->name);
    }
    if (strcmp(have->recipe, want->recipe) != 0) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "\"%s\" was made of other data or with other options: give another "
                        "`cache` or remove it",
                        writer->name);
    }
    for (int32_t i = 0; i < want->n_layers; i++) {
        if (cop_corpus_layer(corpus, want->layers[i]) < 0) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "\"%s\" lacks the states of layer %d, which this head reads: give "
                            "another `cache`, or remove it and set `taps` from the start",
                            writer->name, want->layers[i]);
        }
    }
    return COP_OK;
}

/* Of two writers the second is refused; a file system without locks has none that are held. */
static enum cop_status hold(const struct cop_corpus_writer *writer, struct cop_error *err)
{
    return flock(fileno(writer->file), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "another training writes \"%s\" now: give another `cache`, or wait "
                          "until it is whole",
                          writer->name);
}

static enum cop_status go_on(struct cop_corpus_writer *writer, const char *path, int32_t *next,
                             struct cop_error *err)
{
    struct cop_corpus corpus;
    writer->file = fopen(path, "r+be");
    enum cop_status status = writer->file ? hold(writer, err) : fail_io(writer, err);
    if (status == COP_OK) {
        status = cop_corpus_open(&corpus, path, err);
    }
    if (status != COP_OK) {
        return status;
    }
    status = check_same(writer, &corpus, err);
    *next = corpus.n > 0 ? corpus.records[corpus.n - 1].index + 1 : 0;
    size_t bytes = corpus.whole_bytes;
    writer->header = corpus.header; /* its layers may be more */
    cop_corpus_close(&corpus);
    if (status != COP_OK) {
        return status;
    }
    bool is_fine = ftruncate(fileno(writer->file), (off_t)bytes) == 0 &&
                   fseeko(writer->file, (off_t)bytes, SEEK_SET) == 0;
    return is_fine ? COP_OK : fail_io(writer, err);
}

/* The file has its name when its header is whole, and is never replaced: who holds it, and who
 * comes too late to begin it, have the same one. */
static enum cop_status begin(struct cop_corpus_writer *writer, const char *path, int32_t *next,
                             struct cop_error *err)
{
    char beside[4096];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new%ld", path, (long)getpid()) >=
        sizeof beside) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the path of the training data is too long");
    }
    writer->file = fopen(beside, "wbe");
    bool is_fine = writer->file && hold(writer, err) == COP_OK &&
                   fwrite(&writer->header, sizeof writer->header, 1, writer->file) == 1 &&
                   fflush(writer->file) == 0 &&
                   (link(beside, path) == 0 ||
                    (errno != EEXIST && rename(beside, path) == 0)); /* no links here */
    int reason = errno;
    (void)unlink(beside);
    if (!is_fine && reason == EEXIST) {
        (void)fclose(writer->file);
        return go_on(writer, path, next, err);
    }
    errno = reason;
    return is_fine ? COP_OK : fail_io(writer, err);
}

static enum cop_status make_room(struct cop_corpus_writer *writer, struct cop_error *err)
{
    size_t hidden = (size_t)writer->header.n_layers * (size_t)writer->header.width;
    writer->logits = malloc((size_t)CHUNK * (size_t)writer->header.vocab * sizeof(float));
    writer->hidden = malloc((size_t)CHUNK * hidden * sizeof(float));
    writer->chain = malloc((CHUNK + 1) * sizeof *writer->chain);
    if (!writer->logits || !writer->hidden || !writer->chain) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the rows of %d tokens", CHUNK);
    }
    for (int32_t i = 0; i <= CHUNK; i++) {
        writer->chain[i] = i - 1;
    }
    return cop_model_cache_new(writer->target, 1, CHUNK, &writer->cache, err);
}

enum cop_status cop_corpus_writer_open(struct cop_corpus_writer **out, const char *path,
                                       const struct cop_corpus_source *source, int32_t *next,
                                       struct cop_error *err)
{
    *out = NULL;
    *next = 0;
    struct cop_corpus_writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to write training data");
    }
    writer->target = source->target;
    fill_header(&writer->header, source);
    (void)snprintf(writer->name, sizeof writer->name, "%s", cop_path_tail(path, 200));
    enum cop_status status = access(path, F_OK) == 0 ? go_on(writer, path, next, err)
                                                     : begin(writer, path, next, err);
    if (status == COP_OK) {
        status = make_room(writer, err);
    }
    if (status != COP_OK) {
        (void)cop_corpus_writer_close(writer, NULL);
        return status;
    }
    *out = writer;
    return COP_OK;
}

enum cop_status cop_corpus_writer_close(struct cop_corpus_writer *writer, struct cop_error *err)
{
    if (!writer) {
        return COP_OK;
    }
    enum cop_status status = COP_OK;
    if (writer->file && fclose(writer->file) != 0) {
        status = fail_io(writer, err);
    }
    cop_cache_free(writer->cache);
    free(writer->logits);
    free(writer->hidden);
    free(writer->chain);
    free(writer->record);
    free(writer);
    return status;
}

/* ---- One text -----------------------------------------------------------------------------
 */

/* The k largest, best first, ties to the lowest id. */
static void find_best(const float *row, int32_t vocab, int32_t k, cop_token *ids, float *logits)
{
    int32_t n = 0;
    for (cop_token id = 0; id < vocab; id++) {
        if (n == k && !(row[id] > logits[k - 1])) {
            continue;
        }
        int32_t at = n < k ? n++ : k - 1;
        for (; at > 0 && row[id] > logits[at - 1]; at--) {
            ids[at] = ids[at - 1];
            logits[at] = logits[at - 1];
        }
        ids[at] = id;
        logits[at] = row[id];
    }
    for (; n < k; n++) { /* a vocabulary smaller than k */
        ids[n] = ids[0];
        logits[n] = -INFINITY;
    }
    float best = logits[0];
    for (int32_t i = 0; i < k; i++) {
        logits[i] -= best;
    }
}

struct places { /* in the record that is being made */
    cop_token *tokens, *ids;
    float *logits;
    uint16_t *states;
};

static struct places places_of(const struct cop_corpus_writer *writer, int32_t n)
{
    struct places places;
    size_t rows = (size_t)n, labels = (size_t)writer->header.labels;
    void *tokens = writer->record + sizeof(struct cop_corpus_mark);
    places.tokens = tokens;
    places.ids = places.tokens + rows;
    places.logits = (float *)(void *)(places.ids + rows * labels);
    places.states = (uint16_t *)(void *)(places.logits + rows * labels);
    return places;
}

/* Rows [first, first + size) of a text of n. */
static enum cop_status take_rows(struct cop_corpus_writer *writer, const struct places *to,
                                 int32_t first, int32_t size, int32_t n, struct cop_error *err)
{
    const struct cop_corpus_header *header = &writer->header;
    size_t width = (size_t)header->width, vocab = (size_t)header->vocab;
    for (int32_t i = 0; i < size; i++) {
        const float *row = writer->logits + (size_t)i * vocab;
        size_t at = (size_t)(first + i) * (size_t)header->labels;
        if (cop_argmax(row, header->vocab) < 0) {
            return cop_fail(err, COP_ERR_NUMERIC, "the target's row %d is not finite",
                            first + i);
        }
        find_best(row, header->vocab, header->labels, to->ids + at, to->logits + at);
    }
    for (int32_t layer = 0; layer < header->n_layers; layer++) {
        const float *from = writer->hidden + (size_t)layer * (size_t)size * width;
        uint16_t *states = to->states + ((size_t)layer * (size_t)n + (size_t)first) * width;
        for (size_t k = 0; k < (size_t)size * width; k++) {
            states[k] = cop_f32_to_f16(from[k]);
            if ((states[k] & 0x7c00) == 0x7c00) {
                return cop_fail(err, COP_ERR_NUMERIC,
                                "a state of layer %d is %g, more than f16 holds",
                                header->layers[layer], (double)from[k]);
            }
        }
    }
    return COP_OK;
}

static enum cop_status read_text(struct cop_corpus_writer *writer, const struct places *to,
                                 int32_t n, const atomic_bool *cancel, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    cop_cache_reset(writer->cache, 0);
    for (int32_t first = 0, size; first < n && status == COP_OK; first += size) {
        size = n - first < CHUNK ? n - first : CHUNK;
        const struct cop_score score = {.n = size,
                                        .tokens = to->tokens + first,
                                        .parents = writer->chain,
                                        .logits = writer->logits,
                                        .hidden_layers = writer->header.layers,
                                        .n_hidden = writer->header.n_layers,
                                        .hidden = writer->hidden,
                                        .cancel = cancel};
        status = cop_model_score(writer->target, writer->cache, &score, err);
        if (status == COP_OK) {
            cop_cache_commit(writer->cache, 0, writer->chain + 1, size);
            status = take_rows(writer, to, first, size, n, err);
        } else {
            cop_cache_rollback(writer->cache, 0);
        }
    }
    return status;
}

static bool reserve(struct cop_corpus_writer *writer, size_t bytes)
{
    if (bytes > writer->capacity) {
        free(writer->record);
        writer->record = malloc(bytes);
        writer->capacity = writer->record ? bytes : 0;
    }
    return writer->record != NULL;
}

enum cop_status cop_corpus_write(struct cop_corpus_writer *writer, const cop_token *tokens,
                                 int32_t n, int32_t n_prompt, int32_t index,
                                 const atomic_bool *cancel, struct cop_error *err)
{
    int32_t context = cop_model_info(writer->target)->context;
    n = n < context ? n : context;
    n = n < COP_CORPUS_ROWS ? n : COP_CORPUS_ROWS;
    size_t bytes = cop_corpus_record_bytes(&writer->header, n);
    if (n < 1) {
        return cop_fail(err, COP_ERR_ARGUMENT, "text %d is empty", index);
    }
    if (!reserve(writer, bytes)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a text of %d tokens", n);
    }
    memset(writer->record, 0, bytes);
    const struct cop_corpus_mark mark = {.mark = COP_CORPUS_MARK,
                                         .index = index,
                                         .n = n,
                                         .n_prompt = n_prompt < n ? n_prompt : n};
    memcpy(writer->record, &mark, sizeof mark);
    struct places places = places_of(writer, n);
    memcpy(places.tokens, tokens, (size_t)n * sizeof *tokens);
    enum cop_status status = read_text(writer, &places, n, cancel, err);
    if (status != COP_OK) {
        return status;
    }
    uint64_t hash = cop_hash_bytes(writer->record, bytes - sizeof hash, COP_CORPUS_VERSION);
    memcpy(writer->record + bytes - sizeof hash, &hash, sizeof hash);
    bool is_written =
        fwrite(writer->record, bytes, 1, writer->file) == 1 && fflush(writer->file) == 0;
    return is_written ? COP_OK : fail_io(writer, err);
}
