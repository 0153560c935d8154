/* Files of torch.save: what is read, what is refused and in which words, and damaged ones. */
#include "core/files/torch.h"
#include "tests/support/mutate.h"
#include "tests/support/torch_writer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(torch, .timeout = 120);

static const float numbers[6] = {1, 2, 3, -4, 5.5f, 6};
static const int64_t offsets[2] = {7, -9};

#define SIDES(...) ((const int64_t[]){__VA_ARGS__})

/* Two views of one storage, a vector of another type, a table of another archive name. */
static void fill(struct zip_writer *zip)
{
    struct bytes pickle = {.size = 0};
    pickle_begin(&pickle);
    pickle_tensor(&pickle, "fc.weight", "FloatStorage", "0", 6, 0, 2, SIDES(2, 3), SIDES(3, 1));
    pickle_tensor(&pickle, "fc.bias", "FloatStorage", "0", 6, 4, 1, SIDES(2), SIDES(1));
    pickle_tensor(&pickle, "d2t", "LongStorage", "1", 2, 0, 1, SIDES(2), SIDES(1));
    pickle_tensor(&pickle, "scale", "FloatStorage", "0", 6, 3, 0, NULL, NULL);
    pickle_end(&pickle);
    zip_add(zip, "heads/data.pkl", pickle.data, pickle.size);
    zip_add(zip, "heads/byteorder", "little", 6);
    zip_add(zip, "heads/data/0", numbers, sizeof numbers);
    zip_add(zip, "heads/data/1", offsets, sizeof offsets);
    zip_add(zip, "heads/version", "3\n", 2);
    zip_finish(zip);
}

static struct cop_torch *open_whole(const struct zip_writer *zip)
{
    struct cop_torch *file;
    struct cop_error err = {.text = ""};
    cr_assert_eq(cop_torch_open_memory(&file, "h.pt", zip->file.data, zip->file.size, &err),
                 COP_OK, "%s", err.text);
    return file;
}

Test(torch, a_state_dict_is_a_table_of_views)
{
    static struct zip_writer zip;
    fill(&zip);
    struct cop_torch *file = open_whole(&zip);
    cr_assert_eq(cop_torch_count(file), 4);
    const struct cop_tensor *weight = cop_torch_tensor(file, "fc.weight");
    const struct cop_tensor *bias = cop_torch_tensor(file, "fc.bias");
    const struct cop_tensor *map = cop_torch_tensor(file, "d2t");
    cr_assert(weight && bias && map && !cop_torch_tensor(file, "fc"));
    cr_expect(weight->rank == 2 && weight->dims[0] == 3 && weight->dims[1] == 2);
    cr_expect(weight->format == COP_FORMAT_F32 && weight->bytes == 24);
    cr_expect_arr_eq(weight->data, numbers, 24);
    cr_expect(bias->rank == 1 && bias->dims[0] == 2 && bias->bytes == 8);
    cr_expect_arr_eq(bias->data, numbers + 4, 8);
    cr_expect_str_eq(cop_torch_type_name(file, map), "I64");
    cr_expect_arr_eq(map->data, offsets, 16);
    cr_expect_eq(cop_torch_tensor(file, "scale")->rank, 0);
    cop_torch_close(file);
}

Test(torch, parameters_and_newer_protocols)
{
    static struct zip_writer zip;
    struct bytes pickle = {.size = 0};
    bytes_put(&pickle, "\x80\x04", 2);
    pickle_global(&pickle, "collections", "OrderedDict");
    bytes_put(&pickle, "\x94)R\x95\0\0\0\0\0\0\0\0", 12);
    bytes_put(&pickle, "\x8c\1w\x8c\014torch._utils\x8c\022_rebuild_parameter\x93(", 39);
    pickle_view(&pickle, "FloatStorage", "0", 6, 2, 1, SIDES(3), SIDES(1));
    bytes_put(&pickle, "\x88h\0)RtRs.", 9);
    zip_add(&zip, "p/data.pkl", pickle.data, pickle.size);
    zip_add(&zip, "p/data/0", numbers, sizeof numbers);
    zip_finish(&zip);
    struct cop_torch *file = open_whole(&zip);
    cr_assert_eq(cop_torch_count(file), 1);
    cr_expect_arr_eq(cop_torch_tensor(file, "w")->data, numbers + 2, 12);
    cop_torch_close(file);
}

