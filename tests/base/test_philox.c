/* Philox against published vectors, a second implementation, and cuRAND's host generator. */
#include "core/base/philox.h"
#include "tests/support/json_list.h"
#include <criterion/criterion.h>

#include <stdlib.h>

Test(philox, zero_vector)
{
    const uint32_t counter[4] = {0}, key[2] = {0};
    const uint32_t expected[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t out[4];
    cop_philox(counter, key, 10, out);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(out[i], expected[i]);
    }
}

Test(philox, counter_and_key_words_all_matter)
{
    /* Random123's vector of the digits of pi. */
    const uint32_t counter[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    const uint32_t key[2] = {0xa4093822, 0x299f31d0};
    const uint32_t expected[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    uint32_t out[4];
    cop_philox(counter, key, 10, out);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(out[i], expected[i]);
    }
}

Test(philox, uniform_lies_in_zero_to_one)
{
    cr_expect_eq(cop_uniform(0, 0), 0.0);
    cr_expect_eq(cop_uniform(0, 2047), 0.0); /* eleven bits fall away */
    cr_expect_eq(cop_uniform(0, 2048), 0x1p-53);
    cr_expect_eq(cop_uniform(0x80000000u, 0), 0.5);
    cr_expect_eq(cop_uniform(0xffffffffu, 0xffffffffu), 1.0 - 0x1p-53);
}

static void read_words(const cJSON *list, uint32_t *words, int n)
{
    cr_assert_eq(cJSON_GetArraySize(list), n);
    for (int i = 0; i < n; i++) {
        words[i] = (uint32_t)cJSON_GetArrayItem(list, i)->valuedouble;
    }
}

static void check_vectors(const cJSON *cases, const char *what)
{
    const cJSON *one;
    int n = 0;
    cJSON_ArrayForEach(one, cases)
    {
        uint32_t counter[4], key[2], expected[4], out[4];
        read_words(json_get(one, "counter"), counter, 4);
        read_words(json_get(one, "key"), key, 2);
        read_words(json_get(one, "expected"), expected, 4);
        cop_philox(counter, key, (int)json_number(one, "rounds"), out);
        for (int i = 0; i < 4; i++) {
            cr_expect_eq(out[i], expected[i], "%s %d, word %d", what, n, i);
        }
        n++;
    }
    cr_expect_gt(n, 0);
}

Test(philox, reference_vectors)
{
    cJSON *file = json_file("reference/philox.json");
    check_vectors(json_get(file, "known_answers"), "known answer");
    check_vectors(json_get(file, "second_implementation"), "second implementation");
    cJSON_Delete(file);
}

/* Output i of cuRAND's host generator: word i % 4 of block b = i / 4, whose counter is
 * {b >> 16, 0, b & 65535, 0}; 65,536 subsequences take turns. */
static uint32_t host_word(uint64_t seed, uint64_t i)
{
    uint64_t block = i / 4;
    const uint32_t counter[4] = {(uint32_t)(block >> 16), 0, (uint32_t)(block & 65535), 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    cop_philox(counter, key, 10, out);
    return out[i % 4];
}

Test(philox, curand_host_generator)
{
    cJSON *file = json_file("reference/philox.json");
    const cJSON *run;
    cJSON_ArrayForEach(run, json_get(json_get(file, "curand_host"), "raw"))
    {
        /* Seeds beyond 2^53 do not survive a double; the file has one, by its exact digits. */
        uint64_t seed = (uint64_t)json_number(run, "seed");
        seed = json_number(run, "seed") > 8e16 ? 0x123456789abcdefull : seed;
        uint64_t offset = (uint64_t)json_number(run, "offset");
        const cJSON *words = json_get(run, "u32");
        for (int i = 0; i < cJSON_GetArraySize(words); i++) {
            cr_expect_eq(host_word(seed, offset + (uint64_t)i),
                         (uint32_t)cJSON_GetArrayItem(words, i)->valuedouble,
                         "seed %llu, word %d", (unsigned long long)seed, i);
        }
    }
    cJSON_ArrayForEach(run,
                       json_get(json_get(file, "curand_host"), "blocks_checked_against_curand"))
    {
        uint32_t expected[4];
        read_words(json_get(run, "u32"), expected, 4);
        for (uint64_t i = 0; i < 4; i++) {
            cr_expect_eq(host_word((uint64_t)json_number(run, "seed"),
                                   4 * (uint64_t)json_number(run, "block") + i),
                         expected[i]);
        }
    }
    cJSON_Delete(file);
}

Test(philox, curand_uniform_doubles)
{
    cJSON *file = json_file("reference/philox.json");
    const cJSON *run;
    cJSON_ArrayForEach(run, json_get(json_get(file, "curand_host"), "uniform"))
    {
        uint64_t seed = (uint64_t)json_number(run, "seed");
        const cJSON *doubles = json_get(run, "double");
        for (int i = 0; i < cJSON_GetArraySize(doubles); i++) {
            const uint32_t counter[4] = {(uint32_t)(i / 2 % 2), 0, (uint32_t)(i / 4), 0};
            const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
            uint32_t out[4];
            cop_philox(counter, key, 10, out);
            uint64_t x = out[2 * (i % 2)], y = out[2 * (i % 2) + 1];
            double ours = (double)(x ^ y << 21) * 0x1p-53 + 0x1p-54;
            cr_expect_eq(ours, cJSON_GetArrayItem(doubles, i)->valuedouble, "double %d", i);
        }
    }
    cJSON_Delete(file);
}
