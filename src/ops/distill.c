/* distill.c - distance of each sample from a teacher.    x, z: (B, K), real  y: (B)
 *   soft:  t = softmax(z / T), s = softmax(x / T):  y = T^2 / K sum t (log t - log s)
 *          dx = dy T / K (s - t)
 *   hard:  c = the first largest of z:  y = - log softmax(x)[c]
 *          dx = dy (softmax(x) - onehot(c))
 * z is the teacher's and gets no gradient. */
#include <math.h>

#include "ops/ops.h"

struct distill {
    enum distill_kind kind;
    double temperature;
};

enum { SLOPE }; /* saved: dx / dy, (B, K) */

static void distill_infer(struct graph *g, struct node *n)
{
    const struct distill *o = n->options;
    const struct tensor *x = n->in[0], *z = n->in[1];
    if (x->shape.rank != 2 || !shape_equal(&x->shape, &z->shape) || x->type != TYPE_REAL ||
        z->type != TYPE_REAL || !(o->temperature > 0)) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "distill: %s and %s at temperature %g, wanted logits (B, K) twice",
                   shape_text(a, &x->shape), shape_text(b, &z->shape), o->temperature);
        return;
    }
    graph_out(g, n, TYPE_REAL, SHAPE(x->shape.dim[0]));
    graph_saved(g, n, SLOPE, TYPE_REAL, tensor_count(x));
}

static int first_largest(const real *x, int K)
{
    int best = 0;
    for (int k = 1; k < K; k++)
        if (x[k] > x[best])
            best = k;
    return best;
}

/* log sum exp(x / T) */
static double log_sum(const real *x, int K, double T)
{
    double largest = (double)x[first_largest(x, K)], sum = 0;
    for (int k = 0; k < K; k++)
        sum += exp(((double)x[k] - largest) / T);
    return largest / T + log(sum);
}

static double soft_row(real *slope, const real *x, const real *z, int K, double T)
{
    double ours = log_sum(x, K, T), theirs = log_sum(z, K, T), y = 0;
    for (int k = 0; k < K; k++) {
        double log_s = (double)x[k] / T - ours, log_t = (double)z[k] / T - theirs, t = exp(log_t);
        y += t * (log_t - log_s);
        slope[k] = (real)(T / K * (exp(log_s) - t));
    }
    return T * T / K * y;
}

static double hard_row(real *slope, const real *x, const real *z, int K)
{
    double ours = log_sum(x, K, 1);
    int c = first_largest(z, K);
    for (int k = 0; k < K; k++)
        slope[k] = (real)(exp((double)x[k] - ours) - (k == c));
    return ours - (double)x[c];
}

static void distill_forward(const struct node *n)
{
    const struct distill *o = n->options;
    int K = tensor_cols(n->in[0]);
    const real *x = n->in[0]->data, *z = n->in[1]->data;
    real *y = n->out->data, *slope = n->saved[SLOPE]->data;
    for (size_t b = 0; b < tensor_rows(n->in[0]); b++) {
        size_t at = b * (size_t)K;
        y[b] = (real)(o->kind == DISTILL_HARD
                          ? hard_row(slope + at, x + at, z + at, K)
                          : soft_row(slope + at, x + at, z + at, K, o->temperature));
    }
}

static void distill_backward(const struct node *n)
{
    size_t K = (size_t)tensor_cols(n->in[0]);
    const real *dy = n->out->grad, *slope = n->saved[SLOPE]->data;
    real *dx = n->in[0]->grad;
    if (!dx)
        return;
    for (size_t b = 0; b < tensor_rows(n->in[0]); b++)
        for (size_t k = 0; k < K; k++) {
            real grad = dy[b] * slope[b * K + k];
            dx[b * K + k] = n->beta[0] != 0 ? dx[b * K + k] + grad : grad;
        }
}

static struct tensor *distill_sample(struct graph *g)
{
    struct tensor *x = graph_input(g, "sample", TYPE_REAL, SHAPE(4, 5), true);
    struct tensor *z = graph_input(g, "teacher", TYPE_REAL, SHAPE(4, 5), false);
    struct tensor *soft = op_distill(g, x, z, DISTILL_SOFT, 3);
    return op_add(g, soft, op_distill(g, x, z, DISTILL_HARD, 1));
}

const struct op distill_op = {
    .name = "distill", .infer = distill_infer, .forward = distill_forward,
    .backward = distill_backward, .takes = TYPE_REAL, .sample = distill_sample,
};

struct tensor *op_distill(struct graph *g, struct tensor *logits, struct tensor *teacher,
                          enum distill_kind kind, double temperature)
{
    const struct distill o = {kind, temperature};
    return graph_record(g, &distill_op, graph_copy(g, &o, sizeof o), INPUTS(logits, teacher));
}
