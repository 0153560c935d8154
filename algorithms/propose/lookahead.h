/* The window of lookahead decoding as nodes of a tree. */
#ifndef ALGORITHMS_PROPOSE_LOOKAHEAD_H
#define ALGORITHMS_PROPOSE_LOOKAHEAD_H

#include <stdint.h>

/* Window nodes besides the root. */
int32_t cop_lookahead_scouts(int32_t window, int32_t ngram);
/* Node level * window + column hangs below this one; node 0, the root, below none (-1). */
int32_t cop_lookahead_parent(int32_t window, int32_t level, int32_t column);

#endif
