/* isa_taps.c - sums of rows that each row picks by a table. A block of columns is summed in
 * registers over all taps of a row, so that what is stored as bf16 is rounded once. */
#include "kernels/isa.h"

enum { BLOCK = 4 }; /* lanes that are summed at a time */

/* y[t] of `lanes` lanes from column c on, n columns being left. w: from column c on, rows `cols`
 * apart; or factor: one number a tap, or none. */
ALWAYS_INLINE void sum_row(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                           const real *factor, const int *from, size_t t, int taps, size_t c,
                           size_t n, size_t cols, int lanes)
{
    lane sum[BLOCK];
    UNROLL
    for (int l = 0; l < lanes; l++)
        sum[l] = bias ? lane_get(bias + c + l * LANE, n - (size_t)l * LANE) : lane_all(0);
    for (int k = 0; k < taps; k++) {
        if (from[k] < 0)
            continue;
        size_t at = (size_t)from[k] * (size_t)x.stride + c;
        lane all = lane_all(factor ? factor[k] : 1);
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            lane weight = w ? lane_get(w + (size_t)k * cols + c + i, n - i) : all;
            sum[l] += weight * lane_get_type(x.data, x.type, at + i, n - i);
        }
    }
    UNROLL
    for (int l = 0; l < lanes; l++) {
        size_t i = (size_t)l * LANE, at = t * (size_t)y.stride + c + i;
        if (beta)
            sum[l] += lane_get_type(y.data, y.type, at, n - i);
        lane_put_type(y.data, y.type, at, sum[l], n - i);
    }
}

ALWAYS_INLINE void sum_rows(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                            const real *factor, const int *from, size_t rows, int taps, size_t cols)
{
    const size_t whole = (size_t)BLOCK * LANE;
    size_t c = 0;
    for (; c + whole <= cols; c += whole)
        for (size_t t = 0; t < rows; t++)
            sum_row(y, beta, x, w, bias, factor ? factor + t * (size_t)taps : NULL,
                    from + t * (size_t)taps, t, taps, c, whole, cols, BLOCK);
    for (; c < cols; c += LANE)
        for (size_t t = 0; t < rows; t++)
            sum_row(y, beta, x, w, bias, factor ? factor + t * (size_t)taps : NULL,
                    from + t * (size_t)taps, t, taps, c, cols - c, cols, 1);
}

static void taps(struct vec y, int beta, struct vec x, const real *w, const real *bias,
                 const int *from, size_t rows, int count, size_t cols)
{
    sum_rows(y, beta, x, w, bias, NULL, from, rows, count, cols);
}

static void tap_rows(struct vec y, int beta, struct vec x, const real *factor, const int *from,
                     size_t rows, int count, size_t cols)
{
    sum_rows(y, beta, x, NULL, NULL, factor, from, rows, count, cols);
}

/* dw[k] += dy[t] x[from[k]], as above. */
ALWAYS_INLINE void grad_row(real *dw, struct vec x, struct vec dy, const int *from, size_t t,
                            int taps, size_t c, size_t n, size_t cols, int lanes)
{
    lane along[BLOCK];
    UNROLL
    for (int l = 0; l < lanes; l++) {
        size_t i = (size_t)l * LANE;
        along[l] = lane_get_type(dy.data, dy.type, t * (size_t)dy.stride + c + i, n - i);
    }
    for (int k = 0; k < taps; k++) {
        if (from[k] < 0)
            continue;
        size_t at = (size_t)from[k] * (size_t)x.stride + c;
        real *to = dw + (size_t)k * cols + c;
        UNROLL
        for (int l = 0; l < lanes; l++) {
            size_t i = (size_t)l * LANE;
            lane product = along[l] * lane_get_type(x.data, x.type, at + i, n - i);
            lane_put(to + i, lane_get(to + i, n - i) + product, n - i);
        }
    }
}

static void taps_grad(real *dw, struct vec x, struct vec dy, const int *from, size_t rows,
                      int count, size_t cols)
{
    const size_t whole = (size_t)BLOCK * LANE;
    size_t c = 0;
    for (; c + whole <= cols; c += whole)
        for (size_t t = 0; t < rows; t++)
            grad_row(dw, x, dy, from + t * (size_t)count, t, count, c, whole, cols, BLOCK);
    for (; c < cols; c += LANE)
        for (size_t t = 0; t < rows; t++)
            grad_row(dw, x, dy, from + t * (size_t)count, t, count, c, cols - c, cols, 1);
}

const struct kernels_taps KERNELS_NAME(taps) = {
    .taps = taps,
    .taps_grad = taps_grad,
    .tap_rows = tap_rows,
};
