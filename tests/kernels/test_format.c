/* Stored number formats against the reference values of the shared folder, bit for bit. */
#include <criterion/criterion.h>

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

/* The parsed file ../shared/reference/dequant/<name>.json; skips the test when the folder is
 * absent. The caller deletes it. */
static cJSON *read_reference(const char *name)
{
    const char *shared = getenv("COPPICE_SHARED");
    char path[1024];
    snprintf(path, sizeof path, "%s/reference/dequant/%s.json", shared ? shared : "../shared",
             name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        cr_skip_test("no %s: the shared reference folder is not there", path);
    }
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    cr_assert_eq(fread(text, 1, bytes, file), bytes);
    text[bytes] = '\0';
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    free(text);
    cr_assert_not_null(json, "%s is not JSON", path);
    return json;
}

static size_t bytes_of_hex(const char *hex, uint8_t *bytes, size_t capacity)
{
    size_t n = strlen(hex) / 2;
    cr_assert_leq(n, capacity);
    for (size_t i = 0; i < n; i++) {
        unsigned value;
        cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
    return n;
}

/* JSON has no number for them; the file writes NaN and Infinity as strings or null. */
static bool same_value(float ours, const cJSON *theirs)
{
    if (!cJSON_IsNumber(theirs)) {
        return !isfinite(ours);
    }
    float value = (float)theirs->valuedouble;
    return memcmp(&ours, &value, sizeof value) == 0;
}

static void check_format(enum cop_format format)
{
    const struct cop_format_info *info = cop_format_info(format);
    cJSON *json = read_reference(info->name);
    cr_assert_eq(cJSON_GetObjectItem(json, "block_elements")->valueint, info->block_elements);
    cr_assert_eq(cJSON_GetObjectItem(json, "block_bytes")->valueint, info->block_bytes);
    int n_cases = 0;
    const cJSON *one;
    cJSON_ArrayForEach(one, cJSON_GetObjectItem(json, "cases"))
    {
        uint8_t block[512];
        float values[256];
        const char *name = cJSON_GetObjectItem(one, "name")->valuestring;
        size_t bytes = bytes_of_hex(cJSON_GetObjectItem(one, "hex")->valuestring, block, 512);
        cr_assert_eq(bytes, (size_t)info->block_bytes, "%s: %s", info->name, name);
        info->widen(block, info->block_elements, values);
        const cJSON *expected = cJSON_GetObjectItem(one, "values");
        cr_assert_eq(cJSON_GetArraySize(expected), info->block_elements);
        int i = 0;
        const cJSON *value;
        cJSON_ArrayForEach(value, expected)
        {
            cr_expect(same_value(values[i], value), "%s: %s: element %d is %.9g", info->name,
                      name, i, (double)values[i]);
            i++;
        }
        n_cases++;
    }
    cr_expect_geq(n_cases, 8, "%s: only %d cases", info->name, n_cases);
    cJSON_Delete(json);
}

Test(format, quantised_blocks_widen_to_the_reference_bits)
{
    for (int format = 0; format < COP_FORMAT_COUNT; format++) {
        if (cop_format_info((enum cop_format)format)->is_quantised) {
            check_format((enum cop_format)format);
        }
    }
}

Test(format, several_blocks_widen_one_after_the_other)
{
    /* Two Q4_1 blocks by hand: d = 1, m = 0 with all codes 1; d = 2, m = -1 with codes 0
     * and 15. */
    uint8_t blocks[40] = {0x00, 0x3c, 0x00, 0x00};
    memset(blocks + 4, 0x11, 16);
    const uint8_t second[4] = {0x00, 0x40, 0x00, 0xbc};
    memcpy(blocks + 20, second, 4);
    memset(blocks + 24, 0xf0, 16);
    float values[64];
    cop_format_info(COP_FORMAT_Q4_1)->widen(blocks, 64, values);
    for (int i = 0; i < 16; i++) {
        cr_expect_eq(values[i], 1.0f);
        cr_expect_eq(values[16 + i], 1.0f);
        cr_expect_eq(values[32 + i], -1.0f);
        cr_expect_eq(values[48 + i], 29.0f);
    }
}

static void check_pairs(const cJSON *pairs, bool to_f32, bool is_bf16)
{
    const cJSON *pair;
    cr_assert_gt(cJSON_GetArraySize(pairs), 20);
    cJSON_ArrayForEach(pair, pairs)
    {
        const cJSON *first = cJSON_GetArrayItem(pair, 0), *second = cJSON_GetArrayItem(pair, 1);
        if (to_f32) {
            uint16_t bits = (uint16_t)first->valueint;
            float value = is_bf16 ? cop_bf16_to_f32(bits) : cop_f16_to_f32(bits);
            cr_expect(same_value(value, second), "bits %u", bits);
        } else if (cJSON_IsNumber(first)) {
            uint16_t bits = cop_f32_to_f16((float)first->valuedouble);
            cr_expect_eq(bits, second->valueint, "%.9g gave %u, not %d", first->valuedouble,
                         bits, second->valueint);
        }
    }
}

Test(format, half_precision_converts_as_the_reference)
{
    cJSON *json = read_reference("half_formats");
    check_pairs(cJSON_GetObjectItem(json, "f16_to_f32"), true, false);
    check_pairs(cJSON_GetObjectItem(json, "f32_to_f16"), false, false);
    check_pairs(cJSON_GetObjectItem(json, "bf16_to_f32"), true, true);
    cJSON_Delete(json);
}

Test(format, every_f16_survives_a_round_trip)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = cop_f16_to_f32((uint16_t)bits);
        uint16_t back = cop_f32_to_f16(value);
        if (isnan(value)) {
            cr_expect(isnan(cop_f16_to_f32(back)), "NaN %x", bits);
        } else {
            cr_expect_eq(back, bits, "%x came back as %x", bits, back);
        }
    }
}

Test(format, f16_rounds_half_way_cases_to_even)
{
    cr_expect_eq(cop_f32_to_f16(1.0f + 0x1p-11f),
                 0x3c00); /* between 1 and the next: even is 1 */
    cr_expect_eq(cop_f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02);
    cr_expect_eq(cop_f32_to_f16(1.0f + 0x1.002p-11f), 0x3c01);
    cr_expect_eq(cop_f32_to_f16(0x1p-25f), 0x0000); /* half of the smallest subnormal */
    cr_expect_eq(cop_f32_to_f16(0x1.8p-24f), 0x0002);
    cr_expect_eq(cop_f32_to_f16(65519.996f), 0x7bff);
    cr_expect_eq(cop_f32_to_f16(65520.0f), 0x7c00);
    cr_expect_eq(cop_f32_to_f16(-INFINITY), 0xfc00);
    cr_expect_eq(cop_f32_to_f16(-0.0f), 0x8000);
}
