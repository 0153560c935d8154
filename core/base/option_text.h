/* Words about options: what option.c's refusals and the printing functions share. Private to
 * core/base. */
#ifndef COP_BASE_OPTION_TEXT_H
#define COP_BASE_OPTION_TEXT_H

#include "core/base/option.h"

/* A text that grows into lent memory and is cut at its end. Always terminated. */
struct cop_words {
    char *text;
    size_t size, used;
};
#define COP_WORDS(buffer)                                                                      \
    {                                                                                          \
        .text = (buffer), .size = sizeof(buffer)                                               \
    }

void cop_say(struct cop_words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The shortest decimal that reads back as the same double; "inf", "nan". */
void cop_say_number(struct cop_words *words, double value);
/* "an integer from 1 to 4095", "one of "a", "b"". */
void cop_say_wanted(struct cop_words *words, const struct cop_option *option);

bool cop_option_has_range(const struct cop_option *option);
/* Index of a choice in "a|b|c", or -1. */
int32_t cop_choice_index(const char *choices, const char *name);

#endif
