/* planes.c - one plane, or the matrices of the last two axes. */
#include "graph/planes.h"

struct planes node_planes(const struct node *n)
{
    const struct tensor *out = n->out;
    bool rows = tensor_has_rows(out);
    for (int i = 0; i < n->inputs; i++)
        if (n->in[i] && shape_equal(&n->in[i]->shape, &out->shape))
            rows = rows && tensor_has_rows(n->in[i]);
    if (rows)
        return (struct planes){1, tensor_rows(out), (size_t)tensor_cols(out)};
    size_t count = tensor_matrices(out);
    return (struct planes){count, tensor_rows(out) / count, (size_t)tensor_cols(out)};
}

struct vec plane_vec(const struct tensor *t, const struct planes *p, size_t i)
{
    return p->count == 1 ? tensor_vec(t) : tensor_matrix(t, i);
}

struct vec plane_grad(const struct tensor *t, const struct planes *p, size_t i)
{
    return p->count == 1 ? tensor_grad(t) : tensor_matrix_grad(t, i);
}
