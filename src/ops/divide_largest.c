/* divide_largest.c - rows divided by their largest number.    x, y: (.., D), real, x > 0
 *   m = max x,  y = x / m        dx = dy / m, and less sum(dy y) / m at the (first) largest */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void divide_largest_infer(struct graph *g, struct node *n)
{
    if (n->in[0]->type != TYPE_REAL)
        graph_fail(g, ERR_SHAPE, "divide_largest: its input must be real");
    graph_out(g, n, TYPE_REAL, n->in[0]->shape);
}

static int largest_of(const real *x, int cols)
{
    int at = 0;
    for (int c = 1; c < cols; c++)
        if (x[c] > x[at])
            at = c;
    return at;
}

static void divide_largest_forward(const struct node *n)
{
    int cols = tensor_cols(n->out);
    for (size_t r = 0; r < tensor_rows(n->out); r++) {
        const real *x = vec_at(tensor_vec(n->in[0]), r, 0).data;
        real *y = vec_at(tensor_vec(n->out), r, 0).data, factor = 1 / x[largest_of(x, cols)];
        for (int c = 0; c < cols; c++)
            y[c] = factor * x[c];
    }
}

static void divide_largest_backward(const struct node *n)
{
    int cols = tensor_cols(n->out), beta = n->beta[0];
    for (size_t r = 0; r < tensor_rows(n->out); r++) {
        const real *x = vec_at(tensor_vec(n->in[0]), r, 0).data;
        const real *dy = vec_at(tensor_grad(n->out), r, 0).data;
        real *dx = vec_at(tensor_grad(n->in[0]), r, 0).data, sum = 0;
        int largest = largest_of(x, cols);
        real factor = 1 / x[largest];
        for (int c = 0; c < cols; c++) {
            dx[c] = (beta ? dx[c] : 0) + factor * dy[c];
            sum += factor * x[c] * dy[c];
        }
        dx[largest] -= factor * sum;
    }
}

static struct tensor *divide_largest_sample(struct graph *g)
{
    struct tensor *x = graph_input(g, "x", TYPE_REAL, SHAPE(2, 3, 5), true);
    return op_divide_largest(g, op_softmax(g, x));
}

const struct op divide_largest_op = {
    .name = "divide_largest", .infer = divide_largest_infer, .forward = divide_largest_forward,
    .backward = divide_largest_backward, .backward_reads = READS_IN(0),
    .takes = TYPE_REAL | TAKES_ROWS, .sample = divide_largest_sample,
};

struct tensor *op_divide_largest(struct graph *g, struct tensor *x)
{
    return graph_record(g, &divide_largest_op, NULL, INPUTS(x));
}
