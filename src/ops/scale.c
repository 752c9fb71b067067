/* scale.c - a constant times a tensor.    x, y: any shape
 *   y = factor x        dx = factor dy */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_vec(n->out, p, i), 0, plane_vec(n->in[0], p, i),
                      *(const double *)n->options, p->rows, p->cols);
}

static void scale_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_grad(n->in[0], p, i), n->beta[0], plane_grad(n->out, p, i),
                      *(const double *)n->options, p->rows, p->cols);
}

static void scale_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *scale_sample(struct graph *g)
{
    return op_scale(g, graph_sample(g, SHAPE(2, 3, 5)), -1.5);
}

const struct op scale_op = {
    .name = "scale", .infer = infer_unary, .forward = scale_forward, .backward = scale_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = scale_sample,
};

struct tensor *op_scale(struct graph *g, struct tensor *x, double factor)
{
    return graph_record(g, &scale_op, graph_copy(g, &factor, sizeof factor), INPUTS(x));
}
