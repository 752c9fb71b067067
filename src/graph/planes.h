/* planes.h - tensors of one shape walked together, whatever their outer strides: heads of one
 * buffer, which no single stride between rows can show, are taken matrix by matrix.
 *
 *     struct planes p = node_planes(n);
 *     for (size_t i = 0; i < p.count; i++)
 *         kernel_gelu(plane_vec(n->out, &p, i), plane_vec(n->in[0], &p, i), p.rows, p.cols); */
#ifndef GRAPH_PLANES_H
#define GRAPH_PLANES_H

#include "graph/op.h"

struct planes {
    size_t count, rows, cols; /* planes; rows and columns of each */
};

/* How the output of a node and its inputs of the same shape are walked: as one plane where all of
 * them have rows (tensor_has_rows), else as the matrices of the last two axes. Planes follow one
 * another as their rows do in the shape. */
struct planes node_planes(const struct node *n);

/* Plane i of such a tensor, and of its gradient. */
struct vec plane_vec(const struct tensor *t, const struct planes *p, size_t i);
struct vec plane_grad(const struct tensor *t, const struct planes *p, size_t i);

#endif
