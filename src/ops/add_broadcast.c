/* add_broadcast.c - numbers that are added again and again to a tensor.    x, y: (.., N, d)
 *   y = x + p in tokens first .. N - 1, x in those before        dx = dy,  dp = sum over what p is
 *                                                                repeated over of dy
 * p: one number, or (d), (N - first, d), (H, N - first, d), .. with axes that may be 1 long. */
#include <string.h>

#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/broadcast.h"

enum { X, P };

static int first_of(const struct node *n)
{
    return *(const int *)n->options;
}

static void add_broadcast_infer(struct graph *g, struct node *n)
{
    size_t cols = (size_t)tensor_cols(n->in[X]);
    bool number = broadcast_is_number(n->in[P]);
    infer_broadcast(g, n, first_of(n));
    graph_scratch(g, n, number ? tensor_matrices(n->in[X]) * cols : 0, cols);
}

/* For a number the scratch has a row of it for each matrix. */
static real *row_of(const struct node *n, size_t i)
{
    return (real *)n->scratch->data + i * (size_t)tensor_cols(n->out);
}

/* What row r of matrix i gets, and those that follow. */
static struct vec term_at(const struct node *n, size_t i, size_t r)
{
    const struct tensor *p = n->in[P];
    if (broadcast_is_number(p))
        return (struct vec){row_of(n, i), TYPE_REAL, 0};
    return vec_at(broadcast_matrix(p, p->data, &n->out->shape, i), r - (size_t)first_of(n), 0);
}

static void fill_row(const struct node *n, size_t i)
{
    struct vec number = broadcast_matrix(n->in[P], n->in[P]->data, &n->out->shape, i);
    for (int c = 0; c < tensor_cols(n->out); c++)
        row_of(n, i)[c] = *(const real *)number.data;
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    struct vec y = plane_vec(n->out, p, i), x = plane_vec(n->in[X], p, i);
    size_t first = (size_t)first_of(n), plain = first > p->first ? first - p->first : 0;
    plain = plain < p->rows ? plain : p->rows;
    kernel_accumulate(y, 0, x, 1, plain, p->cols);
    if (plain < p->rows)
        kernel_add(vec_at(y, plain, 0), vec_at(x, plain, 0), term_at(n, i, p->first + plain),
                   p->rows - plain, p->cols);
}

static void add_broadcast_forward(const struct node *n)
{
    struct planes p = node_matrices(n);
    for (size_t i = 0; i < p.count && broadcast_is_number(n->in[P]); i++)
        fill_row(n, i);
    planes_share(n, p, forward_planes);
}

/* dp += dy, summed over the rows that one row of p meets. */
static void add_grad(const struct node *n, struct vec dp, struct vec dy, size_t rows)
{
    size_t cols = (size_t)tensor_cols(n->out);
    if (broadcast_is_number(n->in[P])) {
        real *sums = n->scratch_backward->data;
        double sum = 0;
        memset(sums, 0, cols * sizeof *sums);
        kernel_column_sums(sums, dy, rows, cols);
        for (size_t c = 0; c < cols; c++)
            sum += (double)sums[c];
        *(real *)dp.data += (real)sum;
    } else if (dp.stride == 0) {
        kernel_column_sums(dp.data, dy, rows, cols);
    } else {
        kernel_accumulate(dp, 1, dy, 1, rows, cols);
    }
}

static void backward_planes(const struct node *n, const struct planes *p, size_t i)
{
    kernel_accumulate(plane_grad(n->in[X], p, i), n->beta[X], plane_grad(n->out, p, i), 1, p->rows,
                      p->cols);
}

static void add_broadcast_backward(const struct node *n)
{
    const struct tensor *p = n->in[P];
    struct planes planes = node_matrices(n);
    size_t first = (size_t)first_of(n);
    if (n->in[X]->grad)
        planes_share(n, planes, backward_planes);
    if (!p->grad)
        return;
    broadcast_clear(n, P);
    for (size_t i = 0; i < planes.count; i++)
        add_grad(n, broadcast_matrix(p, p->grad, &n->out->shape, i),
                 vec_at(tensor_matrix_grad(n->out, i), first, 0), planes.rows - first);
}

/* A number, rows of all samples, rows of the heads behind a first token, a row of each sample. */
static struct tensor *add_broadcast_sample(struct graph *g)
{
    struct tensor *y = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *number = graph_param(g, "number", SHAPE(1), INIT_NORMAL(1));
    struct tensor *row = graph_param(g, "row", SHAPE(4), INIT_NORMAL(1));
    struct tensor *heads = graph_param(g, "heads", SHAPE(2, 2, 4), INIT_NORMAL(1));
    struct tensor *mean = op_token_mean(g, op_map(g, y, MAP_SQUARE), NULL);
    y = op_add_broadcast(g, op_add_broadcast(g, y, number, 0), row, 0);
    return op_add_broadcast(g, op_add_broadcast(g, y, mean, 0), heads, 1);
}

const struct op add_broadcast_op = {
    .name = "add_broadcast", .infer = add_broadcast_infer, .forward = add_broadcast_forward,
    .backward = add_broadcast_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = add_broadcast_sample,
};

struct tensor *op_add_broadcast(struct graph *g, struct tensor *x, struct tensor *p, int first)
{
    return graph_record(g, &add_broadcast_op, graph_copy(g, &first, sizeof first),
                        INPUTS(x, op_real(g, p)));
}
