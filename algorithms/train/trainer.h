/* Training a head on stored data: steps, accuracy on held-out text, checkpoints from which it
 * goes on as if nothing had happened, and the folder that proposers load.
 *
 * Rate of step s of S: warms up over the first share, then falls as a cosine to a tenth. */
#ifndef COP_TRAIN_TRAINER_H
#define COP_TRAIN_TRAINER_H

#include "algorithms/networks/choice.h"
#include "algorithms/train/windows.h"

struct cop_trainer_options {
    const char *head; /* "medusa" */
    struct cop_network_options network;
    struct cop_windows_options windows; /* layers are filled in */
    int32_t samples;
    int64_t steps; /* 0: epochs */
    double epochs;
    double rate, warmup, decay, clip;
    double depth_decay; /* of the loss from one depth to the next */
};

struct cop_train_accuracy {
    int32_t depths;
    int64_t rows;                    /* at which a chain could begin */
    int64_t tried[COP_TRAIN_DEPTHS]; /* all shallower guesses were right */
    int64_t right[COP_TRAIN_DEPTHS]; /* of these: the target's best token */
    int64_t alone[COP_TRAIN_DEPTHS]; /* right whatever the shallower ones were */
    int64_t alone_tried[COP_TRAIN_DEPTHS];
    double loss;
};

struct cop_trainer;

/* Keeps a reference to the target. */
enum cop_status cop_trainer_new(struct cop_trainer **out,
                                const struct cop_trainer_options *options,
                                struct cop_model *target, const char *corpus,
                                struct cop_error *err);
void cop_trainer_free(struct cop_trainer *trainer); /* NULL is fine */

struct cop_trainer_facts {
    int64_t step, steps, rows_an_epoch, held_rows;
    size_t parameters;
    int32_t texts;
    double rate; /* of the last step */
};
struct cop_trainer_facts cop_trainer_facts(const struct cop_trainer *trainer);

/* One step; *rows: of its batch. COP_ERR_NUMERIC: the loss or gradient is no number; nothing
 * has changed then. */
enum cop_status cop_trainer_step(struct cop_trainer *trainer, double *loss, int32_t *rows,
                                 struct cop_error *err);
/* On at most max_rows held-out rows. */
enum cop_status cop_trainer_measure(struct cop_trainer *trainer, int64_t max_rows,
                                    struct cop_train_accuracy *out, struct cop_error *err);

/* save.c. A checkpoint of everything that later steps depend on; written whole or not at all.
 * `identity` is stored and must be the same when it is read back. */
enum cop_status cop_trainer_save(struct cop_trainer *trainer, const char *path,
                                 const char *identity, struct cop_error *err);
enum cop_status cop_trainer_load(struct cop_trainer *trainer, const char *path,
                                 const char *identity, struct cop_error *err);
/* begin.c. Takes the weights of a folder that publish writes, or of a published one with the
 * same tensors (safetensors), before the first step. After failure the trainer is to be freed.
 */
enum cop_status cop_trainer_begin(struct cop_trainer *trainer, const char *folder,
                                  struct cop_error *err);
/* publish.c. config.json and safetensors (f16) into a folder that exists. */
enum cop_status cop_trainer_publish(struct cop_trainer *trainer, const char *folder,
                                    struct cop_error *err);

/* The layers whose states a head reads. COP_ERR_ARGUMENT: unknown head. */
enum cop_status cop_train_layers(const char *head, const struct cop_network_options *options,
                                 struct cop_model *target, int32_t *layers, int32_t *n,
                                 struct cop_error *err);

#endif
