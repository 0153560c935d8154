/* Numbers out of the JSON of reference files. What is not there fails the test. */
#ifndef TESTS_SUPPORT_JSON_LIST_H
#define TESTS_SUPPORT_JSON_LIST_H

#include <cJSON.h>
#include <stdint.h>

cJSON *json_file(const char *name); /* of the reference folder; cJSON_Delete */
cJSON *json_get(const cJSON *object, const char *name);
double json_number(const cJSON *object, const char *name);
/* A list as an array of its length; free. */
int32_t *json_ints(const cJSON *list, int32_t *count);
double *json_numbers(const cJSON *list, int32_t *count);

#endif
