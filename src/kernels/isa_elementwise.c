/* isa_elementwise.c - sums, products, GELU and dropout, element by element. */
#include "kernels/drop.h"
#include "kernels/isa.h"

static void accumulate(struct vec y, int beta, struct vec x, double scale, size_t rows, size_t cols)
{
    real factor = (real)scale;
    join_rows(is_dense(y, cols) && is_dense(x, cols), &rows, &cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            real *to = chunk_open(ys, y, beta, r, c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += factor * from[i];
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = factor * from[i];
            }
            chunk_close(to, y, r, c, n);
        }
    }
}

static void add(struct vec y, struct vec a, struct vec b, size_t rows, size_t cols)
{
    join_rows(is_dense(y, cols) && is_dense(a, cols) && is_dense(b, cols), &rows, &cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real as[CHUNK], bs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from_a = chunk_load(as, a, r, c, n), *from_b = chunk_load(bs, b, r, c, n);
            real *to = chunk_open(ys, y, 0, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = from_a[i] + from_b[i];
            chunk_close(to, y, r, c, n);
        }
    }
}

static void multiply(struct vec y, int beta, struct vec a, struct vec b, size_t rows, size_t cols)
{
    join_rows(is_dense(y, cols) && is_dense(a, cols) && is_dense(b, cols), &rows, &cols);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real as[CHUNK], bs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from_a = chunk_load(as, a, r, c, n), *from_b = chunk_load(bs, b, r, c, n);
            real *to = chunk_open(ys, y, beta, r, c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += from_a[i] * from_b[i];
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = from_a[i] * from_b[i];
            }
            chunk_close(to, y, r, c, n);
        }
    }
}

static void add_rows(struct vec y, struct vec x, const real *p, size_t rows, size_t cols,
                     size_t period)
{
    for (size_t r = 0; r < rows; r++) {
        const real *row = p + r % period * cols;
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            real *to = chunk_open(ys, y, 0, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = from[i] + row[c + i];
            chunk_close(to, y, r, c, n);
        }
    }
}

static void scale_rows(struct vec y, int beta, struct vec x, const real *factor, size_t rows,
                       size_t cols, size_t period)
{
    for (size_t r = 0; r < rows; r += period) {
        size_t count = rows - r < period ? rows - r : period;
        ptrdiff_t skip = (ptrdiff_t)r;
        struct vec to = y, from = x;
        to.data = (char *)y.data + skip * y.stride * (ptrdiff_t)type_size(y.type);
        from.data = (char *)x.data + skip * x.stride * (ptrdiff_t)type_size(x.type);
        accumulate(to, beta, from, (double)factor[r / period], count, cols);
    }
}

static void scale_cols(struct vec y, int beta, struct vec x, const real *gamma, size_t rows,
                       size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n), *factor = gamma + c;
            real *to = chunk_open(ys, y, beta, r, c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += factor[i] * from[i];
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = factor[i] * from[i];
            }
            chunk_close(to, y, r, c, n);
        }
    }
}

static void dropout(struct vec y, int beta, struct vec x, size_t rows, size_t cols, size_t period,
                    double p, uint64_t stream, uint64_t step, uint64_t sample)
{
    for (size_t r = 0; r < rows; r++) {
        struct drop drop = drop_begin(p, stream, step, sample + r / period);
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK], factor[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            real *to = chunk_open(ys, y, beta, r, c, n);
            drop_factors(factor, &drop, (uint64_t)(r % period) * cols + c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += factor[i] * from[i];
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = factor[i] * from[i];
            }
            chunk_close(to, y, r, c, n);
        }
    }
}

const struct kernels_elementwise KERNELS_NAME(elementwise) = {
    .accumulate = accumulate,
    .add = add,
    .multiply = multiply,
    .add_rows = add_rows,
    .scale_rows = scale_rows,
    .scale_cols = scale_cols,
    .dropout = dropout,
};
