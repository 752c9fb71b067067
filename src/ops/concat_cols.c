/* concat_cols.c - columns of several tensors side by side.
 * x_k: (.., N, d_k)  y: (.., N, sum of d_k)
 *   y = [f_1 x_1, f_2 x_2, ..]        dx_k = f_k (its columns of dy)
 * All but the first may be repeated over the outer axes and the tokens (a row of constants, a
 * learned number): then dx_k is the sum over what it is repeated over. */
#include <string.h>

#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/broadcast.h"

struct concat {
    double factor[CONCAT_MOST];
};

/* Whether a tensor has all rows of the output of itself. */
static bool is_whole(const struct tensor *x, const struct shape *like)
{
    if (x->shape.rank != like->rank)
        return false;
    for (int i = 0; i + 1 < like->rank; i++)
        if (x->shape.dim[i] != like->dim[i])
            return false;
    return true;
}

static void concat_cols_infer(struct graph *g, struct node *n)
{
    struct shape shape = n->in[0]->shape;
    size_t most = 0;
    char a[64], b[64];
    for (int k = 1; k < n->inputs; k++) {
        const struct tensor *x = n->in[k];
        if (!is_whole(x, &n->in[0]->shape) && !broadcast_fits(x, &n->in[0]->shape, 0)) {
            graph_fail(g, ERR_SHAPE, "concat_cols: %s cannot stand beside %s",
                       shape_text(a, &x->shape), shape_text(b, &n->in[0]->shape));
            return;
        }
        shape.dim[shape.rank - 1] += tensor_cols(x);
        most = (size_t)tensor_cols(x) > most ? (size_t)tensor_cols(x) : most;
    }
    graph_out(g, n, TYPE_REAL, shape);
    graph_scratch(g, n, 0, most);
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct concat *o = n->options;
    struct vec y = plane_vec(n->out, p, i);
    for (int k = 0; k < n->inputs; k++) {
        const struct tensor *x = n->in[k];
        size_t cols = (size_t)tensor_cols(x);
        struct vec from = is_whole(x, &n->out->shape)
                              ? tensor_matrix(x, i)
                              : broadcast_matrix(x, x->data, &n->out->shape, i);
        kernel_accumulate(y, 0, vec_at(from, p->first, 0), o->factor[k], p->rows, cols);
        y = vec_at(y, 0, cols);
    }
}

static void concat_cols_forward(const struct node *n)
{
    planes_share(n, node_matrices(n), forward_planes);
}

/* Adds factor dy to the gradient of a repeated operand. */
static void add_grad(const struct node *n, struct vec dx, struct vec dy, double factor, size_t rows,
                     size_t cols)
{
    if (dx.stride) {
        kernel_accumulate(dx, 1, dy, factor, rows, cols);
        return;
    }
    struct vec sums = {n->scratch_backward->data, TYPE_REAL, (ptrdiff_t)cols};
    memset(sums.data, 0, cols * sizeof(real));
    kernel_column_sums(sums.data, dy, rows, cols);
    kernel_accumulate(dx, 1, sums, factor, 1, cols);
}

/* Of the operands that are not repeated. */
static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct concat *o = n->options;
    struct vec dy = plane_grad(n->out, p, i);
    for (int k = 0; k < n->inputs; k++) {
        const struct tensor *x = n->in[k];
        size_t cols = (size_t)tensor_cols(x);
        if (x->grad && is_whole(x, &n->out->shape))
            kernel_accumulate(vec_at(tensor_matrix_grad(x, i), p->first, 0), n->beta[k], dy,
                              o->factor[k], p->rows, cols);
        dy = vec_at(dy, 0, cols);
    }
}

static void concat_cols_backward(const struct node *n)
{
    const struct concat *o = n->options;
    struct planes p = node_matrices(n);
    size_t first = 0;
    planes_share(n, p, backward_planes);
    for (int k = 0; k < n->inputs; k++) {
        const struct tensor *x = n->in[k];
        size_t cols = (size_t)tensor_cols(x);
        bool repeated = x->grad && !is_whole(x, &n->out->shape);
        if (repeated)
            broadcast_clear(n, k);
        for (size_t i = 0; i < p.count && repeated; i++)
            add_grad(n, broadcast_matrix(x, x->grad, &n->out->shape, i),
                     vec_at(tensor_matrix_grad(n->out, i), 0, first), o->factor[k], p.rows, cols);
        first += cols;
    }
}

/* Heads of one buffer, a learned number for all tokens, other columns, a row of each sample. */
static struct tensor *concat_cols_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 12));
    struct tensor *a = graph_split_heads(g, graph_columns(g, x, 0, 8), 2);
    struct tensor *b = graph_split_heads(g, graph_columns(g, x, 8, 4), 2);
    struct tensor *gamma = graph_param(g, "gamma", SHAPE(1), INIT_NORMAL(1));
    struct tensor *mean = op_token_mean(g, op_map(g, b, MAP_SQUARE), NULL);
    return op_concat_cols(g, (struct tensor *[]){a, gamma, b, mean}, 4,
                          (const double[]){1, -2, 0.5, 3});
}

const struct op concat_cols_op = {
    .name = "concat_cols", .infer = concat_cols_infer, .forward = concat_cols_forward,
    .backward = concat_cols_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = concat_cols_sample,
};

struct tensor *op_concat_cols(struct graph *g, struct tensor *x[], int count,
                              const double *factor)
{
    struct concat o;
    struct tensor *in[CONCAT_MOST];
    if (g->error.status)
        return g->inert;
    if (count < 1 || count > CONCAT_MOST)
        return graph_fail(g, ERR_SHAPE, "concat_cols: %d tensors, the most are %d", count,
                          CONCAT_MOST);
    for (int k = 0; k < count; k++) {
        o.factor[k] = factor ? factor[k] : 1;
        in[k] = is_whole(x[k], &x[0]->shape) ? x[k] : op_real(g, x[k]);
    }
    return graph_record(g, &concat_cols_op, graph_copy(g, &o, sizeof o), in, count);
}
