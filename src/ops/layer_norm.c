/* layer_norm.c - normalisation over the last axis.    x, y: (.., D)  weight, bias: (D)
 *   xhat = (x - mean) / sqrt(variance + eps),  y = weight xhat + bias
 *   with g = weight dy:  dx = rstd (g - mean(g) - xhat mean(g xhat)),
 *   dweight = sum over rows of dy xhat,  dbias = sum over rows of dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void layer_norm_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0];
    if (tensor_count(n->in[1]) != (size_t)tensor_cols(x) ||
        tensor_count(n->in[2]) != (size_t)tensor_cols(x)) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "layer_norm: weight %s and bias %s do not fit %s",
                   shape_text(a, &n->in[1]->shape), shape_text(b, &n->in[2]->shape),
                   shape_text(c, &x->shape));
        return;
    }
    infer_param(g, n, 1);
    infer_param(g, n, 2);
    infer_unary(g, n);
    graph_saved(g, n, 0, TYPE_REAL, tensor_rows(x)); /* mean */
    graph_saved(g, n, 1, TYPE_REAL, tensor_rows(x)); /* rstd */
}

static void layer_norm_forward(const struct node *n)
{
    kernel_layer_norm(tensor_vec(n->out), n->saved[0]->data, n->saved[1]->data,
                      tensor_vec(n->in[0]), n->in[1]->data, n->in[2]->data,
                      *(const double *)n->options, tensor_rows(n->out),
                      (size_t)tensor_cols(n->out));
}

static void layer_norm_backward(const struct node *n)
{
    kernel_layer_norm_grad(tensor_grad(n->in[0]), n->beta[0], n->in[1]->grad, n->in[2]->grad,
                           tensor_vec(n->in[0]), n->saved[0]->data, n->saved[1]->data,
                           n->in[1]->data, tensor_grad(n->out), tensor_rows(n->out),
                           (size_t)tensor_cols(n->out));
}

static struct tensor *layer_norm_sample(struct graph *g)
{
    struct tensor *weight = graph_param(g, "weight", SHAPE(5), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(5), INIT_NORMAL(1));
    return op_layer_norm(g, graph_sample(g, SHAPE(2, 3, 5)), weight, bias, 1e-6);
}

const struct op layer_norm_op = {
    .name = "layer_norm", .infer = layer_norm_infer, .forward = layer_norm_forward,
    .backward = layer_norm_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = layer_norm_sample,
};

struct tensor *op_layer_norm(struct graph *g, struct tensor *x, struct tensor *weight,
                             struct tensor *bias, double eps)
{
    return graph_record(g, &layer_norm_op, graph_copy(g, &eps, sizeof eps),
                        INPUTS(x, weight, bias));
}
