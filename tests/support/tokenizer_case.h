/* Comparing a tokenizer with the cases of reference/tokenizer (see reference/README.md). */
#ifndef TESTS_SUPPORT_TOKENIZER_CASE_H
#define TESTS_SUPPORT_TOKENIZER_CASE_H

#include "core/text/tokenizer.h"
#include <cJSON.h>

/* Each visits one line of its file (see reference_lines) with a tokenizer as context, and
 * reports by cr_expect. */
void tokenizer_case_check(const cJSON *line, void *tokenizer);
void tokenizer_case_stream(const cJSON *line, void *tokenizer);
void tokenizer_case_chat(const cJSON *line, void *tokenizer);

#endif
