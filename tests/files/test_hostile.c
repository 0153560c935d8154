/* Damaged GGUF files: whatever the bytes, an answer and no crash. */
#include "core/files/gguf.h"
#include "core/files/gguf_memory.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/mutate.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(hostile_gguf, .timeout = 120);

static volatile uint8_t sink;

/* A small file in which every part of the format occurs. */
static struct gguf_writer *make(void)
{
    struct gguf_writer *w = gguf_writer_new();
    uint8_t data[288] = {0};
    gguf_put_u32(w, "general.alignment", 32);
    gguf_put_u8(w, "u8", 255);
    gguf_put_i16(w, "i16", -2);
    gguf_put_u64(w, "u64", 3);
    gguf_put_f32(w, "f32", 0.5f);
    gguf_put_f64(w, "f64", -0.1);
    gguf_put_bool(w, "bool", true);
    gguf_put_string(w, "string", "text");
    gguf_put_array(w, "ints", GGUF_I16, (int16_t[]){-1, 2}, 2);
    gguf_put_array(w, "numbers", GGUF_F64, (double[]){0.25, 4}, 2);
    gguf_put_strings(w, "strings", (const char *[]){"x", "", "yz"}, 3);
    gguf_put_tensor(w, "a", GGML_F32, 2, (int64_t[]){8, 2}, data, 64);
    gguf_put_tensor(w, "b", GGML_Q4_1, 1, (int64_t[]){64}, data, 40);
    gguf_put_tensor(w, "c", GGML_F16, 3, (int64_t[]){2, 2, 2}, data, 16);
    gguf_put_tensor(w, "d", 27, 1, (int64_t[]){3}, data, 24); /* I64 */
    return w;
}

static void read_values(const struct cop_gguf *file)
{
    static const char *const keys[] = {"u8",     "i16",  "u64",     "f32",     "f64", "bool",
                                       "string", "ints", "numbers", "strings", "gone"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct cop_error err;
        struct cop_string string;
        struct cop_string *strings;
        int64_t integer;
        int64_t *ints;
        double number;
        double *numbers;
        size_t count;
        (void)cop_gguf_int(file, keys[i], 0, 1000, NULL, &integer, &err);
        (void)cop_gguf_number(file, keys[i], NULL, &number, &err);
        if (cop_gguf_string(file, keys[i], &string, &err) == COP_OK && string.length > 0) {
            sink ^= (uint8_t)string.bytes[string.length - 1];
        }
        (void)cop_gguf_ints(file, keys[i], &ints, &count, &err);
        free(ints);
        (void)cop_gguf_numbers(file, keys[i], &numbers, &count, &err);
        free(numbers);
        if (cop_gguf_strings(file, keys[i], &strings, &count, &err) == COP_OK) {
            for (size_t j = 0; j < count; j++) {
                sink ^=
                    strings[j].length ? (uint8_t)strings[j].bytes[strings[j].length - 1] : 0;
            }
        }
        free(strings);
    }
}

/* Opens and, if that succeeds, touches all that the file promises. */
static bool survives(const uint8_t *image, size_t size)
{
    struct cop_gguf *file;
    struct cop_error err = {.text = ""};
    enum cop_status status = cop_gguf_open_memory(&file, "m.gguf", image, size, &err);
    if (status != COP_OK) {
        cr_assert(!file && err.code == status && strncmp(err.text, "m.gguf: ", 8) == 0);
        return false;
    }
    read_values(file);
    for (size_t i = 0; i < cop_gguf_tensor_count(file); i++) {
        const struct cop_tensor *tensor = cop_gguf_tensor_at(file, i);
        const uint8_t *data = tensor->data;
        sink ^= data[0] ^ data[tensor->bytes - 1];
    }
    cop_gguf_close(file);
    return true;
}

Test(hostile_gguf, every_byte_set_to_several_values)
{
    struct gguf_writer *w = make();
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    size_t n_opened = 0;
    for (size_t at = 0; at < size; at++) {
        const uint8_t was = image[at];
        const uint8_t values[] = {0, 0xFF, 0x7F, 0x80, (uint8_t)(was + 1), (uint8_t)(was ^ 1)};
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, image, size);
            copy[at] = values[i];
            n_opened += survives(copy, size);
            free(copy);
        }
    }
    cr_expect_gt(n_opened, size); /* data and names may change freely */
    cr_expect_lt(n_opened, 5 * size);
    gguf_writer_free(w);
}

Test(hostile_gguf, random_damage)
{
    struct gguf_writer *w = make();
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(image, size, seed, &damaged_size);
        n_opened += survives(damaged, damaged_size);
        free(damaged);
    }
    cr_expect_gt(n_opened, MUTATIONS / 50); /* the damage is not all of one kind */
    gguf_writer_free(w);
}
