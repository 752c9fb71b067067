/* block.h - large memory that lives long. */
#ifndef BASE_BLOCK_H
#define BASE_BLOCK_H

#include <stddef.h>

/* Memory for `bytes`, at least 64-byte aligned, from 2 MiB up on huge pages where the system has
 * them: passes over it then lose less to address translation. Not set to anything. NULL without
 * memory. For free(). */
void *block_create(size_t bytes);

#endif
