/* GGUF files that are well made, and one fault at a time with its message. */
#include "core/files/gguf.h"
#include "core/files/gguf_memory.h"
#include "tests/support/gguf_writer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gguf_writer *w;
static struct cop_gguf *file;
static struct cop_error err;

static void start(void)
{
    w = gguf_writer_new();
}

static void finish(void)
{
    cop_gguf_close(file);
    gguf_writer_free(w);
}

TestSuite(gguf, .init = start, .fini = finish, .timeout = 30);

static enum cop_status open_image(void)
{
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    return cop_gguf_open_memory(&file, "m.gguf", image, size, &err);
}

/* The file must be refused with exactly these words. */
static void refused(enum cop_status status, const char *text)
{
    cr_expect_eq(open_image(), status, "%s", text);
    cr_expect_str_eq(err.text, text);
    cr_expect_null(file);
}

/* ---- What is well made ---- */

static void put_all_types(void)
{
    gguf_put_u8(w, "u8", 255);
    gguf_put_i8(w, "i8", -128);
    gguf_put_u16(w, "u16", 65535);
    gguf_put_i16(w, "i16", -32768);
    gguf_put_u32(w, "u32", 4294967295u);
    gguf_put_i32(w, "i32", INT32_MIN);
    gguf_put_u64(w, "u64", UINT64_MAX);
    gguf_put_i64(w, "i64", INT64_MIN);
    gguf_put_f32(w, "f32", 0.5f);
    gguf_put_f64(w, "f64", -0.1);
    gguf_put_bool(w, "bool", true);
    gguf_put_bytes(w, "string", "a\0b", 3);
    gguf_put_f32(w, "nan", NAN);
    gguf_put_array(w, "ints", GGUF_I16, (int16_t[]){-1, 2}, 2);
    gguf_put_array(w, "floats", GGUF_F64, (double[]){0.25, 4}, 2);
    gguf_put_array(w, "none", GGUF_U8, NULL, 0);
    gguf_put_array(w, "huge", GGUF_U64, (uint64_t[]){1, UINT64_MAX}, 2);
    gguf_put_array(w, "infinite", GGUF_F32, (float[]){1, INFINITY}, 2);
    gguf_put_strings(w, "strings", (const char *[]){"x", "", "yz"}, 3);
}

static void expect_int(const char *key, int64_t wanted)
{
    int64_t value;
    cr_expect_eq(cop_gguf_int(file, key, INT64_MIN, INT64_MAX, NULL, &value, &err), COP_OK);
    cr_expect_eq(value, wanted, "%s", key);
}

static void expect_number(const char *key, double wanted)
{
    double value;
    cr_expect_eq(cop_gguf_number(file, key, NULL, &value, &err), COP_OK);
    cr_expect_eq(value, wanted, "%s", key);
}

Test(gguf, scalars_of_every_type_come_back)
{
    put_all_types();
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_set_version(w, version);
        cr_assert_eq(open_image(), COP_OK, "%s", err.text);
        expect_int("u8", 255);
        expect_int("i8", -128);
        expect_int("u16", 65535);
        expect_int("i16", -32768);
        expect_int("u32", 4294967295);
        expect_int("i32", INT32_MIN);
        expect_int("i64", INT64_MIN);
        expect_int("bool", 1);
        expect_number("f32", 0.5);
        expect_number("f64", -0.1);
        expect_number("i8", -128);
        expect_number("u64", 18446744073709551616.0);
        struct cop_string string;
        cr_expect_eq(cop_gguf_string(file, "string", &string, &err), COP_OK);
        cr_expect(string.length == 3 && memcmp(string.bytes, "a\0b", 3) == 0);
        cr_expect(cop_gguf_has(file, "none"));
        cr_expect_not(cop_gguf_has(file, "absent"));
        cop_gguf_close(file);
        file = NULL;
    }
}

