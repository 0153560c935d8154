/* How the matrices of a head are held: an option of every proposer that has some of its own.
 *
 *     struct state { …; int32_t weights; };           then, once its files are open:
 *     files.weights = (enum cop_head_weights)state->weights; */
#ifndef COP_ALGORITHMS_WEIGHTS_H
#define COP_ALGORITHMS_WEIGHTS_H

#include "core/base/option.h"
#include "core/model/quantise.h"

#define COP_HEAD_WEIGHTS_OPTION(state, field)                                                  \
    {                                                                                          \
        .name = "weights", .type = COP_OPTION_CHOICE, .offset = offsetof(state, field),        \
        .choices = "file|q8_0", .fallback = COP_HEAD_WEIGHTS_FILE,                             \
        .help = "of the head's matrices: as they are stored, or quantised to Q8_0 when they "  \
                "are loaded and multiplied in int8: half the bytes of f16, and draft rows "    \
                "that differ a little; a matrix whose columns are no multiple of 32 stays as " \
                "it is"                                                                        \
    }

#endif
