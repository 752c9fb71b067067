/* gemm.h - the parts of kernel_gemm, for the files of this room. */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H

#include <stdbool.h>

#include "kernels/level.h"

/* Element (i, j) of op(x). */
static inline struct matrix matrix_of(struct vec x, enum trans t)
{
    return t == PLAIN ? (struct matrix){x.data, x.type, x.stride, 1}
                      : (struct matrix){x.data, x.type, 1, x.stride};
}

/* x from (i, j) on. */
static inline struct matrix matrix_at(struct matrix x, int i, int j)
{
    ptrdiff_t at = i * x.row + j * x.col;
    x.data = (const char *)x.data + at * (ptrdiff_t)type_size(x.type);
    return x;
}

/* Whether the epilogue (may be NULL) does anything. */
static inline bool has_epilogue(const struct epilogue *e)
{
    return e && (e->bias || e->gelu || e->factor || e->residual.data);
}

/* c = beta c + alpha a b, then the epilogue, in real by blocks of our own. With `round` a is
 * rounded to bf16 first. */
void gemm_own(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m, int n,
              int k, const struct epilogue *epilogue, bool round);

/* The same with the bf16 instructions of the level, which has them; a and b are rounded. */
void gemm_bf16(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m, int n,
               int k, const struct epilogue *epilogue);

#endif
