/* vec.h - how kernels see tensors: a pointer, how its elements are stored, and strides in elements.
 */
#ifndef KERNELS_VEC_H
#define KERNELS_VEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

/* Rows of contiguous elements; as a matrix, `stride` is the leading dimension. */
struct vec {
    void *data;
    enum type type;
    ptrdiff_t stride; /* elements from the start of one row to the start of the next */
};

/* (B, H, N, d) with the last axis contiguous. */
struct heads {
    void *data;
    enum type type;
    ptrdiff_t batch, head, token; /* strides in elements */
};

/* x from (row, col) on. */
static inline struct vec vec_at(struct vec x, size_t row, size_t col)
{
    ptrdiff_t at = (ptrdiff_t)row * x.stride + (ptrdiff_t)col;
    x.data = (char *)x.data + at * (ptrdiff_t)type_size(x.type);
    return x;
}

/* The (N, d) rows of image b and head h. */
static inline struct vec heads_at(struct heads x, int b, int h)
{
    ptrdiff_t at = b * x.batch + h * x.head;
    return (struct vec){(char *)x.data + at * (ptrdiff_t)type_size(x.type), x.type, x.token};
}

#endif
