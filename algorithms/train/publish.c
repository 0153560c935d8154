/* The folder that proposers load: config.json, and the tensors in f16 under the names that the
 * head's authors gave them. */
#include "algorithms/train/trainer_state.h"
#include "core/base/path.h"
#include "core/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct image { /* of a file, in memory */
    char *bytes;
    size_t size, capacity;
    bool is_whole;
};

static void add(struct image *image, const void *bytes, size_t size)
{
    if (image->size + size > image->capacity) {
        size_t capacity = 2 * (image->size + size);
        char *more = realloc(image->bytes, capacity);
        if (!more) {
            image->is_whole = false;
            return;
        }
        image->bytes = more;
        image->capacity = capacity;
    }
    memcpy(image->bytes + image->size, bytes, size);
    image->size += size;
}

static void add_tensor(struct image *header, const char *name, const char *type, int32_t rows,
                       int32_t cols, size_t *offset, size_t bytes)
{
    char line[256], shape[32];
    if (rows > 0) {
        (void)snprintf(shape, sizeof shape, "[%d,%d]", rows, cols);
    } else {
        (void)snprintf(shape, sizeof shape, "[%d]", cols);
    }
    int length =
        snprintf(line, sizeof line,
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                 header->size > 9 ? "," : "", name, type, shape, *offset, *offset + bytes);
    add(header, line, (size_t)length);
    *offset += bytes;
}

/* Output layers that are copies of the target's LM head. */
static int32_t n_copies(const struct cop_trainer *trainer)
{
    bool is_copied =
        trainer->options.network.copies_lm_head && trainer->network.ops->output_name;
    return is_copied ? trainer->network.depths : 0;
}

static size_t table_count(const struct cop_trainer *trainer)
{
    return (size_t)trainer->target.vocab * (size_t)trainer->target.width;
}

/* Length of the header in eight bytes, header padded to a multiple of eight. */
static void add_header(const struct cop_trainer *trainer, struct image *image)
{
    const struct cop_parameters *parameters = &trainer->network.parameters;
    const struct cop_network_options *options = &trainer->options.network;
    size_t offset = 0;
    add(image, "        {", 9);
    if (options->ids) { /* the widest type first, so that every tensor is aligned */
        add_tensor(image, "d2t", "I64", 0, options->n_ids, &offset,
                   (size_t)options->n_ids * sizeof(int64_t));
    }
    for (int32_t i = 0; i < parameters->n; i++) {
        const struct cop_parameter *p = parameters->list[i];
        add_tensor(image, p->name, "F16", p->rows, p->cols, &offset,
                   p->count * sizeof(uint16_t));
    }
    for (int32_t i = 0; i < n_copies(trainer); i++) {
        char name[COP_PARAMETER_NAME];
        trainer->network.ops->output_name(&trainer->network, i, name, sizeof name);
        add_tensor(image, name, "F16", trainer->target.vocab, trainer->target.width, &offset,
                   table_count(trainer) * sizeof(uint16_t));
    }
    if (options->ids) {
        add_tensor(image, "t2d", "BOOL", 0, trainer->target.vocab, &offset,
                   (size_t)trainer->target.vocab);
    }
    add(image, "}", 1);
    while (image->size % 8 != 0) {
        add(image, " ", 1);
    }
    uint64_t length = image->size - 8;
    if (image->is_whole) {
        memcpy(image->bytes, &length, sizeof length);
    }
}

static enum cop_status add_values(const char *name, const cop_real *values, size_t count,
                                  struct image *image, struct cop_error *err)
{
    for (size_t k = 0; k < count; k++) {
        uint16_t half = cop_f32_to_f16((float)values[k]);
        if ((half & 0x7c00) == 0x7c00) {
            return cop_fail(err, COP_ERR_NUMERIC, "tensor \"%s\" holds %g, more than f16 does",
                            name, (double)values[k]);
        }
        add(image, &half, sizeof half);
    }
    return COP_OK;
}

