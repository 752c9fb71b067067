/* product_avx512bf16.c - products of bf16 with vdpbf16ps: a block of up to 14 rows times a panel of
 * two vectors is summed in registers, a pair of k at a time. */
#include <stdbool.h>

#include "kernels/bf16_pack.h"
#include "kernels/tables.h"

enum { BLOCK = 14, DEPTH = 2 };

static void pack(uint16_t *panels, ptrdiff_t panel, struct matrix b, int k, int n)
{
    bf16_pack(panels, panel, b, k, n, DEPTH);
}

/* Rows of bf16 are read where they are. What is transposed is interleaved like b, all of its
 * columns in one panel; rows of real are rounded. */
static struct left left(uint16_t *buffer, struct matrix a, int m, int k)
{
    if (a.col == 1 && a.type == TYPE_BF16)
        return (struct left){a.data, a.row, 2};
    if (a.col == 1) {
        ptrdiff_t row = (ptrdiff_t)bf16_padded(k, BF16_DEPTH);
        for (int i = 0; i < m; i++)
            for (int p = 0; p < k; p += 32)
                _mm512_storeu_si512(buffer + i * row + p,
                                    bf16_load_row(a.data, a.type, i * a.row + p, k - p));
        return (struct left){buffer, row, 2};
    }
    struct matrix flipped = {a.data, a.type, a.col, 1};
    ptrdiff_t width = 2 * (ptrdiff_t)bf16_padded(m, 32);
    for (int p = 0; p < k; p += 2) {
        for (int i = 0; i < m; i += 32) {
            __m512i low, high;
            bf16_pairs(&low, &high, flipped, p, i, k, m);
            _mm512_storeu_si512(buffer + p / 2 * width + 2 * i, low);
            _mm512_storeu_si512(buffer + p / 2 * width + 2 * i + 32, high);
        }
    }
    return (struct left){buffer, 2, width};
}

ALWAYS_INLINE __m512 multiply_add(__m512 sum, uint32_t pair, __m512i b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32((int)pair), (__m512bh)b);
}

/* Adds the products of one pair of k, `odd`: of its first element alone. */
ALWAYS_INLINE void step(__m512 sum[BLOCK][2], const uint16_t *a, ptrdiff_t row,
                        const uint16_t *panel, int m, int lanes, bool odd)
{
    __m512i b0 = _mm512_loadu_si512(panel), b1 = _mm512_loadu_si512(panel + (lanes - 1) * 32);
    UNROLL
    for (int i = 0; i < m; i++) {
        uint32_t pair = a[i * row];
        if (!odd)
            memcpy(&pair, a + i * row, sizeof pair);
        sum[i][0] = multiply_add(sum[i][0], pair, b0);
        if (lanes == 2)
            sum[i][1] = multiply_add(sum[i][1], pair, b1);
    }
}

/* c (m, n) = beta c + alpha a b for m <= BLOCK rows and one panel of 1 or 2 lanes; m and lanes are
 * constants where this is called. */
ALWAYS_INLINE void block(real *c, ptrdiff_t stride, int beta, real alpha, struct left a,
                         const uint16_t *panel, int m, int n, int k, int lanes)
{
    __m512 sum[BLOCK][2];
    UNROLL
    for (int i = 0; i < m; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    const uint16_t *from = a.data;
    for (int p = 0; p < k / 2; p++, from += a.pair, panel += lanes * 32)
        step(sum, from, a.row, panel, m, lanes, false);
    if (k % 2)
        step(sum, from, a.row, panel, m, lanes, true);
    UNROLL
    for (int i = 0; i < m; i++) {
        bf16_update(c + i * stride, beta, alpha, sum[i][0], n);
        if (lanes == 2)
            bf16_update(c + i * stride + LANE, beta, alpha, sum[i][1], n - LANE);
    }
}

#define BLOCK_CASE(rows)                                                                           \
    case rows:                                                                                     \
        block(c, stride, beta, alpha, a, panel, rows, n, k, lanes);                                \
        break

/* All rows of a with one panel, in blocks as equal as can be: their speed falls with their rows. */
ALWAYS_INLINE void column(real *c, ptrdiff_t stride, int beta, real alpha, struct left a,
                          const uint16_t *panel, int m, int n, int k, int lanes)
{
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
            BLOCK_CASE(13);
        default:
            block(c, stride, beta, alpha, a, panel, BLOCK, n, k, lanes);
        }
        c += rows * stride;
        a.data += rows * a.row;
        m -= rows;
    }
}

static void multiply(real *c, ptrdiff_t stride, int beta, real alpha, struct left a, struct right b,
                     int m, int n, int k)
{
    for (int j = 0; j < n; j += BF16_PANEL, b.data += b.panel) {
        int width = bf16_panel_width(j, n);
        const uint16_t *panel = b.data + b.row * width;
        if (width == BF16_PANEL)
            column(c + j, stride, beta, alpha, a, panel, m, n - j, k, 2);
        else
            column(c + j, stride, beta, alpha, a, panel, m, n - j, k, 1);
    }
}

const struct kernels_bf16 bf16_avx512bf16 = {
    .depth = DEPTH,
    .rows = 56,
    .pack = pack,
    .left = left,
    .multiply = multiply,
};
