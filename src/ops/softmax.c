/* softmax.c - softmax over the last axis, row by row.    x, y: (.., N)
 *   y = exp(x - max x) / sum exp(x - max x)        dx = y (dy - sum dy y)
 * y is stored as x, or real. */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void softmax_infer(struct graph *g, struct node *n)
{
    const bool *is_real = n->options;
    if (*is_real)
        graph_out(g, n, TYPE_REAL, n->in[0]->shape);
    else
        infer_unary(g, n);
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_softmax(plane_vec(n->out, p, i), plane_vec(n->in[0], p, i), p->rows, p->cols);
}

static void softmax_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_softmax_grad(plane_grad(n->in[0], p, i), n->beta[0], plane_vec(n->out, p, i),
                        plane_grad(n->out, p, i), p->rows, p->cols);
}

static void softmax_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *softmax_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 5));
    return op_add(g, op_softmax_real(g, x), op_softmax(g, op_scale(g, x, -2)));
}

const struct op softmax_op = {
    .name = "softmax", .infer = softmax_infer, .forward = softmax_forward,
    .backward = softmax_backward, .backward_reads = READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = softmax_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x, bool is_real)
{
    return graph_record(g, &softmax_op, graph_copy(g, &is_real, sizeof is_real), INPUTS(x));
}

struct tensor *op_softmax(struct graph *g, struct tensor *x)
{
    return record(g, x, false);
}

struct tensor *op_softmax_real(struct graph *g, struct tensor *x)
{
    return record(g, x, true);
}
