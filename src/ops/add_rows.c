/* add_rows.c - the same rows added to every sample (position embedding).    x, y: (B, N, D)  p: (1, N, D)
 *   y[b] = x[b] + p        dx = dy, dp = sum over b of dy[b] */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void add_rows_infer(struct graph *g, struct node *n)
{
    const struct shape *x = &n->in[0]->shape, *p = &n->in[1]->shape;
    if (x->rank != 3 || p->rank != 3 || p->dim[0] != 1 || p->dim[1] != x->dim[1] ||
        p->dim[2] != x->dim[2]) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "add_rows: %s and %s, wanted (B, N, D) and (1, N, D)",
                   shape_text(a, x), shape_text(b, p));
        return;
    }
    infer_param(g, n, 1);
    infer_unary(g, n);
}

static void add_rows_forward(const struct node *n)
{
    kernel_add_rows(tensor_vec(n->out), tensor_vec(n->in[0]), n->in[1]->data, tensor_rows(n->out),
                    (size_t)tensor_cols(n->out), (size_t)n->out->shape.dim[1]);
}

static void add_rows_backward(const struct node *n)
{
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    if (n->in[0]->grad)
        kernel_accumulate(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), 1, rows, cols);
    if (n->in[1]->grad)
        kernel_add_rows_grad(n->in[1]->grad, tensor_grad(n->out), rows, cols,
                             (size_t)n->out->shape.dim[1]);
}

static struct tensor *add_rows_sample(struct graph *g)
{
    struct tensor *p = graph_param(g, "p", SHAPE(1, 3, 5), INIT_NORMAL(1));
    return op_add_rows(g, graph_sample(g, SHAPE(2, 3, 5)), p);
}

const struct op add_rows_op = {
    .name = "add_rows", .infer = add_rows_infer, .forward = add_rows_forward,
    .backward = add_rows_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = add_rows_sample,
};

struct tensor *op_add_rows(struct graph *g, struct tensor *x, struct tensor *p)
{
    return graph_record(g, &add_rows_op, NULL, INPUTS(x, p));
}
