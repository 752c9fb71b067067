/* lane.h - vectors of the instruction set that a file is compiled for, as gcc and clang know them:
 * arithmetic is written as for numbers. For the isa_*.c files; what loops over lanes handles the
 * end of a row with lane_load_part and lane_store_part, and needs no scalar loop. */
#ifndef KERNELS_LANE_H
#define KERNELS_LANE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/vec.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Before a loop of at most 16 rounds whose count is a constant after inlining: no loop is left, and
 * arrays that it goes through can live in registers. With its sanitizers clang would take minutes.
 */
#ifndef __clang__
#define UNROLL _Pragma("GCC unroll 16")
#elif __has_feature(address_sanitizer)
#define UNROLL
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif

#ifndef ATTNBENCH_DOUBLE
#if defined(__AVX512F__)
#define LANE_AVX512
#elif defined(__AVX2__)
#define LANE_AVX2
#endif
#endif

#if defined(LANE_AVX512)
enum { LANE_BYTES = 64 };
#elif defined(LANE_AVX2)
enum { LANE_BYTES = 32 };
#else
enum { LANE_BYTES = 16 };
#endif

enum { LANE = LANE_BYTES / (int)sizeof(real) };

typedef real lane __attribute__((vector_size(LANE_BYTES)));
typedef int32_t lane_int __attribute__((vector_size(LANE_BYTES)));
typedef uint32_t lane_bits __attribute__((vector_size(LANE_BYTES)));
#ifdef ATTNBENCH_DOUBLE
typedef int64_t lane_mask __attribute__((vector_size(LANE_BYTES))); /* of comparisons: 0 or -1 */
#else
typedef lane_int lane_mask;
#endif

ALWAYS_INLINE lane lane_load(const real *from)
{
    lane x;
    memcpy(&x, from, sizeof x);
    return x;
}

ALWAYS_INLINE void lane_store(real *to, lane x)
{
    memcpy(to, &x, sizeof x);
}

/* The same number everywhere; -0 stays. */
ALWAYS_INLINE lane lane_all(real x)
{
    return x - (lane){0};
}

#ifdef LANE_AVX512

/* The first n <= LANE elements, zeros behind them. */
ALWAYS_INLINE lane lane_load_part(const real *from, size_t n)
{
    return (lane)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
}

/* x with zeros from element n <= LANE on. */
ALWAYS_INLINE lane lane_part(lane x, size_t n)
{
    return (lane)_mm512_maskz_mov_ps((__mmask16)((1u << n) - 1), (__m512)x);
}

/* x with `rest` from element n <= LANE on. */
ALWAYS_INLINE lane lane_fill(lane x, size_t n, real rest)
{
    return (lane)_mm512_mask_mov_ps(_mm512_set1_ps(rest), (__mmask16)((1u << n) - 1), (__m512)x);
}

ALWAYS_INLINE void lane_store_part(real *to, lane x, size_t n)
{
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), (__m512)x);
}

/* The smaller; y where one is NaN. */
ALWAYS_INLINE lane lane_min(lane x, lane y)
{
    return (lane)_mm512_min_ps((__m512)x, (__m512)y);
}

/* The larger; y where one is NaN. */
ALWAYS_INLINE lane lane_max(lane x, lane y)
{
    return (lane)_mm512_max_ps((__m512)x, (__m512)y);
}

#elif defined(LANE_AVX2)

ALWAYS_INLINE __m256i lane_first(size_t n)
{
    __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), number);
}

ALWAYS_INLINE lane lane_load_part(const real *from, size_t n)
{
    return (lane)_mm256_maskload_ps(from, lane_first(n));
}

ALWAYS_INLINE lane lane_part(lane x, size_t n)
{
    return (lane)_mm256_and_ps((__m256)x, _mm256_castsi256_ps(lane_first(n)));
}

ALWAYS_INLINE lane lane_fill(lane x, size_t n, real rest)
{
    return (lane)_mm256_blendv_ps(_mm256_set1_ps(rest), (__m256)x,
                                  _mm256_castsi256_ps(lane_first(n)));
}

ALWAYS_INLINE void lane_store_part(real *to, lane x, size_t n)
{
    _mm256_maskstore_ps(to, lane_first(n), (__m256)x);
}

ALWAYS_INLINE lane lane_min(lane x, lane y)
{
    return (lane)_mm256_min_ps((__m256)x, (__m256)y);
}

