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

/* ---- Well-formed files that lie ---------------------------------------------------------- */

static uint32_t draw(uint64_t *state, uint32_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % limit;
}

static const int64_t sides[] = {0,         1, 2, 3, 4, 8, 32, 64, 1 << 20, INT64_MAX / 4,
                                INT64_MIN, -1};

static int64_t side(uint64_t *state)
{
    size_t usual = draw(state, 4) ? 7 : sizeof sides / sizeof *sides;
    return sides[draw(state, (uint32_t)usual)];
}

/* A key of any type with any value, its text or count perhaps a lie. */
static void put_any_key(struct gguf_writer *w, const char *key, uint64_t *state)
{
    static const double numbers[] = {0.5, 1e300};
    static const uint64_t bits[] = {0, 1, 7, 32, 1ull << 60, INT64_MAX, UINT64_MAX};
    static const char *const strings[] = {"x", "", "\xFF", "yz"};
    uint64_t value = bits[draw(state, 7)];
    switch (draw(state, 8)) {
    case 0: gguf_put_u8(w, key, (uint8_t)value); break;
    case 1: gguf_put_i64(w, key, (int64_t)value); break;
    case 2: gguf_put_u64(w, key, value); break;
    case 3: gguf_put_f32(w, key, (float)value * 0.5f); break;
    case 4: gguf_put_bool(w, key, value & 1); break;
    case 5: gguf_put_strings(w, key, strings, draw(state, 5)); break;
    case 6: gguf_put_array(w, key, GGUF_F64, numbers, draw(state, 3)); break;
    default: gguf_put_string(w, key, strings[draw(state, 4)]); break;
    }
}

static struct gguf_writer *make_lies(uint64_t seed)
{
    static const char *const keys[] = {
        "u8",     "i16",  "u64",     "f32",     "bool",
        "string", "ints", "numbers", "strings", "general.alignment"};
    static const char *const names[] = {"a", "b", "", "a.very.long.name.of.a.tensor"};
    static const int types[] = {GGML_F32,  GGML_F16, GGML_BF16, GGML_Q8_0, GGML_Q4_0, GGML_Q4_K,
                                GGML_Q6_K, 27,       31,        1000,      -1};
    uint8_t data[512] = {0};
    struct gguf_writer *w = gguf_writer_new();
    gguf_set_version(w, 2 + draw(&seed, 2));
    for (uint32_t i = draw(&seed, 4); i > 0; i--) {
        put_any_key(w, keys[draw(&seed, draw(&seed, 3) ? 9 : 10)], &seed);
    }
    for (uint32_t i = draw(&seed, 4); i > 0; i--) {
        int64_t dims[4] = {side(&seed), side(&seed), side(&seed), side(&seed)};
        int type = types[draw(&seed, draw(&seed, 3) ? 5 : 11)];
        uint32_t rank = 1 + draw(&seed, 4);
        size_t bytes = 1 + draw(&seed, sizeof data);
        if (draw(&seed, 3)) { /* the size that a small matrix of floats has */
            rank = 2;
            dims[0] = 1 + draw(&seed, 8);
            dims[1] = 1 + draw(&seed, 8);
            type = draw(&seed, 2) ? GGML_F32 : GGML_F16;
            bytes = (size_t)(dims[0] * dims[1] * (type == GGML_F32 ? 4 : 2));
        }
        gguf_put_tensor(w, names[draw(&seed, 4)], type, rank, dims, data, bytes);
    }
    if (draw(&seed, 16) == 0) {
        gguf_lie_about_counts(w, (uint64_t)side(&seed), (uint64_t)side(&seed));
    }
    return w;
}

Test(hostile_gguf, lies_in_well_formed_files)
{
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        struct gguf_writer *w = make_lies(seed);
        size_t size;
        const uint8_t *image = gguf_image(w, &size);
        uint8_t *exact = malloc(size);
        memcpy(exact, image, size);
        n_opened += survives(exact, size);
        free(exact);
        gguf_writer_free(w);
    }
    cr_expect_gt(n_opened, MUTATIONS / 20);
    cr_expect_lt(n_opened, MUTATIONS / 2);
}
