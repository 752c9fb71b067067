/* normalize.c - parts of the last axis divided by their Euclidean norms.    x, y: (.., D)
 *   y = x / max(|x|, eps) for each of `groups` equal parts, 0 where |x| is 0
 *   dx = (dy - y (y . dy)) / |x|,  dy / eps where |x| is not above eps,  0 where it is 0 */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

struct normalize {
    int groups;
    double eps;
};

static void normalize_infer(struct graph *g, struct node *n)
{
    const struct normalize *o = n->options;
    const struct tensor *x = n->in[0];
    if (o->groups < 1 || tensor_cols(x) % o->groups) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "normalize: %d equal parts of the last axis of %s", o->groups,
                   shape_text(text, &x->shape));
        return;
    }
    graph_out(g, n, TYPE_REAL, x->shape);
    graph_saved(g, n, 0, TYPE_REAL, tensor_rows(x) * (size_t)o->groups);
}

/* The norms of the rows of plane i. */
static real *norms(const struct node *n, const struct planes *p, size_t i)
{
    const struct normalize *o = n->options;
    return (real *)n->saved[0]->data + (i * p->whole + p->first) * (size_t)o->groups;
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct normalize *o = n->options;
    kernel_normalize(plane_vec(n->out, p, i), norms(n, p, i), plane_vec(n->in[0], p, i),
                     o->groups, o->eps, p->rows, p->cols);
}

static void normalize_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct normalize *o = n->options;
    kernel_normalize_grad(plane_grad(n->in[0], p, i), n->beta[0], plane_vec(n->out, p, i),
                          norms(n, p, i), plane_grad(n->out, p, i), o->groups, o->eps,
                          p->rows, p->cols);
}

static void normalize_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

static struct tensor *normalize_sample(struct graph *g)
{
    struct tensor *heads = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 12)), 2);
    return op_normalize(g, op_normalize(g, heads, 1, 1e-6), 2, 0);
}

const struct op normalize_op = {
    .name = "normalize", .infer = normalize_infer, .forward = normalize_forward,
    .backward = normalize_backward, .backward_reads = READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = normalize_sample,
};

struct tensor *op_normalize(struct graph *g, struct tensor *x, int groups, double eps)
{
    struct normalize o = {groups, eps};
    return graph_record(g, &normalize_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
