/* outer.c - products of the last axis with itself.    x: (.., D), in `groups` equal parts a of d
 *   y = {a_i a_j} for all i, j: d^2 a part        da = (M + M^T) a, M: dy as a matrix (d, d)
 *   or {a_i^2}, {sqrt 2 a_i a_j, i < j}: d (d + 1) / 2 a part
 *       da_i = 2 a_i g_ii + sqrt 2 sum over j of a_j g_ij, g = dy
 * The scalar product of two such rows is, in both bases, the sum over the parts of the squares of
 * theirs. */
#include "kernels/kernels.h"
#include "ops/ops.h"

struct outer {
    int groups;
    bool symmetric;
};

static void outer_infer(struct graph *g, struct node *n)
{
    const struct outer *o = n->options;
    struct shape shape = n->in[0]->shape;
    int cols = tensor_cols(n->in[0]), d = o->groups > 0 ? cols / o->groups : 0;
    if (d < 1 || d * o->groups != cols || d > OUTER_MOST) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "outer: %d parts of the last axis of %s, of at most %d columns",
                   o->groups, shape_text(text, &shape), OUTER_MOST);
        return;
    }
    shape.dim[shape.rank - 1] = o->groups * (o->symmetric ? d * (d + 1) / 2 : d * d);
    graph_out(g, n, TYPE_REAL, shape);
}

static void outer_forward(const struct node *n)
{
    const struct outer *o = n->options;
    const struct tensor *x = n->in[0];
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    for (size_t i = 0; i < count; i++)
        kernel_outer(tensor_matrix(n->out, i), tensor_matrix(x, i), o->symmetric, o->groups, rows,
                     (size_t)tensor_cols(x));
}

static void outer_backward(const struct node *n)
{
    const struct outer *o = n->options;
    const struct tensor *x = n->in[0];
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    for (size_t i = 0; i < count; i++)
        kernel_outer_grad(tensor_matrix_grad(x, i), n->beta[0], tensor_matrix(x, i),
                          tensor_matrix_grad(n->out, i), o->symmetric, o->groups, rows,
                          (size_t)tensor_cols(x));
}

static struct tensor *outer_sample(struct graph *g)
{
    struct tensor *heads = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *both[] = {op_outer(g, heads, 2), op_outer_symmetric(g, heads, 1)};
    return op_concat_cols(g, both, 2, NULL);
}

const struct op outer_op = {
    .name = "outer", .infer = outer_infer, .forward = outer_forward, .backward = outer_backward,
    .backward_reads = READS_IN(0), .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = outer_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x, struct outer o)
{
    return graph_record(g, &outer_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}

struct tensor *op_outer(struct graph *g, struct tensor *x, int groups)
{
    return record(g, x, (struct outer){groups, false});
}

struct tensor *op_outer_symmetric(struct graph *g, struct tensor *x, int groups)
{
    return record(g, x, (struct outer){groups, true});
}
