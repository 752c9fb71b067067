/* bf16.h - the upper half of an IEEE float: 8 bits of mantissa with the float's range. */
#ifndef KERNELS_BF16_H
#define KERNELS_BF16_H

#include <stddef.h>
#include <stdint.h>

#include "base/real.h"

union bf16_bits {
    float f;
    uint32_t bits;
};

static inline real bf16_to_real(uint16_t x)
{
    union bf16_bits b = {.bits = (uint32_t)x << 16};
    return (real)b.f;
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
static inline uint16_t bf16_from_real(real x)
{
    union bf16_bits b = {.f = (float)x};
    uint32_t rounded = (b.bits + 0x7fffu + (b.bits >> 16 & 1u)) >> 16;
    uint32_t nan = b.bits >> 16 | 0x40u;
    return (uint16_t)((b.bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

#endif
