/* gemm.c - products: by BLAS where all operands are real and large, else by our own blocks. */
#include <string.h>

#include "kernels/blas.h"
#include "kernels/level.h"

/* Of our own product: rows of c, columns of c, length of a sum. */
enum { BLOCK_M = 256, BLOCK_N = 64, BLOCK_K = 128 };

/* Whether our product beats BLAS by a tenth or more, as measured on AVX-512 beside OpenBLAS's
 * SkylakeX kernels: where b is narrow, so that packing it costs BLAS too much. Its kernels for
 * small matrices are better than ours, but not with a transposed b. */
static bool is_ours(enum trans tb, int m, int n, int k)
{
    bool narrow = n <= 128 || (n <= 200 && k <= 128), small = (double)m * n * k < 1 << 19;
    return blas_is_behind() || (narrow && (!small || tb == TRANSPOSED));
}

/* Element (i, j) of op(x). */
static struct matrix matrix_of(struct vec x, enum trans t)
{
    return t == PLAIN ? (struct matrix){x.data, x.type, x.stride, 1}
                      : (struct matrix){x.data, x.type, 1, x.stride};
}

static struct matrix matrix_at(struct matrix x, int i, int j)
{
    ptrdiff_t at = i * x.row + j * x.col;
    x.data = (const char *)x.data + at * (ptrdiff_t)type_size(x.type);
    return x;
}

/* c = beta c + bias, where that is not what a product with beta does by itself. Returns the beta
 * for that product. */
static int begin(struct vec c, int beta, const real *bias, int m, int n)
{
    if (!bias)
        return beta;
    for (int i = 0; i < m; i++) {
        real *row = vec_at(c, (size_t)i, 0).data;
        if (beta)
            kernel_sum_into(row, bias, (size_t)n);
        else
            memcpy(row, bias, (size_t)n * sizeof *row);
    }
    return 1;
}

/* Without a product: c = beta c + bias. */
static void only_begin(struct vec c, int beta, const real *bias, int m, int n)
{
    if (bias) {
        begin(c, beta, bias, m, n);
    } else if (!beta) {
        for (int i = 0; i < m; i++)
            memset(vec_at(c, (size_t)i, 0).data, 0, (size_t)n * sizeof(real));
    }
}

/* Rows i.., columns p.. of a as real numbers, in `buffer` unless they are. */
static struct matrix real_block(real *buffer, struct matrix a, int i, int p, int m, int k)
{
    a = matrix_at(a, i, p);
    if (a.type == TYPE_REAL)
        return a;
    bool plain = a.col == 1;
    size_t rows = (size_t)(plain ? m : k), cols = (size_t)(plain ? k : m);
    struct vec from = {(void *)(uintptr_t)a.data, a.type, plain ? a.row : a.col};
    struct vec to = {buffer, TYPE_REAL, (ptrdiff_t)cols};
    kernel_accumulate(to, 0, from, 1, rows, cols);
    return matrix_of(to, plain ? PLAIN : TRANSPOSED);
}

/* One block of c, all real. The order of the sums depends on k alone. */
static void block(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m,
                  int n, int k)
{
    const struct kernels_product *own = kernels_level()->product;
    for (int p = 0; p < k; p += BLOCK_K) {
        real panels[BLOCK_K * BLOCK_N], buffer[BLOCK_M * BLOCK_K];
        int depth = k - p < BLOCK_K ? k - p : BLOCK_K;
        own->pack(panels, matrix_at(b, p, 0), depth, n);
        own->multiply(c.data, c.stride, p ? 1 : beta, alpha, real_block(buffer, a, 0, p, m, depth),
                      panels, m, n, depth);
    }
}

static void own_gemm(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m,
                     int n, int k, const real *bias)
{
    for (int j = 0; j < n; j += BLOCK_N) {
        int width = n - j < BLOCK_N ? n - j : BLOCK_N;
        for (int i = 0; i < m; i += BLOCK_M) {
            real buffer[BLOCK_M * BLOCK_N];
            int height = m - i < BLOCK_M ? m - i : BLOCK_M;
            struct vec to = vec_at(c, (size_t)i, (size_t)j), here = to;
            if (c.type != TYPE_REAL) {
                here = (struct vec){buffer, TYPE_REAL, width};
                if (beta)
                    kernel_accumulate(here, 0, to, 1, (size_t)height, (size_t)width);
            }
            const real *add = bias ? bias + j : NULL;
            if (k > 0)
                block(here, begin(here, beta, add, height, width), alpha, matrix_at(a, i, 0),
                      matrix_at(b, 0, j), height, width, k);
            else
                only_begin(here, beta, add, height, width);
            if (c.type != TYPE_REAL)
                kernel_accumulate(to, 0, here, 1, (size_t)height, (size_t)width);
        }
    }
}

void kernel_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
                 struct vec b, int m, int n, int k, const struct epilogue *epilogue)
{
    const real *bias = epilogue ? epilogue->bias : NULL;
    bool real_only = c.type == TYPE_REAL && a.type == TYPE_REAL && b.type == TYPE_REAL;
    if (m == 0 || n == 0)
        return;
    if (real_only && k > 0 && !is_ours(tb, m, n, k)) {
        /* BLAS clears c in a pass of its own; c filled with the bias costs no more. */
        int now = begin(c, beta, bias, m, n);
        if (blas_gemm(c, now, alpha, ta, a, tb, b, m, n, k))
            return;
        beta = now;
        bias = NULL;
    }
    own_gemm(c, beta, (real)alpha, matrix_of(a, ta), matrix_of(b, tb), m, n, k, bias);
}
