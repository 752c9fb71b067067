/* isa_tile.c - what attention does to a tile of scores between its products. */
#include "kernels/drop.h"
#include "kernels/isa.h"

/* s = s + bias (NULL: s), minus infinity behind its n elements. Returns the largest. */
ALWAYS_INLINE real add_row(real *s, const real *bias, size_t n)
{
    lane max = lane_all((real)-INFINITY);
    for (size_t j = 0; j < n; j += LANE) {
        lane x = lane_load(s + j);
        if (bias)
            x += lane_get(bias + j, n - j);
        if (n - j < LANE)
            x = lane_fill(x, n - j, (real)-INFINITY);
        if (bias || n - j < LANE)
            lane_store(s + j, x);
        max = lane_max(x, max);
    }
    return lane_largest(max);
}

/* s = exp(s - max), whole lanes. Returns the sum. */
ALWAYS_INLINE real exp_row(real *s, real max, size_t n)
{
    lane even = {0}, odd = even;
    size_t j = 0;
    for (; j + LANE < n; j += 2 * LANE) {
        lane x = lane_exp(lane_load(s + j) - max), y = lane_exp(lane_load(s + j + LANE) - max);
        lane_store(s + j, x);
        lane_store(s + j + LANE, y);
        even += x;
        odd += y;
    }
    if (j < n) {
        lane x = lane_exp(lane_load(s + j) - max);
        lane_store(s + j, x);
        even += x;
    }
    return lane_sum(even + odd);
}

static void exp_rows(real *s, ptrdiff_t stride, const real *bias, real *inverse, real *lse,
                     int rows, int cols)
{
    size_t n = (size_t)cols, count = (size_t)rows;
    for (int i = 0; i < rows; i++, s += stride) {
        lse[i] = bias ? add_row(s, bias + (ptrdiff_t)i * cols, n) : add_row(s, NULL, n);
        inverse[i] = exp_row(s, lse[i], n);
    }
    for (size_t i = 0; i < count; i += LANE) {
        lane sum = lane_get(inverse + i, count - i), max = lane_get(lse + i, count - i);
        lane_put(lse + i, max + lane_log(sum), count - i);
        lane_put(inverse + i, 1 / sum, count - i);
    }
}

static void weights(real *s, ptrdiff_t stride, const real *bias, const real *lse, int rows,
                    int cols)
{
    size_t n = (size_t)cols;
    for (int i = 0; i < rows; i++, s += stride) {
        const real *term = bias ? bias + (ptrdiff_t)i * cols : NULL;
        real shift = lse[i];
        for (size_t j = 0; j < n; j += LANE) {
            lane x = lane_load(s + j);
            if (term)
                x += lane_get(term + j, n - j);
            lane_store(s + j, lane_exp(x - shift));
        }
    }
}

static void mask(real *s, ptrdiff_t stride, const unsigned char *region, int first, int rows,
                 int cols)
{
    for (int i = 0; i < rows; i++, s += stride) {
        int own = region[first + i];
#pragma omp simd
        for (int j = 0; j < cols; j++)
            s[j] = region[j] == own ? s[j] : (real)-INFINITY;
    }
}

static void score_grad(real *dp, const real *p, ptrdiff_t stride, const real *r, double scale,
                       real *dbias, int beta, int rows, int cols)
{
    size_t n = (size_t)cols;
    real factor = (real)scale;
    for (int i = 0; i < rows; i++, dp += stride, p += stride) {
        real shift = r[i], *sum = dbias ? dbias + (ptrdiff_t)i * cols : NULL;
        for (size_t j = 0; j < n; j += LANE) {
            lane dz = lane_load(p + j) * (lane_load(dp + j) - shift);
            lane_store(dp + j, dz * factor);
            if (sum)
                lane_put(sum + j, beta ? lane_get(sum + j, n - j) + dz : dz, n - j);
        }
    }
}

static void dropout(real *s, ptrdiff_t stride, const struct tile_dropout *o, int rows, int cols)
{
    struct drop drop = drop_begin(o->p, o->stream, o->step, o->sample);
    size_t width = (size_t)cols;
    for (int i = 0; i < rows; i++, s += stride) {
        uint64_t first = o->first + (uint64_t)i * width;
        for (size_t c = 0; c < width; c += CHUNK) {
            real factor[CHUNK], *to = s + c;
            size_t n = chunk_size(c, width);
            drop_factors(factor, &drop, first + c, n);
#pragma omp simd
            for (size_t j = 0; j < n; j++)
                to[j] *= factor[j];
        }
    }
}

static void keep_above(real *s, const real *p, ptrdiff_t stride, const real *scale, double least,
                       int rows, int cols)
{
    for (int i = 0; i < rows; i++, s += stride, p += stride) {
        real factor = scale ? scale[i] : 1, bound = (real)least;
#pragma omp simd
        for (int j = 0; j < cols; j++)
            s[j] = p[j] * factor > bound ? s[j] : 0;
    }
}

static bool any_above(const real *p, ptrdiff_t stride, const real *scale, double least, int rows,
                      int cols)
{
    bool any = false;
    for (int i = 0; i < rows && !any; i++, p += stride) {
        real factor = scale ? scale[i] : 1, bound = (real)least;
        int above = 0;
#pragma omp simd reduction(| : above)
        for (int j = 0; j < cols; j++)
            above |= p[j] * factor > bound;
        any = above;
    }
    return any;
}

static void dots(real *r, struct vec a, struct vec b, int rows, int cols)
{
    size_t n = (size_t)cols;
    for (int i = 0; i < rows; i++) {
        size_t a_at = (size_t)(i * a.stride), b_at = (size_t)(i * b.stride);
        lane sum = {0};
        for (size_t j = 0; j < n; j += LANE)
            sum += lane_get_type(a.data, a.type, a_at + j, n - j) *
                   lane_get_type(b.data, b.type, b_at + j, n - j);
        r[i] = lane_sum(sum);
    }
}

static void store(struct vec y, int beta, const real *x, ptrdiff_t stride, const real *scale,
                  int rows, int cols)
{
    size_t n = (size_t)cols;
    for (int i = 0; i < rows; i++, x += stride) {
        real factor = scale ? scale[i] : 1;
        size_t at = (size_t)(i * y.stride);
        for (size_t j = 0; j < n; j += LANE) {
            lane z = lane_get(x + j, n - j) * factor;
            if (beta)
                z += lane_get_type(y.data, y.type, at + j, n - j);
            lane_put_type(y.data, y.type, at + j, z, n - j);
        }
    }
}

const struct kernels_tile KERNELS_NAME(tile) = {
    .exp_rows = exp_rows,
    .weights = weights,
    .mask = mask,
    .score_grad = score_grad,
    .dropout = dropout,
    .keep_above = keep_above,
    .any_above = any_above,
    .dots = dots,
    .store = store,
};
