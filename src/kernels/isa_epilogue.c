/* isa_epilogue.c - what is done to a product while it is in cache, in one pass. */
#include "kernels/isa.h"
#include "kernels/lane_bf16.h"

/* One row; which parts there are is a constant where this is called. */
ALWAYS_INLINE void finish_row(struct vec c, const real *x, const real *bias, void *slope,
                              struct vec kept, real factor, const void *residual,
                              enum type residual_type, size_t cols, bool gelu)
{
    for (size_t j = 0; j < cols; j += LANE) {
        size_t n = cols - j;
        lane y = lane_get(x + j, n);
        if (bias)
            y += lane_get(bias + j, n);
        if (gelu) {
            lane cdf, density;
            lane_normal(y, &cdf, &density);
            if (slope)
                lane_put_type(slope, kept.type, j, cdf + y * density, n);
            y *= cdf;
        }
        y *= factor;
        if (residual)
            y += lane_get_type(residual, residual_type, j, n);
        lane_put_type(c.data, c.type, j, y, n);
    }
}

static void *row_of(struct vec x, size_t row, size_t col)
{
    return x.data ? vec_at(x, row, col).data : NULL;
}

static void finish(struct vec c, const real *x, ptrdiff_t stride, const struct epilogue *e,
                   size_t row, size_t col, int rows, int cols)
{
    size_t n = (size_t)cols;
    const real *bias = e->bias ? e->bias + col : NULL;
    size_t period = e->factor || e->order ? e->period : 1, sample = row / period, t = row % period;
    for (int i = 0; i < rows; i++, row++, x += stride) {
        size_t place = e->order ? sample * period + (size_t)e->order->at[t] : row;
        struct vec to = vec_at(c, place, col);
        real factor = e->factor ? e->factor[sample] : 1;
        const void *residual = row_of(e->residual, place, col);
        if (e->gelu)
            finish_row(to, x, bias, row_of(e->slope, row, col), e->slope, factor, residual,
                       e->residual.type, n, true);
        else
            finish_row(to, x, bias, NULL, e->slope, factor, residual, e->residual.type, n, false);
        if (++t == period) {
            t = 0;
            sample++;
        }
    }
}

const struct kernels_epilogue KERNELS_NAME(epilogue) = {.finish = finish};
