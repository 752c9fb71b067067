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

/* Whether the epilogue does anything. */
static inline bool has_epilogue(const struct epilogue *e)
{
    return e->bias || e->gelu || e->factor || e->order || e->residual.data;
}

/* Whether the epilogue knows rows by their numbers, so that all of them must be in one part. */
static inline bool counts_rows(const struct epilogue *e)
{
    return e->factor || e->order;
}

/* c = beta c + alpha a b, then the epilogue: a product, or the part of one that a thread does. */
struct gemm {
    struct vec c; /* (m, n) */
    int beta;
    real alpha;
    struct matrix a, b;              /* (m, k), (k, n) */
    int m, n, k;                     /* m, n > 0 */
    bool b_is_packed;                /* as g->compute wants it */
    const struct epilogue *epilogue; /* never NULL */
    void (*compute)(const struct gemm *g);
};

/* Computes by blocks of our own, in real. The order of a sum depends on k alone. */
void gemm_own(const struct gemm *g);

/* The same with a rounded to bf16 first. */
void gemm_own_rounded(const struct gemm *g);

/* Computes with the bf16 instructions of the level, which has them; a and b are rounded, k > 0. The
 * order of a sum depends on k alone. */
void gemm_bf16(const struct gemm *g);

/* Runs g->compute, whose sums do not depend on m and n, in as many parts as keep the team busy.
 * They begin at columns that are multiples of BF16_PANEL. */
void gemm_by_team(const struct gemm *g);

/* Runs g->compute in parts that m, n and k determine: where its sums may depend on them. */
void gemm_in_fixed_parts(const struct gemm *g);

#endif
