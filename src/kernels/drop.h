/* drop.h - dropout's factors: element i of a sample takes word i mod 4 of random block i / 4. */
#ifndef KERNELS_DROP_H
#define KERNELS_DROP_H

#include <string.h>

#include "kernels/vec.h"

struct drop {
    uint64_t stream, step, sample;
    uint32_t dropped; /* words below are dropped: p 2^32, rounded */
    real kept;        /* factor of the others: 1 / (1 - p) */
};

static inline struct drop drop_begin(double p, uint64_t stream, uint64_t step, uint64_t sample)
{
    double limit = p * 0x1p32 + 0.5;
    struct drop d = {.stream = stream, .step = step, .sample = sample};
    d.dropped = limit >= 0x1p32 ? UINT32_MAX : (uint32_t)limit;
    d.kept = (real)(1 / (1 - p));
    return d;
}

enum { DROP_BLOCKS = 32 }; /* random blocks drawn at a time */

/* The factors of 4 * DROP_BLOCKS elements from random block `first` on: rng_block, written so that
 * it can be vectorised. What differs between the blocks is the index. */
static inline void drop_draw(real *factor, const struct drop *d, uint64_t first)
{
    uint32_t high = (uint32_t)(d->sample & 0xffff) << 16;
    uint32_t sample = (uint32_t)(d->sample >> 16 & 0xffffff) | (uint32_t)(d->step & 0xff) << 24;
    uint32_t step = (uint32_t)(d->step >> 8);
    uint32_t dropped = d->dropped;
    real kept = d->kept;
#pragma omp simd
    for (uint32_t i = 0; i < DROP_BLOCKS; i++) {
        uint32_t c0 = (uint32_t)first + i, carry = c0 < i;
        uint32_t c1 = (((uint32_t)(first >> 32) + carry) & 0xffff) | high, c2 = sample, c3 = step;
        uint32_t k0 = (uint32_t)d->stream, k1 = (uint32_t)(d->stream >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)p1;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        factor[4 * i] = c0 < dropped ? 0 : kept;
        factor[4 * i + 1] = c1 < dropped ? 0 : kept;
        factor[4 * i + 2] = c2 < dropped ? 0 : kept;
        factor[4 * i + 3] = c3 < dropped ? 0 : kept;
    }
}

/* factor[0..n-1] = 0 or 1 / (1 - p) for the elements from `first` on. */
static inline void drop_factors(real *factor, const struct drop *d, uint64_t first, size_t n)
{
    size_t skip = (size_t)(first % 4); /* of the first block */
    for (size_t i = 0; i < n;) {
        real drawn[4 * DROP_BLOCKS];
        size_t count = 4 * DROP_BLOCKS - skip < n - i ? 4 * DROP_BLOCKS - skip : n - i;
        drop_draw(drawn, d, (first + i) / 4);
        memcpy(factor + i, drawn + skip, count * sizeof *factor);
        i += count;
        skip = 0;
    }
}

#endif
