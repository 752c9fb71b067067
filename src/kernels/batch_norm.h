/* batch_norm.h - batch normalisation: every column of (samples, heads, tokens, cols) by its mean and
 * variance over all rows. Ioffe and Szegedy, arXiv:1502.03167. Shared by the team; the bits depend on
 * the rows that are there alone. */
#ifndef KERNELS_BATCH_NORM_H
#define KERNELS_BATCH_NORM_H

#include <stdbool.h>

#include "kernels/vec.h"

/* The shape of x; the samples from `present` on are padding: in no sum, and with gradient 0. */
struct batch_rows {
    int samples, present, heads, tokens, cols;
};

/* Scratch of the three functions below, in reals. */
size_t kernel_batch_norm_scratch(int cols);

/* Mean, and mean squared deviation from it, of each column over all rows. */
void kernel_batch_moments(real *mean, real *variance, struct heads x, const struct batch_rows *b,
                          real *scratch);

/* y = (x - mean) weight / sqrt(variance + eps) + bias, column by column, the padding too. */
void kernel_batch_norm(struct heads y, struct heads x, const real *mean, const real *variance,
                       const real *weight, const real *bias, double eps, const struct batch_rows *b,
                       real *scratch);

/* dweight += sum dy xhat, dbias += sum dy (both may be NULL), dx = beta dx + the gradient (dx.data
 * may be NULL). own: mean and variance are those of x, else they are constants. */
void kernel_batch_norm_grad(struct heads dx, int beta, real *dweight, real *dbias, struct heads x,
                            const real *mean, const real *variance, bool own, const real *weight,
                            double eps, struct heads dy, const struct batch_rows *b, real *scratch);

#endif
