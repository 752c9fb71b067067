/* isa_batch_norm.c - statistics down the columns, and what normalises by them. Statistics are taken of a
 * block of rows at a time, which is in L1 for its second pass, and joined with those of the rows before
 * it: no cancellation, and long columns lose little to rounding. */
#include "kernels/isa.h"

enum { BLOCK_ROWS = 64 };

/* The moments of `seen` rows, for n columns, become those of `seen` + rows. Chan et al., "Updating
 * Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979. */
ALWAYS_INLINE void join(real *mean, real *squares, size_t seen, const real *own,
                        const real *deviation, size_t rows, size_t n)
{
    real share = (real)rows / (real)(seen + rows), both = share * (real)seen;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        real delta = own[i] - (seen ? mean[i] : 0);
        mean[i] = (seen ? mean[i] : 0) + delta * share;
        squares[i] = (seen ? squares[i] : 0) + deviation[i] + delta * delta * both;
    }
}

static void moments_block(real *mean, real *squares, size_t seen, struct vec x, size_t r,
                          size_t rows, size_t c, size_t n)
{
    real xs[CHUNK], own[CHUNK], deviation[CHUNK];
    memset(own, 0, n * sizeof *own);
    memset(deviation, 0, n * sizeof *deviation);
    for (size_t k = r; k < r + rows; k++) {
        const real *from = chunk_load(xs, x, k, c, n);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            own[i] += from[i];
    }
    for (size_t i = 0; i < n; i++)
        own[i] /= (real)rows;
    for (size_t k = r; k < r + rows; k++) {
        const real *from = chunk_load(xs, x, k, c, n);
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            real d = from[i] - own[i];
            deviation[i] += d * d;
        }
    }
    join(mean + c, squares + c, seen, own, deviation, rows, n);
}

static void moments(real *mean, real *squares, size_t seen, struct vec x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += BLOCK_ROWS) {
        size_t count = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
        for (size_t c = 0; c < cols; c += CHUNK)
            moments_block(mean, squares, seen + r, x, r, count, c, chunk_size(c, cols));
    }
}

static void normalize(struct vec y, struct vec x, const real *mean, const real *scale,
                      const real *bias, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], ys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            const real *m = mean + c, *s = scale + c, *b = bias + c;
            real *to = chunk_open(ys, y, 0, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = (from[i] - m[i]) * s[i] + b[i];
            chunk_close(to, y, r, c, n);
        }
    }
}

static void sums_block(real *sum, real *along, struct vec dy, struct vec x, const real *mean,
                       size_t r, size_t end, size_t c, size_t n)
{
    real xs[CHUNK], dys[CHUNK], own[CHUNK], own_along[CHUNK];
    memset(own, 0, n * sizeof *own);
    memset(own_along, 0, n * sizeof *own_along);
    for (; r < end; r++) {
        const real *at = chunk_load(xs, x, r, c, n), *from = chunk_load(dys, dy, r, c, n);
        const real *m = mean + c;
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            own[i] += from[i];
            own_along[i] += from[i] * (at[i] - m[i]);
        }
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        sum[c + i] += own[i];
        along[c + i] += own_along[i];
    }
}

static void sums(real *sum, real *along, struct vec dy, struct vec x, const real *mean, size_t rows,
                 size_t cols)
{
    for (size_t r = 0; r < rows; r += BLOCK_ROWS) {
        size_t end = rows - r < BLOCK_ROWS ? rows : r + BLOCK_ROWS;
        for (size_t c = 0; c < cols; c += CHUNK)
            sums_block(sum, along, dy, x, mean, r, end, c, chunk_size(c, cols));
    }
}

static void grad(struct vec dx, int beta, struct vec dy, struct vec x, const real *mean,
                 const real *scale, const real *offset, const real *slope, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real xs[CHUNK], dys[CHUNK], dxs[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *at = chunk_load(xs, x, r, c, n), *from = chunk_load(dys, dy, r, c, n);
            const real *m = mean + c, *s = scale + c, *o = offset + c, *p = slope + c;
            real *to = chunk_open(dxs, dx, beta, r, c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += s[i] * (from[i] - o[i] - (at[i] - m[i]) * p[i]);
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = s[i] * (from[i] - o[i] - (at[i] - m[i]) * p[i]);
            }
            chunk_close(to, dx, r, c, n);
        }
    }
}

const struct kernels_batch_norm KERNELS_NAME(batch_norm) = {
    .moments = moments,
    .normalize = normalize,
    .sums = sums,
    .grad = grad,
};
