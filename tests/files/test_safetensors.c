/* Safetensors: what a file says, one clear message for each lie, and no crash whatever the
 * bytes. */
#include "core/files/safetensors.h"
#include "tests/support/mutate.h"
#include "tests/support/reference.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(safetensors, .timeout = 120);

static volatile uint8_t sink;

/* An image: the length, the header, and data bytes 0, 1, 2, … */
static uint8_t *make(const char *header, size_t data, size_t *size)
{
    size_t length = strlen(header);
    *size = 8 + length + data;
    uint8_t *image = calloc(*size + 1, 1);
    for (int i = 0; i < 8; i++) {
        image[i] = (uint8_t)((uint64_t)length >> 8 * i);
    }
    memcpy(image + 8, header, length);
    for (size_t i = 0; i < data; i++) {
        image[8 + length + i] = (uint8_t)i;
    }
    return image;
}

static const char good[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
    "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[20,22]},"
    "\"e\":{\"dtype\":\"F64\",\"shape\":[4,0],\"data_offsets\":[22,22]},"
    "\"i\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[22,25]}}   ";
enum { GOOD_DATA = 25 };

Test(safetensors, tells_what_is_there)
{
    size_t size;
    uint8_t *image = make(good, GOOD_DATA, &size);
    struct cop_safetensors *files;
    struct cop_error err = {.text = ""};
    cr_assert_eq(cop_safetensors_open_memory(&files, "m", image, size, &err), COP_OK, "%s",
                 err.text);
    cr_expect_eq(cop_safetensors_count(files), 5);
    cr_expect_eq(cop_safetensors_bytes(files), size);
    const struct cop_tensor *b = cop_safetensors_tensor(files, "b");
    cr_assert_not_null(b);
    cr_expect_eq(b->format, COP_FORMAT_F16);
    cr_expect(b->rank == 2 && b->dims[0] == 3 && b->dims[1] == 2 && b->dims[2] == 1);
    cr_expect_eq(b->bytes, 12);
    cr_expect_eq(*(const uint8_t *)b->data, 8);
    const struct cop_tensor *s = cop_safetensors_tensor(files, "s");
    cr_expect(s && s->rank == 0 && s->dims[0] == 1 && s->bytes == 2);
    const struct cop_tensor *e = cop_safetensors_tensor(files, "e");
    cr_expect(e && e->bytes == 0 && e->dims[0] == 0 && e->format == COP_FORMAT_COUNT);
    cr_expect_str_eq(cop_safetensors_type(files, e), "F64");
    cr_expect_null(cop_safetensors_tensor(files, "__metadata__"));
    cr_expect_null(cop_safetensors_tensor(files, ""));
    cop_safetensors_close(files);
    free(image);
}

#define ONE(dtype, shape, offsets)                                                             \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

Test(safetensors, each_lie_has_its_message)
{
    static const struct {
        const char *header;
        size_t data;
        enum cop_status status;
        const char *word;
    } rows[] = {
        {"{}", 0, COP_OK, ""},
        {"{\"__metadata__\":{}}", 0, COP_OK, ""},
        {ONE("F32", "[2]", "[0,8]"), 8, COP_OK, ""},
        {ONE("F8_E4M3", "[2]", "[0,2]"), 2, COP_OK, ""},
        {ONE("BOOL", "[1,1,1,2]", "[0,2]"), 2, COP_OK, ""},
        {ONE("F32", "[0]", "[0,0]"), 0, COP_OK, ""},
        {" {}", 0, COP_ERR_FORMAT, "brace"},
        {"[]", 0, COP_ERR_FORMAT, "brace"},
        {"{}x", 0, COP_ERR_FORMAT, "header"},
        {"{", 0, COP_ERR_FORMAT, "header"},
        {"{\"a\":1}", 0, COP_ERR_FORMAT, "\"a\""},
        {"{\"__metadata__\":[]}", 0, COP_ERR_FORMAT, "__metadata__"},
        {"{\"__metadata__\":{\"x\":1}}", 0, COP_ERR_FORMAT, "__metadata__"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, COP_ERR_FORMAT, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, COP_ERR_FORMAT, "twice"},
        {ONE("F32", "[2]", "[0,8]"), 9, COP_ERR_FORMAT, "1 bytes follow"},
        {"{}", 3, COP_ERR_FORMAT, "3 bytes follow"},
        {ONE("F32", "[2]", "[0,8]"), 7, COP_ERR_FORMAT, "7 bytes of data"},
        {ONE("F32", "[2]", "[8,0]"), 8, COP_ERR_FORMAT, "[8, 0)"},
        {ONE("F32", "[2]", "[4,12]"), 12, COP_ERR_FORMAT, "hole of 4 bytes"},
        {ONE("F32", "[2]", "[0,4]"), 4, COP_ERR_FORMAT, "needs 8"},
        {ONE("F32", "[2]", "[-8,0]"), 8, COP_ERR_FORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0,8,8]"), 8, COP_ERR_FORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0]"), 8, COP_ERR_FORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0.0,8]"), 8, COP_ERR_FORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[0,18446744073709551624]"), 8, COP_ERR_FORMAT, "data_offsets"},
        {ONE("F32", "[2]", "[9223372036854775800,9223372036854775807]"), 8, COP_ERR_FORMAT,
         "data"},
        {ONE("F32", "[1152921504606846976]", "[0,8]"), 8, COP_ERR_FORMAT, "number of bytes"},
        {ONE("I8", "[1152921504606846975]", "[0,8]"), 8, COP_ERR_FORMAT,
         "needs 1152921504606846975"},
        {ONE("F32", "[4294967296,4294967296]", "[0,0]"), 0, COP_ERR_FORMAT, "64 bits"},
        {ONE("F32", "[4611686018427387904]", "[0,0]"), 0, COP_ERR_FORMAT, "number of bytes"},
        {ONE("F32", "[-2]", "[0,8]"), 8, COP_ERR_FORMAT, "shape"},
        {ONE("F32", "[1,1,1,1,1]", "[0,4]"), 4, COP_ERR_FORMAT, "4 sides"},
        {ONE("F4", "[3]", "[0,1]"), 1, COP_ERR_FORMAT, "number of bytes"},
        {ONE("F33", "[2]", "[0,8]"), 8, COP_ERR_UNSUPPORTED, "\"F33\""},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[2,6]}}",
         6, COP_ERR_FORMAT, "overlaps tensor \"a\""},
        {"{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[4,8]}}",
         8, COP_ERR_FORMAT, "there twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size;
        uint8_t *image = make(rows[i].header, rows[i].data, &size);
        struct cop_safetensors *files;
        struct cop_error err = {.text = ""};
        cr_expect_eq(cop_safetensors_open_memory(&files, "m.st", image, size, &err),
                     rows[i].status, "row %zu: %s", i, err.text);
        cr_expect_eq(files == NULL, rows[i].status != COP_OK);
        cr_expect_not_null(strstr(err.text, rows[i].word), "row %zu: \"%s\" lacks \"%s\"", i,
                           err.text, rows[i].word);
        cr_expect(rows[i].status == COP_OK || strncmp(err.text, "m.st: ", 6) == 0);
        cop_safetensors_close(files);
        free(image);
    }
}

