/* add.c - sum of two tensors.    a, b, y: any shape
 *   y = a + b        da = dy, db = dy */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_add(plane_vec(n->out, p, i), plane_vec(n->in[0], p, i),
               plane_vec(n->in[1], p, i), p->rows, p->cols);
}

static void add_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    for (int k = 0; k < 2; k++)
        if (n->in[k]->grad)
            kernel_accumulate(plane_grad(n->in[k], p, i), n->beta[k], plane_grad(n->out, p, i),
                              1, p->rows, p->cols);
}

static void add_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *add_sample(struct graph *g)
{
    return op_add(g, graph_sample(g, SHAPE(2, 3, 5)), graph_sample(g, SHAPE(2, 3, 5)));
}

const struct op add_op = {
    .name = "add", .infer = infer_same, .forward = add_forward, .backward = add_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = add_sample,
};

struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b)
{
    return graph_record(g, &add_op, NULL, INPUTS(a, b));
}
