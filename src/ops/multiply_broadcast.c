/* multiply_broadcast.c - a factor that is repeated over a tensor.    x, y: (.., N, d)  p: see below
 *   y = p x        dx = p dy,  dp = sum over what p is repeated over of x dy
 * p: one number, or (d), (N, d), (H, N, d), .. with axes that may be 1 long. */
#include <string.h>

#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/broadcast.h"

enum { X, P };

static void multiply_broadcast_infer(struct graph *g, struct node *n)
{
    infer_broadcast(g, n, 0);
    graph_scratch(g, n, 0, (size_t)tensor_cols(n->in[X]));
}

/* y = beta y + p x for rows of matrix i. */
static void multiply(struct vec y, int beta, struct vec x, const struct node *n,
                     const struct planes *s, size_t i)
{
    const struct tensor *p = n->in[P];
    struct vec factor = broadcast_matrix(p, p->data, &n->out->shape, i);
    if (broadcast_is_number(p))
        kernel_accumulate(y, beta, x, (double)*(const real *)factor.data, s->rows, s->cols);
    else
        kernel_multiply(y, beta, x, vec_at(factor, s->first, 0), s->rows, s->cols);
}

/* Adds what matrix i says of the gradient of p. */
static void add_grad(const struct node *n, size_t i)
{
    const struct tensor *p = n->in[P];
    struct vec x = tensor_matrix(n->in[X], i), dy = tensor_matrix_grad(n->out, i);
    struct vec dp = broadcast_matrix(p, p->grad, &n->out->shape, i);
    size_t rows = tensor_rows(n->out) / tensor_matrices(n->out);
    size_t cols = (size_t)tensor_cols(n->out);
    if (broadcast_is_number(p)) {
        real *sums = n->scratch_backward->data;
        double sum = 0;
        memset(sums, 0, cols * sizeof *sums);
        kernel_scale_cols_grad(sums, x, dy, rows, cols);
        for (size_t c = 0; c < cols; c++)
            sum += (double)sums[c];
        *(real *)dp.data += (real)sum;
    } else if (dp.stride == 0) {
        kernel_scale_cols_grad(dp.data, x, dy, rows, cols);
    } else {
        kernel_multiply(dp, 1, x, dy, rows, cols);
    }
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    multiply(plane_vec(n->out, p, i), 0, plane_vec(n->in[X], p, i), n, p, i);
}

static void multiply_broadcast_forward(const struct node *n)
{
    planes_share(n, node_matrices(n), forward_planes);
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    multiply(plane_grad(n->in[X], p, i), n->beta[X], plane_grad(n->out, p, i), n, p, i);
}

static void multiply_broadcast_backward(const struct node *n)
{
    struct planes p = node_matrices(n);
    if (n->in[X]->grad)
        planes_share(n, p, backward_planes);
    if (!n->in[P]->grad)
        return;
    broadcast_clear(n, P);
    for (size_t i = 0; i < p.count; i++)
        add_grad(n, i);
}

/* A number, rows of all samples, heads of all samples, a constant, a row of each sample. */
static struct tensor *multiply_broadcast_sample(struct graph *g)
{
    static const real constant[12] = {1, -2, 3, 2, -1, 1, 2, 3, -2, 1, 1, 2};
    struct tensor *x = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *number = graph_param(g, "number", SHAPE(1), INIT_NORMAL(1));
    struct tensor *table = graph_param(g, "table", SHAPE(3, 4), INIT_NORMAL(1));
    struct tensor *heads = graph_param(g, "heads", SHAPE(2, 1, 4), INIT_NORMAL(1));
    struct tensor *row = op_token_mean(g, op_map(g, x, MAP_EXP), NULL);
    struct tensor *y = op_real(g, op_multiply_broadcast(g, x, number));
    y = op_multiply_broadcast(g, op_multiply_broadcast(g, y, table), heads);
    y = op_multiply_broadcast(g, y, graph_constant(g, SHAPE(3, 4), constant));
    return op_multiply_broadcast(g, y, row);
}

const struct op multiply_broadcast_op = {
    .name = "multiply_broadcast", .infer = multiply_broadcast_infer,
    .forward = multiply_broadcast_forward, .backward = multiply_broadcast_backward,
    .backward_reads = READS_IN(X) | READS_IN(P), .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = multiply_broadcast_sample,
};

struct tensor *op_multiply_broadcast(struct graph *g, struct tensor *x, struct tensor *p)
{
    return graph_record(g, &multiply_broadcast_op, NULL, INPUTS(x, op_real(g, p)));
}
