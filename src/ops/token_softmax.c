/* token_softmax.c - softmax over the tokens, column by column.    x, y: (B, .., N, d)
 *   y[t, c] = exp(x[t, c] - m[c]) / sum over s of exp(x[s, c] - m[c]),  m[c] = max over s of x[s, c]
 *   dx = y (dy - sum over tokens of dy y)
 * With regions the sums and m are over the tokens s of t's region. */
#include "kernels/kernels.h"
#include "ops/regions.h"

static void token_softmax_infer(struct graph *g, struct node *n)
{
    infer_tokens(g, n, n->options);
    graph_out(g, n, TYPE_REAL, n->in[0]->shape);
}

static void token_softmax_forward(const struct node *n)
{
    const struct tensor *x = n->in[0];
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    for (size_t i = 0; i < count; i++) {
        struct token_groups groups = regions_of(n->options, x, i);
        kernel_token_softmax(tensor_matrix(n->out, i), tensor_matrix(x, i), &groups, rows,
                             (size_t)tensor_cols(x));
    }
}

static void token_softmax_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *y = n->out;
    size_t count = tensor_matrices(x), rows = tensor_rows(x) / count;
    for (size_t i = 0; i < count; i++) {
        struct token_groups groups = regions_of(n->options, x, i);
        kernel_token_softmax_grad(tensor_matrix_grad(x, i), n->beta[0], tensor_matrix(y, i),
                                  tensor_matrix_grad(y, i), &groups, rows, (size_t)tensor_cols(x));
    }
}

static struct tensor *token_softmax_sample(struct graph *g)
{
    static const unsigned char region[6] = {4, 4, 4, 1, 0, 1};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *heads = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *whole = op_token_softmax(g, heads, NULL);
    return op_add(g, whole, op_token_softmax(g, heads, &regions));
}

const struct op token_softmax_op = {
    .name = "token_softmax", .infer = token_softmax_infer, .forward = token_softmax_forward,
    .backward = token_softmax_backward, .backward_reads = READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = token_softmax_sample,
};

struct tensor *op_token_softmax(struct graph *g, struct tensor *x,
                                const struct token_regions *regions)
{
    const struct regions *o = regions_copy(g, "token_softmax", regions);
    return graph_record(g, &token_softmax_op, o, INPUTS(x));
}