Test(gguf, arrays_come_back)
{
    put_all_types();
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    size_t count;
    int64_t *ints;
    cr_assert_eq(cop_gguf_ints(file, "ints", &ints, &count, &err), COP_OK);
    cr_expect(count == 2 && ints[0] == -1 && ints[1] == 2);
    free(ints);
    cr_assert_eq(cop_gguf_ints(file, "none", &ints, &count, &err), COP_OK);
    cr_expect_eq(count, 0);
    free(ints);
    double *numbers;
    cr_assert_eq(cop_gguf_numbers(file, "floats", &numbers, &count, &err), COP_OK);
    cr_expect(count == 2 && numbers[0] == 0.25 && numbers[1] == 4.0);
    free(numbers);
    cr_assert_eq(cop_gguf_numbers(file, "ints", &numbers, &count, &err), COP_OK);
    cr_expect(count == 2 && numbers[0] == -1.0);
    free(numbers);
    struct cop_string *strings;
    cr_assert_eq(cop_gguf_strings(file, "strings", &strings, &count, &err), COP_OK);
    cr_expect(count == 3 && strings[0].length == 1 && strings[1].length == 0);
    cr_expect(strings[2].length == 2 && memcmp(strings[2].bytes, "yz", 2) == 0);
    free(strings);
}

static void refused_value(enum cop_status status, const char *words)
{
    cr_expect_eq(status, COP_ERR_FORMAT, "%s", words);
    cr_expect_str_eq(err.text, words);
}

Test(gguf, values_of_another_kind_are_refused_by_name)
{
    put_all_types();
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    int64_t value = 7;
    double number;
    size_t count;
    int64_t *ints;
    double *numbers;
    struct cop_string string;
    struct cop_string *strings;
    refused_value(cop_gguf_int(file, "gone", 0, 9, NULL, &value, &err),
                  "m.gguf: has no key \"gone\"");
    refused_value(cop_gguf_int(file, "u8", 0, 9, NULL, &value, &err),
                  "m.gguf: key \"u8\" is 255, outside [0, 9]");
    refused_value(cop_gguf_int(file, "i8", 0, 9, NULL, &value, &err),
                  "m.gguf: key \"i8\" is -128, outside [0, 9]");
    refused_value(cop_gguf_int(file, "u64", 0, 9, NULL, &value, &err),
                  "m.gguf: key \"u64\" is 18446744073709551615, outside [0, 9]");
    refused_value(cop_gguf_int(file, "f32", 0, 9, NULL, &value, &err),
                  "m.gguf: key \"f32\" is a number, not an integer");
    refused_value(cop_gguf_int(file, "ints", 0, 9, NULL, &value, &err),
                  "m.gguf: key \"ints\" is an array, not an integer");
    refused_value(cop_gguf_number(file, "string", NULL, &number, &err),
                  "m.gguf: key \"string\" is a string, not a number");
    refused_value(cop_gguf_number(file, "nan", NULL, &number, &err),
                  "m.gguf: key \"nan\" is not finite");
    refused_value(cop_gguf_string(file, "u8", &string, &err),
                  "m.gguf: key \"u8\" is an integer, not a string");
    refused_value(cop_gguf_strings(file, "ints", &strings, &count, &err),
                  "m.gguf: key \"ints\" is an array whose item is an integer, not a string");
    cr_expect_null(strings);
    refused_value(cop_gguf_ints(file, "u8", &ints, &count, &err),
                  "m.gguf: key \"u8\" is an integer, not an array of integers");
    refused_value(cop_gguf_ints(file, "floats", &ints, &count, &err),
                  "m.gguf: key \"floats\" is an array whose item is a number, not an integer");
    refused_value(cop_gguf_ints(file, "huge", &ints, &count, &err),
                  "m.gguf: key \"huge\": item 1 is too large");
    cr_expect_null(ints);
    refused_value(cop_gguf_numbers(file, "infinite", &numbers, &count, &err),
                  "m.gguf: key \"infinite\": item 1 is not finite");
    refused_value(cop_gguf_numbers(file, "strings", &numbers, &count, &err),
                  "m.gguf: key \"strings\" is an array whose item is a string, not a number");
    cr_expect_null(numbers);
}

