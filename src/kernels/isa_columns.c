/* isa_columns.c - sums down the columns. A chunk of columns is summed over a block of rows, four
 * rows at a time, before it is added to the result: the sums stay in L1, and long columns lose less
 * to rounding than in one sweep. The order is fixed. */
#include "kernels/isa.h"

enum { BLOCK_ROWS = 64 };

static void add_rows_grad(real *dp, struct vec dy, size_t rows, size_t cols, size_t period)
{
    for (size_t r = 0; r < rows; r++) {
        real *row = dp + r % period * cols;
        for (size_t c = 0; c < cols; c += CHUNK) {
            real dys[CHUNK];
            size_t n = chunk_size(c, cols);
            const real *from = chunk_load(dys, dy, r, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                row[c + i] += from[i];
        }
    }
}

/* sum[0..n-1] += the rows r..end-1 of x, or of x * y where y.data is not NULL. */
static void sum_block(real *sum, struct vec x, struct vec y, size_t r, size_t end, size_t c,
                      size_t n)
{
    real xs[4][CHUNK], ys[4][CHUNK];
    for (; r < end; r += 4) {
        const real *a[4], *b[4];
        size_t count = end - r < 4 ? end - r : 4;
        for (size_t j = 0; j < count; j++) {
            a[j] = chunk_load(xs[j], x, r + j, c, n);
            b[j] = y.data ? chunk_load(ys[j], y, r + j, c, n) : NULL;
        }
        const real *a0 = a[0], *b0 = b[0];
        if (count < 4) {
            for (size_t j = 0; j < count; j++) {
                a0 = a[j];
                b0 = b[j];
#pragma omp simd
                for (size_t i = 0; i < n; i++)
                    sum[i] += y.data ? a0[i] * b0[i] : a0[i];
            }
            return;
        }
        const real *a1 = a[1], *a2 = a[2], *a3 = a[3], *b1 = b[1], *b2 = b[2], *b3 = b[3];
        if (y.data) {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                sum[i] += (a0[i] * b0[i] + a1[i] * b1[i]) + (a2[i] * b2[i] + a3[i] * b3[i]);
        } else {
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                sum[i] += (a0[i] + a1[i]) + (a2[i] + a3[i]);
        }
    }
}

static void sum_products(real *sums, struct vec x, struct vec y, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += BLOCK_ROWS) {
        size_t end = rows - r < BLOCK_ROWS ? rows : r + BLOCK_ROWS;
        for (size_t c = 0; c < cols; c += CHUNK) {
            real sum[CHUNK];
            size_t n = chunk_size(c, cols);
            memset(sum, 0, n * sizeof *sum);
            sum_block(sum, x, y, r, end, c, n);
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                sums[c + i] += sum[i];
        }
    }
}

static void scale_cols_grad(real *dgamma, struct vec x, struct vec dy, size_t rows, size_t cols)
{
    sum_products(dgamma, x, dy, rows, cols);
}

static void column_sums(real *sums, struct vec x, size_t rows, size_t cols)
{
    sum_products(sums, x, (struct vec){.data = NULL}, rows, cols);
}

const struct kernels_columns KERNELS_NAME(columns) = {
    .add_rows_grad = add_rows_grad,
    .scale_cols_grad = scale_cols_grad,
    .column_sums = column_sums,
};
