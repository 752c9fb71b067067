/* bf16_pack.h - loads and rearrangements of bf16 that the levels with bf16 instructions share. For
 * files compiled with AVX512-BF16. Rounding is that of the instructions: to nearest, ties to even;
 * denormals become zero. */
#ifndef KERNELS_BF16_PACK_H
#define KERNELS_BF16_PACK_H

#include "kernels/lane.h"
#include "kernels/product.h"

/* A mask of the first n of `most` elements; n may be more, or less than 0. */
ALWAYS_INLINE uint32_t bf16_first(int n, int most)
{
    int bits = n < 0 ? 0 : n < most ? n : most;
    return (uint32_t)((UINT64_C(1) << bits) - 1);
}

/* The first n <= 32 elements at data[at..] as bf16, zeros behind them. */
ALWAYS_INLINE __m512i bf16_load_row(const void *data, enum type type, ptrdiff_t at, int n)
{
    if (type == TYPE_BF16)
        return _mm512_maskz_loadu_epi16(bf16_first(n, 32), (const uint16_t *)data + at);
    const float *from = (const float *)data + at;
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)bf16_first(n, 16), from);
    __m512 high = _mm512_maskz_loadu_ps((__mmask16)bf16_first(n - 16, 16), from + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Elements j.. of rows p and p + 1 of x as 32 pairs: pair i of *low and 16 + i of *high hold
 * (x[p][j + i], x[p + 1][j + i]). x.col is 1; zeros outside of (k, n). */
ALWAYS_INLINE void bf16_pairs(__m512i *low, __m512i *high, struct matrix x, int p, int j, int k,
                              int n)
{
    /* From the first where the number is below 32, else from the second. */
    const __m512i zip = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i upper = _mm512_add_epi16(zip, _mm512_set1_epi16(16));
    __m512i first = bf16_load_row(x.data, x.type, p * x.row + j, n - j);
    __m512i second = _mm512_setzero_si512();
    if (p + 1 < k)
        second = bf16_load_row(x.data, x.type, (p + 1) * x.row + j, n - j);
    *low = _mm512_permutex2var_epi16(first, zip, second);
    *high = _mm512_permutex2var_epi16(first, upper, second);
}

/* x[j][i] = x[i][j] for 16 x 16 words of 32 bits. */
ALWAYS_INLINE void bf16_transpose(__m512i x[16])
{
    __m512i y[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    /* x[4 g + c] now holds rows 4 g.. of column c, c + 4, c + 8, c + 12, one in each quarter. */
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_i32x4(y[i], y[i + 8], 0xdd);
        x[i + 4] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0x88);
        x[i + 12] = _mm512_shuffle_i32x4(y[i + 4], y[i + 12], 0xdd);
    }
}

/* Packs b for any level: see struct kernels_bf16. */
static inline void bf16_pack(uint16_t *panels, ptrdiff_t panel, struct matrix b, int k, int n,
                             int depth)
{
    int padded = (int)bf16_padded(k, depth);
    for (int j = 0; j < n; j += BF16_PANEL, panels += panel) {
        int width = bf16_panel_width(j, n);
        for (int p = 0; p < padded && b.col == 1; p += 2) {
            __m512i low = _mm512_setzero_si512(), high = low;
            if (p < k)
                bf16_pairs(&low, &high, b, p, j, k, n);
            _mm512_storeu_si512(panels + p * width, low);
            if (width == BF16_PANEL)
                _mm512_storeu_si512(panels + p * width + 32, high);
        }
        for (int p = 0; p < padded && b.col != 1; p += 32) {
            int pairs = padded - p < 32 ? (padded - p) / 2 : 16;
            for (int i = 0; i < width; i += 16) {
                __m512i x[16];
                for (int c = 0; c < 16; c++)
                    x[c] = j + i + c < n
                               ? bf16_load_row(b.data, b.type, (j + i + c) * b.col + p, k - p)
                               : _mm512_setzero_si512();
                bf16_transpose(x);
                for (int c = 0; c < pairs; c++)
                    _mm512_storeu_si512(panels + (p + 2 * c) * width + 2 * i, x[c]);
            }
        }
    }
}

/* c = beta c + alpha x for the first n elements of a lane. */
ALWAYS_INLINE void bf16_update(real *c, int beta, real alpha, __m512 x, int n)
{
    lane y = (lane)x * alpha;
    if (n >= LANE)
        lane_store(c, beta ? lane_load(c) + y : y);
    else if (n > 0)
        lane_store_part(c, beta ? lane_load_part(c, (size_t)n) + y : y, (size_t)n);
}

#endif
