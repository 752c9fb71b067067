/* drop_path.h - the factors of stochastic depth, for the op and for those that absorb it. */
#ifndef OPS_DROP_PATH_H
#define OPS_DROP_PATH_H

#include "graph/op.h"

struct drop_path {
    double p;
    uint64_t stream;
};

/* factor[b] = 0 with probability p, else 1 / (1 - p), for `count` samples of the slice that runs. */
void drop_path_factors(real *factor, const struct drop_path *o, const struct run *run, int count);

#endif
