/* drop.h - dropout's factors: element i of a sample takes word i mod 4 of random block i / 4. */
#ifndef KERNELS_DROP_H
#define KERNELS_DROP_H

#include "base/rng.h"
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

/* factor[0..n-1] = 0 or 1 / (1 - p) for the elements from `first` on. */
static inline void drop_factors(real *factor, const struct drop *d, uint64_t first, size_t n)
{
    uint32_t word[4];
    for (size_t i = 0; i < n; i++) {
        uint64_t element = first + i;
        if (i == 0 || element % 4 == 0)
            rng_block(word, d->stream, d->step, d->sample, element / 4);
        factor[i] = word[element % 4] < d->dropped ? 0 : d->kept;
    }
}

#endif
