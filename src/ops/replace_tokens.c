/* replace_tokens.c - the first tokens taken from elsewhere.    x, from, y: (B, H, N, d)
 *   y[b, h, t] = from[b, h, t] for t < count, else x[b, h, t]
 *   dx, dfrom: dy where y took it from, else 0 */
#include "ops/ops.h"

struct replace {
    int count;
};

static void replace_tokens_infer(struct graph *g, struct node *n)
{
    const struct replace *o = n->options;
    const struct shape *x = &n->in[0]->shape, *from = &n->in[1]->shape;
    if (x->rank != 4 || !shape_equal(x, from) || o->count < 0 || o->count > x->dim[2]) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "replace_tokens: %d tokens of %s for %s", o->count,
                   shape_text(a, from), shape_text(b, x));
        return;
    }
    graph_out_heads(g, n, n->in[0]->type, *x);
}

/* y = beta y + factor x for tokens first .. end - 1 of all images and heads. */
static void add_tokens(struct heads y, int beta, struct heads x, double factor,
                       const struct shape *shape, int first, int end)
{
    if (first == end || !y.data)
        return;
    for (int b = 0; b < shape->dim[0]; b++)
        for (int h = 0; h < shape->dim[1]; h++)
            kernel_accumulate(vec_at(heads_at(y, b, h), (size_t)first, 0), beta,
                              vec_at(heads_at(x, b, h), (size_t)first, 0), factor,
                              (size_t)(end - first), (size_t)shape->dim[3]);
}

static void replace_tokens_forward(const struct node *n)
{
    const struct replace *o = n->options;
    const struct shape *shape = &n->out->shape;
    struct heads y = tensor_heads(n->out);
    add_tokens(y, 0, tensor_heads(n->in[1]), 1, shape, 0, o->count);
    add_tokens(y, 0, tensor_heads(n->in[0]), 1, shape, o->count, shape->dim[2]);
}

static void replace_tokens_backward(const struct node *n)
{
    const struct replace *o = n->options;
    const struct shape *shape = &n->out->shape;
    struct heads dy = tensor_grad_heads(n->out);
    for (int i = 0; i < 2; i++) {
        struct heads dx = tensor_grad_heads(n->in[i]);
        add_tokens(dx, n->beta[i], dy, i == 1, shape, 0, o->count);
        add_tokens(dx, n->beta[i], dy, i == 0, shape, o->count, shape->dim[2]);
    }
}

static struct tensor *replace_tokens_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 4, 6));
    return op_replace_tokens(g, graph_split_heads(g, x, 2), graph_sample(g, SHAPE(2, 2, 4, 3)), 1);
}

const struct op replace_tokens_op = {
    .name = "replace_tokens",
    .infer = replace_tokens_infer,
    .forward = replace_tokens_forward,
    .backward = replace_tokens_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = replace_tokens_sample,
};

struct tensor *op_replace_tokens(struct graph *g, struct tensor *x, struct tensor *from, int count)
{
    const struct replace o = {count};
    return graph_record(g, &replace_tokens_op, graph_copy(g, &o, sizeof o), INPUTS(x, from));
}
