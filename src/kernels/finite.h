/* finite.h - the search for values that are not finite. */
#ifndef KERNELS_FINITE_H
#define KERNELS_FINITE_H

#include <stdbool.h>

#include "kernels/vec.h"

/* True where no element is infinite or NaN. */
bool kernel_all_finite(struct vec x, size_t rows, size_t cols);

#endif