/* ---- Damage ------------------------------------------------------------------------------ */

/* Opens and, if that succeeds, touches all that the file promises. */
static bool survives(const uint8_t *image, size_t size)
{
    struct cop_safetensors *files;
    struct cop_error err = {.text = ""};
    enum cop_status status = cop_safetensors_open_memory(&files, "m", image, size, &err);
    if (status != COP_OK) {
        cr_assert(!files && err.code == status && strncmp(err.text, "m: ", 3) == 0);
        return false;
    }
    for (size_t i = 0; i < cop_safetensors_count(files); i++) {
        const struct cop_tensor *tensor = cop_safetensors_at(files, i);
        const uint8_t *data = tensor->data;
        sink ^= tensor->bytes ? data[0] ^ data[tensor->bytes - 1] : 0;
        sink ^= tensor->name.length ? (uint8_t)tensor->name.bytes[0] : 0;
    }
    cop_safetensors_close(files);
    return true;
}

Test(safetensors, every_truncation_is_refused)
{
    size_t size;
    uint8_t *image = make(good, GOOD_DATA, &size);
    for (size_t length = 0; length < size; length++) {
        uint8_t *cut = malloc(length ? length : 1);
        memcpy(cut, image, length);
        cr_expect_not(survives(cut, length), "%zu bytes of %zu", length, size);
        free(cut);
    }
    cr_expect(survives(image, size));
    free(image);
}

