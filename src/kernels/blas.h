/* blas.h - the only user of BLAS. */
#ifndef KERNELS_BLAS_H
#define KERNELS_BLAS_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* One thread per call: calls come from several threads at once. */
void blas_init(void);

/* Whether BLAS makes less of this CPU than the kernels chosen here, is not OpenBLAS while there are
 * any, may not be called from several threads, or is not there. */
bool blas_is_behind(void);

/* c = beta c + alpha op(a) op(b), all of them real, none of the sizes 0. False where there is no
 * BLAS for real or a stride is more than it can take; then c is as it was. */
bool blas_gemm(struct vec c, int beta, double alpha, enum trans ta, struct vec a, enum trans tb,
               struct vec b, int m, int n, int k);

#endif
