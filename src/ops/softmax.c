/* softmax.c - softmax over the last axis, row by row.    x, y: (.., N)
 *   y = exp(x - max x) / sum exp(x - max x)        dx = y (dy - sum dy y) */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void softmax_forward(const struct node *n)
{
    kernel_softmax(tensor_vec(n->out), tensor_vec(n->in[0]), tensor_rows(n->out),
                   (size_t)tensor_cols(n->out));
}

static void softmax_backward(const struct node *n)
{
    kernel_softmax_grad(tensor_grad(n->in[0]), n->beta[0], tensor_vec(n->out), tensor_grad(n->out),
                        tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *softmax_sample(struct graph *g)
{
    return op_softmax(g, graph_sample(g, SHAPE(2, 3, 5)));
}

const struct op softmax_op = {
    .name = "softmax", .infer = infer_unary, .forward = softmax_forward,
    .backward = softmax_backward, .backward_reads = READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = softmax_sample,
};

struct tensor *op_softmax(struct graph *g, struct tensor *x)
{
    return graph_record(g, &softmax_op, NULL, INPUTS(x));
}
