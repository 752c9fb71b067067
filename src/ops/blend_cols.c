/* blend_cols.c - two tensors mixed column by column.    a, b, y: (.., D)  mu: (D)
 *   y = mu a + (1 - mu) b        da = mu dy,  db = (1 - mu) dy,  dmu = sum over rows of (a - b) dy */
#include <string.h>

#include "kernels/kernels.h"
#include "ops/ops.h"

enum { A, B, MU };

static void blend_cols_infer(struct graph *g, struct node *n)
{
    const struct tensor *a = n->in[A], *b = n->in[B], *mu = n->in[MU];
    if (!shape_equal(&a->shape, &b->shape) || mu->shape.rank != 1 ||
        mu->shape.dim[0] != tensor_cols(a)) {
        char x[64], y[64], z[64];
        graph_fail(g, ERR_SHAPE, "blend_cols: shares %s do not fit %s and %s",
                   shape_text(z, &mu->shape), shape_text(x, &a->shape), shape_text(y, &b->shape));
    }
    infer_param(g, n, MU);
    graph_out(g, n, a->type, a->shape);
    graph_scratch(g, n, (size_t)tensor_cols(a), (size_t)tensor_cols(a));
}

static const real *rest(real *to, const struct tensor *mu)
{
    const real *share = mu->data;
    for (int c = 0; c < mu->shape.dim[0]; c++)
        to[c] = 1 - share[c];
    return to;
}

static void blend_cols_forward(const struct node *n)
{
    struct vec y = tensor_vec(n->out);
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    const real *others = rest(n->scratch->data, n->in[MU]);
    kernel_scale_cols(y, 0, tensor_vec(n->in[A]), n->in[MU]->data, rows, cols);
    kernel_scale_cols(y, 1, tensor_vec(n->in[B]), others, rows, cols);
}

static void blend_cols_backward(const struct node *n)
{
    const struct tensor *a = n->in[A], *b = n->in[B], *mu = n->in[MU];
    struct vec dy = tensor_grad(n->out);
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    real *scratch = n->scratch_backward->data, *dmu = mu->grad;
    if (a->grad)
        kernel_scale_cols(tensor_grad(a), n->beta[A], dy, mu->data, rows, cols);
    if (b->grad)
        kernel_scale_cols(tensor_grad(b), n->beta[B], dy, rest(scratch, mu), rows, cols);
    if (!dmu)
        return;
    memset(scratch, 0, cols * sizeof *scratch);
    kernel_scale_cols_grad(scratch, tensor_vec(b), dy, rows, cols);
    kernel_scale_cols_grad(dmu, tensor_vec(a), dy, rows, cols);
    for (size_t c = 0; c < cols; c++)
        dmu[c] -= scratch[c];
}

static struct tensor *blend_cols_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 8));
    struct tensor *mu = graph_param(g, "mu", SHAPE(4), INIT_NORMAL(1));
    return op_blend_cols(g, graph_columns(g, x, 3, 4), graph_sample(g, SHAPE(2, 3, 4)), mu);
}

const struct op blend_cols_op = {
    .name = "blend_cols", .infer = blend_cols_infer, .forward = blend_cols_forward,
    .backward = blend_cols_backward, .backward_reads = READS_IN(A) | READS_IN(B) | READS_IN(MU),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = blend_cols_sample,
};

struct tensor *op_blend_cols(struct graph *g, struct tensor *a, struct tensor *b, struct tensor *mu)
{
    return graph_record(g, &blend_cols_op, NULL, INPUTS(a, b, mu));
}
