/* broadcast.c - where the repeated operand lies. */
#include "ops/broadcast.h"

#include <string.h>

/* Length of an axis, 1 where it is missing; from_end: 1 for the last one. */
static int axis(const struct tensor *p, int from_end)
{
    return from_end <= p->shape.rank ? p->shape.dim[p->shape.rank - from_end] : 1;
}

bool broadcast_fits(const struct tensor *p, const struct shape *x, int first)
{
    bool fits = p->shape.rank <= x->rank && x->rank >= 2 && p->type == TYPE_REAL &&
                tensor_is_contiguous(p);
    for (int from_end = 2; fits && from_end <= p->shape.rank; from_end++) {
        int length = x->dim[x->rank - from_end] - (from_end == 2 ? first : 0);
        fits = axis(p, from_end) == 1 || axis(p, from_end) == length;
    }
    return fits;
}

bool broadcast_is_number(const struct tensor *p)
{
    return axis(p, 1) == 1;
}

void infer_broadcast(struct graph *g, struct node *n, int first)
{
    const struct tensor *x = n->in[0], *p = n->in[1];
    int rank = x->shape.rank;
    bool cols = tensor_cols(p) == tensor_cols(x) || (broadcast_is_number(p) && axis(p, 2) == 1);
    if (!cols || !broadcast_fits(p, &x->shape, first) || first < 0 ||
        first >= x->shape.dim[rank - 2]) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "%s: %s cannot be repeated over %s from token %d on",
                   n->op->name, shape_text(a, &p->shape), shape_text(b, &x->shape), first);
        return;
    }
    infer_unary(g, n);
}

struct vec broadcast_matrix(const struct tensor *p, void *base, const struct shape *x, size_t i)
{
    ptrdiff_t stride = (ptrdiff_t)axis(p, 1) * axis(p, 2), at = 0;
    for (int from_end = 3; from_end <= x->rank; from_end++) {
        size_t length = (size_t)x->dim[x->rank - from_end];
        if (axis(p, from_end) > 1)
            at += (ptrdiff_t)(i % length) * stride;
        stride *= axis(p, from_end);
        i /= length;
    }
    return (struct vec){(real *)base + at, TYPE_REAL, axis(p, 2) > 1 ? axis(p, 1) : 0};
}

void broadcast_clear(const struct node *n, int k)
{
    const struct tensor *p = n->in[k];
    if (!n->beta[k])
        memset(p->grad, 0, tensor_count(p) * sizeof(real));
}
