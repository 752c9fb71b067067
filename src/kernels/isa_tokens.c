/* isa_tokens.c - softmax and means over the rows of a matrix, down each column: a chunk of columns
 * at a time, the rows of one region after another. */
#include "kernels/isa.h"

ALWAYS_INLINE bool is_of(const struct token_groups *o, size_t row, int group)
{
    return !o->number || o->number[row] == group;
}

static void softmax_chunk(struct vec y, struct vec x, const struct token_groups *o, int group,
                          size_t rows, size_t c, size_t n)
{
    real max[CHUNK], sum[CHUNK], xs[CHUNK];
    for (size_t i = 0; i < n; i++) {
        max[i] = (real)-INFINITY;
        sum[i] = 0;
    }
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *from = chunk_load(xs, x, r, c, n);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            max[i] = from[i] > max[i] ? from[i] : max[i];
    }
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *from = chunk_load(xs, x, r, c, n);
        real *to = vec_at(y, r, c).data;
        for (size_t i = 0; i < n; i += LANE) {
            lane e = lane_exp(lane_get(from + i, n - i) - lane_get(max + i, n - i));
            lane_put(to + i, e, n - i);
            lane_put(sum + i, lane_get(sum + i, n - i) + e, n - i);
        }
    }
    for (size_t i = 0; i < n; i++)
        sum[i] = 1 / sum[i];
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        real *to = vec_at(y, r, c).data;
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            to[i] *= sum[i];
    }
}

static void token_softmax(struct vec y, struct vec x, const struct token_groups *o, size_t rows,
                          size_t cols)
{
    for (size_t c = 0; c < cols; c += CHUNK)
        for (int group = 0; group < o->count; group++)
            softmax_chunk(y, x, o, group, rows, c, chunk_size(c, cols));
}

static void softmax_grad_chunk(struct vec dx, int beta, struct vec y, struct vec dy,
                               const struct token_groups *o, int group, size_t rows, size_t c,
                               size_t n)
{
    real sum[CHUNK], ys[CHUNK], dys[CHUNK], dxs[CHUNK];
    memset(sum, 0, n * sizeof *sum);
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *weight = chunk_load(ys, y, r, c, n), *from = chunk_load(dys, dy, r, c, n);
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += weight[i] * from[i];
    }
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *weight = chunk_load(ys, y, r, c, n), *from = chunk_load(dys, dy, r, c, n);
        real *to = chunk_open(dxs, dx, beta, r, c, n);
        if (beta) {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] += weight[i] * (from[i] - sum[i]);
        } else {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = weight[i] * (from[i] - sum[i]);
        }
        chunk_close(to, dx, r, c, n);
    }
}

static void token_softmax_grad(struct vec dx, int beta, struct vec y, struct vec dy,
                               const struct token_groups *o, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c += CHUNK)
        for (int group = 0; group < o->count; group++)
            softmax_grad_chunk(dx, beta, y, dy, o, group, rows, c, chunk_size(c, cols));
}

static void mean_chunk(struct vec y, int beta, real own, real share, struct vec x,
                       const struct token_groups *o, int group, size_t rows, size_t c, size_t n)
{
    real sum[CHUNK], xs[CHUNK], ys[CHUNK];
    size_t count = 0;
    memset(sum, 0, n * sizeof *sum);
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *from = chunk_load(xs, x, r, c, n);
        count++;
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sum[i] += from[i];
    }
    for (size_t i = 0; i < n; i++)
        sum[i] *= share / (real)count;
    for (size_t r = 0; r < rows; r++) {
        if (!is_of(o, r, group))
            continue;
        const real *from = chunk_load(xs, x, r, c, n);
        real *to = chunk_open(ys, y, beta, r, c, n);
        if (beta) {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] += own * from[i] + sum[i];
        } else {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                to[i] = own * from[i] + sum[i];
        }
        chunk_close(to, y, r, c, n);
    }
}

static void token_mean(struct vec y, int beta, double own, double share, struct vec x,
                       const struct token_groups *o, size_t rows, size_t cols)
{
    for (size_t c = 0; c < cols; c += CHUNK)
        for (int group = 0; group < o->count; group++)
            mean_chunk(y, beta, (real)own, (real)share, x, o, group, rows, c, chunk_size(c, cols));
}

const struct kernels_tokens KERNELS_NAME(tokens) = {
    .softmax = token_softmax,
    .softmax_grad = token_softmax_grad,
    .mean = token_mean,
};
