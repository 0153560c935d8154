/* Lists of numbers from cJSON. */
#include "tests/support/json_list.h"
#include "tests/support/reference.h"
#include <criterion/criterion.h>
#include <stdlib.h>

cJSON *json_file(const char *name)
{
    size_t length = 0;
    char *text = reference_read(reference_path(name), &length);
    cJSON *json = cJSON_ParseWithLength(text, length);
    free(text);
    cr_assert_not_null(json, "%s is not JSON", name);
    return json;
}

cJSON *json_get(const cJSON *object, const char *name)
{
    cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    cr_assert_not_null(member, "no member %s", name);
    return member;
}

double json_number(const cJSON *object, const char *name)
{
    const cJSON *member = json_get(object, name);
    cr_assert(cJSON_IsNumber(member), "%s is not a number", name);
    return member->valuedouble;
}

double *json_numbers(const cJSON *list, int32_t *count)
{
    *count = cJSON_GetArraySize(list);
    double *items = calloc((size_t)*count + 1, sizeof *items);
    int32_t i = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list)
    {
        cr_assert(cJSON_IsNumber(item));
        items[i++] = item->valuedouble;
    }
    return items;
}

int32_t *json_ints(const cJSON *list, int32_t *count)
{
    double *numbers = json_numbers(list, count);
    int32_t *items = calloc((size_t)*count + 1, sizeof *items);
    for (int32_t i = 0; i < *count; i++) {
        items[i] = (int32_t)numbers[i];
    }
    free(numbers);
    return items;
}
