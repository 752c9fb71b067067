/* permute_tokens.c - the tokens of each sample in another order.    x, y: (B, N, C)
 *   y[b, t] = x[b, from[t]]        dx[b, t] = dy[b, to[t]], `to` the inverse of `from` */
#include "ops/permute_tokens.h"

#include "ops/layer_norm.h"
#include "ops/ops.h"

static void permute_tokens_infer(struct graph *g, struct node *n)
{
    const struct permutation *p = n->options;
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 3 || (size_t)x->dim[1] != p->from.period) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "permute_tokens: an order of %d tokens for %s",
                   (int)p->from.period, shape_text(text, x));
        return;
    }
    infer_unary(g, n);
}

static void permute_tokens_forward(const struct node *n)
{
    const struct permutation *p = n->options;
    kernel_gather_rows(tensor_vec(n->out), 0, tensor_vec(n->in[0]), &p->from, NULL, 0,
                       tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static void permute_tokens_backward(const struct node *n)
{
    const struct permutation *p = n->options;
    kernel_gather_rows(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), &p->to, NULL, 0,
                       tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

/* Patch merging: the norm reads its rows, of several tokens each, from where they are. */
static bool permute_tokens_absorb(struct graph *g, struct node *n, const struct node *reader)
{
    return reader->op == &layer_norm_op && layer_norm_gathers(g, n, reader, n->options);
}

static struct tensor *permute_tokens_sample(struct graph *g)
{
    static const int from[5] = {2, 3, 4, 0, 1};
    return op_permute_tokens(g, graph_sample(g, SHAPE(2, 5, 3)), from, 5);
}

const struct op permute_tokens_op = {
    .name = "permute_tokens", .infer = permute_tokens_infer, .forward = permute_tokens_forward,
    .backward = permute_tokens_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .absorb = permute_tokens_absorb, .sample = permute_tokens_sample,
};

struct tensor *op_permute_tokens(struct graph *g, struct tensor *x, const int *from, int N)
{
    if (g->error.status)
        return g->inert;
    if (N < 1)
        return graph_fail(g, ERR_SHAPE, "permute_tokens: an order of %d tokens", N);
    int *copy = graph_copy(g, from, (size_t)N * sizeof *from);
    int *to = graph_copy(g, from, (size_t)N * sizeof *from);
    if (g->error.status)
        return g->inert;
    for (int t = 0; t < N; t++)
        to[t] = -1;
    for (int t = 0; t < N; t++) {
        if (from[t] < 0 || from[t] >= N || to[from[t]] >= 0)
            return graph_fail(g, ERR_SHAPE, "permute_tokens: token %d of %d is taken from %d, %s",
                              t, N, from[t],
                              from[t] < 0 || from[t] >= N ? "which there is not" : "as another is");
        to[from[t]] = t;
    }
    const struct permutation p = {.from = {copy, (size_t)N}, .to = {to, (size_t)N}};
    return graph_record(g, &permute_tokens_op, graph_copy(g, &p, sizeof p), INPUTS(x));
}
