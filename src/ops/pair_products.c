/* pair_products.c - products of chosen pairs of columns.    x: (.., d)  pairs: (n, 2)  y: (.., n)
 *   y_k = x_i x_j with (i, j) = pairs[k]        dx_i += dy_k x_j,  dx_j += dy_k x_i
 * Pairs are stored as numbers among parameters; one outside of 0 .. d - 1 means the nearest inside. */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void pair_products_infer(struct graph *g, struct node *n)
{
    struct shape shape = n->in[0]->shape;
    const struct shape *pairs = &n->in[1]->shape;
    if (pairs->rank != 2 || pairs->dim[1] != 2 || n->in[0]->type != TYPE_REAL) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "pair_products: pairs %s of columns of %s, which must be real",
                   shape_text(a, pairs), shape_text(b, &shape));
        return;
    }
    shape.dim[shape.rank - 1] = pairs->dim[0];
    graph_out(g, n, TYPE_REAL, shape);
}

static int column_of(real number, int d)
{
    if (!(number > 0))
        return 0;
    return number < (real)d ? (int)number : d - 1;
}

static void pair_products_forward(const struct node *n)
{
    const struct tensor *x = n->in[0];
    const real *pairs = n->in[1]->data;
    int d = tensor_cols(x), count = tensor_cols(n->out);
    size_t matrices = tensor_matrices(x), rows = tensor_rows(x) / matrices;
    for (size_t m = 0; m < matrices; m++)
        for (size_t r = 0; r < rows; r++) {
            const real *from = vec_at(tensor_matrix(x, m), r, 0).data;
            real *to = vec_at(tensor_matrix(n->out, m), r, 0).data;
            for (int k = 0; k < count; k++)
                to[k] = from[column_of(pairs[2 * k], d)] * from[column_of(pairs[2 * k + 1], d)];
        }
}

static void pair_products_backward(const struct node *n)
{
    const struct tensor *x = n->in[0];
    const real *pairs = n->in[1]->data;
    int d = tensor_cols(x), count = tensor_cols(n->out);
    size_t matrices = tensor_matrices(x), rows = tensor_rows(x) / matrices;
    for (size_t m = 0; m < matrices && x->grad; m++)
        for (size_t r = 0; r < rows; r++) {
            const real *from = vec_at(tensor_matrix(x, m), r, 0).data;
            const real *dy = vec_at(tensor_matrix_grad(n->out, m), r, 0).data;
            real *dx = vec_at(tensor_matrix_grad(x, m), r, 0).data;
            for (int c = 0; c < d && !n->beta[0]; c++)
                dx[c] = 0;
            for (int k = 0; k < count; k++) {
                int i = column_of(pairs[2 * k], d), j = column_of(pairs[2 * k + 1], d);
                dx[i] += dy[k] * from[j];
                dx[j] += dy[k] * from[i];
            }
        }
}

static struct tensor *pair_products_sample(struct graph *g)
{
    static const real pairs[] = {0, 0, 2, 1, 3, 1, 2, 2, 1, 3};
    struct tensor *x = op_real(g, graph_sample(g, SHAPE(2, 3, 8)));
    return op_pair_products(g, graph_split_heads(g, x, 2), graph_constant(g, SHAPE(5, 2), pairs));
}

const struct op pair_products_op = {
    .name = "pair_products", .infer = pair_products_infer, .forward = pair_products_forward,
    .backward = pair_products_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TAKES_HEADS, .sample = pair_products_sample,
};

struct tensor *op_pair_products(struct graph *g, struct tensor *x, struct tensor *pairs)
{
    return graph_record(g, &pair_products_op, NULL, INPUTS(x, pairs));
}
