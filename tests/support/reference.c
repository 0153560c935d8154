/* Reading reference files. U+0000 travels through cJSON as a private-use character that no file
 * holds. */
#include "tests/support/reference.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUL_ESCAPE "\\u0000"
#define STAND_IN   "\\ue6e6" /* in place of NUL_ESCAPE, equally long */
#define STAND_IN_8 "\xEE\x9B\xA6"

const char *reference_path(const char *name)
{
    static char path[512];
    const char *folder = getenv("COPPICE_SHARED");
    folder = folder ? folder : "../shared";
    if (access(folder, R_OK) != 0) {
        cr_skip_test("no reference folder %s (set COPPICE_SHARED to where it is)", folder);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

char *reference_read(const char *path, size_t *length)
{
    FILE *stream = fopen(path, "rb");
    cr_assert(stream != NULL, "cannot open %s", path);
    (void)fseek(stream, 0, SEEK_END);
    *length = (size_t)ftell(stream);
    rewind(stream);
    char *text = malloc(*length + 1);
    cr_assert(text != NULL && fread(text, 1, *length, stream) == *length, "cannot read %s",
              path);
    text[*length] = '\0';
    (void)fclose(stream);
    return text;
}

/* Replaces the escape of U+0000 where it is one (and not a backslash followed by text). */
static void replace_nul(char *json)
{
    for (char *at = json; *at; at++) {
        if (*at != '\\') {
            continue;
        }
        if (strncmp(at, NUL_ESCAPE, 6) == 0) {
            memcpy(at, STAND_IN, 6);
        }
        at++;
    }
}

size_t reference_lines(const char *name, void (*visit)(const cJSON *line, void *context),
                       void *context)
{
    size_t length;
    char *text = reference_read(reference_path(name), &length);
    size_t count = 0;
    cr_assert(strstr(text, STAND_IN) == NULL);
    replace_nul(text);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        if (end) {
            *end = '\0';
        }
        cJSON *json = cJSON_Parse(line);
        cr_assert(json != NULL, "%s: line %zu is not JSON", name, count + 1);
        visit(json, context);
        cJSON_Delete(json);
        count++;
        line = end ? end + 1 : line + strlen(line);
    }
    free(text);
    return count;
}

char *reference_bytes(const cJSON *string, size_t *length)
{
    *length = 0;
    if (!cJSON_IsString(string)) {
        return NULL;
    }
    const char *from = string->valuestring;
    char *bytes = malloc(strlen(from) + 1);
    while (*from) {
        bool is_nul = strncmp(from, STAND_IN_8, 3) == 0;
        bytes[(*length)++] = is_nul ? '\0' : *from;
        from += is_nul ? 3 : 1;
    }
    bytes[*length] = '\0';
    return bytes;
}

char *reference_string(const cJSON *object, const char *key, size_t *length)
{
    return reference_bytes(cJSON_GetObjectItemCaseSensitive(object, key), length);
}

const char *reference_model(const char *path)
{
    if (access(path, R_OK) != 0) {
        cr_skip_test("no model %s: run `make models`", path);
    }
    return path;
}
