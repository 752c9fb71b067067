/* pool_tokens.c - mean over some tokens of each sample.    x: (B, N, D)  y: (B, D)
 *   y[b] = 1/n sum over t = first .. first + n - 1 of x[b, t]
 *   dx[b, t] = dy[b] / n for these tokens, 0 for the others */
#include "kernels/kernels.h"
#include "ops/ops.h"

struct pool {
    int first, count;
};

static void pool_infer(struct graph *g, struct node *n)
{
    const struct pool *o = n->options;
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 3 || o->first < 0 || o->count < 1 || o->first + o->count > x->dim[1]) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "pool_tokens: tokens %d..%d of %s", o->first, o->first + o->count - 1,
                   shape_text(text, x));
        return;
    }
    graph_out(g, n, n->in[0]->type, SHAPE(x->dim[0], x->dim[2]));
    graph_scratch(g, n, (size_t)x->dim[2], 0); /* sums are real whatever is stored */
}

/* Token t of sample b of (B, N, D), or row b of (B, D); values or gradient. */
static struct vec row(const struct tensor *t, void *base, int b, int token)
{
    ptrdiff_t offset = b * t->stride[0] + (t->shape.rank == 3 ? token * t->stride[1] : 0);
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(t->type), t->type,
                        tensor_cols(t)};
}

static void pool_forward(const struct node *n)
{
    const struct pool *o = n->options;
    const struct tensor *x = n->in[0], *y = n->out;
    size_t D = (size_t)tensor_cols(x);
    struct vec sum = {n->scratch->data, TYPE_REAL, (ptrdiff_t)D};
    for (int b = 0; b < x->shape.dim[0]; b++) {
        for (int t = 0; t < o->count; t++)
            kernel_accumulate(sum, t > 0, row(x, x->data, b, o->first + t), 1, 1, D);
        kernel_accumulate(row(y, y->data, b, 0), 0, sum, 1.0 / o->count, 1, D);
    }
}

static void pool_backward(const struct node *n)
{
    const struct pool *o = n->options;
    const struct tensor *x = n->in[0], *y = n->out;
    for (int b = 0; b < x->shape.dim[0]; b++) {
        for (int t = 0; t < x->shape.dim[1]; t++) {
            bool pooled = t >= o->first && t < o->first + o->count;
            if (pooled || !n->beta[0])
                kernel_accumulate(row(x, x->grad, b, t), n->beta[0], row(y, y->grad, b, 0),
                                  pooled ? 1.0 / o->count : 0, 1, (size_t)tensor_cols(x));
        }
    }
}

static struct tensor *pool_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 4, 5));
    return op_add(g, op_pool(g, x, 1, 1), op_pool(g, x, 0, 3));
}

const struct op pool_tokens_op = {
    .name = "pool_tokens", .infer = pool_infer, .forward = pool_forward,
    .backward = pool_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = pool_sample,
};

struct tensor *op_pool(struct graph *g, struct tensor *x, int first, int count)
{
    struct pool o = {first, count};
    return graph_record(g, &pool_tokens_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
