/* token_mix.c - a learned mixture of tokens.    W: (N, N) or (H, N, N)  bias: (N)  x, y: (B, N, D)
 *   y[b] = W x[b] + bias 1^T        dx[b] = W^T dy[b],  dW = sum over b of dy[b] x[b]^T,
 *                                   dbias = sum over b and columns of dy
 * With H matrices the columns are cut into H equal parts, one matrix each. With regions W * M stands
 * for W, M[t, j] = 1 where t and j are of one region of the window that b is, else 0; so does it in dW. */
#include <string.h>

#include "kernels/kernels.h"
#include "ops/regions.h"

/* Windows with one region are pattern 0; others share a pattern where they are divided alike. */
struct patterns {
    int windows, tokens, count; /* windows 0: no regions */
    int *of;                    /* (windows) */
    unsigned char *region;      /* (count, tokens), numbered as they appear */
};

static int matrices(const struct tensor *W)
{
    return W->shape.rank == 3 ? W->shape.dim[0] : 1;
}

static struct mix mix_of(const struct node *n)
{
    const struct patterns *o = n->options;
    const struct tensor *x = n->in[0], *W = n->in[1];
    return (struct mix){
        .groups = x->shape.dim[0], .N = x->shape.dim[1], .D = tensor_cols(x), .parts = matrices(W),
        .W = W->data,
        .windows = o->windows, .patterns = o->count, .pattern = o->of, .region = o->region,
    };
}

static bool regions_fit(const struct patterns *o, const struct shape *x)
{
    return o->windows == 0 || (o->tokens == x->dim[1] && x->dim[0] % o->windows == 0);
}

static void token_mix_infer(struct graph *g, struct node *n)
{
    char a[64], b[64];
    const struct patterns *o = n->options;
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    int N = x->shape.rank == 3 ? x->shape.dim[1] : 0, rank = W->shape.rank;
    if (!N || rank < 2 || rank > 3 || W->shape.dim[rank - 1] != N ||
        W->shape.dim[rank - 2] != N || tensor_cols(x) % matrices(W) ||
        (bias && tensor_count(bias) != (size_t)N)) {
        graph_fail(g, ERR_SHAPE, "token_mix: matrix %s does not mix the tokens of %s",
                   shape_text(a, &W->shape), shape_text(b, &x->shape));
        return;
    }
    if (!regions_fit(o, &x->shape)) {
        graph_fail(g, ERR_SHAPE, "token_mix: regions of %d windows of %d tokens for %s", o->windows,
                   o->tokens, shape_text(a, &x->shape));
        return;
    }
    infer_param(g, n, 1);
    infer_param(g, n, 2);
    infer_unary(g, n);
    struct mix m = mix_of(n);
    size_t scratch = kernel_mix_scratch(&m);
    graph_scratch(g, n, scratch, scratch);
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

static void token_mix_forward(const struct node *n)
{
    struct mix m = mix_of(n);
    kernel_mix(tensor_vec(n->out), 0, PLAIN, tensor_vec(n->in[0]),
               n->in[2] ? n->in[2]->data : NULL, &m, n->scratch->data);
}

static void token_mix_backward(const struct node *n)
{
    const struct tensor *x = n->in[0], *W = n->in[1], *bias = n->in[2];
    struct mix m = mix_of(n);
    struct vec dy = tensor_grad(n->out);
    if (x->grad)
        kernel_mix(tensor_grad(x), n->beta[0], TRANSPOSED, dy, NULL, &m,
                   n->scratch_backward->data);
    if (W->grad || (bias && bias->grad))
        kernel_mix_grad(W->grad, bias ? bias->grad : NULL, dy, tensor_vec(x), &m,
                        n->scratch_backward->data);
}

static struct tensor *token_mix_sample(struct graph *g)
{
    static const unsigned char region[9] = {7, 7, 7, 1, 0, 1, 5, 5, 3};
    static const struct token_regions regions = {.windows = 3, .tokens = 3, .id = region};
    struct tensor *x = graph_sample(g, SHAPE(6, 3, 4));
    struct tensor *W = graph_param(g, "weight", SHAPE(3, 3), INIT_NORMAL(1));
    struct tensor *heads = graph_param(g, "heads", SHAPE(2, 3, 3), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(3), INIT_NORMAL(1));
    return op_token_mix_regions(g, op_token_mix(g, x, W, NULL), heads, bias, &regions);
}

const struct op token_mix_op = {
    .name = "token_mix", .infer = token_mix_infer, .products = token_mix_products,
    .forward = token_mix_forward, .backward = token_mix_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = token_mix_sample,
};

static void find_patterns(struct patterns *o, const struct token_regions *r)
{
    size_t tokens = (size_t)r->tokens;
    for (int w = 0; w < r->windows; w++) {
        unsigned char *number = o->region + (size_t)o->count * tokens;
        int regions = region_numbers(number, r->id + (size_t)w * tokens, r->tokens);
        int like = 0;
        while (memcmp(o->region + (size_t)like * tokens, number, tokens) != 0)
            like++;
        o->of[w] = regions > 1 ? like + 1 : 0;
        if (regions > 1 && like == o->count)
            o->count++;
    }
}

struct tensor *op_token_mix_regions(struct graph *g, struct tensor *x, struct tensor *W,
                                    struct tensor *bias, const struct token_regions *regions)
{
    struct patterns o = {.windows = 0};
    if (regions) {
        if (regions->windows < 1 || regions->tokens < 1)
            return graph_fail(g, ERR_SHAPE, "token_mix: regions of %d windows of %d tokens",
                              regions->windows, regions->tokens);
        size_t windows = (size_t)regions->windows;
        o.windows = regions->windows;
        o.tokens = regions->tokens;
        o.of = arena_alloc(&g->memory, windows * sizeof *o.of);
        o.region = arena_alloc(&g->memory, windows * (size_t)o.tokens);
        if (!o.of || !o.region)
            return graph_fail(g, ERR_MEMORY, "out of memory for the regions of %d windows",
                              o.windows);
        find_patterns(&o, regions);
    }
    return graph_record(g, &token_mix_op, graph_copy(g, &o, sizeof o), INPUTS(x, W, bias));
}

struct tensor *op_token_mix(struct graph *g, struct tensor *x, struct tensor *W,
                            struct tensor *bias)
{
    return op_token_mix_regions(g, x, W, bias, NULL);
}
