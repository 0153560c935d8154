/* Reference counts and the free list of a pool of pages. */
#include "core/cache/pages.h"
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

bool cop_pages_init(struct cop_pages *pages, int32_t n_pages)
{
    *pages = (struct cop_pages){.n_pages = n_pages, .n_free = n_pages};
    pages->free_stack = malloc((size_t)n_pages * sizeof *pages->free_stack);
    pages->holders = calloc((size_t)n_pages, sizeof *pages->holders);
    if (!pages->free_stack || !pages->holders) {
        cop_pages_release(pages);
        return false;
    }
    for (int32_t i = 0; i < n_pages; i++) {
        pages->free_stack[i] = n_pages - 1 - i;
    }
    return true;
}

void cop_pages_release(struct cop_pages *pages)
{
    free(pages->free_stack);
    free(pages->holders);
    *pages = (struct cop_pages){0};
}

int32_t cop_pages_take(struct cop_pages *pages)
{
    assert(pages->n_free > 0);
    int32_t page = pages->free_stack[--pages->n_free];
    pages->holders[page] = 1;
    int32_t used = pages->n_pages - pages->n_free;
    if (used > pages->peak) {
        pages->peak = used;
    }
    return page;
}

void cop_pages_hold(struct cop_pages *pages, int32_t page)
{
    assert(pages->holders[page] > 0);
    pages->holders[page]++;
}

void cop_pages_drop(struct cop_pages *pages, int32_t page)
{
    assert(pages->holders[page] > 0);
    if (--pages->holders[page] == 0) {
        pages->free_stack[pages->n_free++] = page;
    }
}
