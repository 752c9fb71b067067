/* tile.h - what attention does to a tile of scores (some query rows, all keys). */
#ifndef KERNELS_TILE_H
#define KERNELS_TILE_H

#include "kernels/vec.h"

/* Which weights are dropped: weight (i, j) of the tile is element `first` + i * cols + j of the
 * sample. */
struct tile_dropout {
    double p;
    uint64_t stream, step, sample, first;
};

/* All tiles are (rows, cols) of reals, rows `stride` apart: whole vectors (PRODUCT_PAD), and what
 * lies behind the columns may be overwritten. */
struct kernels_tile {
    /* z = s + bias, rows of bias `cols` apart (NULL: 0); s = exp(z - max z), row by row;
     * inverse[i] = 1 / its sum, lse[i] = log of the sum of exp z. */
    void (*exp_rows)(real *s, ptrdiff_t stride, const real *bias, real *inverse, real *lse,
                     int rows, int cols);

    /* s = exp(s + bias - lse): the weights again. */
    void (*weights)(real *s, ptrdiff_t stride, const real *bias, const real *lse, int rows,
                    int cols);

    /* s[i, j] = -INFINITY where region[first + i] is not region[j]. */
    void (*mask)(real *s, ptrdiff_t stride, const unsigned char *region, int first, int rows,
                 int cols);

    /* dp = p (dp - r) scale: the gradient of the products. The same without scale, the scores',
     * goes to dbias = beta dbias + ., whose rows are `cols` apart; NULL: nowhere. */
    void (*score_grad)(real *dp, const real *p, ptrdiff_t stride, const real *r, double scale,
                       real *dbias, int beta, int rows, int cols);

    /* s = 0 where dropped, else s / (1 - p). */
    void (*dropout)(real *s, ptrdiff_t stride, const struct tile_dropout *o, int rows, int cols);

    /* s[i, j] = 0 where the weight scale[i] p[i, j] (scale NULL: p[i, j]) is not above `least`. p may
     * be s. */
    void (*keep_above)(real *s, const real *p, ptrdiff_t stride, const real *scale, double least,
                       int rows, int cols);

    /* Whether any weight of the tile is above `least`. */
    bool (*any_above)(const real *p, ptrdiff_t stride, const real *scale, double least, int rows,
                      int cols);

    /* r[i] = sum over j of a[i, j] b[i, j]; what a and b hold may be bf16. */
    void (*dots)(real *r, struct vec a, struct vec b, int rows, int cols);

    /* y = scale[i] x (NULL: 1) + beta y, y may be bf16 */
    void (*store)(struct vec y, int beta, const real *x, ptrdiff_t stride, const real *scale,
                  int rows, int cols);
};

#endif
