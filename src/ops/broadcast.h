/* broadcast.h - an operand p that is repeated over another one, x: aligned with the last axes of x,
 * and where an axis of p is missing or 1 long, the same numbers for each index of x's. p is real
 * and contiguous: a parameter, a constant, a row for each sample. */
#ifndef OPS_BROADCAST_H
#define OPS_BROADCAST_H

#include "ops/ops.h"

/* Whether the rows of p meet those of x from row `first` of its matrices on; columns are not looked
 * at. */
bool broadcast_fits(const struct tensor *p, const struct shape *x, int first);

/* For infer of op(x, p): fails unless p fits x, columns too, or is one number for each matrix; the
 * output is like x. */
void infer_broadcast(struct graph *g, struct node *n, int first);

/* Whether p has one column. */
bool broadcast_is_number(const struct tensor *p);

/* The part of p, values or gradient, that matrix i of a tensor of shape x meets: stride 0 where one
 * row meets all. */
struct vec broadcast_matrix(const struct tensor *p, void *base, const struct shape *x, size_t i);

/* Zeroes the gradient of input k, which is repeated, unless it is to be added to: from then on all
 * that meets it adds. */
void broadcast_clear(const struct node *n, int k);

#endif
