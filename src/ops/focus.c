/* focus.c - focused features, row by row.    x, y: (.., D), real  rho: (D)
 *   t = (max(x, 0) + least) / softplus(rho)
 *   y = |t| t^p / |t^p|, powers element by element
 * With u = t / max t, r = |u^p| and e = u^p / r, which do not change when t is scaled:
 *   dt = p u^(p - 1) |u| (dy - e (e . dy)) / r + (e . dy) u / |u|
 *   dx = dt / softplus(rho) where x > 0,  drho = - sum over rows of dt t sigmoid(rho) / softplus(rho) */
#include <math.h>
#include <string.h>

#include "ops/ops.h"

struct focus {
    int p;
};

enum { X, RHO };

static const real least = (real)1e-6;

/* What a row is made with: its largest t, |u| and r. */
struct row {
    real most, length, power_length;
};

static real power(real u, int p)
{
    real y = u;
    for (int i = 1; i < p; i++)
        y *= u;
    return y;
}

static real clipped(real x)
{
    return (x > 0 ? x : 0) + least;
}

/* share: 1 / softplus(rho) */
static struct row row_of(const real *x, const real *share, int p, int cols)
{
    struct row row = {0, 0, 0};
    for (int c = 0; c < cols; c++) {
        real t = clipped(x[c]) * share[c];
        row.most = t > row.most ? t : row.most;
    }
    real squares = 0, powers = 0;
#pragma omp simd reduction(+ : squares, powers)
    for (int c = 0; c < cols; c++) {
        real u = clipped(x[c]) * share[c] / row.most, y = power(u, p);
        squares += u * u;
        powers += y * y;
    }
    row.length = (real)sqrt((double)squares);
    row.power_length = (real)sqrt((double)powers);
    return row;
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static void find_shares(real *share, const real *rho, int cols)
{
    for (int c = 0; c < cols; c++)
        share[c] = (real)(1 / softplus((double)rho[c]));
}

/* sigmoid(rho) / softplus(rho) */
static void find_slopes(real *slope, const real *rho, int cols)
{
    for (int c = 0; c < cols; c++)
        slope[c] = (real)(1 / (1 + exp(-(double)rho[c])) / softplus((double)rho[c]));
}

static void focus_infer(struct graph *g, struct node *n)
{
    const struct focus *o = n->options;
    const struct tensor *x = n->in[X], *rho = n->in[RHO];
    int cols = tensor_cols(x);
    if (x->type != TYPE_REAL || rho->shape.rank != 1 || rho->shape.dim[0] != cols || o->p < 1) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "focus: power %d, scale %s of %s, which must be real", o->p,
                   shape_text(a, &rho->shape), shape_text(b, &x->shape));
        return;
    }
    infer_param(g, n, RHO);
    graph_out(g, n, TYPE_REAL, x->shape);
    graph_scratch(g, n, (size_t)cols, 3 * (size_t)cols);
}

static void focus_forward(const struct node *n)
{
    const struct focus *o = n->options;
    int cols = tensor_cols(n->out);
    real *share = n->scratch->data;
    find_shares(share, n->in[RHO]->data, cols);
    for (size_t i = 0; i < tensor_rows(n->out); i++) {
        const real *x = vec_at(tensor_vec(n->in[X]), i, 0).data;
        real *y = vec_at(tensor_vec(n->out), i, 0).data;
        const struct row row = row_of(x, share, o->p, cols);
        real factor = row.most * row.length / row.power_length;
        for (int c = 0; c < cols; c++)
            y[c] = factor * power(clipped(x[c]) * share[c] / row.most, o->p);
    }
}

/* Of one row; dt: (cols), written. */
static void row_grad(real *dt, const real *x, const real *dy, const real *share, int p, int cols)
{
    const struct row row = row_of(x, share, p, cols);
    real along = 0;
#pragma omp simd reduction(+ : along)
    for (int c = 0; c < cols; c++)
        along += power(clipped(x[c]) * share[c] / row.most, p) * dy[c];
    along /= row.power_length;
    for (int c = 0; c < cols; c++) {
        real u = clipped(x[c]) * share[c] / row.most, below = p > 1 ? power(u, p - 1) : 1;
        real across = (dy[c] - u * below / row.power_length * along) / row.power_length;
        dt[c] = (real)p * below * row.length * across + along * u / row.length;
    }
}

static void focus_backward(const struct node *n)
{
    const struct focus *o = n->options;
    int cols = tensor_cols(n->out), beta = n->beta[X];
    real *share = n->scratch_backward->data, *slope = share + cols, *dt = slope + cols;
    real *drho = n->in[RHO]->grad;
    find_shares(share, n->in[RHO]->data, cols);
    find_slopes(slope, n->in[RHO]->data, cols);
    for (size_t i = 0; i < tensor_rows(n->out); i++) {
        const real *x = vec_at(tensor_vec(n->in[X]), i, 0).data;
        real *dx = n->in[X]->grad ? vec_at(tensor_grad(n->in[X]), i, 0).data : NULL;
        row_grad(dt, x, vec_at(tensor_grad(n->out), i, 0).data, share, o->p, cols);
        for (int c = 0; c < cols && dx; c++)
            dx[c] = (beta ? dx[c] : 0) + (x[c] > 0 ? dt[c] * share[c] : 0);
        for (int c = 0; c < cols && drho; c++)
            drho[c] -= dt[c] * clipped(x[c]) * share[c] * slope[c];
    }
}

static struct tensor *focus_sample(struct graph *g)
{
    static const real away[30] = {2, -2, 2, 2, -2, -2, 2, 2, -2, 2, -2, 2, 2, 2, -2,
                                  -2, 2, -2, -2, 2, 2, -2, -2, -2, 2, 2, 2, 2, -2, 2};
    struct tensor *rho = graph_param(g, "rho", SHAPE(4), INIT_NORMAL(1));
    struct tensor *x = op_real(g, op_add_table(g, graph_sample(g, SHAPE(2, 3, 10)), away));
    struct tensor *y = op_focus(g, graph_columns(g, x, 2, 4), rho, 3);
    return op_add(g, y, op_focus(g, graph_columns(g, x, 6, 4), rho, 1));
}

const struct op focus_op = {
    .name = "focus", .infer = focus_infer, .forward = focus_forward, .backward = focus_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TAKES_ROWS,
    .sample = focus_sample,
};

struct tensor *op_focus(struct graph *g, struct tensor *x, struct tensor *rho, int p)
{
    const struct focus o = {p};
    return graph_record(g, &focus_op, graph_copy(g, &o, sizeof o), INPUTS(x, rho));
}
