/* Reference values of other systems, from the folder beside the project.
 *
 * The folder is ../shared, or what COPPICE_SHARED says. Without it the test is skipped, and
 * says so. Lines of its JSON files may hold U+0000, which C strings cannot: take strings
 * through reference_string, which knows their length. */
#ifndef TESTS_SUPPORT_REFERENCE_H
#define TESTS_SUPPORT_REFERENCE_H

#include <cJSON.h>
#include <stddef.h>

/* The path of a file in the folder, e.g. "reference/tokenizer/smollm2.jsonl"; static buffer. */
const char *reference_path(const char *name);

/* A whole file, terminated; aborts the test if it cannot be read. Free it. */
char *reference_read(const char *path, size_t *length);

/* Calls `visit` with every line of a JSON Lines file; returns their number. */
size_t reference_lines(const char *name, void (*visit)(const cJSON *line, void *context),
                       void *context);

/* The bytes of a string, or of a string member; NULL where there is none. Free them. */
char *reference_bytes(const cJSON *string, size_t *length);
char *reference_string(const cJSON *object, const char *key, size_t *length);

/* Path of a model that CI fetches, e.g. "models/X.gguf"; skips the test if it is absent. */
const char *reference_model(const char *path);

#endif
