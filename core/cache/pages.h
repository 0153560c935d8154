/* The pages of a pool, counted: which are free, and how many page tables hold each of the
 * others. Knows nothing about what a page contains. */
#ifndef COP_CACHE_PAGES_H
#define COP_CACHE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct cop_pages {
    int32_t n_pages, n_free;
    int32_t peak;        /* most pages ever in use at once */
    int32_t *free_stack; /* [n_pages]; the first n_free entries are the free pages */
    int32_t *holders;    /* [n_pages] tables that hold the page; 0: free */
};

/* All pages free; the lowest is handed out first. False: no memory, *pages is then empty. */
bool cop_pages_init(struct cop_pages *pages, int32_t n_pages);
void cop_pages_release(struct cop_pages *pages);

int32_t cop_pages_take(struct cop_pages *pages); /* a free page must exist */
void cop_pages_hold(struct cop_pages *pages, int32_t page);
void cop_pages_drop(struct cop_pages *pages, int32_t page); /* frees it with its last holder */

#endif
