/* gemm.c - products: by the bf16 instructions where both operands are bf16, by BLAS where all are
 * real and large, else by our own blocks. */
#include "kernels/gemm.h"

#include <string.h>

#include "kernels/blas.h"

/* Of our own product: rows of c, columns of c, length of a sum. */
enum { BLOCK_M = 256, BLOCK_N = 64, BLOCK_K = 128 };

/* Numbers of c that BLAS computes at a time where their rows are to be moved, and the fewest rows. */
enum { BLAS_BUFFER = 1 << 16, BLAS_ROWS = 16 };

/* Products up to so many MACs may be computed by OpenBLAS's kernels for small matrices, which add
 * one product after the other: where sums are longer than this, ours err less. */
enum { BLAS_SMALL = 1000000, BLAS_LONGEST = 4 * BLOCK_K };

/* Whether our product is the better one: by its error (see above), or by a tenth or more in speed,
 * as measured on AVX-512 beside OpenBLAS's SkylakeX kernels: where b is narrow, so that packing it
 * costs BLAS too much. Its kernels for small matrices are faster than ours, but not with a
 * transposed b. */
static bool is_ours(enum trans tb, int m, int n, int k)
{
    double macs = (double)m * n * k;
    bool narrow = n <= 128 || (n <= 200 && k <= 128), small = macs < 1 << 19;
    bool inexact = k > BLAS_LONGEST && macs <= BLAS_SMALL;
    return blas_is_behind() || inexact || (narrow && (!small || tb == TRANSPOSED));
}

/* Rows i.., columns p.. of a as real numbers, in `buffer` unless they are. */
static struct matrix real_block(real *buffer, struct matrix a, int i, int p, int m, int k,
                                bool round)
{
    a = matrix_at(a, i, p);
    if (a.type == TYPE_REAL && !round)
        return a;
    bool plain = a.col == 1;
    size_t rows = (size_t)(plain ? m : k), cols = (size_t)(plain ? k : m);
    struct vec from = {(void *)(uintptr_t)a.data, a.type, plain ? a.row : a.col};
    struct vec to = {buffer, TYPE_REAL, (ptrdiff_t)cols};
    uint16_t rounded[BLOCK_M * BLOCK_K];
    if (a.type == TYPE_REAL) {
        struct vec between = {rounded, TYPE_BF16, (ptrdiff_t)cols};
        kernel_accumulate(between, 0, from, 1, rows, cols);
        from = between;
    }
    kernel_accumulate(to, 0, from, 1, rows, cols);
    return matrix_of(to, plain ? PLAIN : TRANSPOSED);
}

/* One block of c, all real; k > 0. The order of the sums depends on k alone. */
static void block(struct vec c, int beta, real alpha, struct matrix a, struct matrix b, int m,
                  int n, int k, bool round)
{
    const struct kernels_product *own = kernels_level()->product;
    for (int p = 0; p < k; p += BLOCK_K) {
        real panels[BLOCK_K * BLOCK_N], buffer[BLOCK_M * BLOCK_K];
        int depth = k - p < BLOCK_K ? k - p : BLOCK_K;
        own->pack(panels, matrix_at(b, p, 0), depth, n);
        own->multiply(c.data, c.stride, p ? 1 : beta, alpha,
                      real_block(buffer, a, 0, p, m, depth, round), panels, m, n, depth);
    }
}

/* What is left of a block without a product: c = beta c. */
static void only_beta(struct vec c, int beta, int m, int n)
{
    for (int i = 0; i < m && !beta; i++)
        memset(vec_at(c, (size_t)i, 0).data, 0, (size_t)n * sizeof(real));
}

