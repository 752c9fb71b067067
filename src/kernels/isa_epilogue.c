/* isa_epilogue.c - what is done to a product while it is in cache, in one pass. */
#include "kernels/isa.h"
#include "kernels/lane_bf16.h"

/* One row of c and of what belongs to it. */
struct row {
    void *c;
    enum type c_type;
    const real *bias;
    void *slope;
    enum type slope_type;
    real factor;
    const void *residual;
    enum type residual_type;
};

/* The first n elements of a lane from column j on; n and gelu are constants where there are many. */
ALWAYS_INLINE void finish_lane(const struct row *o, const real *x, size_t j, size_t n, bool gelu)
{
    lane y = lane_get(x + j, n);
    if (o->bias)
        y += lane_get(o->bias + j, n);
    if (gelu) {
        lane cdf, density;
        lane_normal(y, &cdf, &density);
        if (o->slope)
            lane_put_type(o->slope, o->slope_type, j, cdf + y * density, n);
        y *= cdf;
    }
    y *= o->factor;
    if (o->residual)
        y += lane_get_type(o->residual, o->residual_type, j, n);
    lane_put_type(o->c, o->c_type, j, y, n);
}

ALWAYS_INLINE void finish_row(const struct row *o, const real *x, size_t cols, bool gelu)
{
    size_t j = 0;
    for (; j + LANE <= cols; j += LANE)
        finish_lane(o, x, j, LANE, gelu);
    if (j < cols)
        finish_lane(o, x, j, cols - j, gelu);
}

static void *row_of(struct vec x, size_t row, size_t col)
{
    return x.data ? vec_at(x, row, col).data : NULL;
}

static void finish(struct vec c, const real *x, ptrdiff_t stride, const struct epilogue *e,
                   size_t row, size_t col, int rows, int cols)
{
    struct row o = {
        .c_type = c.type,
        .bias = e->bias ? e->bias + col : NULL,
        .slope_type = e->slope.type,
        .factor = 1,
        .residual_type = e->residual.type,
    };
    size_t period = e->factor || e->order ? e->period : 1, sample = row / period, t = row % period;
    for (int i = 0; i < rows; i++, row++, x += stride) {
        size_t place = e->order ? sample * period + (size_t)e->order->at[t] : row;
        o.c = vec_at(c, place, col).data;
        o.slope = row_of(e->slope, row, col);
        o.residual = row_of(e->residual, place, col);
        if (e->factor)
            o.factor = e->factor[sample];
        if (e->gelu)
            finish_row(&o, x, (size_t)cols, true);
        else
            finish_row(&o, x, (size_t)cols, false);
        if (++t == period) {
            t = 0;
            sample++;
        }
    }
}

const struct kernels_epilogue KERNELS_NAME(epilogue) = {.finish = finish};
