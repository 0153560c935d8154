/* Large memory: see large.h. */
#include "kernels/large.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)1 << 21)
#define LINE      64

void *cop_large_new(size_t bytes)
{
    size_t unit = bytes < HUGE_PAGE ? LINE : HUGE_PAGE;
    size_t whole = bytes > 0 ? (bytes + unit - 1) / unit * unit : unit;
    void *memory = aligned_alloc(unit, whole);
#if defined(MADV_HUGEPAGE)
    if (memory && unit == HUGE_PAGE) {
        madvise(memory, whole, MADV_HUGEPAGE); /* a wish */
    }
#endif
    return memory;
}