ALWAYS_INLINE lane lane_max(lane x, lane y)
{
    return (lane)_mm256_max_ps((__m256)x, (__m256)y);
}

#else

ALWAYS_INLINE lane lane_load_part(const real *from, size_t n)
{
    lane x = {0};
    for (size_t i = 0; i < n; i++)
        x[i] = from[i];
    return x;
}

ALWAYS_INLINE lane lane_part(lane x, size_t n)
{
    for (size_t i = n; i < LANE; i++)
        x[i] = 0;
    return x;
}

ALWAYS_INLINE lane lane_fill(lane x, size_t n, real rest)
{
    for (size_t i = n; i < LANE; i++)
        x[i] = rest;
    return x;
}

ALWAYS_INLINE void lane_store_part(real *to, lane x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = x[i];
}

ALWAYS_INLINE lane lane_min(lane x, lane y)
{
    lane_mask less = x < y;
    return (lane)((less & (lane_mask)x) | (~less & (lane_mask)y));
}

ALWAYS_INLINE lane lane_max(lane x, lane y)
{
    lane_mask more = x > y;
    return (lane)((more & (lane_mask)x) | (~more & (lane_mask)y));
}

#endif

/* yes where the mask is set, else no. */
ALWAYS_INLINE lane lane_where(lane_mask mask, lane yes, lane no)
{
    return (lane)((mask & (lane_mask)yes) | (~mask & (lane_mask)no));
}

/* Up to LANE elements of the n that are left. */
ALWAYS_INLINE lane lane_get(const real *from, size_t n)
{
    return n >= LANE ? lane_load(from) : lane_load_part(from, n);
}

ALWAYS_INLINE void lane_put(real *to, lane x, size_t n)
{
    if (n >= LANE)
        lane_store(to, x);
    else
        lane_store_part(to, x, n);
}

#ifdef LANE_AVX512

ALWAYS_INLINE real lane_sum(lane x)
{
    return _mm512_reduce_add_ps((__m512)x);
}

ALWAYS_INLINE real lane_largest(lane x)
{
    return _mm512_reduce_max_ps((__m512)x);
}

#else