Test(torch, lists_and_tensors_of_integers)
{
    static struct zip_writer list, tensor;
    struct bytes pickle = {.size = 0};
    bytes_put(&pickle,
              "\x80\x02](K\5M\1\1J\xff\xff\xff\xff"
              "e.",
              16);
    zip_add(&list, "a/data.pkl", pickle.data, pickle.size);
    zip_finish(&list);
    pickle.size = 0;
    bytes_put(&pickle, "\x80\x02", 2);
    pickle_global(&pickle, "torch._utils", "_rebuild_tensor_v2");
    bytes_put(&pickle, "((", 2);
    pickle_string(&pickle, "storage");
    pickle_global(&pickle, "torch", "LongStorage");
    pickle_string(&pickle, "1");
    pickle_string(&pickle, "cpu");
    bytes_put(&pickle, "K\2tQK\0K\2\x85K\1\x85\x89NtR.", 17);
    zip_add(&tensor, "a/data.pkl", pickle.data, pickle.size);
    zip_add(&tensor, "a/data/1", offsets, sizeof offsets);
    zip_finish(&tensor);
    const struct zip_writer *files[] = {&list, &tensor};
    const int64_t expected[2][3] = {{5, 257, -1}, {7, -9, 0}};
    for (int i = 0; i < 2; i++) {
        struct cop_torch *file = open_whole(files[i]);
        int64_t *ids;
        size_t count;
        cr_assert_eq(cop_torch_integers(file, &ids, &count, NULL), COP_OK);
        cr_assert_eq(count, i == 0 ? 3 : 2);
        cr_expect_arr_eq(ids, expected[i], count * sizeof *ids);
        free(ids);
        cop_torch_close(file);
    }
    static struct zip_writer dictionary;
    fill(&dictionary);
    struct cop_torch *file = open_whole(&dictionary);
    int64_t *ids;
    size_t count;
    struct cop_error err;
    cr_expect_eq(cop_torch_integers(file, &ids, &count, &err), COP_ERR_FORMAT);
    cr_expect_str_eq(err.text, "h.pt: holds neither a list of integers nor one tensor of them");
    cop_torch_close(file);
}

/* ---- Refusals ---------------------------------------------------------------------------- */

static void expect_refusal(const void *data, size_t size, const char *text)
{
    struct cop_torch *file;
    struct cop_error err = {.text = ""};
    cr_expect_eq(cop_torch_open_memory(&file, "h.pt", data, size, &err), COP_ERR_FORMAT, "%s",
                 err.text);
    cr_expect_str_eq(err.text, text);
    cr_expect_null(file);
}

/* A file with this pickle and storage 0. */
static void refuse_pickle(const void *data, size_t size, const char *text)
{
    static struct zip_writer zip;
    zip = (struct zip_writer){.n_entries = 0};
    zip_add(&zip, "h/data.pkl", data, size);
    zip_add(&zip, "h/data/0", numbers, sizeof numbers);
    zip_finish(&zip);
    expect_refusal(zip.file.data, zip.file.size, text);
}

#define REFUSE(pickle, text) refuse_pickle(pickle, sizeof(pickle) - 1, text)

Test(torch, foreign_names_and_opcodes_are_told)
{
    REFUSE("\x80\x02"
           "cposix\nsystem\n(X\4\0\0\0true"
           "tR.",
           "h.pt: data.pkl, byte 2: names \"posix.system\", which is not among what rebuilds "
           "tensors, and nothing was run; save the state_dict alone");
    REFUSE("\x80\x04\x8c\010builtins\x8c\4eval\x93.",
           "h.pt: data.pkl, byte 18: names \"builtins.eval\", which is not among what rebuilds "
           "tensors, and nothing was run; save the state_dict alone");
    REFUSE("\x80\x02(iposix\nsystem\n.",
           "h.pt: data.pkl, byte 3: opcode 0x69 (INST) is not among those that a dictionary of "
           "tensors needs, and nothing was run; save the state_dict alone");
    REFUSE("\x80\x02"
           "ctorch\nFloatStorage\n)\x81.",
           "h.pt: data.pkl, byte 23: opcode 0x81 (NEWOBJ) is not among those that a dictionary "
           "of tensors needs, and nothing was run; save the state_dict alone");
    REFUSE(
        "\x80\x02"
        "ctorch\nFloatStorage\n)R.",
        "h.pt: data.pkl, byte 23: calls a name of the list with other arguments than PyTorch "
        "does");
    REFUSE("\x80\x02X\1\0\0\0a)R.",
           "h.pt: data.pkl, byte 9: calls what is no name of the list");
}

