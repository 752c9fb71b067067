/* planes.h - tensors of one shape walked together, whatever their outer strides: heads of one
 * buffer, which no single stride between rows can show, are taken matrix by matrix.
 *
 *     static void forward(const struct node *n, const struct planes *p, size_t i)
 *     {
 *         kernel_gelu(plane_vec(n->out, p, i), plane_vec(n->in[0], p, i), p->rows, p->cols);
 *     }
 *     ...
 *     planes_share(n, node_planes(n), forward); */
#ifndef GRAPH_PLANES_H
#define GRAPH_PLANES_H

#include "graph/op.h"

struct planes {
    size_t count, rows, cols; /* planes; rows and columns of each, */
    size_t first;             /* from this row on, */
    size_t whole;             /* of so many: a part of the planes, where the work is shared */
};

/* How the output of a node and its inputs of the same shape are walked: as one plane where all of
 * them have rows (tensor_has_rows), else as the matrices of the last two axes. Planes follow one
 * another as their rows do in the shape. */
struct planes node_planes(const struct node *n);

/* The matrices of the last two axes of the output. */
struct planes node_matrices(const struct node *n);

/* The rows of plane i of such a tensor, and of its gradient. */
struct vec plane_vec(const struct tensor *t, const struct planes *p, size_t i);
struct vec plane_grad(const struct tensor *t, const struct planes *p, size_t i);

/* Calls run for every plane, or for parts of the rows of one alone, shared by the team: each call writes
 * rows of its own. */
typedef void plane_run(const struct node *n, const struct planes *p, size_t i);
void planes_share(const struct node *n, struct planes p, plane_run *run);

#endif
