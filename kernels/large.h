/* Memory for what is walked from end to end again and again: weights, buffers of products. With
 * pages of 4 KiB a good part of that time goes into finding pages. */
#ifndef COP_KERNELS_LARGE_H
#define COP_KERNELS_LARGE_H

#include <stddef.h>

/* At least `bytes`, in lines of 64 and, where it is large, of huge pages; contents undefined.
 * free() takes it back. NULL: no memory. */
void *cop_large_new(size_t bytes);

#endif