Test(gguf, a_fallback_stands_in_for_an_absent_key_only)
{
    gguf_put_u8(w, "u8", 255);
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    int64_t five = 5;
    int64_t value;
    cr_expect_eq(cop_gguf_int(file, "gone", 0, 9, &five, &value, &err), COP_OK);
    cr_expect_eq(value, 5);
    cr_expect_eq(cop_gguf_int(file, "u8", 0, 9, &five, &value, &err), COP_ERR_FORMAT);
    double half = 0.5;
    double number;
    cr_expect_eq(cop_gguf_number(file, "gone", &half, &number, &err), COP_OK);
    cr_expect_eq(number, 0.5);
}

Test(gguf, tensors_are_found_by_name_and_by_number)
{
    float values[64] = {1.5f};
    uint8_t blocks[2 * 34] = {7};
    gguf_put_tensor(w, "b", GGML_F32, 2, (int64_t[]){32, 2}, values, sizeof values);
    gguf_put_tensor(w, "a", GGML_Q8_0, 1, (int64_t[]){64}, blocks, sizeof blocks);
    gguf_put_tensor(w, "c", GGML_BF16, 4, (int64_t[]){2, 1, 3, 1}, values, 12);
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    cr_expect_eq(cop_gguf_tensor_count(file), 3);
    const struct cop_tensor *b = cop_gguf_tensor_at(file, 0);
    cr_expect_eq(b, cop_gguf_tensor(file, "b"));
    cr_expect(b->format == COP_FORMAT_F32 && b->rank == 2 && b->dims[0] == 32 &&
              b->dims[1] == 2 && b->dims[2] == 1 && b->dims[3] == 1);
    cr_expect(b->bytes == 256 && memcmp(b->data, values, 256) == 0);
    const struct cop_tensor *a = cop_gguf_tensor(file, "a");
    cr_expect(a->format == COP_FORMAT_Q8_0 && a->bytes == 68 && *(const char *)a->data == 7);
    cr_expect_eq(cop_gguf_tensor(file, "c")->bytes, 12);
    cr_expect_null(cop_gguf_tensor(file, "d"));
}

Test(gguf, formats_have_their_numbers_and_sizes)
{
    static const struct {
        uint32_t number;
        enum cop_format format;
        size_t bytes; /* of 256 values */
    } rows[] = {
        {0, COP_FORMAT_F32, 1024},  {1, COP_FORMAT_F16, 512},   {2, COP_FORMAT_Q4_0, 144},
        {3, COP_FORMAT_Q4_1, 160},  {6, COP_FORMAT_Q5_0, 176},  {7, COP_FORMAT_Q5_1, 192},
        {8, COP_FORMAT_Q8_0, 272},  {12, COP_FORMAT_Q4_K, 144}, {13, COP_FORMAT_Q5_K, 176},
        {14, COP_FORMAT_Q6_K, 210}, {30, COP_FORMAT_BF16, 512}};
    uint8_t data[1024] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[] = {(char)('a' + i), '\0'};
        gguf_put_tensor(w, name, rows[i].number, 1, (int64_t[]){256}, data, rows[i].bytes);
    }
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(cop_gguf_tensor_at(file, i)->format, rows[i].format);
        cr_expect_eq(cop_gguf_tensor_at(file, i)->bytes, rows[i].bytes);
    }
}

