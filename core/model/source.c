/* One of three containers answers. */
#include "core/model/source.h"
#include "core/base/quote.h"

#include <string.h>

void cop_source_close(struct cop_weights_source *source)
{
    cop_gguf_close(source->gguf);
    cop_safetensors_close(source->folder);
    cop_torch_close(source->torch);
    *source = (struct cop_weights_source){.gguf = NULL};
}

const char *cop_source_name(const struct cop_weights_source *source)
{
    const char *path = source->gguf    ? cop_gguf_path(source->gguf)
                       : source->torch ? cop_torch_path(source->torch)
                                       : cop_safetensors_path(source->folder);
    return cop_path_tail(path, 160);
}

size_t cop_source_bytes(const struct cop_weights_source *source)
{
    return source->gguf    ? cop_gguf_map(source->gguf)->size
           : source->torch ? cop_torch_bytes(source->torch)
                           : cop_safetensors_bytes(source->folder);
}

static const struct cop_tensor *look_up(const struct cop_weights_source *source,
                                        const char *name)
{
    return source->gguf    ? cop_gguf_tensor(source->gguf, name)
           : source->torch ? cop_torch_tensor(source->torch, name)
                           : cop_safetensors_tensor(source->folder, name);
}

/* The alias of a name whose tensor is there, else the first one, else NULL. */
static const struct cop_alias *alias_of(const struct cop_weights_source *source,
                                        const char *name)
{
    const struct cop_alias *first = NULL;
    for (const struct cop_alias *a = source->aliases; a && a->name; a++) {
        if (strcmp(a->name, name) == 0) {
            first = first ? first : a;
            if (look_up(source, a->own)) {
                return a;
            }
        }
    }
    return first;
}

const char *cop_source_own_name(const struct cop_weights_source *source, const char *name)
{
    const struct cop_alias *alias = alias_of(source, name);
    return alias ? alias->own : name;
}

const struct cop_tensor *cop_source_tensor(const struct cop_weights_source *source,
                                           const char *name)
{
    return look_up(source, cop_source_own_name(source, name));
}

size_t cop_source_count(const struct cop_weights_source *source)
{
    return source->gguf    ? cop_gguf_tensor_count(source->gguf)
           : source->torch ? cop_torch_count(source->torch)
                           : cop_safetensors_count(source->folder);
}

const struct cop_tensor *cop_source_at(const struct cop_weights_source *source, size_t index)
{
    return source->gguf    ? cop_gguf_tensor_at(source->gguf, index)
           : source->torch ? cop_torch_at(source->torch, index)
                           : cop_safetensors_at(source->folder, index);
}

bool cop_source_is_derived(const struct cop_tensor *tensor)
{
    static const char end[] = ".rotary_emb.inv_freq";
    size_t length = sizeof end - 1;
    return tensor->name.length > length &&
           memcmp(tensor->name.bytes + tensor->name.length - length, end, length) == 0;
}

const char *cop_source_type(const struct cop_weights_source *source,
                            const struct cop_tensor *tensor)
{
    return source->gguf    ? cop_gguf_type(tensor)
           : source->torch ? cop_torch_type_name(source->torch, tensor)
                           : cop_safetensors_type(source->folder, tensor);
}