Test(torch, broken_pickles_are_told)
{
    REFUSE("\x80\x02", "h.pt: data.pkl, byte 2: the pickle is cut off");
    REFUSE("\x80\x02X\xff\xff\xff\xff"
           "a.",
           "h.pt: data.pkl, byte 2: the pickle is cut off");
    REFUSE("\x80\x02t.", "h.pt: data.pkl, byte 2: asks for a mark that is not there");
    REFUSE("\x80\x02K\1\x86.",
           "h.pt: data.pkl, byte 4: takes more from the stack than is there");
    REFUSE("\x80\x02h\0.",
           "h.pt: data.pkl, byte 2: asks for a value that was never remembered");
    REFUSE("\x80\x02}r\xff\xff\xff\xff.",
           "h.pt: data.pkl, byte 3: remembers a value under a number that is not the next one");
    REFUSE("\x80\x02}}.", "h.pt: data.pkl, byte 4: ends with other than one value");
    REFUSE("\x80\x02}K\1a.",
           "h.pt: data.pkl, byte 5: puts items into what is no list or dictionary for them");
    REFUSE("\x80\x02(X\7\0\0\0storage"
           "NK\0NK\1tQ.",
           "h.pt: data.pkl, byte 22: a persistent id that describes no storage of tensors");
    REFUSE("\x80\x02}X\1\0\0\0aK\1s.",
           "h.pt: \"a\" is no tensor; a dictionary of tensors is read: save the state_dict "
           "alone");
    /* A list inside itself, many levels of lists: nobody follows them. */
    REFUSE("\x80\x02}q\0X\1\0\0\0ah\0s.",
           "h.pt: \"a\" is no tensor; a dictionary of tensors is read: save the state_dict "
           "alone");
    static uint8_t deep[40000];
    memset(deep, ']', sizeof deep);
    memset(deep + sizeof deep / 2, 'a', sizeof deep / 2);
    deep[0] = '}';
    deep[sizeof deep - 1] = '.';
    refuse_pickle(deep, sizeof deep,
                  "h.pt: data.pkl, byte 39998: puts items into what is no list or dictionary "
                  "for them");
}

static void refuse_tensor(int64_t n_numbers, int64_t offset, int rank, const int64_t *sizes,
                          const int64_t *strides, const char *key, const char *text)
{
    struct bytes pickle = {.size = 0};
    pickle_begin(&pickle);
    pickle_tensor(&pickle, "w", "FloatStorage", key, n_numbers, offset, rank, sizes, strides);
    pickle_end(&pickle);
    refuse_pickle(pickle.data, pickle.size, text);
}

Test(torch, lying_tensors_are_told)
{
    refuse_tensor(6, 0, 2, SIDES(2, 4), SIDES(4, 1), "0",
                  "h.pt: tensor \"w\": 8 numbers from 0 on are not inside its storage of 6");
    refuse_tensor(6, 1, 2, SIDES(2, 3), SIDES(3, 1), "0",
                  "h.pt: tensor \"w\": 6 numbers from 1 on are not inside its storage of 6");
    refuse_tensor(6, -1, 1, SIDES(1), SIDES(1), "0",
                  "h.pt: tensor \"w\": 1 numbers from -1 on are not inside its storage of 6");
    refuse_tensor(7, 0, 1, SIDES(1), SIDES(1), "0",
                  "h.pt: tensor \"w\": its storage \"0\" is said to hold 7 numbers of F32, and "
                  "has 24 bytes");
    refuse_tensor(6, 0, 1, SIDES(1), SIDES(1), "1",
                  "h.pt: tensor \"w\": its storage \"1\" is missing from the file");
    refuse_tensor(6, 0, 1, SIDES(-1), SIDES(1), "0",
                  "h.pt: tensor \"w\" has a side that is no count");
    refuse_tensor(6, 0, 5, SIDES(1, 1, 1, 1, 1), SIDES(1, 1, 1, 1, 1), "0",
                  "h.pt: tensor \"w\" has more than 4 sides");
    refuse_tensor(6, 0, 3, SIDES(1ll << 40, 1ll << 40, 2), SIDES(1ll << 41, 2, 1), "0",
                  "h.pt: tensor \"w\" has more numbers than 64 bits count");
    refuse_tensor(6, 0, 2, SIDES(3, 2), SIDES(1, 3), "0",
                  "h.pt: tensor \"w\" has rows that do not lie one behind the other; save it "
                  "after .contiguous()");
    refuse_tensor(6, 0, 2, SIDES(1000000, 1), SIDES(0, 1), "0",
                  "h.pt: tensor \"w\" has rows that do not lie one behind the other; save it "
                  "after .contiguous()");
}