/* d2t: how far each drafted id lies above its place. */
static void add_map(const struct cop_trainer *trainer, struct image *image)
{
    const struct cop_network_options *options = &trainer->options.network;
    for (int32_t i = 0; i < options->n_ids; i++) {
        int64_t offset = (int64_t)options->ids[i] - i;
        add(image, &offset, sizeof offset);
    }
}

static void add_marks(const struct cop_trainer *trainer, struct image *image)
{
    const struct cop_network_options *options = &trainer->options.network;
    for (int32_t id = 0, i = 0; id < trainer->target.vocab; id++) {
        uint8_t mark = i < options->n_ids && options->ids[i] == id;
        i += mark;
        add(image, &mark, sizeof mark);
    }
}

static enum cop_status write_image(const char *folder, const char *name,
                                   const struct image *image, struct cop_error *err)
{
    char path[4096], beside[4096 + 8];
    if (!image->is_whole) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for \"%s\"", name);
    }
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the path of the folder is too long");
    }
    (void)snprintf(beside, sizeof beside, "%s.new", path);
    FILE *file = fopen(beside, "wb");
    bool is_fine = file && fwrite(image->bytes, image->size, 1, file) == 1;
    is_fine = file && fclose(file) == 0 && is_fine;
    if (!is_fine || !cop_path_replace(beside, path)) {
        int reason = errno;
        (void)unlink(beside);
        return cop_fail(err, COP_ERR_IO, "cannot write \"%s\": %s", cop_path_tail(path, 200),
                        strerror(reason));
    }
    return COP_OK;
}

static enum cop_status publish_tensors(struct cop_trainer *trainer, const char *folder,
                                       struct cop_error *err)
{
    struct image image = {.is_whole = true};
    enum cop_status status = COP_OK;
    add_header(trainer, &image);
    if (trainer->options.network.ids) {
        add_map(trainer, &image);
    }
    for (int32_t i = 0; i < trainer->network.parameters.n && status == COP_OK; i++) {
        const struct cop_parameter *p = trainer->network.parameters.list[i];
        status = add_values(p->name, p->value, p->count, &image, err);
    }
    for (int32_t i = 0; i < n_copies(trainer) && status == COP_OK; i++) {
        status = add_values("the target's LM head", trainer->lm_head, table_count(trainer),
                            &image, err);
    }
    if (trainer->options.network.ids) {
        add_marks(trainer, &image);
    }
    if (status == COP_OK) {
        status = write_image(folder, trainer->network.ops->file, &image, err);
    }
    free(image.bytes);
    return status;
}

enum cop_status cop_trainer_publish(struct cop_trainer *trainer, const char *folder,
                                    struct cop_error *err)
{
    char lines[4096], name[160];
    struct image config = {.is_whole = true};
    /* Where it lies is nobody else's business. */
    const char *path = cop_path_name(cop_model_info(trainer->model)->path);
    const struct cop_tokenizer *tokenizer = cop_model_tokenizer(trainer->model);
    size_t n = 0;
    for (; path[n] && n + 1 < sizeof name; n++) { /* it stands in a JSON string */
        bool is_plain = path[n] >= 0x20 && path[n] != '"' && path[n] != '\\';
        name[n] = is_plain ? path[n] : '_';
    }
    name[n] = '\0';
    trainer->network.ops->describe(&trainer->network, name, lines, sizeof lines);
    add(&config, "{\n", 2);
    add(&config, lines, strlen(lines));
    if (tokenizer) { /* for cop_checkpoint_check_tokenizer */
        int length = snprintf(lines, sizeof lines, ",\n  \"target_tokenizer\": \"%016llx\"",
                              (unsigned long long)cop_tokenizer_fingerprint(tokenizer));
        add(&config, lines, (size_t)length);
    }
    add(&config, "\n}\n", 3);
    enum cop_status status = publish_tensors(trainer, folder, err);
    if (status == COP_OK) {
        status = write_image(folder, "config.json", &config, err);
    }
    free(config.bytes);
    return status;
}
