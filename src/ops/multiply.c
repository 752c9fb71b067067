/* multiply.c - product of two tensors, element by element.    a, b, y: any shape
 *   y = a b        da = b dy, db = a dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void multiply_forward(const struct node *n)
{
    kernel_multiply(tensor_vec(n->out), 0, tensor_vec(n->in[0]), tensor_vec(n->in[1]),
                    tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static void multiply_backward(const struct node *n)
{
    for (int i = 0; i < 2; i++)
        if (n->in[i]->grad)
            kernel_multiply(tensor_grad(n->in[i]), n->beta[i], tensor_vec(n->in[1 - i]),
                            tensor_grad(n->out), tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *multiply_sample(struct graph *g)
{
    return op_multiply(g, graph_sample(g, SHAPE(2, 3, 5)), graph_sample(g, SHAPE(2, 3, 5)));
}

const struct op multiply_op = {
    .name = "multiply", .infer = infer_same, .forward = multiply_forward,
    .backward = multiply_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = multiply_sample,
};

struct tensor *op_multiply(struct graph *g, struct tensor *a, struct tensor *b)
{
    return graph_record(g, &multiply_op, NULL, INPUTS(a, b));
}