static void by_blocks(const struct gemm *g, bool round)
{
    struct vec c = g->c;
    int beta = g->beta;
    bool direct = c.type == TYPE_REAL && !has_epilogue(g->epilogue);
    for (int j = 0; j < g->n; j += BLOCK_N) {
        int width = g->n - j < BLOCK_N ? g->n - j : BLOCK_N;
        for (int i = 0; i < g->m; i += BLOCK_M) {
            real buffer[BLOCK_M * BLOCK_N];
            int height = g->m - i < BLOCK_M ? g->m - i : BLOCK_M;
            struct vec to = vec_at(c, (size_t)i, (size_t)j), here = to;
            if (!direct) {
                here = (struct vec){buffer, TYPE_REAL, BLOCK_N};
                if (beta)
                    kernel_accumulate(here, 0, to, 1, (size_t)height, (size_t)width);
            }
            if (g->k > 0)
                block(here, beta, g->alpha, matrix_at(g->a, i, 0), matrix_at(g->b, 0, j), height,
                      width, g->k, round);
            else
                only_beta(here, beta, height, width);
            if (!direct)
                kernels_level()->epilogue->finish(c, buffer, BLOCK_N, g->epilogue, (size_t)i,
                                                  (size_t)j, height, width);
        }
    }
}

void gemm_own(const struct gemm *g)
{
    by_blocks(g, false);
}

void gemm_own_rounded(const struct gemm *g)
{
    by_blocks(g, true);
}

/* The operand that BLAS is given, and whether it is to transpose it; x has `cols` columns. */
static struct vec operand(struct matrix x, int cols, enum trans *t)
{
    bool plain = x.col == 1 && x.row >= cols;
    *t = plain ? PLAIN : TRANSPOSED;
    return (struct vec){(void *)(uintptr_t)x.data, x.type, plain ? x.row : x.col};
}

/* By BLAS, some rows at a time that then go to their places. */
static void by_blas_in_order(const struct gemm *g)
{
    real buffer[BLAS_BUFFER];
    enum trans ta, tb;
    struct vec b = operand(g->b, g->n, &tb), sums = {buffer, TYPE_REAL, g->n};
    int most = BLAS_BUFFER / g->n;
    if (most < BLAS_ROWS) {
        gemm_own(g);
        return;
    }
    for (int i = 0; i < g->m; i += most) {
        int rows = g->m - i < most ? g->m - i : most;
        struct vec a = operand(matrix_at(g->a, i, 0), g->k, &ta);
        if (!blas_gemm(sums, 0, (double)g->alpha, ta, a, tb, b, rows, g->n, g->k)) {
            gemm_own(g);
            return;
        }
        kernels_level()->epilogue->finish(g->c, buffer, sums.stride, g->epilogue, (size_t)i, 0,
                                          rows, g->n);
    }
}

/* By BLAS and a pass over c; by our blocks where it cannot be done so. */
static void by_blas(const struct gemm *g)
{
    struct epilogue rest = *g->epilogue;
    int beta = g->beta;
    if (rest.order) {
        by_blas_in_order(g);
        return;
    }
    if (rest.residual.data && rest.residual.data == g->c.data) {
        if (rest.gelu || rest.factor || beta) {
            gemm_own(g);
            return;
        }
        beta = 1;
        rest.residual.data = NULL;
    }
    enum trans ta, tb;
    struct vec a = operand(g->a, g->k, &ta), b = operand(g->b, g->n, &tb);
    if (!blas_gemm(g->c, beta, (double)g->alpha, ta, a, tb, b, g->m, g->n, g->k))
        gemm_own(g);
    else if (has_epilogue(&rest))
        kernels_level()->epilogue->finish(g->c, g->c.data, g->c.stride, &rest, 0, 0, g->m, g->n);
}

void kernel_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
                 struct vec b, int m, int n, int k, const struct epilogue *epilogue)
{
    static const struct epilogue nothing = {.bias = NULL};
    bool real_only = c.type == TYPE_REAL && a.type == TYPE_REAL && b.type == TYPE_REAL;
    bool bf16 = a.type == TYPE_BF16 && b.type == TYPE_BF16 && kernels_level()->bf16;
    struct gemm g = {
        .c = c,
        .beta = beta,
        .alpha = (real)alpha,
        .a = matrix_of(a, ta),
        .b = matrix_of(b, tb),
        .m = m,
        .n = n,
        .k = k,
        .epilogue = epilogue ? epilogue : &nothing,
    };
    if (m == 0 || n == 0)
        return;
    if (bf16 && k > 0) {
        g.compute = gemm_bf16;
        gemm_by_team(&g);
    } else if (!real_only || k == 0 || is_ours(tb, m, n, k)) {
        g.compute = gemm_own;
        gemm_by_team(&g);
    } else {
        g.compute = by_blas;
        gemm_in_fixed_parts(&g);
    }
}
