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

/* --- bf16 -------------------------------------------------------------------------------------
 *
 * Products of bf16 by instructions that sum pairs in real. b is packed in panels of BF16_PANEL
 * columns (BF16_PANEL / 2 where that holds the rest), each with its pairs of rows interleaved:
 * element (2 p + s, j) of a panel lies at (p * width + j) * 2 + s. Behind row k and column n are
 * zeros, up to a multiple of the level's `depth` and to the width. */
enum { BF16_PANEL = 32, BF16_DEPTH = 32, BF16_ROWS = 64 }; /* the last two: the most of any level */

/* a (m, k) as a level reads it: the pair (i, 2 p), (i, 2 p + 1) lies at data + i * row + p * pair.
 */
struct left {
    const uint16_t *data;
    ptrdiff_t row, pair;
};

/* Packed b from row `row` on, a multiple of the level's depth; panels start `panel` elements apart.
 */
struct right {
    const uint16_t *data;
    ptrdiff_t panel;
    int row;
};

struct kernels_bf16 {
    int depth; /* rows of packed b are padded to a multiple of it; even */
    int rows;  /* of a that are best multiplied at a time, at most BF16_ROWS */

    /* Packs b (k, n), rounded to bf16; panels start `panel` elements apart, which is at least
     * BF16_PANEL times k padded. */
    void (*pack)(uint16_t *panels, ptrdiff_t panel, struct matrix b, int k, int n);

    /* a (m, k) as it is where that can be read, else rounded and rearranged in `buffer`, 64-byte
     * aligned, of bf16_left_size(m, k) elements. */
    struct left (*left)(uint16_t *buffer, struct matrix a, int m, int k);

    /* c = beta c + alpha a b. c: (m, n), rows `stride` apart. */
    void (*multiply)(real *c, ptrdiff_t stride, int beta, real alpha, struct left a, struct right b,
                     int m, int n, int k);
};

static inline size_t bf16_padded(int n, int unit)
{
    return ((size_t)n + (size_t)unit - 1) / (size_t)unit * (size_t)unit;
}

/* Columns of the panel that begins at column j. */
static inline int bf16_panel_width(int j, int n)
{
    return n - j > BF16_PANEL / 2 ? BF16_PANEL : BF16_PANEL / 2;
}

/* Elements that b (k, n) takes when packed without gaps between its panels. */
static inline size_t bf16_packed(int k, int n, int depth)
{
    return bf16_padded(k, depth) * bf16_padded(n, BF16_PANEL / 2);
}

static inline size_t bf16_left_size(int m, int k)
{
    return bf16_padded(m, 32) * bf16_padded(k, BF16_DEPTH);
}

#endif
