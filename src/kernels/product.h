/* product.h - matrix products of our own: small ones, blocks of bf16, the tiles of attention, and
 * all of them where there is no BLAS. The right operand is packed once into panels of a few columns
 * and multiplied with any number of rows. */
#ifndef KERNELS_PRODUCT_H
#define KERNELS_PRODUCT_H

#include "kernels/vec.h"

/* Element (i, j) lies at data + i * row + j * col. */
struct matrix {
    const void *data;
    enum type type;
    ptrdiff_t row, col;
};

/* The widest vector in elements: packed rows are padded to whole vectors. */
enum { PRODUCT_PAD = 16 };

static inline size_t product_padded(int n)
{
    return ((size_t)n + PRODUCT_PAD - 1) / PRODUCT_PAD * PRODUCT_PAD;
}

/* Reals that k x n elements take when packed. */
static inline size_t product_packed(int k, int n)
{
    return (size_t)k * product_padded(n);
}

struct kernels_product {
    /* Packs b (k, n) into `panels`. */
    void (*pack)(real *panels, struct matrix b, int k, int n);

    /* c = beta c + alpha a b. c: (m, n), rows `stride` apart; a: (m, k), real; b packed. */
    void (*multiply)(real *c, ptrdiff_t stride, int beta, real alpha, struct matrix a,
                     const real *panels, int m, int n, int k);
};

#endif
