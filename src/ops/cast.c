/* cast.c - the same numbers stored otherwise.    x, y: any shape
 *   y = x        dx = dy */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

static void cast_infer(struct graph *g, struct node *n)
{
    const enum type *to = n->options;
    if (*to == TYPE_REAL)
        graph_out(g, n, *to, n->in[0]->shape);
    else
        graph_out_like(g, n, *to, n->in[0]);
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_vec(n->out, p, i), 0, plane_vec(n->in[0], p, i), 1, p->rows,
                      p->cols);
}

static void cast_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_grad(n->in[0], p, i), n->beta[0], plane_grad(n->out, p, i), 1,
                      p->rows, p->cols);
}

static void cast_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *cast_sample(struct graph *g)
{
    struct tensor *heads = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    return op_stored(g, op_scale(g, op_real(g, heads), -2));
}

const struct op cast_op = {
    .name = "cast", .infer = cast_infer, .forward = cast_forward, .backward = cast_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = cast_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x, enum type to)
{
    return graph_record(g, &cast_op, graph_copy(g, &to, sizeof to), INPUTS(x));
}

struct tensor *op_real(struct graph *g, struct tensor *x)
{
    if (x->type == TYPE_REAL && tensor_is_contiguous(x))
        return x;
    return record(g, x, TYPE_REAL);
}

struct tensor *op_stored(struct graph *g, struct tensor *x)
{
    return x->type == g->options.type ? x : record(g, x, g->options.type);
}
