/* project_tokens.c - tokens projected to fewer rows.    x: (B, H, N, d)  W: (N, k), or (H, N, k)
 * y: (B, H, R k, d), in memory (B, R k, H d)
 *   y[r k + c] = sum over the tokens j of region r of W[j, c] x[j]
 *   dx[j] = sum over c of W[j, c] dy[r k + c], r the region of j;  dW[j, c] += x[j] . dy[r k + c]
 * Wang et al., arXiv:2006.04768, eq. 7. Tokens of one region are brought together first, so that
 * each of them is multiplied once. */
#include "ops/ops.h"

enum { X, WEIGHT };

struct options {
    int windows, regions; /* 1, 1: tokens are where they lie */
    const int *token;     /* (windows, N): tokens ordered by their regions */
    const int *first;     /* (windows, regions + 1): where each region begins */
};

static int axis(const struct tensor *t, int from_end)
{
    return t->shape.dim[t->shape.rank - from_end];
}

static void project_tokens_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct shape *x = &n->in[X]->shape, *W = &n->in[WEIGHT]->shape;
    bool fits = x->rank == 4 && x->dim[0] % o->windows == 0 &&
                ((W->rank == 2 && W->dim[0] == x->dim[2]) ||
                 (W->rank == 3 && W->dim[0] == x->dim[1] && W->dim[1] == x->dim[2]));
    if (!fits) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "project_tokens: %s in %d windows by %s", shape_text(a, x),
                   o->windows, shape_text(b, W));
        return;
    }
    infer_param(g, n, WEIGHT);
    int k = axis(n->in[WEIGHT], 1);
    graph_out_heads(g, n, n->in[X]->type, SHAPE(x->dim[0], x->dim[1], o->regions * k, x->dim[3]));
    size_t rows = (size_t)x->dim[2] * (size_t)(x->dim[3] + k);
    if (o->regions > 1)
        graph_scratch(g, n, rows, rows + (size_t)x->dim[2] * (size_t)k);
}

static const int *part_first(const struct options *o, int window, int region)
{
    return o->first + window * (o->regions + 1) + region;
}

static int tokens_of(const struct options *o, int N, int window, int region)
{
    const int *first = o->regions > 1 ? part_first(o, window, region) : NULL;
    return first ? first[1] - first[0] : N;
}

/* Where regions differ in size, products do: one entry for each region of each window. */
static void project_tokens_products(const struct node *n, product_visit *visit, void *context)
{
    const struct options *o = n->options;
    const int *x = n->in[X]->shape.dim;
    for (int part = 0; part < o->windows * o->regions; part++) {
        const struct product y = {
            .m = axis(n->in[WEIGHT], 1),
            .n = x[3],
            .k = tokens_of(o, x[2], part / o->regions, part % o->regions),
            .ta = TRANSPOSED,
            .a = WEIGHT,
            .b = X,
            .count = (double)(x[0] / o->windows) * x[1],
        };
        if (y.k > 0)
            visit(&y, context);
    }
}

/* The tokens of one region of one head of one image, where they lie or in scratch. */
struct part {
    struct vec x, W, y;    /* (tokens, d), (tokens, k), (k, d): y its values, or its gradient */
    struct row_order rows; /* of the image's tokens; at NULL: as they lie */
    int tokens, k, d;
};

static struct vec weight_of(const struct tensor *W, void *data, int h)
{
    size_t matrix = (size_t)axis(W, 2) * (size_t)axis(W, 1);
    return (struct vec){(real *)data + (W->shape.rank == 3 ? (size_t)h * matrix : 0), TYPE_REAL,
                        axis(W, 1)};
}

static struct part part_of(const struct node *n, struct heads y, real *scratch, int b, int h,
                           int region)
{
    const struct options *o = n->options;
    const struct tensor *x = n->in[X], *W = n->in[WEIGHT];
    int N = x->shape.dim[2], k = axis(W, 1), window = b % o->windows;
    struct part p = {.x = heads_at(tensor_heads(x), b, h),
                     .W = weight_of(W, W->data, h),
                     .tokens = N,
                     .k = k,
                     .d = x->shape.dim[3]};
    p.y = vec_at(heads_at(y, b, h), (size_t)region * (size_t)k, 0);
    if (o->regions == 1)
        return p;
    p.tokens = tokens_of(o, N, window, region);
    p.rows = (struct row_order){o->token + window * N + *part_first(o, window, region),
                                (size_t)p.tokens};
    if (p.tokens == 0)
        return p;
    struct vec xs = {scratch, x->type, p.d}, Ws = {scratch + (size_t)N * (size_t)p.d, TYPE_REAL, k};
    kernel_gather_rows(xs, 0, p.x, &p.rows, NULL, 0, (size_t)p.tokens, (size_t)p.d);
    kernel_gather_rows(Ws, 0, p.W, &p.rows, NULL, 0, (size_t)p.tokens, (size_t)k);
    p.x = xs;
    p.W = Ws;
    return p;
}

static real *data_of(const struct tensor *scratch)
{
    return scratch ? scratch->data : NULL;
}

