/* block.c - memory on huge pages. */
#define _DEFAULT_SOURCE /* madvise */
#include "base/block.h"

#include <stdlib.h>
#include <sys/mman.h>

void *block_create(size_t bytes)
{
    size_t huge = (size_t)2 << 20;
    size_t align = bytes >= huge ? huge : 64;
    size_t padded = (bytes + align) / align * align;
    void *block = aligned_alloc(align, padded);
    if (block && align == huge)
        (void)madvise(block, padded, MADV_HUGEPAGE);
    return block;
}
