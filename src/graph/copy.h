/* copy.h - the op that recording inserts where an op cannot take a strided input. */
#ifndef GRAPH_COPY_H
#define GRAPH_COPY_H

#include "graph/graph.h"

/* x in contiguous memory, the same shape. */
struct tensor *graph_op_copy(struct graph *g, struct tensor *x);

extern const struct op copy_op;

#endif