Test(gguf, another_alignment_moves_the_data)
{
    float values[2] = {1.0f, 2.0f};
    gguf_set_alignment(w, 4096);
    gguf_put_u32(w, "general.alignment", 4096);
    gguf_put_tensor(w, "a", GGML_F32, 1, (int64_t[]){1}, values, 4);
    gguf_put_tensor(w, "b", GGML_F32, 1, (int64_t[]){1}, values + 1, 4);
    cr_assert_eq(open_image(), COP_OK, "%s", err.text);
    cr_expect_eq(*(const float *)cop_gguf_tensor(file, "b")->data, 2.0f);
    const uint8_t *start = cop_gguf_map(file)->data;
    cr_expect_eq((const uint8_t *)cop_gguf_tensor(file, "b")->data - start, 8192);
}

Test(gguf, a_file_on_disk_is_mapped)
{
    gguf_put_u8(w, "u8", 1);
    gguf_put_tensor(w, "t", GGML_F32, 1, (int64_t[]){1}, (float[]){3.0f}, 4);
    const char *path = gguf_save(w);
    cr_assert_eq(cop_gguf_open(&file, path, &err), COP_OK, "%s", err.text);
    cr_expect_str_eq(cop_gguf_path(file), path);
    cop_map_forget(cop_gguf_map(file));
    cr_expect_eq(*(const float *)cop_gguf_tensor(file, "t")->data, 3.0f);
}

/* ---- One fault at a time ---- */

Test(gguf, files_that_are_none)
{
    cr_expect_eq(cop_gguf_open(&file, "no/such.gguf", &err), COP_ERR_IO);
    cr_expect_str_eq(err.text, "no/such.gguf: No such file or directory");
    cr_expect_eq(cop_gguf_open(&file, "tests", &err), COP_ERR_IO);
    cr_expect_str_eq(err.text, "tests: is a folder");
    cr_expect_eq(cop_gguf_open(&file, "/dev/null", &err), COP_ERR_IO);
    cr_expect_eq(cop_gguf_open(&file, "Makefile", &err), COP_ERR_FORMAT);
    cr_expect_str_eq(err.text,
                     "Makefile: is not a GGUF file (its first four bytes are not \"GGUF\")");
    cr_expect_eq(cop_gguf_open_memory(&file, "empty", NULL, 0, &err), COP_ERR_FORMAT);
}

Test(gguf, a_pipe_does_not_hang)
{
    char path[] = "/tmp/gguf-pipe-XXXXXX";
    cr_assert_neq(mkstemp(path), -1);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(cop_gguf_open(&file, path, &err), COP_ERR_IO);
    (void)unlink(path);
}

Test(gguf, versions)
{
    gguf_set_version(w, 1);
    refused(COP_ERR_UNSUPPORTED, "m.gguf: is GGUF version 1; known are 2 and 3");
    gguf_set_version(w, 0x03000000);
    refused(COP_ERR_UNSUPPORTED, "m.gguf: is a big-endian GGUF file (version field 50331648); "
                                 "only little-endian ones are read");
}

Test(gguf, counts_that_the_file_cannot_hold)
{
    gguf_put_u8(w, "u8", 1);
    gguf_lie_about_counts(w, 0, (uint64_t)1 << 60);
    refused(COP_ERR_FORMAT, "m.gguf: claims 1152921504606846976 keys, more than its 39 bytes "
                            "can hold");
    gguf_lie_about_counts(w, UINT64_MAX, 1);
    refused(COP_ERR_FORMAT, "m.gguf: claims 18446744073709551615 tensors, more than its 39 "
                            "bytes can hold");
}

