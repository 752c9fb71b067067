/* isa_tile.c - what attention does to a tile of scores between its products. */
#include "kernels/drop.h"
#include "kernels/isa.h"
#include "kernels/reduce.h"

static void exp_rows(real *s, ptrdiff_t stride, real *inverse, real *lse, int rows, int cols)
{
    size_t n = (size_t)cols;
    for (int i = 0; i < rows; i++, s += stride) {
        real max = reduce_max(s, n), sum = reduce_exp(s, s, max, n);
        inverse[i] = 1 / sum;
        lse[i] = max + (real)log((double)sum);
    }
}

static void weights(real *s, ptrdiff_t stride, const real *lse, int rows, int cols)
{
    size_t n = (size_t)cols;
    for (int i = 0; i < rows; i++, s += stride) {
        real shift = lse[i];
        for (size_t j = 0; j < n; j += LANE)
            lane_put(s + j, lane_exp(lane_get(s + j, n - j) - shift), n - j);
    }
}

static void add(real *s, ptrdiff_t stride, const real *bias, int rows, int cols)
{
    for (int i = 0; i < rows; i++, s += stride, bias += cols) {
#pragma omp simd
        for (int j = 0; j < cols; j++)
            s[j] += bias[j];
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
    real factor = (real)scale;
    for (int i = 0; i < rows; i++, dp += stride, p += stride) {
        real shift = r[i];
        if (!dbias) {
#pragma omp simd
            for (int j = 0; j < cols; j++)
                dp[j] = p[j] * (dp[j] - shift) * factor;
            continue;
        }
        real *sum = dbias + (ptrdiff_t)i * cols;
        if (!beta)
            memset(sum, 0, (size_t)cols * sizeof *sum);
#pragma omp simd
        for (int j = 0; j < cols; j++) {
            real dz = p[j] * (dp[j] - shift);
            sum[j] += dz;
            dp[j] = dz * factor;
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

static void dots(real *r, struct vec a, struct vec b, int rows, int cols)
{
    size_t width = (size_t)cols;
    for (int i = 0; i < rows; i++) {
        real as[CHUNK], bs[CHUNK], sum = 0;
        for (size_t c = 0; c < width; c += CHUNK) {
            size_t n = chunk_size(c, width);
            sum += reduce_dot(chunk_load(as, a, (size_t)i, c, n),
                              chunk_load(bs, b, (size_t)i, c, n), n);
        }
        r[i] = sum;
    }
}

static void store(struct vec y, int beta, const real *x, ptrdiff_t stride, const real *scale,
                  int rows, int cols)
{
    size_t width = (size_t)cols;
    for (int i = 0; i < rows; i++, x += stride) {
        real factor = scale ? scale[i] : 1;
        for (size_t c = 0; c < width; c += CHUNK) {
            real ys[CHUNK];
            size_t n = chunk_size(c, width);
            real *to = chunk_open(ys, y, beta, (size_t)i, c, n);
            const real *from = x + c;
            if (beta) {
#pragma omp simd
                for (size_t j = 0; j < n; j++)
                    to[j] += factor * from[j];
            } else {
#pragma omp simd
                for (size_t j = 0; j < n; j++)
                    to[j] = factor * from[j];
            }
            chunk_close(to, y, (size_t)i, c, n);
        }
    }
}

const struct kernels_tile KERNELS_NAME(tile) = {
    .exp_rows = exp_rows,
    .weights = weights,
    .add = add,
    .mask = mask,
    .score_grad = score_grad,
    .dropout = dropout,
    .dots = dots,
    .store = store,
};
