/* isa.h - what the isa_*.c files share. They are portable C, compiled once per instruction set with
 * -DISA=NAME; everything in them is static but one table, whose name carries the set's.
 *
 * Rows are worked on in chunks: a chunk of real numbers is used where it lies, one of bf16 goes
 * through a buffer on the stack, so that the loops in between know only real. */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include <stdbool.h>
#include <string.h>

#include "kernels/lane_bf16.h"
#include "kernels/tables.h"

#ifndef ISA
#define ISA portable
#endif
#define KERNELS_PASTE(name, isa) name##_##isa
#define KERNELS_PASTE_VALUE(name, isa) KERNELS_PASTE(name, isa)
#define KERNELS_NAME(name) KERNELS_PASTE_VALUE(name, ISA)

enum { CHUNK = 512 }; /* elements; a bf16 kernel holds a few such buffers */

/* --- chunks -------------------------------------------------------------------------------------
 */

ALWAYS_INLINE size_t chunk_size(size_t col, size_t cols)
{
    return cols - col < CHUNK ? cols - col : CHUNK;
}

ALWAYS_INLINE void chunk_from_bf16(real *to, const uint16_t *from, size_t n)
{
    for (size_t i = 0; i < n; i += LANE)
        lane_put(to + i, lane_get_bf16(from + i, n - i), n - i);
}

ALWAYS_INLINE void chunk_to_bf16(uint16_t *to, const real *from, size_t n)
{
    for (size_t i = 0; i < n; i += LANE)
        lane_put_bf16(to + i, lane_get(from + i, n - i), n - i);
}

/* n elements of x from (row, col) on, as real numbers. */
ALWAYS_INLINE const real *chunk_load(real *buffer, struct vec x, size_t row, size_t col, size_t n)
{
    ptrdiff_t at = (ptrdiff_t)row * x.stride + (ptrdiff_t)col;
    if (x.type == TYPE_REAL)
        return (const real *)x.data + at;
    chunk_from_bf16(buffer, (const uint16_t *)x.data + at, n);
    return buffer;
}

/* chunk_load where the buffer was last filled from the same row of `cols` elements: what is one
 * chunk is still in it. */
ALWAYS_INLINE const real *chunk_again(real *buffer, struct vec x, size_t row, size_t col, size_t n,
                                      size_t cols)
{
    return x.type == TYPE_BF16 && cols <= CHUNK ? buffer : chunk_load(buffer, x, row, col, n);
}

/* Where the n elements of y from (row, col) on are to be put; with `beta` they stand there. */
ALWAYS_INLINE real *chunk_open(real *buffer, struct vec y, int beta, size_t row, size_t col,
                               size_t n)
{
    ptrdiff_t at = (ptrdiff_t)row * y.stride + (ptrdiff_t)col;
    if (y.type == TYPE_REAL)
        return (real *)y.data + at;
    if (beta)
        chunk_from_bf16(buffer, (const uint16_t *)y.data + at, n);
    return buffer;
}

/* Ends what chunk_open began. */
ALWAYS_INLINE void chunk_close(const real *buffer, struct vec y, size_t row, size_t col, size_t n)
{
    if (y.type == TYPE_BF16)
        chunk_to_bf16((uint16_t *)y.data + (ptrdiff_t)row * y.stride + (ptrdiff_t)col, buffer, n);
}

/* Rows without gaps between them are one long row to what works element by element. */
ALWAYS_INLINE bool is_dense(struct vec x, size_t cols)
{
    return x.stride == (ptrdiff_t)cols;
}

ALWAYS_INLINE void join_rows(bool dense, size_t *rows, size_t *cols)
{
    if (dense) {
        *cols *= *rows;
        *rows = 1;
    }
}

#endif
