/* The folder of a head: its config.json, and tensors that are found by name, checked, and
 * repacked for the device of the target that the head was made for. */
#ifndef COP_MODEL_CHECKPOINT_H
#define COP_MODEL_CHECKPOINT_H

#include "core/base/json_tree.h"
#include "core/model/model.h"
#include "core/model/quantise.h"
#include "core/model/source.h"

struct cop_checkpoint {
    struct cop_weights_source source;
    struct cop_json_tree tree;     /* of config.json */
    char name[200];                /* of config.json, for messages */
    enum cop_head_weights weights; /* asked for; FILE once it is opened */
};

/* Empty after failure. */
enum cop_status cop_checkpoint_open(struct cop_checkpoint *out, const char *folder,
                                    struct cop_error *err);
/* The same with the tensors in `file` of the folder, or else in model.safetensors, or in
 * PyTorch files: that of the stem of `file` (.pt, .bin), pytorch_model.bin. */
enum cop_status cop_checkpoint_open_file(struct cop_checkpoint *out, const char *folder,
                                         const char *file, struct cop_error *err);
void cop_checkpoint_close(struct cop_checkpoint *checkpoint); /* idempotent */

/* Fields of the configuration: an integer from 1 to `max` (fallback 0: it must be there), and
 * true or false. */
enum cop_status cop_checkpoint_int(const struct cop_checkpoint *checkpoint, const char *key,
                                   int32_t max, int32_t fallback, int32_t *out,
                                   struct cop_error *err);
enum cop_status cop_checkpoint_bool(const struct cop_checkpoint *checkpoint, const char *key,
                                    bool fallback, bool *out, struct cop_error *err);

/* COP_ERR_ARGUMENT: "target_tokenizer" of the configuration, which cop.train writes, is the
 * fingerprint of other pieces than the target's; sizes that agree do not show it. */
enum cop_status cop_checkpoint_check_tokenizer(const struct cop_checkpoint *checkpoint,
                                               const struct cop_model *target,
                                               struct cop_error *err);

/* Warns where the configuration has another number than was found among the tensors, which are
 * right: published ones do. */
void cop_checkpoint_compare(const struct cop_checkpoint *checkpoint, const char *key,
                            int32_t found, struct cop_error *err);

/* Refuses the first tensor that owns(context, tensor) does not know: left out in silence it
 * would make another head of it. */
enum cop_status cop_checkpoint_refuse_strangers(const struct cop_checkpoint *checkpoint,
                                                const char *of,
                                                bool (*owns)(const void *context,
                                                             const struct cop_tensor *tensor),
                                                const void *context, struct cop_error *err);

/* Both name the first value that is infinite or no number. *out: freed with free, and with
 * cop_checkpoint_free_weight. */
enum cop_status cop_checkpoint_vector(const struct cop_checkpoint *checkpoint,
                                      const struct cop_tensor *tensor, float **out,
                                      struct cop_error *err);
enum cop_status cop_checkpoint_weight(const struct cop_checkpoint *checkpoint,
                                      const struct cop_tensor *tensor,
                                      const struct cop_model *target, struct cop_weight **out,
                                      struct cop_error *err);
/* n matrices of equal width as one, their rows one behind another; at most 4. */
enum cop_status cop_checkpoint_stack(const struct cop_checkpoint *checkpoint,
                                     const struct cop_tensor *const *tensors, int32_t n,
                                     const struct cop_model *target, struct cop_weight **out,
                                     struct cop_error *err);
/* rows[0..n) of it, each inside it. */
enum cop_status cop_checkpoint_weight_rows(const struct cop_checkpoint *checkpoint,
                                           const struct cop_tensor *tensor, const int32_t *rows,
                                           int32_t n, const struct cop_model *target,
                                           struct cop_weight **out, struct cop_error *err);
void cop_checkpoint_free_weight(const struct cop_model *target,
                                struct cop_weight *weight); /* NULL is fine */
/* A table of rows that stays in the file, its values checked. */
enum cop_status cop_checkpoint_table(const struct cop_checkpoint *checkpoint,
                                     const struct cop_tensor *tensor, struct cop_matrix *out,
                                     struct cop_error *err);
/* out [n, table->cols] their rows; of ids that the table lacks, padding of the target's, zeros.
 */
void cop_checkpoint_embed(const struct cop_matrix *table, const struct cop_model *target,
                          const cop_token *tokens, int32_t n, float *out);

#endif