Test(safetensors, random_damage)
{
    size_t size, n_opened = 0;
    uint8_t *image = make(good, GOOD_DATA, &size);
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(image, size, seed, &damaged_size);
        n_opened += survives(damaged, damaged_size);
        free(damaged);
    }
    cr_expect_gt(n_opened, MUTATIONS / 100);
    cr_expect_lt(n_opened, MUTATIONS / 2);
    free(image);
}

/* The header alone is damaged, and says its length rightly. */
Test(safetensors, random_damage_of_the_header)
{
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t length, size;
        uint8_t *header = mutate_json(good, sizeof good - 1, seed, &length);
        size = 8 + length + GOOD_DATA;
        uint8_t *image = calloc(size, 1);
        for (int i = 0; i < 8; i++) {
            image[i] = (uint8_t)((uint64_t)length >> 8 * i);
        }
        memcpy(image + 8, header, length);
        n_opened += survives(image, size);
        free(image);
        free(header);
    }
    cr_expect_gt(n_opened, MUTATIONS / 100);
    cr_expect_lt(n_opened, MUTATIONS / 2);
}

/* ---- Folders ----------------------------------------------------------------------------- */

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/safetensors-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void put(const char *name, const void *bytes, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

static void remove_folder(void)
{
    static const char *const names[] = {"one.st", "two.st", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

Test(safetensors, an_index_names_files_of_the_folder)
{
    static const struct {
        const char *index;
        enum cop_status status;
        const char *word;
    } rows[] = {
        {"{\"weight_map\":{\"a\":\"one.st\",\"b\":\"two.st\"}}", COP_OK, ""},
        {"{\"weight_map\":{\"a\":\"one.st\",\"b\":\"one.st\"}}", COP_ERR_FORMAT, "\"b\""},
        {"{\"weight_map\":{\"a\":\"one.st\",\"c\":\"two.st\"}}", COP_ERR_FORMAT, "\"c\""},
        {"{\"weight_map\":{\"a\":\"one.st\",\"b\":\"three.st\"}}", COP_ERR_IO, "three.st"},
        {"{\"weight_map\":{\"a\":\"../one.st\"}}", COP_ERR_FORMAT, "file of this folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", COP_ERR_FORMAT, "file of this folder"},
        {"{\"weight_map\":{\"a\":\"one.st\\u0000\"}}", COP_ERR_FORMAT, "file of this folder"},
        {"{\"weight_map\":{\"a\":7}}", COP_ERR_FORMAT, "\"a\""},
        {"{\"weight_map\":[]}", COP_ERR_FORMAT, "weight_map"},
        {"{}", COP_ERR_FORMAT, "weight_map"},
        {"[", COP_ERR_FORMAT, "index.json"},
        {"", COP_ERR_FORMAT, "index.json"},
    };
    size_t size;
    make_folder();
    uint8_t *one = make(ONE("F32", "[2]", "[0,8]"), 8, &size);
    put("one.st", one, size);
    one[8 + 2] = 'b';
    put("two.st", one, size);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cop_safetensors *files;
        struct cop_error err = {.text = ""};
        put("model.safetensors.index.json", rows[i].index, strlen(rows[i].index));
        cr_expect_eq(cop_safetensors_open(&files, folder, &err), rows[i].status, "row %zu: %s",
                     i, err.text);
        cr_expect_not_null(strstr(err.text, rows[i].word), "row %zu: \"%s\" lacks \"%s\"", i,
                           err.text, rows[i].word);
        cr_expect(rows[i].status != COP_OK || cop_safetensors_count(files) == 2);
        cop_safetensors_close(files);
    }
    one[8 + 2] = 'a'; /* the same tensor in both files */
    put("two.st", one, size);
    put("model.safetensors.index.json", rows[0].index, strlen(rows[0].index));
    struct cop_safetensors *files;
    struct cop_error err = {.text = ""};
    cr_expect_eq(cop_safetensors_open(&files, folder, &err), COP_ERR_FORMAT);
    cr_expect_not_null(strstr(err.text, "also in"), "%s", err.text);
    free(one);
    remove_folder();
}

Test(safetensors, a_folder_without_weights_says_so)
{
    struct cop_safetensors *files;
    struct cop_error err = {.text = ""};
    make_folder();
    cr_expect_eq(cop_safetensors_open(&files, folder, &err), COP_ERR_IO);
    cr_expect_not_null(strstr(err.text, "model.safetensors.index.json"), "%s", err.text);
    remove_folder();
}
