/* token_mean.c - the mean over the tokens, alone or taken away from them.    x: (B, .., N, d)
 *   y = 1/N sum over t of x[t]: (B, .., 1, d)        dx[t] = dy / N
 *   y[t] = own x[t] + share (mean of x over the tokens of t's region): (B, .., N, d)
 *   dx[t]: the same of dy
 * Without regions all tokens are one. */
#include <string.h>

#include "kernels/kernels.h"
#include "ops/regions.h"

struct token_mean {
    const struct regions *regions; /* NULL: none */
    bool one;                      /* one row, for all tokens */
    double own, share;
};

static void token_mean_infer(struct graph *g, struct node *n)
{
    const struct token_mean *o = n->options;
    struct shape shape = n->in[0]->shape;
    infer_tokens(g, n, o->regions);
    if (o->one && shape.rank > 1)
        shape.dim[shape.rank - 2] = 1;
    graph_out(g, n, TYPE_REAL, shape);
}

static void token_mean_forward(const struct node *n)
{
    const struct token_mean *o = n->options;
    const struct tensor *x = n->in[0];
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    size_t cols = (size_t)tensor_cols(x);
    for (size_t i = 0; i < count; i++) {
        struct vec y = tensor_matrix(n->out, i);
        struct token_groups groups = regions_of(o->regions, x, i);
        if (o->one) {
            memset(y.data, 0, cols * sizeof(real));
            kernel_column_sums(y.data, tensor_matrix(x, i), rows, cols);
            kernel_accumulate(y, 0, y, 1.0 / (double)rows, 1, cols);
        } else {
            kernel_token_mean(y, 0, o->own, o->share, tensor_matrix(x, i), &groups, rows, cols);
        }
    }
}

static void token_mean_backward(const struct node *n)
{
    const struct token_mean *o = n->options;
    const struct tensor *x = n->in[0];
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    size_t cols = (size_t)tensor_cols(x);
    for (size_t i = 0; i < count; i++) {
        struct vec dx = tensor_matrix_grad(x, i), dy = tensor_matrix_grad(n->out, i);
        struct token_groups groups = regions_of(o->regions, x, i);
        if (o->one) {
            dy.stride = 0; /* the same row for all */
            kernel_accumulate(dx, n->beta[0], dy, 1.0 / (double)rows, rows, cols);
        } else {
            kernel_token_mean(dx, n->beta[0], o->own, o->share, dy, &groups, rows, cols);
        }
    }
}

static struct tensor *token_mean_sample(struct graph *g)
{
    static const unsigned char region[6] = {4, 4, 4, 1, 0, 1};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *heads = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *y = op_token_centre(g, op_map(g, heads, MAP_SQUARE), &regions);
    y = op_add(g, op_token_mean(g, heads, &regions), y);
    return op_add(g, op_token_mean(g, y, NULL), op_token_mean(g, op_multiply(g, y, y), NULL));
}

const struct op token_mean_op = {
    .name = "token_mean", .infer = token_mean_infer, .forward = token_mean_forward,
    .backward = token_mean_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = token_mean_sample,
};

static struct tensor *record(struct graph *g, struct tensor *x,
                             const struct token_regions *regions, struct token_mean o)
{
    o.regions = regions_copy(g, "token_mean", regions);
    return graph_record(g, &token_mean_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}

struct tensor *op_token_mean(struct graph *g, struct tensor *x,
                             const struct token_regions *regions)
{
    return record(g, x, regions, (struct token_mean){.one = !regions, .share = 1});
}

struct tensor *op_token_centre(struct graph *g, struct tensor *x,
                               const struct token_regions *regions)
{
    return record(g, x, regions, (struct token_mean){.own = 1, .share = -1});
}
