/* Checkpoints: everything that later steps depend on, in one file that is written beside its
 * place and moved there when it is whole.
 *
 *     magic, version, step, epoch, place in it, n | identity's hash | for each parameter its
 *     count, values, both moments | hash of all that
 */
#include "algorithms/train/trainer_state.h"
#include "core/base/hash.h"
#include "core/base/path.h"
#include "core/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "CopState"
enum { VERSION = 1 };

struct head {
    char magic[8];
    uint32_t version;
    int32_t n;
    int64_t step, steps;
    int32_t epoch, at;
    uint64_t identity;
};

struct file {
    FILE *file;
    uint64_t hash;
    bool is_fine;
};

static void put(struct file *out, const void *bytes, size_t size)
{
    out->hash = cop_hash_bytes(bytes, size, out->hash);
    out->is_fine = out->is_fine && fwrite(bytes, size, 1, out->file) == 1;
}

static void get(struct file *in, void *bytes, size_t size)
{
    in->is_fine = in->is_fine && fread(bytes, size, 1, in->file) == 1;
    if (in->is_fine) {
        in->hash = cop_hash_bytes(bytes, size, in->hash);
    }
}

static void put_all(struct cop_trainer *trainer, const char *identity, struct file *out)
{
    const struct cop_parameters *parameters = &trainer->network.parameters;
    struct head head = {.version = VERSION,
                        .n = parameters->n,
                        .step = trainer->step,
                        .steps = trainer->steps,
                        .epoch = trainer->windows.epoch,
                        .at = trainer->windows.at,
                        .identity = cop_hash_bytes(identity, strlen(identity), VERSION)};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    put(out, &head, sizeof head);
    for (int32_t i = 0; i < parameters->n; i++) {
        const struct cop_parameter *p = parameters->list[i];
        uint64_t size = p->count;
        put(out, &size, sizeof size);
        put(out, p->value, p->count * sizeof *p->value);
        put(out, p->first, p->count * sizeof *p->first);
        put(out, p->second, p->count * sizeof *p->second);
    }
    uint64_t hash = out->hash;
    put(out, &hash, sizeof hash);
}

enum cop_status cop_trainer_save(struct cop_trainer *trainer, const char *path,
                                 const char *identity, struct cop_error *err)
{
    char beside[4096];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", path) >= sizeof beside) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the path of the checkpoint is too long");
    }
    struct file out = {.file = fopen(beside, "wb"), .is_fine = true};
    if (out.file) {
        put_all(trainer, identity, &out);
        out.is_fine = out.is_fine && fflush(out.file) == 0 && fsync(fileno(out.file)) == 0;
        out.is_fine = fclose(out.file) == 0 && out.is_fine;
    }
    if (!out.file || !out.is_fine || !cop_path_replace(beside, path)) {
        int reason = errno;
        (void)unlink(beside);
        return cop_fail(err, COP_ERR_IO, "cannot write \"%s\": %s", cop_path_tail(path, 200),
                        strerror(reason));
    }
    return COP_OK;
}

static bool get_parameters(struct cop_trainer *trainer, struct file *in)
{
    struct cop_parameters *parameters = &trainer->network.parameters;
    for (int32_t i = 0; i < parameters->n && in->is_fine; i++) {
        struct cop_parameter *p = parameters->list[i];
        uint64_t size = 0;
        get(in, &size, sizeof size);
        in->is_fine = in->is_fine && size == p->count;
        get(in, p->value, p->count * sizeof *p->value);
        get(in, p->first, p->count * sizeof *p->first);
        get(in, p->second, p->count * sizeof *p->second);
    }
    uint64_t hash = in->hash, stored = 0;
    get(in, &stored, sizeof stored);
    return in->is_fine && stored == hash;
}

static enum cop_status fail_damaged(const char *name, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_FORMAT,
                    "\"%s\" is damaged: remove it, or say `resume = false` to begin anew",
                    name);
}

static enum cop_status get_all(struct cop_trainer *trainer, const char *name,
                               const char *identity, struct file *in, struct cop_error *err)
{
    struct head head = {0};
    get(in, &head, sizeof head);
    if (!in->is_fine || memcmp(head.magic, MAGIC, sizeof head.magic) != 0) {
        return fail_damaged(name, err);
    }
    if (head.version != VERSION) {
        return cop_fail(err, COP_ERR_FORMAT,
                        "\"%s\" is a checkpoint of version %u, known is %d: go on with the "
                        "program that made it, or say `resume = false` to begin anew",
                        name, head.version, VERSION);
    }
    if (head.identity != cop_hash_bytes(identity, strlen(identity), VERSION) ||
        head.n != trainer->network.parameters.n || head.steps != trainer->steps) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "\"%s\" belongs to a training with other options, data or target: give "
                        "the same ones, another `out`, or `resume = false` to begin anew",
                        name);
    }
    if (!get_parameters(trainer, in)) {
        return fail_damaged(name, err);
    }
    trainer->step = head.step;
    trainer->windows.epoch = head.epoch;
    trainer->windows.at = head.at;
    return COP_OK;
}

enum cop_status cop_trainer_load(struct cop_trainer *trainer, const char *path,
                                 const char *identity, struct cop_error *err)
{
    const char *name = cop_path_tail(path, 200);
    struct file in = {.file = fopen(path, "rb"), .is_fine = true};
    if (!in.file) {
        return cop_fail(err, COP_ERR_IO, "cannot read \"%s\": %s", name, strerror(errno));
    }
    enum cop_status status = get_all(trainer, name, identity, &in, err);
    (void)fclose(in.file);
    return status;
}
