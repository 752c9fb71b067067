/* isa_outer.c - products of a row's elements with each other. */
#include "kernels/isa.h"
#include "kernels/reduce.h"

static const real root2 = (real)1.41421356237309504880;

/* The features of one part a of n elements. */
static void part_full(real *y, const real *a, size_t n)
{
    for (size_t i = 0; i < n; i++, y += n) {
        real scale = a[i];
#pragma omp simd
        for (size_t j = 0; j < n; j++)
            y[j] = scale * a[j];
    }
}

static void part_symmetric(real *y, const real *a, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * a[i];
    y += n;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t left = n - i - 1;
        const real *other = a + i + 1;
        real scale = root2 * a[i];
#pragma omp simd
        for (size_t j = 0; j < left; j++)
            y[j] = scale * other[j];
        y += left;
    }
}

/* da = the gradient of the part, dy that of its features. */
static void part_full_grad(real *da, const real *a, const real *dy, size_t n)
{
    memset(da, 0, n * sizeof *da);
    for (size_t i = 0; i < n; i++, dy += n) {
        real scale = a[i];
#pragma omp simd
        for (size_t j = 0; j < n; j++)
            da[j] += scale * dy[j];
        da[i] += reduce_dot(dy, a, n);
    }
}

static void part_symmetric_grad(real *da, const real *a, const real *dy, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        da[i] = 2 * a[i] * dy[i];
    dy += n;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t left = n - i - 1;
        const real *other = a + i + 1;
        real *dother = da + i + 1, scale = root2 * a[i];
#pragma omp simd
        for (size_t j = 0; j < left; j++)
            dother[j] += scale * dy[j];
        da[i] += root2 * reduce_dot(dy, other, left);
        dy += left;
    }
}

static void outer(struct vec y, struct vec x, bool symmetric, int groups, size_t rows, size_t cols)
{
    size_t n = cols / (size_t)groups, features = symmetric ? n * (n + 1) / 2 : n * n;
    for (size_t r = 0; r < rows; r++) {
        real *to = vec_at(y, r, 0).data;
        for (size_t c = 0; c < cols; c += n, to += features) {
            real xs[CHUNK];
            const real *a = chunk_load(xs, x, r, c, n);
            if (symmetric)
                part_symmetric(to, a, n);
            else
                part_full(to, a, n);
        }
    }
}

static void outer_grad(struct vec dx, int beta, struct vec x, struct vec dy, bool symmetric,
                       int groups, size_t rows, size_t cols)
{
    size_t n = cols / (size_t)groups, features = symmetric ? n * (n + 1) / 2 : n * n;
    for (size_t r = 0; r < rows; r++) {
        const real *from = vec_at(dy, r, 0).data;
        for (size_t c = 0; c < cols; c += n, from += features) {
            real xs[CHUNK], da[CHUNK], dxs[CHUNK];
            const real *a = chunk_load(xs, x, r, c, n);
            if (symmetric)
                part_symmetric_grad(da, a, from, n);
            else
                part_full_grad(da, a, from, n);
            real *to = chunk_open(dxs, dx, beta, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = (beta ? to[i] : 0) + da[i];
            chunk_close(to, dx, r, c, n);
        }
    }
}

const struct kernels_outer KERNELS_NAME(outer) = {
    .outer = outer,
    .outer_grad = outer_grad,
};
