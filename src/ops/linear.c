/* linear.c - affine map of the last axis.    x: (.., in)  W: (out, in)  bias: (out)  y: (.., out)
 *   y = x W^T + bias        dx = dy W,  dW = dy^T x,  dbias = column sums of dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

/* Rows and columns of a weight of any shape: a convolution's (D, C, p, p) is (D, C p p). */
static int weight_rows(const struct tensor *W)
{
    return W->shape.dim[0];
}

static int weight_cols(const struct tensor *W)
{
    return (int)(tensor_count(W) / (size_t)W->shape.dim[0]);
}

static struct vec weight_vec(const struct tensor *W, void *data)
{
    return (struct vec){data, W->type, weight_cols(W)};
}

static void linear_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    if (weight_cols(W) != tensor_cols(x) ||
        (bias && tensor_count(bias) != (size_t)weight_rows(W))) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "linear: weight %s does not take %s",
                   shape_text(a, &W->shape), shape_text(b, &x->shape));
        return;
    }
    infer_param(g, n, 1);
    infer_param(g, n, 2);
    struct shape shape = x->shape;
    shape.dim[shape.rank - 1] = weight_rows(W);
    graph_out(g, n, x->type, shape);
}

static double linear_macs(const struct node *n)
{
    return (double)tensor_count(n->out) * tensor_cols(n->in[0]);
}

static void linear_forward(const struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1];
    struct epilogue epilogue = {.bias = n->in[2] ? n->in[2]->data : NULL};
    kernel_gemm(tensor_vec(n->out), 0, 1, PLAIN, tensor_vec(x), TRANSPOSED,
                weight_vec(W, W->data), (int)tensor_rows(x), weight_rows(W), weight_cols(W),
                &epilogue);
}

static void linear_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    int rows = (int)tensor_rows(x), in = weight_cols(W), out = weight_rows(W);
    struct vec dy = tensor_grad(n->out);
    if (x->grad)
        kernel_gemm(tensor_grad(x), n->beta[0], 1, PLAIN, dy, PLAIN, weight_vec(W, W->data), rows,
                    in, out, NULL);
    if (W->grad)
        kernel_gemm(weight_vec(W, W->grad), 1, 1, TRANSPOSED, dy, PLAIN, tensor_vec(x), out, in,
                    rows, NULL);
    if (bias && bias->grad)
        kernel_column_sums(bias->grad, dy, (size_t)rows, (size_t)out);
}

static struct tensor *linear_sample(struct graph *g)
{
    struct tensor *W = graph_param(g, "weight", SHAPE(4, 5), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(4), INIT_NORMAL(1));
    return op_linear(g, graph_sample(g, SHAPE(2, 3, 5)), W, bias);
}

const struct op linear_op = {
    .name = "linear", .infer = linear_infer, .macs = linear_macs, .forward = linear_forward,
    .backward = linear_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = linear_sample,
};

struct tensor *op_linear(struct graph *g, struct tensor *x, struct tensor *W, struct tensor *bias)
{
    return graph_record(g, &linear_op, NULL, INPUTS(x, W, bias));
}
