/* The settings of draft rows that every drafter with logits has: each is the request's own
 * unless the script names it.
 *
 *     struct state { …; struct cop_draft_law law; };
 *     static const struct cop_option options[] = {
 *         …, COP_DRAFT_LAW_OPTIONS(struct state, law), {0}};
 */
#ifndef COP_ALGORITHMS_DRAFT_LAW_H
#define COP_ALGORITHMS_DRAFT_LAW_H

#include "core/base/option.h"
#include "core/cycle/rows/row.h"

struct cop_draft_law { /* NaN and INT32_MIN: the request's own */
    double temperature, top_p, min_p;
    int32_t top_k;
};

/* A temperature of 0 in the request is 1 for the draft. */
struct cop_sampling cop_draft_law_sampling(const struct cop_draft_law *law,
                                           const struct cop_sampling *request);

#define COP_DRAFT_LAW_OPTION(state, law, kind, field, least, most, text)                       \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_##kind, .offset = offsetof(state, law.field),       \
        .min = least, .max = most, .flags = COP_OPTION_ABSENT, .help = text                    \
    }
#define COP_DRAFT_LAW_OPTIONS(state, law)                                                      \
    COP_DRAFT_LAW_OPTION(state, law, NUMBER, temperature, 0, 1e6,                              \
                         "of the draft rows; absent: the request's own, 1 where that is 0"),   \
        COP_DRAFT_LAW_OPTION(                                                                  \
            state, law, INT, top_k, 0, 1e9,                                                    \
            "best tokens kept in draft rows, 0: all; absent: the request's own"),              \
        COP_DRAFT_LAW_OPTION(state, law, NUMBER, top_p, 0, 1,                                  \
                             "mass kept in draft rows; absent: the request's own"),            \
        COP_DRAFT_LAW_OPTION(                                                                  \
            state, law, NUMBER, min_p, 0, 1,                                                   \
            "least probability kept, relative to the best; absent: the request's own")

#endif
