/* isa_softmax.c - softmax and cross entropy, row by row. */
#include "kernels/isa.h"
#include "kernels/reduce.h"

/* The largest element of row r of x. */
static real row_max(struct vec x, size_t r, size_t cols)
{
    real buffer[CHUNK], max = (real)-INFINITY;
    for (size_t c = 0; c < cols; c += CHUNK) {
        size_t n = chunk_size(c, cols);
        real here = reduce_max(chunk_load(buffer, x, r, c, n), n);
        max = here > max ? here : max;
    }
    return max;
}

/* Real rows keep the exponentials until the sum is known; bf16 rows, which would round them, are
 * read again. */
static void softmax(struct vec y, struct vec x, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real xs[CHUNK], ys[CHUNK];
        real max = row_max(x, r, cols), sum = 0;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            sum += reduce_exp(chunk_open(ys, y, 0, r, c, n), from, max, n);
        }
        real inverse = 1 / sum;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            real *to = chunk_open(ys, y, 0, r, c, n);
            if (y.type != TYPE_REAL)
                reduce_exp(to, chunk_load(xs, x, r, c, n), max, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] *= inverse;
            chunk_close(to, y, r, c, n);
        }
    }
}

static void softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy, size_t rows,
                         size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real ys[CHUNK], dys[CHUNK], dxs[CHUNK], sum = 0;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            sum += reduce_dot(chunk_load(ys, y, r, c, n), chunk_load(dys, dy, r, c, n), n);
        }
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            const real *weight = chunk_load(ys, y, r, c, n), *from = chunk_load(dys, dy, r, c, n);
            real *to = chunk_open(dxs, dx, beta, r, c, n);
            if (beta) {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += weight[i] * (from[i] - sum);
            } else {
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] = weight[i] * (from[i] - sum);
            }
            chunk_close(to, dx, r, c, n);
        }
    }
}

static real element(struct vec x, size_t r, size_t c)
{
    real buffer[1];
    return *chunk_load(buffer, x, r, c, 1);
}

static void cross_entropy(real *loss, real *p, struct vec x, const int *label, double smoothing,
                          size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++) {
        real xs[CHUNK], max = row_max(x, r, cols), sum = 0, below = 0;
        real *row = p + r * cols;
        for (size_t c = 0; c < cols; c += CHUNK) {
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(xs, x, r, c, n);
            sum += reduce_exp(row + c, from, max, n);
            below += max * (real)n - reduce_sum(from, n);
        }
        real inverse = 1 / sum;
#pragma omp simd
        for (size_t c = 0; c < cols; c++)
            row[c] *= inverse;
        if (label[r] < 0) {
            loss[r] = 0;
            continue;
        }
        double log_sum = log((double)sum);
        double at_label = log_sum + (double)(max - element(x, r, (size_t)label[r]));
        loss[r] = (real)at_label;
        if (smoothing > 0) { /* an infinite logit elsewhere must not matter without it */
            double mean = log_sum + (double)below / (double)cols;
            loss[r] = (real)((1 - smoothing) * at_label + smoothing * mean);
        }
    }
}

static void cross_entropy_grad(struct vec dx, int beta, const real *p, const real *dloss,
                               const int *label, double smoothing, size_t rows, size_t cols)
{
    real spread = (real)(smoothing / (double)cols), hit = (real)(1 - smoothing);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += CHUNK) {
            real dxs[CHUNK];
            size_t n = chunk_size(c, cols);
            real *to = chunk_open(dxs, dx, beta, r, c, n);
            const real *from = p + r * cols + c;
            if (!beta)
                memset(to, 0, n * sizeof *to);
            if (label[r] >= 0) {
                real scale = dloss[r];
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    to[i] += scale * (from[i] - spread);
                size_t at = (size_t)label[r];
                if (at >= c && at - c < n)
                    to[at - c] -= scale * hit;
            }
            chunk_close(to, dx, r, c, n);
        }
    }
}

const struct kernels_softmax KERNELS_NAME(softmax) = {
    .softmax = softmax,
    .softmax_grad = softmax_grad,
    .cross_entropy = cross_entropy,
    .cross_entropy_grad = cross_entropy_grad,
};
