/* copy.c - a strided tensor laid out contiguously, one run of rows at a time.    x, y: any shape */
#include "graph/copy.h"

#include "kernels/kernels.h"

static void copy_infer(struct graph *g, struct node *n)
{
    graph_out(g, n, n->in[0]->type, n->in[0]->shape);
}

/* Rows (.., N, d) of plane i of the outer axes: where they start in a tensor of these strides. */
static ptrdiff_t plane_offset(const struct tensor *t, size_t plane)
{
    ptrdiff_t offset = 0;
    for (int axis = t->shape.rank - 3; axis >= 0; axis--) {
        offset += (ptrdiff_t)(plane % (size_t)t->shape.dim[axis]) * t->stride[axis];
        plane /= (size_t)t->shape.dim[axis];
    }
    return offset;
}

static struct vec plane_vec(const struct tensor *t, void *base, size_t plane)
{
    char *data = (char *)base + plane_offset(t, plane) * (ptrdiff_t)type_size(t->type);
    ptrdiff_t stride = t->shape.rank > 1 ? t->stride[t->shape.rank - 2] : tensor_cols(t);
    return (struct vec){data, t->type, stride};
}

static void copy_planes(const struct tensor *to, void *to_data, int beta, const struct tensor *from,
                        void *from_data)
{
    size_t cols = (size_t)tensor_cols(to);
    size_t rows = to->shape.rank > 1 ? (size_t)to->shape.dim[to->shape.rank - 2] : 1;
    size_t planes = tensor_count(to) / (rows * cols);
    for (size_t i = 0; i < planes; i++)
        kernel_accumulate(plane_vec(to, to_data, i), beta, plane_vec(from, from_data, i), 1, rows,
                          cols);
}

static void copy_forward(const struct node *n)
{
    copy_planes(n->out, n->out->data, 0, n->in[0], n->in[0]->data);
}

static void copy_backward(const struct node *n)
{
    copy_planes(n->in[0], n->in[0]->grad, n->beta[0], n->out, n->out->grad);
}

static struct tensor *copy_sample(struct graph *g)
{
    return graph_op_copy(g, graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2));
}

const struct op copy_op = {
    .name = "copy", .infer = copy_infer, .forward = copy_forward, .backward = copy_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = copy_sample,
};

struct tensor *graph_op_copy(struct graph *g, struct tensor *x)
{
    return graph_record(g, &copy_op, NULL, INPUTS(x));
}
