/* operand.h - scratch cut into pieces, and right operands packed for the real or the bf16 products: for
 * kernels that do many small products inside one call. */
#ifndef KERNELS_OPERAND_H
#define KERNELS_OPERAND_H

#include "kernels/level.h"

enum { SCRATCH_LINE = 16 }; /* reals to which pieces are rounded, and that alignment costs at most */

/* Scratch from the next cache line on: up to SCRATCH_LINE reals less. */
static inline real *scratch_aligned(real *scratch)
{
    return scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof *scratch;
}

/* The next n reals of the scratch (NULL: only counts in *used), from a new cache line on. */
static inline real *scratch_take(real *scratch, size_t *used, size_t n)
{
    real *here = scratch ? scratch + *used : NULL;
    *used += (n + SCRATCH_LINE - 1) / SCRATCH_LINE * SCRATCH_LINE;
    return here;
}

static inline size_t size_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Reals that a right operand (k, n) takes, packed for either kind of products. */
static inline size_t operand_size(int k, int n)
{
    return size_most(product_packed(k, n), bf16_packed(k, n, BF16_DEPTH) / 2);
}

static inline ptrdiff_t operand_panel(const struct kernels_bf16 *bf16, int k)
{
    return BF16_PANEL * (ptrdiff_t)bf16_padded(k, bf16->depth);
}

/* Packs b (k, n) for the products bf16, NULL: the real ones of the level. */
static inline void operand_pack(const struct kernels_bf16 *bf16, void *to, struct matrix b, int k,
                                int n)
{
    if (bf16)
        bf16->pack(to, operand_panel(bf16, k), b, k, n);
    else
        kernels_level()->product->pack(to, b, k, n);
}

/* What operand_pack packed for bf16, from its first row on. */
static inline struct right operand_right(const struct kernels_bf16 *bf16, const void *packed, int k)
{
    return (struct right){packed, operand_panel(bf16, k), 0};
}

#endif
