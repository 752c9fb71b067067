/* trial.h - bf16 instructions are tried before they are relied on. */
#ifndef KERNELS_TRIAL_H
#define KERNELS_TRIAL_H

#include <stdbool.h>

#include "kernels/product.h"

/* Whether small products of whole numbers come out exactly, from all layouts and both types. */
bool bf16_works(const struct kernels_bf16 *bf16);

#endif
