/* The families of chat templates, as data; private to core/text. */
#ifndef COP_TEXT_CHAT_FAMILIES_H
#define COP_TEXT_CHAT_FAMILIES_H

#include "core/text/tokenizer.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

enum chat_system {                         /* where the text of a leading system message goes */
                   CHAT_SYSTEM_TURN,       /* a turn of its own */
                   CHAT_SYSTEM_FIRST_USER, /* in front of the first user text */
                   CHAT_SYSTEM_LAST_USER,  /* in front of the last message, if that is the
                                              user's; else nowhere */
                   CHAT_SYSTEM_REFUSED
};

enum chat_trim {
    CHAT_TRIM_NOTHING,
    CHAT_TRIM_ANSWERS, /* white space around the assistant's contents */
    CHAT_TRIM_CONTENT, /* around each content */
    CHAT_TRIM_TURN     /* around a content together with the system text put before it */
};

/* In the texts {bos} and {eos} stand for the strings of these tokens. */
struct chat_family {
    const char *name;
    /* A template belongs to the first family all of whose marks its source contains (with \n
     * written as a line feed) and none of whose `absent` ones. */
    const char *marks[4];
    const char *absent[6];
    const char *before; /* once, in front of everything */
    struct {
        const char *open, *close;
    } turns[CHAT_ROLES];
    const char *answer;         /* opens the answer that is to be generated */
    const char *default_system; /* NULL: no system turn unless a message says so */
    enum chat_system system;
    const char *system_open, *system_close; /* around a leading system message's text */
    enum chat_trim trim;
    bool alternates; /* user, assistant, user, … after the optional system message */
};

/* NULL: no family that is known. */
const struct chat_family *cop_chat_family_find(struct cop_string source);

#endif
