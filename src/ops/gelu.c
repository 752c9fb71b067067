/* gelu.c - Gaussian error linear unit, exact form (arXiv:1606.08415).    x, y: any shape
 *   y = x Phi(x)        dx = dy (Phi(x) + x phi(x)), Phi and phi of the standard normal distribution */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_gelu(plane_vec(n->out, p, i), plane_vec(n->in[0], p, i), p->rows, p->cols);
}

static void gelu_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_gelu_grad(plane_grad(n->in[0], p, i), n->beta[0], plane_vec(n->in[0], p, i),
                     plane_grad(n->out, p, i), p->rows, p->cols);
}

static void gelu_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *gelu_sample(struct graph *g)
{
    return op_gelu(g, op_scale(g, graph_sample(g, SHAPE(2, 3, 5)), 3));
}

const struct op gelu_op = {
    .name = "gelu", .infer = infer_unary, .forward = gelu_forward, .backward = gelu_backward,
    .backward_reads = READS_IN(0), .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = gelu_sample,
};

struct tensor *op_gelu(struct graph *g, struct tensor *x)
{
    return graph_record(g, &gelu_op, NULL, INPUTS(x));
}
