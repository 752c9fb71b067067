/* isa_product.c - products from packed panels: a block of rows times a panel of two vectors is
 * summed in registers, so that each element that is loaded is used several times. */
#include "kernels/isa.h"
#include "kernels/lane_bf16.h"

#if defined(LANE_AVX512)
enum { BLOCK = 12 };
#elif defined(LANE_AVX2)
enum { BLOCK = 6 };
#else
enum { BLOCK = 4 };
#endif

enum { PANEL = 2 * LANE };

/* Columns of the panel that begins at column j: two vectors, or one where that holds the rest. */
ALWAYS_INLINE int panel_width(int j, int n)
{
    return n - j > LANE ? PANEL : LANE;
}

#ifndef ATTNBENCH_DOUBLE

typedef float four __attribute__((vector_size(16)));

/* to[j][i] = from[i][j] for 4 x 4 numbers, rows `to_stride` and `from_stride` apart. */
ALWAYS_INLINE void transpose_square(real *to, ptrdiff_t to_stride, const real *from,
                                    ptrdiff_t from_stride)
{
    four x[4], y[4];
    for (int i = 0; i < 4; i++)
        memcpy(&x[i], from + i * from_stride, sizeof x[i]);
    y[0] = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
    y[1] = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
    y[2] = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
    y[3] = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
    x[0] = __builtin_shufflevector(y[0], y[2], 0, 1, 4, 5);
    x[1] = __builtin_shufflevector(y[0], y[2], 2, 3, 6, 7);
    x[2] = __builtin_shufflevector(y[1], y[3], 0, 1, 4, 5);
    x[3] = __builtin_shufflevector(y[1], y[3], 2, 3, 6, 7);
    for (int i = 0; i < 4; i++)
        memcpy(to + i * to_stride, &x[i], sizeof x[i]);
}

/* As many whole squares as there are of `used` columns that lie `stride` apart, k numbers each.
 * Returns how many columns that were. */
static int pack_squares(real *to, const real *from, ptrdiff_t stride, int k, int used, int width)
{
    int cols = used / 4 * 4, p = 0;
    for (; p + 4 <= k; p += 4)
        for (int i = 0; i < cols; i += 4)
            transpose_square(to + p * width + i, width, from + p + i * stride, stride);
    for (; p < k; p++)
        for (int i = 0; i < cols; i++)
            to[p * width + i] = from[p + i * stride];
    return cols;
}

#endif

ALWAYS_INLINE real element(struct matrix b, ptrdiff_t at)
{
    return b.type == TYPE_REAL ? ((const real *)b.data)[at]
                               : bf16_to_real(((const uint16_t *)b.data)[at]);
}

/* One panel: columns j.. of b, k x width, zeros behind column n. */
static void pack_panel(real *to, struct matrix b, int j, int k, int n, int width)
{
    int used = n - j < width ? n - j : width, first = 0;
    if (b.col == 1) {
        for (int p = 0; p < k; p++, to += width)
            for (int i = 0; i < width; i += LANE)
                lane_store(to + i, lane_get_type(b.data, b.type, (size_t)(p * b.row + j + i),
                                                 (size_t)(used - i)));
        return;
    }
#ifndef ATTNBENCH_DOUBLE
    if (b.type == TYPE_REAL && b.row == 1)
        first = pack_squares(to, (const real *)b.data + j * b.col, b.col, k, used, width);
#endif
    for (int p = 0; p < k && first < width; p++)
        for (int i = first; i < width; i++)
            to[p * width + i] = i < used ? element(b, p * b.row + (j + i) * b.col) : 0;
}

static void pack(real *panels, struct matrix b, int k, int n)
{
    for (int j = 0; j < n; j += PANEL) {
        int width = panel_width(j, n);
        pack_panel(panels, b, j, k, n, width);
        panels += (size_t)k * (size_t)width;
    }
}

/* c = beta c + alpha x for the first n elements of a lane. */
ALWAYS_INLINE void update(real *c, int beta, real alpha, lane x, int n)
{
    x *= alpha;
    if (n >= LANE)
        lane_store(c, beta ? lane_load(c) + x : x);
    else if (n > 0)
        lane_store_part(c, beta ? lane_load_part(c, (size_t)n) + x : x, (size_t)n);
}

/* c (m, n) = beta c + alpha a b, m <= BLOCK rows and one panel of 1 or 2 lanes. m and lanes are
 * constants where this is called. */
ALWAYS_INLINE void block(real *c, ptrdiff_t stride, int beta, real alpha, const real *a,
                         ptrdiff_t row, ptrdiff_t col, const real *panel, int m, int n, int k,
                         int lanes)
{
    lane sum[BLOCK][2];
    UNROLL
    for (int i = 0; i < m; i++)
        sum[i][0] = sum[i][1] = (lane){0};
    for (int p = 0; p < k; p++) {
        lane b0 = lane_load(panel), b1 = lane_load(panel + (lanes - 1) * LANE);
        UNROLL
        for (int i = 0; i < m; i++) {
            real x = a[i * row];
            sum[i][0] += x * b0;
            if (lanes == 2)
                sum[i][1] += x * b1;
        }
        a += col;
        panel += lanes * LANE;
    }
    UNROLL
    for (int i = 0; i < m; i++) {
        update(c + i * stride, beta, alpha, sum[i][0], n);
        if (lanes == 2)
            update(c + i * stride + LANE, beta, alpha, sum[i][1], n - LANE);
    }
}

#define BLOCK_CASE(rows)                                                                           \
    case rows:                                                                                     \
        if (rows <= BLOCK)                                                                         \
            block(c, stride, beta, alpha, from, a.row, a.col, panel, rows, n, k, lanes);           \
        break

/* All rows of a with one panel, in blocks as equal as can be: their speed falls with their rows. */
ALWAYS_INLINE void column(real *c, ptrdiff_t stride, int beta, real alpha, struct matrix a,
                          const real *panel, int m, int n, int k, int lanes)
{
    const real *from = a.data;
    for (int blocks = (m + BLOCK - 1) / BLOCK; blocks > 0; blocks--) {
        int rows = (m + blocks - 1) / blocks;
        switch (rows) {
            BLOCK_CASE(1);
            BLOCK_CASE(2);
            BLOCK_CASE(3);
            BLOCK_CASE(4);
            BLOCK_CASE(5);
            BLOCK_CASE(6);
            BLOCK_CASE(7);
            BLOCK_CASE(8);
            BLOCK_CASE(9);
            BLOCK_CASE(10);
            BLOCK_CASE(11);
            BLOCK_CASE(12);
        }
        c += rows * stride;
        from += rows * a.row;
        m -= rows;
    }
}

static void multiply(real *c, ptrdiff_t stride, int beta, real alpha, struct matrix a,
                     const real *panels, int m, int n, int k)
{
    for (int j = 0; j < n; j += PANEL) {
        int width = panel_width(j, n);
        if (width == PANEL)
            column(c + j, stride, beta, alpha, a, panels, m, n - j, k, 2);
        else
            column(c + j, stride, beta, alpha, a, panels, m, n - j, k, 1);
        panels += (size_t)k * (size_t)width;
    }
}

const struct kernels_product KERNELS_NAME(product) = {.pack = pack, .multiply = multiply};
