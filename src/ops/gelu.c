/* gelu.c - Gaussian error linear unit, exact form (arXiv:1606.08415).    x, y: any shape
 *   y = x Phi(x)        dx = dy (Phi(x) + x phi(x)), Phi and phi of the standard normal distribution */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void gelu_forward(const struct node *n)
{
    kernel_gelu(tensor_vec(n->out), tensor_vec(n->in[0]), tensor_rows(n->out),
                (size_t)tensor_cols(n->out));
}

static void gelu_backward(const struct node *n)
{
    kernel_gelu_grad(tensor_grad(n->in[0]), n->beta[0], tensor_vec(n->in[0]), tensor_grad(n->out),
                     tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *gelu_sample(struct graph *g)
{
    return op_gelu(g, op_scale(g, graph_sample(g, SHAPE(2, 3, 5)), 3));
}

const struct op gelu_op = {
    .name = "gelu", .infer = infer_unary, .forward = gelu_forward, .backward = gelu_backward,
    .backward_reads = READS_IN(0), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = gelu_sample,
};

struct tensor *op_gelu(struct graph *g, struct tensor *x)
{
    return graph_record(g, &gelu_op, NULL, INPUTS(x));
}
