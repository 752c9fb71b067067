/* multiply.c - product of two tensors, element by element.    a, b, y: any shape
 *   y = a b        da = b dy, db = a dy */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_multiply(plane_vec(n->out, p, i), 0, plane_vec(n->in[0], p, i),
                    plane_vec(n->in[1], p, i), p->rows, p->cols);
}

static void multiply_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    for (int k = 0; k < 2; k++)
        if (n->in[k]->grad)
            kernel_multiply(plane_grad(n->in[k], p, i), n->beta[k],
                            plane_vec(n->in[1 - k], p, i), plane_grad(n->out, p, i), p->rows,
                            p->cols);
}

static void multiply_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *multiply_sample(struct graph *g)
{
    return op_multiply(g, graph_sample(g, SHAPE(2, 3, 5)), graph_sample(g, SHAPE(2, 3, 5)));
}

const struct op multiply_op = {
    .name = "multiply", .infer = infer_same, .forward = multiply_forward,
    .backward = multiply_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = multiply_sample,
};

struct tensor *op_multiply(struct graph *g, struct tensor *a, struct tensor *b)
{
    return graph_record(g, &multiply_op, NULL, INPUTS(a, b));
}