Test(gguf, strings_and_arrays_that_run_past_the_end)
{
    gguf_put_raw(w, "s", GGUF_STRING, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF....", 12);
    refused(COP_ERR_FORMAT,
            "m.gguf: the file ends inside the value of key \"s\" (at byte 45 of 49)");
}

Test(gguf, arrays_that_claim_2_to_the_60)
{
    uint8_t value[24] = {GGUF_U64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10};
    gguf_put_raw(w, "a", GGUF_ARRAY, value, sizeof value);
    refused(COP_ERR_FORMAT,
            "m.gguf: the file ends inside the value of key \"a\" (at byte 49 of 61)");
    gguf_writer_free(w);
    w = gguf_writer_new();
    value[0] = GGUF_STRING;
    gguf_put_raw(w, "a", GGUF_ARRAY, value, sizeof value);
    refused(COP_ERR_FORMAT,
            "m.gguf: the file ends inside the value of key \"a\" (at byte 49 of 61)");
}

Test(gguf, nested_arrays)
{
    uint8_t value[12] = {GGUF_ARRAY, 0, 0, 0, 2};
    gguf_put_raw(w, "deep", GGUF_ARRAY, value, sizeof value);
    refused(COP_ERR_UNSUPPORTED,
            "m.gguf: key \"deep\": an array of arrays, which is not read; outer count 2");
}

Test(gguf, unknown_value_types_and_bools)
{
    gguf_put_raw(w, "odd", 13, "....", 4);
    refused(COP_ERR_FORMAT, "m.gguf: key \"odd\": unknown value type 13");
    gguf_writer_free(w);
    w = gguf_writer_new();
    gguf_put_raw(w, "b", GGUF_BOOL, "\2", 1);
    refused(COP_ERR_FORMAT, "m.gguf: key \"b\": a bool is 2");
}

Test(gguf, a_key_twice)
{
    gguf_put_u8(w, "same", 1);
    gguf_put_u8(w, "other", 1);
    gguf_put_u16(w, "same", 2);
    refused(COP_ERR_FORMAT, "m.gguf: key \"same\" occurs twice");
}

Test(gguf, alignments)
{
    static const struct {
        uint32_t alignment;
        const char *text;
    } rows[] = {
        {0, "m.gguf: key \"general.alignment\" is 0, outside [8, 2147483647]"},
        {4, "m.gguf: key \"general.alignment\" is 4, outside [8, 2147483647]"},
        {24, "m.gguf: key \"general.alignment\" is 24, which is not a power of two"},
        {1u << 31, "m.gguf: key \"general.alignment\" is 2147483648, outside [8, 2147483647]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gguf_writer_free(w);
        w = gguf_writer_new();
        gguf_put_u32(w, "general.alignment", rows[i].alignment);
        refused(COP_ERR_FORMAT, rows[i].text);
    }
}

/* A tensor description with one fault, and the words for it. */
static const struct {
    uint32_t type, rank;
    int64_t dims[5];
    uint64_t offset;
    enum cop_status status;
    const char *text;
} faults[] = {
    {0, 0, {1}, 0, COP_ERR_FORMAT, "rank must be 1 to 4, but is 0"},
    {0, 5, {1, 1, 1, 1, 1}, 0, COP_ERR_FORMAT, "rank must be 1 to 4, but is 5"},
    {0, 1, {0}, 0, COP_ERR_FORMAT, "impossible dimension 0"},
    {0, 1, {-1}, 0, COP_ERR_FORMAT, "impossible dimension 18446744073709551615"},
    {0, 2, {INT64_MAX, 3}, 0, COP_ERR_FORMAT, "impossible dimension 3"},
    {0, 1, {INT64_MAX}, 0, COP_ERR_FORMAT, "too many elements: 9223372036854775807"},
    {8,
     1,
     {33},
     0,
     COP_ERR_FORMAT,
     "rows of Q8_0 must be whole blocks, but their length is 33"},
    {12,
     2,
     {128, 2},
     0,
     COP_ERR_FORMAT,
     "rows of Q4_K must be whole blocks, but their length is 128"},
    {10,
     1,
     {256},
     0,
     COP_ERR_UNSUPPORTED,
     "type number 10 is not read; known are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "
     "Q4_K, Q5_K, Q6_K"},
    {0, 1, {4}, 16, COP_ERR_FORMAT, "the offset is not a multiple of the alignment: 16"},
    {0, 1, {4}, 64, COP_ERR_FORMAT, "data ends at byte 144, but the file has 96 bytes"},
    {0, 1, {9}, 0, COP_ERR_FORMAT, "data ends at byte 100, but the file has 96 bytes"},
    {0,
     1,
     {4},
     UINT64_MAX - 31,
     COP_ERR_FORMAT,
     "the data lies past any file, at offset 18446744073709551584"},
};

Test(gguf, tensor_descriptions_that_lie)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char text[300];
        uint8_t data[32] = {0};
        gguf_writer_free(w);
        w = gguf_writer_new();
        gguf_put_tensor_at(w, "x", faults[i].type, faults[i].rank, faults[i].dims,
                           faults[i].offset, data, sizeof data);
        (void)snprintf(text, sizeof text, "m.gguf: tensor \"x\": %s", faults[i].text);
        refused(faults[i].status, text);
    }
}

