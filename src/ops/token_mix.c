/* token_mix.c - a learned mixture of tokens.    W: (N, N) or (H, N, N)  bias: (N)  x, y: (B, N, D)
 *   y[b] = W x[b] + bias 1^T        dx[b] = W^T dy[b],  dW = sum over b of dy[b] x[b]^T,
 *                                   dbias = sum over b and columns of dy
 * With H matrices the columns are cut into H equal parts, one matrix each. */
#include "kernels/kernels.h"
#include "ops/ops.h"

static int matrices(const struct tensor *W)
{
    return W->shape.rank == 3 ? W->shape.dim[0] : 1;
}

static void token_mix_infer(struct graph *g, struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    int N = x->shape.rank == 3 ? x->shape.dim[1] : 0, rank = W->shape.rank;
    if (!N || rank < 2 || rank > 3 || W->shape.dim[rank - 1] != N ||
        W->shape.dim[rank - 2] != N || tensor_cols(x) % matrices(W) ||
        (bias && tensor_count(bias) != (size_t)N)) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "token_mix: matrix %s does not mix the tokens of %s",
                   shape_text(a, &W->shape), shape_text(b, &x->shape));
        return;
    }
    infer_param(g, n, 1);
    infer_param(g, n, 2);
    infer_unary(g, n);
    if (bias)
        graph_scratch(g, n, (size_t)tensor_cols(x), (size_t)tensor_cols(x));
}

static void token_mix_products(const struct node *n, product_visit *visit, void *context)
{
    const struct tensor *x = n->in[0];
    int N = x->shape.dim[1], H = matrices(n->in[1]);
    const struct product y = {
        .m = N, .n = tensor_cols(x) / H, .k = N, .a = 1, .b = 0,
        .count = (double)x->shape.dim[0] * H,
    };
    visit(&y, context);
}

/* Sample b of a tensor (B, N, D), columns of part h of H. */
static struct vec part(const struct tensor *t, void *base, int b, int h, int H)
{
    ptrdiff_t offset = b * t->stride[0] + h * (tensor_cols(t) / H);
    return (struct vec){(char *)base + offset * (ptrdiff_t)type_size(t->type), t->type,
                        t->stride[1]};
}

static struct vec kernel_matrix(const struct tensor *W, void *base, int h)
{
    int N = tensor_cols(W);
    return (struct vec){(real *)base + (size_t)h * (size_t)N * (size_t)N, TYPE_REAL, N};
}

/* A row of ones: adding one number to a whole row is a product of rank one. */
static struct vec ones(const struct tensor *scratch, int D)
{
    real *at = scratch->data;
    for (int c = 0; c < D; c++)
        at[c] = 1;
    return (struct vec){at, TYPE_REAL, D};
}

static void token_mix_forward(const struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    int B = x->shape.dim[0], N = x->shape.dim[1], D = tensor_cols(x), H = matrices(W);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            kernel_gemm(part(n->out, n->out->data, b, h, H), 0, 1, PLAIN,
                        kernel_matrix(W, W->data, h), PLAIN, part(x, x->data, b, h, H), N, D / H, N,
                        NULL);
    if (!bias)
        return;
    struct vec column = {bias->data, TYPE_REAL, 1}, row = ones(n->scratch, D);
    for (int b = 0; b < B; b++)
        kernel_gemm(part(n->out, n->out->data, b, 0, 1), 1, 1, PLAIN, column, PLAIN, row, N, D, 1,
                    NULL);
}

static void token_mix_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2], *y = n->out;
    int B = x->shape.dim[0], N = x->shape.dim[1], D = tensor_cols(x), H = matrices(W);
    for (int b = 0; b < B; b++) {
        for (int h = 0; h < H; h++) {
            struct vec dy = part(y, y->grad, b, h, H);
            if (x->grad)
                kernel_gemm(part(x, x->grad, b, h, H), n->beta[0], 1, TRANSPOSED,
                            kernel_matrix(W, W->data, h), PLAIN, dy, N, D / H, N, NULL);
            if (W->grad)
                kernel_gemm(kernel_matrix(W, W->grad, h), 1, 1, PLAIN, dy, TRANSPOSED,
                            part(x, x->data, b, h, H), N, N, D / H, NULL);
        }
    }
    if (!bias || !bias->grad)
        return;
    struct vec sums = {bias->grad, TYPE_REAL, 1}, row = ones(n->scratch_backward, D);
    row.stride = 1;
    for (int b = 0; b < B; b++)
        kernel_gemm(sums, 1, 1, PLAIN, part(y, y->grad, b, 0, 1), PLAIN, row, N, 1, D, NULL);
}

static struct tensor *token_mix_sample(struct graph *g)
{
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 4));
    struct tensor *W = graph_param(g, "weight", SHAPE(3, 3), INIT_NORMAL(1));
    struct tensor *heads = graph_param(g, "heads", SHAPE(2, 3, 3), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(3), INIT_NORMAL(1));
    return op_token_mix(g, op_token_mix(g, x, W, NULL), heads, bias);
}

const struct op token_mix_op = {
    .name = "token_mix", .infer = token_mix_infer, .products = token_mix_products,
    .forward = token_mix_forward, .backward = token_mix_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = token_mix_sample,
};

struct tensor *op_token_mix(struct graph *g, struct tensor *x, struct tensor *W,
                            struct tensor *bias)
{
    return graph_record(g, &token_mix_op, NULL, INPUTS(x, W, bias));
}
