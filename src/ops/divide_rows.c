/* divide_rows.c - rows over numbers of their own.    x, y: (.., N, d)  n: (.., N, 1), all real
 *   y = x / c with c = min(n + eps, most)
 *   dx = dy / c,  dn = - sum of dy y / c where n + eps is not above `most`, else 0 */
#include "ops/ops.h"

struct divide_rows {
    double eps, most;
};

enum { X, N };

static void divide_rows_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[X], *by = n->in[N];
    struct shape one = x->shape;
    one.dim[one.rank - 1] = 1;
    if (!shape_equal(&one, &by->shape) || x->type != TYPE_REAL || by->type != TYPE_REAL) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "divide_rows: %s over %s, both of which must be real",
                   shape_text(a, &x->shape), shape_text(b, &by->shape));
        return;
    }
    graph_out(g, n, TYPE_REAL, x->shape);
}

static bool is_above(const struct divide_rows *o, real number)
{
    return number + (real)o->eps > (real)o->most;
}

static real divisor(const struct divide_rows *o, real number)
{
    return is_above(o, number) ? (real)o->most : number + (real)o->eps;
}

static void divide_rows_forward(const struct node *n)
{
    const struct divide_rows *o = n->options;
    const real *x = n->in[X]->data, *by = n->in[N]->data;
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    real *y = n->out->data;
    for (size_t i = 0; i < rows * cols; i++)
        y[i] = x[i] / divisor(o, by[i / cols]);
}

static void divide_rows_backward(const struct node *n)
{
    const struct divide_rows *o = n->options;
    const real *by = n->in[N]->data, *y = n->out->data, *dy = n->out->grad;
    size_t rows = tensor_rows(n->out), cols = (size_t)tensor_cols(n->out);
    real *dx = n->in[X]->grad, *dn = n->in[N]->grad;
    for (size_t r = 0; r < rows; r++, y += cols, dy += cols) {
        real c = divisor(o, by[r]), sum = 0;
        for (size_t i = 0; i < cols; i++) {
            sum += dy[i] * y[i];
            if (dx)
                dx[r * cols + i] = (n->beta[X] ? dx[r * cols + i] : 0) + dy[i] / c;
        }
        if (dn)
            dn[r] = (n->beta[N] ? dn[r] : 0) - (is_above(o, by[r]) ? 0 : sum / c);
    }
}

/* Numbers between 1 and 2, and one of 20 that is above 10. */
static struct tensor *divide_rows_sample(struct graph *g)
{
    static const real more[6] = {1, 1, 20, 1, 1, 1};
    struct tensor *n = op_map(g, graph_sample(g, SHAPE(2, 6, 1)), MAP_SIGMOID);
    struct tensor *x = op_real(g, graph_sample(g, SHAPE(2, 6, 3)));
    n = op_add_table(g, n, more);
    return op_divide_rows(g, x, n, 0.5, 10);
}

const struct op divide_rows_op = {
    .name = "divide_rows", .infer = divide_rows_infer, .forward = divide_rows_forward,
    .backward = divide_rows_backward, .backward_reads = READS_IN(1) | READS_OUT,
    .takes = TYPE_REAL, .sample = divide_rows_sample,
};

struct tensor *op_divide_rows(struct graph *g, struct tensor *x, struct tensor *n, double eps,
                              double most)
{
    const struct divide_rows o = {eps, most};
    return graph_record(g, &divide_rows_op, graph_copy(g, &o, sizeof o), INPUTS(x, n));
}
