/* tensor.c - shapes and strides. */
#include "graph/tensor.h"

#include <stdio.h>

size_t shape_count(const struct shape *s)
{
    size_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= (size_t)s->dim[i];
    return count;
}

size_t tensor_count(const struct tensor *t)
{
    return shape_count(&t->shape);
}

int tensor_cols(const struct tensor *t)
{
    return t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 1;
}

size_t tensor_rows(const struct tensor *t)
{
    size_t rows = 1;
    for (int i = 0; i + 1 < t->shape.rank; i++)
        rows *= (size_t)t->shape.dim[i];
    return rows;
}

/* Stride between rows: that of the innermost outer axis longer than 1; the row's length without one. */
static ptrdiff_t row_stride(const struct tensor *t)
{
    for (int i = t->shape.rank - 2; i >= 0; i--)
        if (t->shape.dim[i] > 1)
            return t->stride[i];
    return tensor_cols(t);
}

bool tensor_has_rows(const struct tensor *t)
{
    ptrdiff_t stride = row_stride(t);
    ptrdiff_t expected = stride;
    for (int i = t->shape.rank - 2; i >= 0; i--) {
        if (t->shape.dim[i] > 1 && t->stride[i] != expected)
            return false;
        expected *= t->shape.dim[i];
    }
    return true;
}

bool tensor_is_contiguous(const struct tensor *t)
{
    return tensor_has_rows(t) && (tensor_rows(t) <= 1 || row_stride(t) == tensor_cols(t));
}

struct vec tensor_vec(const struct tensor *t)
{
    return (struct vec){t->data, t->type, row_stride(t)};
}

struct vec tensor_grad(const struct tensor *t)
{
    return (struct vec){t->grad, t->type, row_stride(t)};
}

size_t tensor_matrices(const struct tensor *t)
{
    size_t count = 1;
    for (int axis = 0; axis + 2 < t->shape.rank; axis++)
        count *= (size_t)t->shape.dim[axis];
    return count;
}

static struct vec matrix(const struct tensor *t, void *base, size_t i)
{
    int rank = t->shape.rank;
    ptrdiff_t offset = 0;
    for (int axis = rank - 3; axis >= 0; axis--) {
        offset += (ptrdiff_t)(i % (size_t)t->shape.dim[axis]) * t->stride[axis];
        i /= (size_t)t->shape.dim[axis];
    }
    if (base)
        base = (char *)base + offset * (ptrdiff_t)type_size(t->type);
    return (struct vec){base, t->type, rank > 1 ? t->stride[rank - 2] : tensor_cols(t)};
}

struct vec tensor_matrix(const struct tensor *t, size_t i)
{
    return matrix(t, t->data, i);
}

struct vec tensor_matrix_grad(const struct tensor *t, size_t i)
{
    return matrix(t, t->grad, i);
}

struct heads tensor_heads(const struct tensor *t)
{
    return (struct heads){t->data, t->type, t->stride[0], t->stride[1], t->stride[2]};
}

struct heads tensor_grad_heads(const struct tensor *t)
{
    return (struct heads){t->grad, t->type, t->stride[0], t->stride[1], t->stride[2]};
}

const char *shape_text(char text[64], const struct shape *s)
{
    int at = snprintf(text, 64, "(");
    for (int i = 0; i < s->rank && at < 50; i++)
        at += snprintf(text + at, (size_t)(64 - at), i ? ", %d" : "%d", s->dim[i]);
    snprintf(text + at, (size_t)(64 - at), ")");
    return text;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}
