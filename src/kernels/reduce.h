/* reduce.h - sums and maxima of n real numbers in an order that depends only on n and the
 * instruction set: four lanes in turn, so that one sum does not wait for the one before. For the
 * isa_*.c files. */
#ifndef KERNELS_REDUCE_H
#define KERNELS_REDUCE_H

#include "kernels/lane.h"

/* The largest; NaN may be passed over. -INFINITY for n = 0. */
static inline real reduce_max(const real *x, size_t n)
{
    real max = (real)-INFINITY;
    if (n < LANE) {
        for (size_t i = 0; i < n; i++)
            max = x[i] > max ? x[i] : max;
        return max;
    }
    lane m0 = lane_all(max), m1 = m0;
    size_t i = 0;
    for (; i + 2 * LANE <= n; i += 2 * LANE) {
        m0 = lane_max(lane_load(x + i), m0);
        m1 = lane_max(lane_load(x + i + LANE), m1);
    }
    if (i + LANE <= n)
        m0 = lane_max(lane_load(x + i), m0);
    m1 = lane_max(lane_load(x + n - LANE), m1); /* some a second time */
    return lane_largest(lane_max(m0, m1));
}

enum term { TERM_SUM, TERM_DOT, TERM_DEVIATION };

ALWAYS_INLINE lane reduce_term(enum term kind, lane x, lane y, real a)
{
    switch (kind) {
    case TERM_DOT:
        return x * y;
    case TERM_DEVIATION:
        return (x - a) * (x - a);
    default:
        return x;
    }
}

/* Sum of the terms; `kind` is a constant where this is called. */
ALWAYS_INLINE real reduce(enum term kind, const real *x, const real *y, real a, size_t n)
{
    lane s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
    size_t i = 0;
    for (; i + 4 * LANE <= n; i += 4 * LANE) {
        const real *p = x + i, *q = y + i;
        s0 += reduce_term(kind, lane_load(p), lane_load(q), a);
        s1 += reduce_term(kind, lane_load(p + LANE), lane_load(q + LANE), a);
        s2 += reduce_term(kind, lane_load(p + 2 * LANE), lane_load(q + 2 * LANE), a);
        s3 += reduce_term(kind, lane_load(p + 3 * LANE), lane_load(q + 3 * LANE), a);
    }
    for (; i + LANE <= n; i += LANE)
        s0 += reduce_term(kind, lane_load(x + i), lane_load(y + i), a);
    if (i < n) {
        lane p = lane_load_part(x + i, n - i), q = lane_load_part(y + i, n - i);
        s1 += lane_part(reduce_term(kind, p, q, a), n - i);
    }
    return lane_sum((s0 + s1) + (s2 + s3));
}

static inline real reduce_sum(const real *x, size_t n)
{
    return reduce(TERM_SUM, x, x, 0, n);
}

static inline real reduce_dot(const real *x, const real *y, size_t n)
{
    return reduce(TERM_DOT, x, y, 0, n);
}

/* Sum of (x - mean)^2. */
static inline real reduce_deviation(const real *x, real mean, size_t n)
{
    return reduce(TERM_DEVIATION, x, x, mean, n);
}

/* y = exp(x - max); their sum. y may be x. */
static inline real reduce_exp(real *y, const real *x, real max, size_t n)
{
    lane s0 = {0}, s1 = s0;
    size_t i = 0;
    for (; i + 2 * LANE <= n; i += 2 * LANE) {
        lane e0 = lane_exp(lane_load(x + i) - max), e1 = lane_exp(lane_load(x + i + LANE) - max);
        lane_store(y + i, e0);
        lane_store(y + i + LANE, e1);
        s0 += e0;
        s1 += e1;
    }
    for (; i < n; i += LANE) {
        size_t left = n - i < LANE ? n - i : LANE;
        lane e = lane_exp(lane_get(x + i, left) - max);
        lane_put(y + i, e, left);
        s0 += lane_part(e, left);
    }
    return lane_sum(s0 + s1);
}

#endif
