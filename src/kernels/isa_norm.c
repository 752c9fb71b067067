/* isa_norm.c - layer normalisation, and division by Euclidean norms. */
#include "kernels/isa.h"
#include "kernels/reduce.h"

static void layer_norm(struct vec y, real *mean, real *rstd, struct vec x, const real *weight,
                       const real *bias, double eps, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real xs[CHUNK], ys[CHUNK], sum = 0, squares = 0;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            sum += reduce_sum(chunk_load(xs, x, r, c, n), n);
        }
        real m = sum / (real)cols;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            squares += reduce_deviation(chunk_again(xs, x, r, c, n, cols), m, n);
        }
        real s = 1 / (real)sqrt((double)squares / (double)cols + eps);
        mean[r] = m;
        rstd[r] = s;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            const real *from = chunk_again(xs, x, r, c, n, cols), *w = weight + c, *b = bias + c;
            real *to = chunk_open(ys, y, 0, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = (from[i] - m) * s * w[i] + b[i];
            chunk_close(to, y, r, c, n);
        }
    }
}

/* What one row says of its gradient: sums of g and g xhat, g = dy weight. */
struct row_sums {
    real g, gx;
};

/* Columns c.. of row r: adds to the row's sums and to the parameters' gradients. */
ALWAYS_INLINE void gather(struct row_sums *s, real *dweight, real *dbias, const real *x,
                          const real *dy, const real *weight, real mean, real rstd, size_t n)
{
    real g = 0, gx = 0;
    if (dweight && dbias) {
#pragma omp simd reduction(+ : g, gx)
        for (size_t i = 0; i < n; i++) {
            real xhat = (x[i] - mean) * rstd;
            dweight[i] += dy[i] * xhat;
            dbias[i] += dy[i];
            g += dy[i] * weight[i];
            gx += dy[i] * weight[i] * xhat;
        }
    } else {
#pragma omp simd reduction(+ : g, gx)
        for (size_t i = 0; i < n; i++) {
            g += dy[i] * weight[i];
            gx += dy[i] * weight[i] * ((x[i] - mean) * rstd);
        }
        for (size_t i = 0; dweight && i < n; i++)
            dweight[i] += dy[i] * ((x[i] - mean) * rstd);
        for (size_t i = 0; dbias && i < n; i++)
            dbias[i] += dy[i];
    }
    s->g += g;
    s->gx += gx;
}

/* dx = beta dx + rstd (g - mean g - xhat mean (g xhat)) */
ALWAYS_INLINE void spread(real *dx, int beta, const real *x, const real *dy, const real *weight,
                          real mean, real rstd, real mean_g, real mean_gx, size_t n)
{
    real slope = rstd * mean_gx;
    if (beta) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            dx[i] += rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * slope);
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            dx[i] = rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * slope);
    }
}

static void layer_norm_grad(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                            const real *mean, const real *rstd, const real *weight, struct vec dy,
                            size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real xs[CHUNK], dys[CHUNK], dxs[CHUNK];
        struct row_sums s = {0, 0};
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            gather(&s, dweight ? dweight + c : NULL, dbias ? dbias + c : NULL,
                   chunk_load(xs, x, r, c, n), chunk_load(dys, dy, r, c, n), weight + c, mean[r],
                   rstd[r], n);
        }
        if (!dx.data)
            continue;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            const real *from = chunk_again(xs, x, r, c, n, cols);
            const real *dout = chunk_again(dys, dy, r, c, n, cols);
            real *to = chunk_open(dxs, dx, beta, r, c, n);
            spread(to, beta, from, dout, weight + c, mean[r], rstd[r], s.g / (real)cols,
                   s.gx / (real)cols, n);
            chunk_close(to, dx, r, c, n);
        }
    }
}

/* 1 / max(norm, eps), 0 for norm 0. */
ALWAYS_INLINE real inverse_norm(real norm, double eps)
{
    return norm > 0 ? (real)(1 / ((double)norm > eps ? (double)norm : eps)) : 0;
}

static void normalize(struct vec y, real *norm, struct vec x, int groups, double eps, size_t rows,
                      size_t cols)
{
    size_t width = cols / (size_t)groups;
    for (size_t r = 0; r < rows; r++) {
        for (size_t first = 0; first < cols; first += width, norm++) {
            real xs[CHUNK], ys[CHUNK], squares = 0;
            for (size_t c = 0; c < width; c += CHUNK) {
                size_t n = chunk_size(c, width);
                const real *from = chunk_load(xs, x, r, first + c, n);
                squares += reduce_dot(from, from, n);
            }
            *norm = (real)sqrt((double)squares);
            real scale = inverse_norm(*norm, eps);
            for (size_t c = 0; c < width; c += CHUNK) {
                size_t n = chunk_size(c, width);
                const real *from = chunk_again(xs, x, r, first + c, n, width);
                real *to = chunk_open(ys, y, 0, r, first + c, n);
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = scale * from[i];
                chunk_close(to, y, r, first + c, n);
            }
        }
    }
}

static void normalize_grad(struct vec dx, int beta, struct vec y, const real *norm, struct vec dy,
                           int groups, double eps, size_t rows, size_t cols)
{
    size_t width = cols / (size_t)groups;
    for (size_t r = 0; r < rows; r++) {
        for (size_t first = 0; first < cols; first += width, norm++) {
            real ys[CHUNK], dys[CHUNK], dxs[CHUNK], along = 0;
            for (size_t c = 0; c < width && (double)*norm > eps; c += CHUNK) {
                size_t n = chunk_size(c, width);
                along += reduce_dot(chunk_load(ys, y, r, first + c, n),
                                    chunk_load(dys, dy, r, first + c, n), n);
            }
            real scale = inverse_norm(*norm, eps);
            for (size_t c = 0; c < width; c += CHUNK) {
                size_t n = chunk_size(c, width);
                const real *at = chunk_load(ys, y, r, first + c, n);
                const real *from = chunk_load(dys, dy, r, first + c, n);
                real *to = chunk_open(dxs, dx, beta, r, first + c, n);
                if (beta) {
#pragma omp simd
                    for (size_t i = 0; i < n; i++)
                        to[i] += scale * (from[i] - along * at[i]);
                } else {
#pragma omp simd
                    for (size_t i = 0; i < n; i++)
                        to[i] = scale * (from[i] - along * at[i]);
                }
                chunk_close(to, dx, r, first + c, n);
            }
        }
    }
}

const struct kernels_norm KERNELS_NAME(norm) = {
    .layer_norm = layer_norm,
    .layer_norm_grad = layer_norm_grad,
    .normalize = normalize,
    .normalize_grad = normalize_grad,
};
