/* scale_cols.c - a learned factor for each column (layer scale).    x, y: (.., D)  gamma: (D)
 *   y = gamma x        dx = gamma dy, dgamma = sum over rows of x dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void scale_cols_infer(struct graph *g, struct node *n)
{
    if (n->in[1]->shape.rank != 1 || n->in[1]->shape.dim[0] != tensor_cols(n->in[0])) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "scale_cols: factors %s do not fit %s",
                   shape_text(a, &n->in[1]->shape), shape_text(b, &n->in[0]->shape));
    }
    infer_param(g, n, 1);
    infer_unary(g, n);
}

static void scale_cols_forward(const struct node *n)
{
    kernel_scale_cols(tensor_vec(n->out), 0, tensor_vec(n->in[0]), n->in[1]->data,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static void scale_cols_backward(const struct node *n)
{
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    if (n->in[0]->grad)
        kernel_scale_cols(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), n->in[1]->data,
                          rows, cols);
    if (n->in[1]->grad)
        kernel_scale_cols_grad(n->in[1]->grad, tensor_vec(n->in[0]), tensor_grad(n->out), rows,
                               cols);
}

static struct tensor *scale_cols_sample(struct graph *g)
{
    struct tensor *gamma = graph_param(g, "gamma", SHAPE(5), INIT_NORMAL(1));
    return op_scale_cols(g, graph_sample(g, SHAPE(2, 3, 5)), gamma);
}

const struct op scale_cols_op = {
    .name = "scale_cols", .infer = scale_cols_infer, .forward = scale_cols_forward,
    .backward = scale_cols_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = scale_cols_sample,
};

struct tensor *op_scale_cols(struct graph *g, struct tensor *x, struct tensor *gamma)
{
    return graph_record(g, &scale_cols_op, NULL, INPUTS(x, gamma));
}
