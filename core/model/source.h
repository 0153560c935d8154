/* Where the tensors of a model lie: one GGUF file, the safetensors of a folder, or a PyTorch
 * file. Whoever loads asks here and need not know which. */
#ifndef COP_MODEL_SOURCE_H
#define COP_MODEL_SOURCE_H

#include "core/files/gguf.h"
#include "core/files/safetensors.h"
#include "core/files/torch.h"

/* A tensor's name by which it is asked for, and what the file calls it. */
struct cop_alias {
    const char *name, *own;
};

struct cop_weights_source { /* all but one of three are NULL */
    struct cop_gguf *gguf;
    struct cop_safetensors *folder;
    struct cop_torch *torch;
    const struct cop_alias *aliases; /* ends with a NULL name; of several for one name the first
                                        that is there counts. NULL: none */
};

void cop_source_close(struct cop_weights_source *source); /* idempotent */

const char *cop_source_name(const struct cop_weights_source *source); /* for messages */
size_t cop_source_bytes(const struct cop_weights_source *source);
const struct cop_tensor *cop_source_tensor(const struct cop_weights_source *source,
                                           const char *name); /* NULL: absent */
/* What the file calls the tensor of that name, or would. */
const char *cop_source_own_name(const struct cop_weights_source *source, const char *name);
size_t cop_source_count(const struct cop_weights_source *source);
const struct cop_tensor *cop_source_at(const struct cop_weights_source *source, size_t index);
/* "Q4_1", "F64": the type as the files call it, also one that we do not read. */
const char *cop_source_type(const struct cop_weights_source *source,
                            const struct cop_tensor *tensor);

/* Old checkpoints carry the rotary frequencies, which follow from the configuration. */
bool cop_source_is_derived(const struct cop_tensor *tensor);

/* A tensor that somebody counts on. Names are those of the files. */
struct cop_wanted {
    const char *name;
    const char *of;     /* what it belongs to, for messages: "architecture llama" */
    int32_t rows, cols; /* rows 0: a vector */
    bool is_required;
};
/* *out is NULL where it is absent and need not be there. COP_ERR_FORMAT: missing, or of another
 * shape than expected, both named; COP_ERR_UNSUPPORTED: a format that is not read. */
enum cop_status cop_source_find(const struct cop_weights_source *source,
                                const struct cop_wanted *wanted, const struct cop_tensor **out,
                                struct cop_error *err);

/* "[576, 1536]": rows first. */
#define COP_SHAPE_SIZE 64
const char *cop_source_shape(char buffer[COP_SHAPE_SIZE], const struct cop_tensor *tensor);

#endif