Test(torch, archives_that_are_none_are_told)
{
    static struct zip_writer zip, deflated, other, big;
    fill(&zip);
    expect_refusal(
        "", 0, "h.pt: its zip directory is missing: the file is cut off, or no zip archive");
    expect_refusal(
        zip.file.data, zip.file.size - 1,
        "h.pt: its zip directory is missing: the file is cut off, or no zip archive");
    zip_add_deflated(&deflated, "h/data.pkl", "abc", 3);
    zip_finish(&deflated);
    expect_refusal(deflated.file.data, deflated.file.size,
                   "h.pt: entry \"h/data.pkl\" is compressed or encrypted; PyTorch stores "
                   "entries as they are");
    zip_add(&other, "word/document.xml", "abc", 3);
    zip_finish(&other);
    expect_refusal(other.file.data, other.file.size,
                   "h.pt: is no file of torch.save: it has no data.pkl");
    zip_add(&big, "h/data.pkl", "\x80\x02}.", 4);
    zip_add(&big, "h/byteorder", "big", 3);
    zip_finish(&big);
    expect_refusal(big.file.data, big.file.size,
                   "h.pt: its numbers are not little-endian; save it on another machine");
    expect_refusal(
        "\x80\x02\x8a\x0al\xfc\x9c"
        "F\xf9 j\xa8P\x19.\x80\x02",
        17,
        "h.pt: written in PyTorch's format from before 1.6, which is not read; write "
        "it anew: python3 -c \"import torch; f = 'FILE'; torch.save(torch.load(f, "
        "map_location='cpu', weights_only=True), f)\"");
}

/* ---- Damage ------------------------------------------------------------------------------ */

static volatile uint8_t sink;

/* Opens and, if that succeeds, touches all that the file promises. */
static bool survives(const uint8_t *image, size_t size)
{
    struct cop_torch *file;
    struct cop_error err = {.text = ""};
    enum cop_status status = cop_torch_open_memory(&file, "m.pt", image, size, &err);
    if (status != COP_OK) {
        cr_assert(!file && err.code == status && strncmp(err.text, "m.pt: ", 6) == 0, "%s",
                  err.text);
        return false;
    }
    for (size_t i = 0; i < cop_torch_count(file); i++) {
        const struct cop_tensor *tensor = cop_torch_at(file, i);
        const uint8_t *data = tensor->data;
        sink ^= tensor->bytes ? data[0] ^ data[tensor->bytes - 1] : 0;
        sink ^= (uint8_t)cop_torch_type_name(file, tensor)[0];
    }
    int64_t *ids;
    size_t count;
    (void)cop_torch_integers(file, &ids, &count, &err);
    free(ids);
    cop_torch_close(file);
    return true;
}

Test(torch, every_byte_set_to_several_values)
{
    static struct zip_writer zip;
    fill(&zip);
    size_t size = zip.file.size, n_opened = 0;
    for (size_t at = 0; at < size; at++) {
        const uint8_t was = zip.file.data[at];
        const uint8_t values[] = {0, 0xFF, 0x7F, 0x80, (uint8_t)(was + 1), (uint8_t)(was ^ 1)};
        for (size_t i = 0; i < sizeof values; i++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, zip.file.data, size);
            copy[at] = values[i];
            n_opened += survives(copy, size);
            free(copy);
        }
    }
    cr_expect_gt(n_opened, size); /* data, padding, sums and names may change freely */
    cr_expect_lt(n_opened, 5 * size);
}

Test(torch, random_damage)
{
    static struct zip_writer zip;
    fill(&zip);
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t damaged_size;
        uint8_t *damaged = mutate(zip.file.data, zip.file.size, seed, &damaged_size);
        n_opened += survives(damaged, damaged_size);
        free(damaged);
    }
    cr_expect_gt(n_opened, MUTATIONS / 50);
}

/* The pickle alone is damaged: the archive around it is whole. */
Test(torch, random_damage_of_the_pickle)
{
    struct bytes pickle = {.size = 0};
    pickle_begin(&pickle);
    pickle_tensor(&pickle, "a", "FloatStorage", "0", 6, 0, 2, SIDES(2, 3), SIDES(3, 1));
    pickle_tensor(&pickle, "b", "FloatStorage", "0", 6, 4, 1, SIDES(2), SIDES(1));
    pickle_end(&pickle);
    size_t n_opened = 0;
    for (uint64_t seed = 0; seed < MUTATIONS; seed++) {
        size_t size;
        uint8_t *damaged = mutate(pickle.data, pickle.size, seed, &size);
        static struct zip_writer zip;
        zip.file.size = zip.directory.size = 0;
        zip.n_entries = 0;
        zip_add(&zip, "h/data.pkl", damaged, size);
        zip_add(&zip, "h/data/0", numbers, sizeof numbers);
        zip_finish(&zip);
        n_opened += survives(zip.file.data, zip.file.size);
        free(damaged);
    }
    cr_expect_gt(n_opened, MUTATIONS / 1000);
}
