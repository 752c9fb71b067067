/* sample.h - one sample of a tensor (B, N, C), as rows for kernels. */
#ifndef OPS_SAMPLE_H
#define OPS_SAMPLE_H

#include "graph/tensor.h"

/* Sample b of a tensor with rows (tensor_has_rows), or of its gradient, data NULL where none is
 * needed. */
static inline struct vec sample_vec(const struct tensor *t, int b)
{
    return vec_at(tensor_vec(t), (size_t)b * (size_t)t->shape.dim[1], 0);
}

static inline struct vec sample_grad(const struct tensor *t, int b)
{
    struct vec grad = tensor_grad(t);
    return grad.data ? vec_at(grad, (size_t)b * (size_t)t->shape.dim[1], 0) : grad;
}

#endif
