/* copy.c - a strided tensor laid out contiguously, one run of rows at a time.    x, y: any shape */
#include "graph/copy.h"

#include "graph/planes.h"
#include "kernels/kernels.h"

static void copy_infer(struct graph *g, struct node *n)
{
    graph_out(g, n, n->in[0]->type, n->in[0]->shape);
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_vec(n->out, p, i), 0, plane_vec(n->in[0], p, i), 1, p->rows,
                      p->cols);
}

static void copy_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_grad(n->in[0], p, i), n->beta[0], plane_grad(n->out, p, i), 1,
                      p->rows, p->cols);
}

static void copy_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *copy_sample(struct graph *g)
{
    return graph_op_copy(g, graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2));
}

const struct op copy_op = {
    .name = "copy", .infer = copy_infer, .forward = copy_forward, .backward = copy_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = copy_sample,
};

struct tensor *graph_op_copy(struct graph *g, struct tensor *x)
{
    return graph_record(g, &copy_op, NULL, INPUTS(x));
}
