/* lane_bf16.h - lanes that are stored as bf16. For the isa_*.c files. */
#ifndef KERNELS_LANE_BF16_H
#define KERNELS_LANE_BF16_H

#include "kernels/bf16.h"
#include "kernels/lane.h"

#if defined(LANE_AVX512)

ALWAYS_INLINE lane lane_get_bf16(const uint16_t *from, size_t n)
{
    __mmask16 mask = n >= LANE ? 0xffff : (__mmask16)((1u << n) - 1);
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return (lane)_mm512_slli_epi32(wide, 16);
}

ALWAYS_INLINE void lane_put_bf16(uint16_t *to, lane x, size_t n)
{
    __mmask16 mask = n >= LANE ? 0xffff : (__mmask16)((1u << n) - 1);
#ifdef __AVX512BF16__
    _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    lane_bits bits = (lane_bits)x;
    lane_bits rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    __m512i out = _mm512_mask_blend_epi32(nan, (__m512i)rounded, (__m512i)(bits >> 16 | 0x40u));
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(out));
#endif
}

#else

/* LANE whole elements. */
ALWAYS_INLINE lane lane_load_bf16(const uint16_t *from)
{
#ifdef LANE_AVX2
    __m128i bits;
    memcpy(&bits, from, sizeof bits);
    return (lane)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
#else
    lane x;
    for (int i = 0; i < LANE; i++)
        x[i] = bf16_to_real(from[i]);
    return x;
#endif
}

ALWAYS_INLINE void lane_store_bf16(uint16_t *to, lane x)
{
#ifdef LANE_AVX2
    lane_bits bits = (lane_bits)x, nan = (lane_bits)(x != x);
    lane_bits rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    __m256i out = (__m256i)((~nan & rounded) | (nan & (bits >> 16 | 0x40u)));
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(out, out), 0x08);
    memcpy(to, &packed, LANE * sizeof *to);
#else
    for (int i = 0; i < LANE; i++)
        to[i] = bf16_from_real(x[i]);
#endif
}

ALWAYS_INLINE lane lane_get_bf16(const uint16_t *from, size_t n)
{
    uint16_t part[LANE] = {0};
    if (n >= LANE)
        return lane_load_bf16(from);
    memcpy(part, from, n * sizeof *from);
    return lane_load_bf16(part);
}

ALWAYS_INLINE void lane_put_bf16(uint16_t *to, lane x, size_t n)
{
    uint16_t part[LANE];
    lane_store_bf16(n >= LANE ? to : part, x);
    if (n < LANE)
        memcpy(to, part, n * sizeof *to);
}

#endif

/* Up to LANE elements of the n that are left, from element `at` of `data` on. */
ALWAYS_INLINE lane lane_get_type(const void *data, enum type type, size_t at, size_t n)
{
    return type == TYPE_REAL ? lane_get((const real *)data + at, n)
                             : lane_get_bf16((const uint16_t *)data + at, n);
}

ALWAYS_INLINE void lane_put_type(void *data, enum type type, size_t at, lane x, size_t n)
{
    if (type == TYPE_REAL)
        lane_put((real *)data + at, x, n);
    else
        lane_put_bf16((uint16_t *)data + at, x, n);
}

#endif
