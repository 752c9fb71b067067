/* isa_map.c - the functions of maps.def and GELU, element by element. */
#include "kernels/isa.h"

/* exp(min(x, 0)), whose largest value is 1. */
ALWAYS_INLINE lane exp_below(lane x)
{
    return lane_exp(lane_min(lane_all(0), x));
}

/* exp(-|x|) */
ALWAYS_INLINE lane exp_of_size(lane x)
{
    return lane_exp(lane_min(-x, x));
}

/* 1 / (1 + exp(-x)), in the form without large exponentials. */
ALWAYS_INLINE lane logistic(lane x)
{
    lane e = exp_of_size(x), one = lane_all(1);
    return lane_where(x > lane_all(0), one, e) / (one + e);
}

ALWAYS_INLINE lane logistic_slope(lane x)
{
    lane e = exp_of_size(x), sum = lane_all(1) + e;
    return e / (sum * sum);
}

/* log(1 + exp x) = max(x, 0) + log(1 + e) with e = exp(-|x|); what 1 + e loses of e is put right by
 * the factor e / ((1 + e) - 1). */
ALWAYS_INLINE lane log_of_exp_plus_1(lane x)
{
    lane e = exp_of_size(x), one = lane_all(1), sum = one + e, kept = sum - one;
    lane log_sum = lane_where(kept > lane_all(0), lane_log(sum) * (e / kept), e);
    return lane_max(lane_all(0), x) + log_sum;
}

/* x with |x| kept to 1e-4 .. 1e4, its sign and 0 as they are. */
ALWAYS_INLINE lane of_size(lane x)
{
    lane zero = lane_all(0), size = lane_max(-x, x);
    lane kept = lane_min(lane_all((real)1e4), lane_max(lane_all((real)1e-4), size));
    return lane_where(x > zero, kept, lane_where(x < zero, -kept, x));
}

ALWAYS_INLINE lane of_size_slope(lane x)
{
    lane zero = lane_all(0), size = lane_max(-x, x);
    lane one = lane_where(size < lane_all((real)1e-4), zero, lane_all(1));
    return lane_where(size > lane_all((real)1e4), zero, one);
}

typedef lane lane_function(lane x);

ALWAYS_INLINE void map_value(struct vec y, struct vec x, size_t rows, size_t cols,
                             lane_function *value)
{
    join_rows(is_dense(y, cols) && is_dense(x, cols), &rows, &cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            real *to = chunk_open(ys, y, 0, r, c, n);
            for (size_t i = 0; i < n; i += LANE)
                lane_put(to + i, value(lane_get(from + i, n - i)), n - i);
            chunk_close(to, y, r, c, n);
        }
    }
}

ALWAYS_INLINE void map_grad(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows,
                            size_t cols, lane_function *slope)
{
    join_rows(is_dense(dx, cols) && is_dense(x, cols) && is_dense(dy, cols), &rows, &cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], dys[CHUNK], dxs[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *at = chunk_load(xs, x, r, c, n), *from = chunk_load(dys, dy, r, c, n);
            real *to = chunk_open(dxs, dx, beta, r, c, n);
            for (size_t i = 0; i < n; i += LANE) {
                lane grad = lane_get(from + i, n - i) * slope(lane_get(at + i, n - i));
                if (beta)
                    grad += lane_get(to + i, n - i);
                lane_put(to + i, grad, n - i);
            }
            chunk_close(to, dx, r, c, n);
        }
    }
}

ALWAYS_INLINE lane gelu_at(lane x)
{
    lane cdf, density;
    lane_normal(x, &cdf, &density);
    return x * cdf;
}

ALWAYS_INLINE lane gelu_slope_at(lane x)
{
    lane cdf, density;
    lane_normal(x, &cdf, &density);
    return cdf + x * density;
}

static void gelu(struct vec y, struct vec x, size_t rows, size_t cols)
{
    map_value(y, x, rows, cols, gelu_at);
}

static void gelu_grad(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows,
                      size_t cols)
{
    map_grad(dx, beta, x, dy, rows, cols, gelu_slope_at);
}

const struct kernels_map KERNELS_NAME(gelu) = {.map = gelu, .map_grad = gelu_grad};

#define MAP(NAME, name, value, slope)                                                              \
    static lane name##_at(lane x)                                                                  \
    {                                                                                              \
        return value;                                                                              \
    }                                                                                              \
    static lane name##_slope_at(lane x)                                                            \
    {                                                                                              \
        return slope;                                                                              \
    }                                                                                              \
    static void name##_map(struct vec y, struct vec x, size_t rows, size_t cols)                   \
    {                                                                                              \
        map_value(y, x, rows, cols, name##_at);                                                    \
    }                                                                                              \
    static void name##_map_grad(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows, \
                                size_t cols)                                                       \
    {                                                                                              \
        map_grad(dx, beta, x, dy, rows, cols, name##_slope_at);                                    \
    }
#include "kernels/maps.def"
#undef MAP

const struct kernels_map KERNELS_NAME(map)[MAP_COUNT] = {
#define MAP(NAME, name, value, slope) {name##_map, name##_map_grad},
#include "kernels/maps.def"
#undef MAP
};