static void project_tokens_forward(const struct node *n)
{
    const struct options *o = n->options;
    const int *dim = n->out->shape.dim;
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            for (int r = 0; r < o->regions; r++) {
                struct part p = part_of(n, tensor_heads(n->out), data_of(n->scratch), b, h, r);
                kernel_gemm(p.y, 0, 1, TRANSPOSED, p.W, PLAIN, p.x, p.k, p.d, p.tokens, NULL);
            }
}

/* to = beta to + a op(b), (tokens, cols), with rows where the part's tokens lie. */
static void add_rows(struct vec to, int beta, const struct part *p, struct vec a, enum trans trans,
                     struct vec b, int cols, int inner, real *scratch)
{
    const struct vec rows = {scratch, TYPE_REAL, cols};
    if (!p->rows.at) {
        kernel_gemm(to, beta, 1, PLAIN, a, trans, b, p->tokens, cols, inner, NULL);
    } else if (p->tokens > 0) {
        kernel_gemm(rows, 0, 1, PLAIN, a, trans, b, p->tokens, cols, inner, NULL);
        kernel_scatter_rows(to, beta, rows, &p->rows, 0, (size_t)p->tokens, (size_t)cols);
    }
}

static void project_tokens_backward(const struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *x = n->in[X], *W = n->in[WEIGHT];
    const int *dim = x->shape.dim;
    real *scratch = data_of(n->scratch_backward), *rows = NULL;
    if (scratch)
        rows = scratch + (size_t)dim[2] * (size_t)(dim[3] + axis(W, 1));
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            for (int r = 0; r < o->regions; r++) {
                struct part p = part_of(n, tensor_grad_heads(n->out), scratch, b, h, r);
                if (W->grad)
                    add_rows(weight_of(W, W->grad, h), 1, &p, p.x, TRANSPOSED, p.y, p.k, p.d, rows);
                if (x->grad) /* the gathered tokens are not needed any more */
                    add_rows(heads_at(tensor_grad_heads(x), b, h), n->beta[X], &p, p.W, PLAIN, p.y,
                             p.d, p.k, scratch);
            }
}

/* Both kinds of weights, and two windows of which one has two regions. */
static struct tensor *project_tokens_sample(struct graph *g)
{
    static const unsigned char region[] = {0, 1, 1, 0, 1, 0, 1, 1};
    static const struct token_regions regions = {2, 4, region};
    struct tensor *x = graph_sample(g, SHAPE(2, 2, 4, 3));
    struct tensor *W = graph_param(g, "weight", SHAPE(4, 2), INIT_NORMAL(1));
    struct tensor *heads = graph_param(g, "heads", SHAPE(2, 4, 2), INIT_NORMAL(1));
    x = op_project_tokens(g, x, W, &regions); /* (2, 2, 4, 3) */
    return op_project_tokens(g, x, heads, NULL);
}

const struct op project_tokens_op = {
    .name = "project_tokens",
    .infer = project_tokens_infer,
    .products = project_tokens_products,
    .forward = project_tokens_forward,
    .backward = project_tokens_backward,
    .backward_reads = READS_IN(X) | READS_IN(WEIGHT),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = project_tokens_sample,
};

int token_regions_count(const struct token_regions *r)
{
    int count = 1;
    for (int t = 0; r && t < r->windows * r->tokens; t++)
        count = r->id[t] >= count ? r->id[t] + 1 : count;
    return count;
}

/* Orders the tokens of each window by their regions. False without memory. */
static bool order_tokens(struct graph *g, struct options *o, const struct token_regions *r)
{
    int N = r->tokens, steps = o->regions + 1;
    int *token = arena_alloc(&g->memory, (size_t)o->windows * (size_t)N * sizeof *token);
    int *first = arena_alloc(&g->memory, (size_t)o->windows * (size_t)steps * sizeof *first);
    if (!token || !first)
        return false;
    for (int w = 0; w < o->windows; w++) {
        int count = 0;
        for (int region = 0; region < o->regions; region++) {
            first[w * steps + region] = count;
            for (int t = 0; t < N; t++)
                if (r->id[w * N + t] == region)
                    token[w * N + count++] = t;
        }
        first[w * steps + o->regions] = count;
    }
    o->token = token;
    o->first = first;
    return true;
}

struct tensor *op_project_tokens(struct graph *g, struct tensor *x, struct tensor *W,
                                 const struct token_regions *regions)
{
    struct options o = {.windows = 1, .regions = token_regions_count(regions)};
    if (g->error.status)
        return g->inert;
    if (regions && (x->shape.rank != 4 || x->shape.dim[2] != regions->tokens)) {
        char text[64];
        return graph_fail(g, ERR_SHAPE, "project_tokens: regions of %d tokens for %s",
                          regions->tokens, shape_text(text, &x->shape));
    }
    if (o.regions > 1) {
        o.windows = regions->windows;
        if (!order_tokens(g, &o, regions))
            return graph_fail(g, ERR_MEMORY, "out of memory for the regions of windows");
    }
    return graph_record(g, &project_tokens_op, graph_copy(g, &o, sizeof o), INPUTS(x, W));
}
