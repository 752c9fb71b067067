/* map.c - a function of one number, element by element (kernels/maps.def).    x, y: any shape
 *   y = f(x)        dx = f'(x) dy
 * y is real, or stored as the graph stores activations. */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

struct map_options {
    enum map f;
    enum type out;
};

static void map_infer(struct graph *g, struct node *n)
{
    const struct map_options *o = n->options;
    graph_out(g, n, o->out, n->in[0]->shape);
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct map_options *o = n->options;
    kernel_map(plane_vec(n->out, p, i), o->f, plane_vec(n->in[0], p, i), p->rows, p->cols);
}

static void map_forward(const struct node *n)
{
    planes_share(n, node_planes(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct map_options *o = n->options;
    kernel_map_grad(plane_grad(n->in[0], p, i), n->beta[0], o->f, plane_vec(n->in[0], p, i),
                    plane_grad(n->out, p, i), p->rows, p->cols);
}

static void map_backward(const struct node *n)
{
    planes_share(n, node_planes(n), backward_planes);
}

/* Each function of heads of one buffer, at numbers of both signs that keep away from 0. */
static struct tensor *map_sample(struct graph *g)
{
    static const real away[24] = {2, -2, 2, 2, -2, -2, 2, 2, -2, 2, -2, 2,
                                  2, 2, -2, -2, 2, -2, -2, 2, 2, -2, -2, -2};
    struct tensor *x = op_add_table(g, graph_sample(g, SHAPE(2, 3, 8)), away);
    struct tensor *heads = graph_split_heads(g, graph_columns(g, x, 2, 4), 2);
    struct tensor *sum = op_map_stored(g, heads, MAP_RELU);
    for (int f = 0; f < MAP_COUNT; f++)
        sum = op_add(g, op_map(g, heads, (enum map)f), sum);
    return sum;
}

const struct op map_op = {
    .name = "map", .infer = map_infer, .forward = map_forward, .backward = map_backward,
    .backward_reads = READS_IN(0), .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = map_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x, enum map f, enum type out)
{
    struct map_options o = {f, out};
    return graph_record(g, &map_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}

struct tensor *op_map(struct graph *g, struct tensor *x, enum map f)
{
    return record(g, x, f, TYPE_REAL);
}

struct tensor *op_map_stored(struct graph *g, struct tensor *x, enum map f)
{
    return record(g, x, f, g->options.type);
}
