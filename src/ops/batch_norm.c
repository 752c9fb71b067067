/* batch_norm.c - normalisation of each column over all rows of the batch.    x, y: (B, .., D)
 *   xhat = (x - mean) / sqrt(variance + eps),  y = weight xhat + bias
 *   with g = weight dy:  dx = rstd (g - mean(g) - xhat mean(g xhat)), means over all rows,
 *   dweight = sum over rows of dy xhat,  dbias = sum over rows of dy
 * In training mean and variance are the batch's, which then runs as one slice, and the running ones
 * follow them; else they are the running ones, constants. Padding at the end of a batch has no part. */
#include "kernels/batch_norm.h"

#include "kernels/kernels.h"
#include "ops/ops.h"

struct batch_norm {
    bool own; /* statistics of the batch */
    double eps, momentum;
};

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VARIANCE }; /* inputs */
enum { MEAN, VARIANCE };                                  /* saved, of each column */

static void batch_norm_infer(struct graph *g, struct node *n)
{
    const struct batch_norm *o = n->options;
    const struct tensor *x = n->in[X];
    int D = tensor_cols(x);
    for (int i = WEIGHT; i <= RUNNING_VARIANCE; i++) {
        infer_param(g, n, i);
        if (tensor_count(n->in[i]) == (size_t)D && x->shape.rank >= 2 && x->shape.rank <= 4)
            continue;
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "batch_norm: %s %s does not fit %s", n->in[i]->name,
                   shape_text(a, &n->in[i]->shape), shape_text(b, &x->shape));
        return;
    }
    if (o->own && tensor_rows(x) == 1) {
        graph_fail(g, ERR_SHAPE, "batch_norm: one row has no variance (a larger batch has)");
        return;
    }
    infer_unary(g, n);
    size_t scratch = kernel_batch_norm_scratch(D);
    graph_scratch(g, n, scratch, scratch);
    if (!o->own)
        return;
    graph_saved(g, n, MEAN, TYPE_REAL, (size_t)D);
    graph_saved(g, n, VARIANCE, TYPE_REAL, (size_t)D);
    g->whole_batch = true;
}

/* x, or its gradient at `data`, with axes of length 1 where it has fewer. */
static struct heads as_heads(const struct tensor *x, void *data)
{
    int rank = x->shape.rank;
    return (struct heads){data, x->type, x->stride[0], rank > 3 ? x->stride[1] : 0,
                          rank > 2 ? x->stride[rank - 2] : 0};
}

static struct batch_rows batch_of(const struct node *n)
{
    const struct batch_norm *o = n->options;
    const struct shape *s = &n->in[X]->shape;
    int samples = s->dim[0];
    int present = (int)((long long)samples * n->run->present / n->run->batch);
    return (struct batch_rows){
        .samples = samples,
        .present = o->own ? present : samples,
        .heads = s->rank > 3 ? s->dim[1] : 1,
        .tokens = s->rank > 2 ? s->dim[s->rank - 2] : 1,
        .cols = tensor_cols(n->in[X]),
    };
}

static const struct tensor *mean_of(const struct node *n)
{
    return n->saved[MEAN] ? n->saved[MEAN] : n->in[RUNNING_MEAN];
}

static const struct tensor *variance_of(const struct node *n)
{
    return n->saved[VARIANCE] ? n->saved[VARIANCE] : n->in[RUNNING_VARIANCE];
}

static void batch_norm_forward(const struct node *n)
{
    const struct batch_norm *o = n->options;
    const struct batch_rows b = batch_of(n);
    struct heads x = as_heads(n->in[X], n->in[X]->data);
    if (o->own)
        kernel_batch_moments(n->saved[MEAN]->data, n->saved[VARIANCE]->data, x, &b,
                             n->scratch->data);
    kernel_batch_norm(as_heads(n->out, n->out->data), x, mean_of(n)->data, variance_of(n)->data,
                      n->in[WEIGHT]->data, n->in[BIAS]->data, o->eps, &b, n->scratch->data);
}

static void batch_norm_backward(const struct node *n)
{
    const struct batch_norm *o = n->options;
    const struct batch_rows b = batch_of(n);
    const struct tensor *x = n->in[X];
    kernel_batch_norm_grad(as_heads(x, x->grad), n->beta[X], n->in[WEIGHT]->grad,
                           n->in[BIAS]->grad, as_heads(x, x->data), mean_of(n)->data,
                           variance_of(n)->data, o->own, n->in[WEIGHT]->data, o->eps,
                           as_heads(n->out, n->out->grad), &b, n->scratch_backward->data);
}

/* A share of what the batch has, the variance without its bias; one row says nothing of it. */
static void batch_norm_update(const struct node *n)
{
    const struct batch_norm *o = n->options;
    const struct batch_rows b = batch_of(n);
    real *mean = n->in[RUNNING_MEAN]->data, *variance = n->in[RUNNING_VARIANCE]->data;
    double rows = (double)b.present * b.heads * b.tokens, m = o->momentum;
    if (!o->own || rows < 2)
        return;
    for (int c = 0; c < b.cols; c++) {
        double own = (double)((const real *)n->saved[VARIANCE]->data)[c] * rows / (rows - 1);
        mean[c] = (real)((1 - m) * (double)mean[c] +
                         m * (double)((const real *)n->saved[MEAN]->data)[c]);
        variance[c] = (real)((1 - m) * (double)variance[c] + m * own);
    }
}

static struct tensor *batch_norm_sample(struct graph *g)
{
    struct tensor *x = graph_split_heads(g, graph_sample(g, SHAPE(4, 3, 8)), 2);
    struct tensor *weight = graph_param(g, "weight", SHAPE(4), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(4), INIT_NORMAL(1));
    struct tensor *mean = graph_param_flags(g, "mean", SHAPE(4), INIT_ZEROS, PARAM_BUFFER);
    struct tensor *variance = graph_param_flags(g, "variance", SHAPE(4), INIT_ONES, PARAM_BUFFER);
    return op_batch_norm(g, x, weight, bias, mean, variance, 1e-5, 0.1);
}

const struct op batch_norm_op = {
    .name = "batch_norm", .infer = batch_norm_infer, .forward = batch_norm_forward,
    .backward = batch_norm_backward, .update = batch_norm_update,
    .backward_reads = READS_IN(X) | READS_IN(WEIGHT),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = batch_norm_sample,
};

struct tensor *op_batch_norm(struct graph *g, struct tensor *x, struct tensor *weight,
                             struct tensor *bias, struct tensor *running_mean,
                             struct tensor *running_variance, double eps, double momentum)
{
    const struct batch_norm o = {.own = g->options.noise, .eps = eps, .momentum = momentum};
    return graph_record(g, &batch_norm_op, graph_copy(g, &o, sizeof o),
                        INPUTS(x, weight, bias, running_mean, running_variance));
}
