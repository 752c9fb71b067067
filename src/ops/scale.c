/* scale.c - a constant times a tensor.    x, y: any shape
 *   y = factor x        dx = factor dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void scale_forward(const struct node *n)
{
    kernel_accumulate(tensor_vec(n->out), 0, tensor_vec(n->in[0]), *(const double *)n->options,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static void scale_backward(const struct node *n)
{
    kernel_accumulate(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out),
                      *(const double *)n->options, tensor_rows(n->out),
                      (size_t)tensor_cols(n->out));
}

static struct tensor *scale_sample(struct graph *g)
{
    return op_scale(g, graph_sample(g, SHAPE(2, 3, 5)), -1.5);
}

const struct op scale_op = {
    .name = "scale", .infer = infer_unary, .forward = scale_forward, .backward = scale_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = scale_sample,
};

struct tensor *op_scale(struct graph *g, struct tensor *x, double factor)
{
    return graph_record(g, &scale_op, graph_copy(g, &factor, sizeof factor), INPUTS(x));
}