/* Sum of the elements, as a tree. */
ALWAYS_INLINE real lane_sum(lane x)
{
    real part[LANE];
    lane_store(part, x);
    for (int half = LANE / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    return part[0];
}

ALWAYS_INLINE real lane_largest(lane x)
{
    real part[LANE];
    lane_store(part, x);
    for (int half = LANE / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] = part[i] > part[i + half] ? part[i] : part[i + half];
    return part[0];
}

#endif

#ifdef ATTNBENCH_DOUBLE

ALWAYS_INLINE lane lane_exp(lane x)
{
    lane y;
    for (int i = 0; i < LANE; i++)
        y[i] = exp(x[i]);
    return y;
}

ALWAYS_INLINE lane lane_log(lane x)
{
    lane y;
    for (int i = 0; i < LANE; i++)
        y[i] = log(x[i]);
    return y;
}

ALWAYS_INLINE lane lane_sin(lane x)
{
    lane y;
    for (int i = 0; i < LANE; i++)
        y[i] = sin(x[i]);
    return y;
}

ALWAYS_INLINE lane lane_cos(lane x)
{
    lane y;
    for (int i = 0; i < LANE; i++)
        y[i] = cos(x[i]);
    return y;
}

/* The normal distribution at x: *cdf = P(X <= x), *density = its derivative. */
ALWAYS_INLINE void lane_normal(lane x, lane *cdf, lane *density)
{
    for (int i = 0; i < LANE; i++) {
        (*cdf)[i] = 0.5 * erfc(-x[i] * 0.70710678118654752440);
        (*density)[i] = 0.39894228040143267794 * exp(-0.5 * x[i] * x[i]);
    }
}

#else

/* exp x, relative error below 1.2e-7; infinity and NaN as libm has them. x = n ln 2 + r with n
 * whole: adding 1.5 * 2^23 rounds x / ln 2 and leaves n in the low bits; the power of two is made
 * in two factors, because 2^128 is no float, or by an instruction. Below -104 the result is 0. */
ALWAYS_INLINE lane lane_exp(lane x)
{
    const float magic = 0x1.8p23f;
    lane y = lane_max(lane_all(-104.0f), lane_min(lane_all(89.0f), x));
    lane shifted = y * 1.44269504088896341f + magic;
    lane n = shifted - magic;
    lane r = y - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    lane p = r * 0.001392625083f + 0.008363232884f;
    p = p * r + 0.04166655421f;
    p = p * r + 0.1666657667f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
#ifdef LANE_AVX512
    return (lane)_mm512_scalef_ps((__m512)(p + 1.0f), (__m512)n);
#else
    lane_bits whole = (lane_bits)shifted - 0x4b400000u; /* n as a two's complement number */
    lane_bits half = (lane_bits)((lane_int)whole >> 1);
    lane scale = (lane)((half + 127u) << 23), rest = (lane)((whole - half + 127u) << 23);
    return (p * scale + scale) * rest;
#endif
}

/* log x of a normal number above 0, to 1e-7 of 1 + |log x|: x = 2^e (1 + f) with 1 + f between the
 * roots of 1/2 and 2; the polynomial of Cephes' logf. */
ALWAYS_INLINE lane lane_log(lane x)
{
    lane_int e = ((lane_int)x - 0x3f3504f3) >> 23;
    lane f = (lane)((lane_bits)x - ((lane_bits)e << 23)) - 1.0f;
    lane n = __builtin_convertvector(e, lane);
    lane p = f * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    p = p * f - 0.5f;
    return n * 0.693359375f + (f + (p * (f * f) - n * 2.12194440e-4f));
}

/* sin(x + quarter pi / 2), to 1e-7 where |x| is below 8000; beyond 1e5, where neighbours are far apart, any
 * number of -1.1 .. 1.1. x = n pi / 2 + r with n whole, taken off in three parts of which the first two have
 * bits to spare for n; the polynomials of Cephes' sinf and cosf at r, by the low bits of n. */
ALWAYS_INLINE lane lane_wave(lane x, uint32_t quarter)
{
    const float magic = 0x1.8p23f;
    lane shifted = x * 0.636619772367581343f + magic, n = shifted - magic;
    lane r = x - n * 1.5703125f;
    r = r - n * 4.837512969970703125e-4f;
    r = r - n * 7.549789948768648e-8f;
    r = lane_max(lane_all(-1.0f), lane_min(lane_all(1.0f), r));
    lane z = r * r;
    lane s = z * -1.9515295891e-4f + 8.3321608736e-3f;
    s = s * z - 1.6666654611e-1f;
    s = s * z * r + r;
    lane c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
    c = c * z + 4.166664568298827e-2f;
    c = c * z * z - z * 0.5f + 1.0f;
    lane_bits turn = (lane_bits)shifted + quarter;
    lane_mask odd = (lane_mask)((turn & 1u) != 0u);
    return (lane)((lane_bits)lane_where(odd, c, s) ^ ((turn & 2u) << 30));
}

ALWAYS_INLINE lane lane_sin(lane x)
{
    return lane_wave(x, 0);
}

ALWAYS_INLINE lane lane_cos(lane x)
{
    return lane_wave(x, 1);
}

/* The normal distribution at x: *cdf = P(X <= x), *density = its derivative. The smaller tail is
 * exp(-x^2 / 2) R(|x|) with Mills' ratio R as a polynomial of 1 / (1 + 0.35 |x|), fitted to a
 * relative error of 4e-8. */
ALWAYS_INLINE void lane_normal(lane x, lane *cdf, lane *density)
{
    lane e = lane_exp(x * x * -0.5f);
    lane s = 1.0f / ((lane)((lane_bits)x & 0x7fffffffu) * 0.35f + 1.0f);
    lane p = s * -0.029679522f + 0.1465458303f;
    p = p * s - 0.2609612283f;
    p = p * s + 0.1650509959f;
    p = p * s - 0.02704660827f;
    p = p * s + 0.1071145876f;
    p = p * s + 0.1194449168f;
    p = p * s + 0.1399122981f;
    p = p * s + 0.1396187126f;
    lane tail = p * s * e;
    lane_bits above = (lane_bits)(x > 0.0f); /* there the tail is what is missing to 1 */
    *cdf =
        (lane)(above & (lane_bits)lane_all(1.0f)) + (lane)((lane_bits)tail ^ (above & 0x80000000u));
    *density = e * 0.3989422804f;
}

#endif

#endif
