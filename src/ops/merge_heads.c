/* merge_heads.c - heads side by side again.    x: (B, H, N, d)  y: (B, N, H d)
 *   y[b, t, h d + c] = x[b, h, t, c]        dx: the same numbers of dy
 * A node is recorded only where memory does not lie so already. */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void merge_heads_infer(struct graph *g, struct node *n)
{
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 4) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "merge_heads: %s, wanted (B, H, N, d)", shape_text(text, x));
        return;
    }
    graph_out(g, n, n->in[0]->type, SHAPE(x->dim[0], x->dim[2], x->dim[1] * x->dim[3]));
}

/* Head h of sample b: in x, values or gradient, and in y. */
static struct vec head_of_x(const struct tensor *x, void *base, int b, int h)
{
    ptrdiff_t offset = b * x->stride[0] + h * x->stride[1];
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(x->type), x->type,
                        x->stride[2]};
}

static struct vec head_of_y(const struct tensor *y, void *base, int b, int h, int d)
{
    ptrdiff_t offset = b * y->stride[0] + h * d;
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(y->type), y->type,
                        y->stride[1]};
}

static void merge_heads_forward(const struct node *n)
{
    const struct tensor *x = n->in[0], *y = n->out;
    const int *dim = x->shape.dim;
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            kernel_accumulate(head_of_y(y, y->data, b, h, dim[3]), 0,
                              head_of_x(x, x->data, b, h), 1, (size_t)dim[2], (size_t)dim[3]);
}

static void merge_heads_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *y = n->out;
    const int *dim = x->shape.dim;
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            kernel_accumulate(head_of_x(x, x->grad, b, h), n->beta[0],
                              head_of_y(y, y->grad, b, h, dim[3]), 1, (size_t)dim[2],
                              (size_t)dim[3]);
}

static struct tensor *merge_heads_sample(struct graph *g)
{
    return op_merge_heads(g, graph_sample(g, SHAPE(2, 2, 3, 4)));
}

const struct op merge_heads_op = {
    .name = "merge_heads", .infer = merge_heads_infer, .forward = merge_heads_forward,
    .backward = merge_heads_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = merge_heads_sample,
};

struct tensor *op_merge_heads(struct graph *g, struct tensor *x)
{
    struct tensor *view = graph_merge_heads(g, x);
    return view ? view : graph_record(g, &merge_heads_op, NULL, INPUTS(x));
}