Test(gguf, tensors_that_overlap_or_share_a_name)
{
    uint8_t data[96] = {0};
    gguf_put_tensor_at(w, "a", GGML_F32, 1, (int64_t[]){9}, 0, data, sizeof data);
    gguf_put_tensor_at(w, "b", GGML_F32, 1, (int64_t[]){1}, 32, NULL, 0);
    refused(COP_ERR_FORMAT, "m.gguf: tensors \"a\" and \"b\" overlap");
    gguf_writer_free(w);
    w = gguf_writer_new();
    gguf_put_tensor_at(w, "a", GGML_F16, 1, (int64_t[]){9}, 0, data, sizeof data);
    gguf_put_tensor_at(w, "b", GGML_F32, 1, (int64_t[]){1}, 64, NULL, 0);
    refused(COP_ERR_FORMAT,
            "m.gguf: tensors \"a\" and \"b\" have a hole of 46 bytes between them");
    gguf_writer_free(w);
    w = gguf_writer_new();
    gguf_put_tensor(w, "a", GGML_F32, 1, (int64_t[]){8}, data, 32);
    gguf_put_tensor(w, "b", GGML_F32, 1, (int64_t[]){8}, data, 32);
    gguf_put_tensor(w, "a", GGML_F32, 1, (int64_t[]){8}, data, 32);
    refused(COP_ERR_FORMAT, "m.gguf: tensor \"a\" occurs twice");
}

Test(gguf, every_shorter_file_is_refused)
{
    put_all_types();
    gguf_put_tensor(w, "b", GGML_F32, 1, (int64_t[]){8}, (float[8]){0}, 32);
    gguf_put_tensor(w, "a", GGML_F32, 1, (int64_t[]){3}, (float[3]){0}, 12);
    size_t size;
    const uint8_t *image = gguf_image(w, &size);
    for (size_t length = 0; length < size; length++) {
        /* A copy of its own, so that a sanitizer sees the first byte past the end. */
        uint8_t *shorter = malloc(length + 1);
        memcpy(shorter + 1, image, length);
        enum cop_status status =
            cop_gguf_open_memory(&file, "m.gguf", shorter + 1, length, &err);
        cr_assert_eq(status, COP_ERR_FORMAT, "length %zu", length);
        cr_assert_null(file);
        free(shorter);
    }
    cr_expect_eq(open_image(), COP_OK);
}

/* Tables of ids are known by name; no operation reads them. */
Test(gguf, integers_are_no_operands)
{
    const int64_t ids[] = {5, -1, 1ll << 40};
    gguf_put_tensor(w, "d2t", 27, 1, (int64_t[]){3}, ids, sizeof ids);
    cr_assert_eq(cop_gguf_open(&file, gguf_save(w), NULL), COP_OK);
    const struct cop_tensor *tensor = cop_gguf_tensor(file, "d2t");
    cr_assert(tensor && tensor->format == COP_FORMAT_COUNT && tensor->bytes == sizeof ids);
    cr_expect_str_eq(cop_gguf_type(tensor), "I64");
    cr_expect_arr_eq(tensor->data, ids, sizeof ids);
}
