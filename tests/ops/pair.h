/* pair.h - two ways to record the same function, run on the same numbers and compared. */
#ifndef TESTS_OPS_PAIR_H
#define TESTS_OPS_PAIR_H

#include "graph/rig.h"
#include "ops/ops.h"

/* Records the function in the first or the second way. Inputs and parameters must be made in the
 * same order and under the same names in both. */
typedef struct tensor *pair_record(struct graph *g, bool second);

/* Values, gradients of all inputs and of all parameters agree within rounding. */
void check_pair(pair_record *record);

/* The same with dropout and drop path. */
void check_noisy_pair(pair_record *record);

#endif
