/* layer_norm.c - normalisation over the last axis.    x, y: (.., D)  weight, bias: (D)
 *   xhat = (x - mean) / sqrt(variance + eps),  y = weight xhat + bias
 *   with g = weight dy:  dx = rstd (g - mean(g) - xhat mean(g xhat)),
 *   dweight = sum over rows of dy xhat,  dbias = sum over rows of dy
 * After graph_fuse it may put its rows into another order, or gather them from tokens in another order,
 * several of these in a row; rows that are gathered pass through a block that stays in cache. */
#include "ops/layer_norm.h"

#include "kernels/kernels.h"
#include "ops/ops.h"

struct layer_norm {
    double eps;
    const struct permutation *before, *after; /* NULL: none */
};

enum { X, WEIGHT, BIAS }; /* inputs */
enum { MEAN, RSTD };      /* saved, one of each row */

static void layer_norm_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0];
    if (tensor_count(n->in[1]) != (size_t)tensor_cols(x) ||
        tensor_count(n->in[2]) != (size_t)tensor_cols(x)) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "layer_norm: weight %s and bias %s do not fit %s",
                   shape_text(a, &n->in[1]->shape), shape_text(b, &n->in[2]->shape),
                   shape_text(c, &x->shape));
        return;
    }
    for (int i = WEIGHT; i <= BIAS; i++)
        if (!n->in[i]->root->constant)
            infer_param(g, n, i);
    infer_unary(g, n);
    graph_saved(g, n, MEAN, TYPE_REAL, tensor_rows(x));
    graph_saved(g, n, RSTD, TYPE_REAL, tensor_rows(x));
}

/* Rows of x that are normalised at a time where they are gathered first: they stay in cache. */
static size_t block_rows(size_t cols)
{
    enum { ELEMENTS = 1 << 13 };
    return cols < ELEMENTS ? ELEMENTS / cols : 1;
}

/* Calls kernel_layer_norm for blocks of rows that are gathered before. */
static void gather_forward(const struct node *n)
{
    const struct layer_norm *o = n->options;
    const struct tensor *x = n->in[X], *y = n->out;
    size_t rows = tensor_rows(y), cols = (size_t)tensor_cols(y), most = block_rows(cols);
    size_t tokens = cols / (size_t)tensor_cols(x); /* of a row */
    struct vec block = {n->scratch->data, x->type, (ptrdiff_t)cols}, part = block;
    part.stride = tensor_cols(x);
    for (size_t r = 0; r < rows; r += most) {
        size_t count = rows - r < most ? rows - r : most;
        kernel_gather_rows(part, 0, tensor_vec(x), &o->before->from, NULL, r * tokens,
                           count * tokens, (size_t)tensor_cols(x));
        kernel_layer_norm(vec_at(tensor_vec(y), r, 0), (real *)n->saved[MEAN]->data + r,
                          (real *)n->saved[RSTD]->data + r, block, n->in[WEIGHT]->data,
                          n->in[BIAS]->data, o->eps, count, cols);
    }
}

static void gather_backward(const struct node *n)
{
    const struct layer_norm *o = n->options;
    const struct tensor *x = n->in[X], *y = n->out;
    size_t rows = tensor_rows(y), cols = (size_t)tensor_cols(y), most = block_rows(cols);
    size_t tokens = cols / (size_t)tensor_cols(x);
    struct vec block = {n->scratch_backward->data, x->type, (ptrdiff_t)cols}, part = block;
    struct vec dblock = vec_at(block, most, 0), dpart = dblock, none = {.data = NULL};
    part.stride = dpart.stride = tensor_cols(x);
    for (size_t r = 0; r < rows; r += most) {
        size_t count = rows - r < most ? rows - r : most;
        kernel_gather_rows(part, 0, tensor_vec(x), &o->before->from, NULL, r * tokens,
                           count * tokens, (size_t)tensor_cols(x));
        kernel_layer_norm_grad(x->grad ? dblock : none, 0, n->in[WEIGHT]->grad, n->in[BIAS]->grad,
                               block, (const real *)n->saved[MEAN]->data + r,
                               (const real *)n->saved[RSTD]->data + r, n->in[WEIGHT]->data,
                               vec_at(tensor_grad(y), r, 0), count, cols);
        if (x->grad)
            kernel_scatter_rows(tensor_grad(x), n->beta[X], dpart, &o->before->from, r * tokens,
                                count * tokens, (size_t)tensor_cols(x));
    }
}

