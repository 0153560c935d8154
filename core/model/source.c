/* One of three containers answers. */
#include "core/model/source.h"
#include "core/base/quote.h"

void cop_source_close(struct cop_weights_source *source)
{
    cop_gguf_close(source->gguf);
    cop_safetensors_close(source->folder);
    cop_torch_close(source->torch);
    *source = (struct cop_weights_source){NULL, NULL, NULL};
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

const struct cop_tensor *cop_source_tensor(const struct cop_weights_source *source,
                                           const char *name)
{
    return source->gguf    ? cop_gguf_tensor(source->gguf, name)
           : source->torch ? cop_torch_tensor(source->torch, name)
                           : cop_safetensors_tensor(source->folder, name);
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

const char *cop_source_type(const struct cop_weights_source *source,
                            const struct cop_tensor *tensor)
{
    return source->gguf    ? cop_format_info(tensor->format)->name
           : source->torch ? cop_torch_type_name(source->torch, tensor)
                           : cop_safetensors_type(source->folder, tensor);
}
