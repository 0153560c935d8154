/* Characters and their normal forms, as the Unicode standard (annexes 15 and 44) defines them.
 */
#ifndef COP_TEXT_UNICODE_H
#define COP_TEXT_UNICODE_H

#include "core/text/tokenizer.h"

enum cop_form { COP_FORM_NFC, COP_FORM_NFD, COP_FORM_NFKC, COP_FORM_NFKD };

/* Appends the normal form of valid text. Time is linear in it, also where 100,000 marks stand
 * on one letter. */
enum cop_status cop_unicode_form(enum cop_form form, const char *text, size_t length,
                                 struct cop_text *out, struct cop_error *err);

/* Appends valid text in lower case, character by character (a final sigma is not told apart).
 */
enum cop_status cop_unicode_lower(const char *text, size_t length, struct cop_text *out,
                                  struct cop_error *err);

bool cop_is_mark(uint32_t character);  /* general category M */
bool cop_is_white(uint32_t character); /* White_Space */
/* Part of a word: letters, marks, decimal numbers, joiners and their kin. */
bool cop_is_word(uint32_t character);

#endif