static void layer_norm_forward(const struct node *n)
{
    const struct layer_norm *o = n->options;
    if (o->before)
        gather_forward(n);
    else
        kernel_layer_norm_to(tensor_vec(n->out), o->after ? &o->after->to : NULL,
                             n->saved[MEAN]->data, n->saved[RSTD]->data, tensor_vec(n->in[X]),
                             n->in[WEIGHT]->data, n->in[BIAS]->data, o->eps, tensor_rows(n->out),
                             (size_t)tensor_cols(n->out));
}

static void layer_norm_backward(const struct node *n)
{
    const struct layer_norm *o = n->options;
    if (o->before)
        gather_backward(n);
    else
        kernel_layer_norm_grad_from(tensor_grad(n->in[X]), n->beta[X], n->in[WEIGHT]->grad,
                                    n->in[BIAS]->grad, tensor_vec(n->in[X]), n->saved[MEAN]->data,
                                    n->saved[RSTD]->data, n->in[WEIGHT]->data,
                                    tensor_grad(n->out), o->after ? &o->after->to : NULL,
                                    tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static bool layer_norm_absorb(struct graph *g, struct node *n, const struct node *reader)
{
    struct layer_norm o = *(const struct layer_norm *)n->options;
    if (reader->op != &permute_tokens_op || o.before || o.after ||
        tensor_cols(reader->out) != tensor_cols(n->out))
        return false;
    o.after = reader->options;
    n->options = graph_copy(g, &o, sizeof o);
    return !g->error.status;
}

bool layer_norm_gathers(struct graph *g, struct node *n, const struct node *norm,
                        const struct permutation *order)
{
    struct layer_norm o = *(const struct layer_norm *)norm->options;
    size_t cols = (size_t)tensor_cols(norm->in[X]), C = (size_t)tensor_cols(n->in[X]);
    if (o.before || o.after || cols % C || norm->out->type != n->in[X]->type)
        return false;
    o.before = order;
    for (int i = WEIGHT; i <= BIAS; i++)
        n->in[i] = norm->in[i];
    for (int i = MEAN; i <= RSTD; i++)
        n->saved[i] = norm->saved[i];
    n->inputs = norm->inputs;
    n->op = norm->op;
    n->options = graph_copy(g, &o, sizeof o);
    size_t block = block_rows(cols) * cols * type_size(n->in[X]->type);
    graph_scratch(g, n, block / sizeof(real) + 1, 2 * block / sizeof(real) + 1);
    return !g->error.status;
}

static struct tensor *layer_norm_sample(struct graph *g)
{
    struct tensor *weight = graph_param(g, "weight", SHAPE(5), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(5), INIT_NORMAL(1));
    return op_layer_norm(g, graph_sample(g, SHAPE(2, 3, 5)), weight, bias, 1e-6);
}

const struct op layer_norm_op = {
    .name = "layer_norm", .infer = layer_norm_infer, .forward = layer_norm_forward,
    .backward = layer_norm_backward, .backward_reads = READS_IN(0) | READS_IN(1),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .absorb = layer_norm_absorb,
    .sample = layer_norm_sample,
};

struct tensor *op_layer_norm(struct graph *g, struct tensor *x, struct tensor *weight,
                             struct tensor *bias, double eps)
{
    const struct layer_norm o = {.eps = eps};
    return graph_record(g, &layer_norm_op, graph_copy(g, &o, sizeof o), INPUTS(x, weight, bias));
}
