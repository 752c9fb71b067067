/* add_token.c - one learned token before the others.    x: (B, N, D)  token: (1, 1, D)  y: (B, N + 1, D)
 *   y[b, 0] = token, y[b, t + 1] = x[b, t]        dtoken = sum over b of dy[b, 0], dx[b, t] = dy[b, t + 1] */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void add_token_infer(struct graph *g, struct node *n)
{
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 3 || tensor_count(n->in[1]) != (size_t)x->dim[2]) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "add_token: %s and %s, wanted (B, N, D) and (1, 1, D)",
                   shape_text(a, x), shape_text(b, &n->in[1]->shape));
        return;
    }
    infer_param(g, n, 1);
    graph_out(g, n, n->in[0]->type, SHAPE(x->dim[0], x->dim[1] + 1, x->dim[2]));
}

/* Tokens `first` on of sample b of a tensor (B, N, D), values or gradient. */
static struct vec tokens(const struct tensor *t, void *base, int b, int first)
{
    ptrdiff_t offset = b * t->stride[0] + first * t->stride[1];
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(t->type), t->type,
                        t->stride[1]};
}

static void add_token_forward(const struct node *n)
{
    const struct tensor *x = n->in[0], *y = n->out;
    size_t D = (size_t)tensor_cols(x);
    for (int b = 0; b < x->shape.dim[0]; b++) {
        kernel_accumulate(tokens(y, y->data, b, 0), 0, tensor_vec(n->in[1]), 1, 1, D);
        kernel_accumulate(tokens(y, y->data, b, 1), 0, tokens(x, x->data, b, 0), 1,
                          (size_t)x->shape.dim[1], D);
    }
}

static void add_token_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *y = n->out;
    size_t D = (size_t)tensor_cols(x);
    for (int b = 0; b < x->shape.dim[0]; b++) {
        if (x->grad)
            kernel_accumulate(tokens(x, x->grad, b, 0), n->beta[0], tokens(y, y->grad, b, 1), 1,
                              (size_t)x->shape.dim[1], D);
        if (n->in[1]->grad)
            kernel_accumulate(tensor_grad(n->in[1]), 1, tokens(y, y->grad, b, 0), 1, 1, D);
    }
}

static struct tensor *add_token_sample(struct graph *g)
{
    struct tensor *token = graph_param(g, "token", SHAPE(1, 1, 5), INIT_NORMAL(1));
    return op_add_token(g, graph_sample(g, SHAPE(2, 3, 5)), token);
}

const struct op add_token_op = {
    .name = "add_token", .infer = add_token_infer, .forward = add_token_forward,
    .backward = add_token_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = add_token_sample,
};

struct tensor *op_add_token(struct graph *g, struct tensor *x, struct tensor *token)
{
    return graph_record(g, &add_token_op, NULL, INPUTS(x, token));
}
