/* channel_attention.c - linear attention whose heads are channels.   a, f: (B, N, C), real
 *   v, y: (B, N, C)    with sums over the tokens j that i may see:
 *   w[c] = sum over j of f[j, c] v[j, c]        y[i, c] = a[i, c] w[c]
 *   da = dy w,  dw[c] = sum over i of a[i, c] dy[i, c],  df = v dw,  dv = f dw */
#include <string.h>

#include "kernels/kernels.h"
#include "ops/ops.h"

enum { A, F, V };

struct options {
    struct token_regions regions; /* id NULL: none */
};

static bool regions_fit(const struct token_regions *r, const struct shape *x)
{
    return !r->id || (r->windows > 0 && r->tokens == x->dim[1] && x->dim[0] % r->windows == 0);
}

static void channel_attention_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct shape *a = &n->in[A]->shape;
    if (a->rank != 3 || !shape_equal(a, &n->in[F]->shape) || !shape_equal(a, &n->in[V]->shape) ||
        n->in[A]->type != TYPE_REAL || n->in[F]->type != TYPE_REAL ||
        !regions_fit(&o->regions, a)) {
        char text[64];
        graph_fail(g, ERR_SHAPE,
                   "channel_attention: inputs do not agree, features are not real, or regions do "
                   "not fit %s",
                   shape_text(text, a));
        return;
    }
    graph_out(g, n, g->options.type, *a);
    graph_scratch(g, n, (size_t)a->dim[2], 2 * (size_t)a->dim[2]);
}

/* A sum over keys and a product with it for each query and channel: 2 N C an image. */
static double channel_attention_macs(const struct node *n)
{
    return 2.0 * (double)tensor_count(n->out);
}

/* Tokens of a sample that see each other, as runs of neighbours. */
struct tokens {
    const unsigned char *id; /* of the sample's window; NULL: all tokens are one run */
    int region, N;
    int first, end;
};

/* The next run of the region from `end` on; false behind the last one. */
static bool next_run(struct tokens *r)
{
    r->first = r->end;
    if (!r->id) {
        r->end = r->N;
        return r->first < r->end;
    }
    while (r->first < r->N && r->id[r->first] != r->region)
        r->first++;
    r->end = r->first;
    while (r->end < r->N && r->id[r->end] == r->region)
        r->end++;
    return r->first < r->N;
}

/* The region that begins with token `t` of a sample; false where t is not the first of its own. */
static bool begin_region(struct tokens *r, const struct node *n, int b, int t)
{
    const struct token_regions *regions = &((const struct options *)n->options)->regions;
    int N = n->out->shape.dim[1];
    *r = (struct tokens){.N = N};
    if (!regions->id)
        return t == 0;
    r->id = regions->id + (size_t)(b % regions->windows) * (size_t)N;
    r->region = r->id[t];
    return !memchr(r->id, r->region, (size_t)t);
}

static struct vec rows_at(const struct node *n, struct vec x, int b, int first)
{
    return x.data ? vec_at(x, (size_t)b * (size_t)n->out->shape.dim[1] + (size_t)first, 0) : x;
}

/* sums = the sums of x y over the tokens of a region. */
static void sum_region(const struct node *n, real *sums, struct tokens r, int b, struct vec x,
                       struct vec y)
{
    size_t C = (size_t)tensor_cols(n->out);
    memset(sums, 0, C * sizeof *sums);
    while (next_run(&r))
        kernel_scale_cols_grad(sums, rows_at(n, x, b, r.first), rows_at(n, y, b, r.first),
                               (size_t)(r.end - r.first), C);
}

/* y = beta y + x times the sums, for the tokens of a region. */
static void scale_region(const struct node *n, struct vec y, int beta, struct tokens r, int b,
                         struct vec x, const real *sums)
{
    while (y.data && next_run(&r))
        kernel_scale_cols(rows_at(n, y, b, r.first), beta, rows_at(n, x, b, r.first), sums,
                          (size_t)(r.end - r.first), (size_t)tensor_cols(n->out));
}

static void channel_attention_forward(const struct node *n)
{
    struct vec a = tensor_vec(n->in[A]), f = tensor_vec(n->in[F]), v = tensor_vec(n->in[V]);
    real *w = n->scratch->data;
    for (int b = 0; b < n->out->shape.dim[0]; b++)
        for (int t = 0; t < n->out->shape.dim[1]; t++) {
            struct tokens r;
            if (!begin_region(&r, n, b, t))
                continue;
            sum_region(n, w, r, b, f, v);
            scale_region(n, tensor_vec(n->out), 0, r, b, a, w);
        }
}

static void channel_attention_backward(const struct node *n)
{
    struct vec a = tensor_vec(n->in[A]), f = tensor_vec(n->in[F]), v = tensor_vec(n->in[V]);
    struct vec dy = tensor_grad(n->out);
    real *w = n->scratch_backward->data, *dw = w + tensor_cols(n->out);
    for (int b = 0; b < n->out->shape.dim[0]; b++)
        for (int t = 0; t < n->out->shape.dim[1]; t++) {
            struct tokens r;
            if (!begin_region(&r, n, b, t))
                continue;
            sum_region(n, w, r, b, f, v);
            sum_region(n, dw, r, b, a, dy);
            scale_region(n, tensor_grad(n->in[A]), n->beta[A], r, b, dy, w);
            scale_region(n, tensor_grad(n->in[F]), n->beta[F], r, b, v, dw);
            scale_region(n, tensor_grad(n->in[V]), n->beta[V], r, b, f, dw);
        }
}

static struct tensor *channel_attention_sample(struct graph *g)
{
    static const unsigned char region[6] = {0, 0, 0, 4, 9, 4};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *a = graph_input(g, "features", TYPE_REAL, SHAPE(2, 3, 4), true);
    struct tensor *f = graph_input(g, "features", TYPE_REAL, SHAPE(2, 3, 4), true);
    struct tensor *y = op_channel_attention(g, a, f, graph_sample(g, SHAPE(2, 3, 4)), NULL);
    return op_channel_attention(g, f, a, y, &regions);
}

const struct op channel_attention_op = {
    .name = "channel_attention", .infer = channel_attention_infer, .macs = channel_attention_macs,
    .forward = channel_attention_forward, .backward = channel_attention_backward,
    .backward_reads = READS_IN(A) | READS_IN(F) | READS_IN(V),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = channel_attention_sample,
};

struct tensor *op_channel_attention(struct graph *g, struct tensor *a, struct tensor *f,
                                    struct tensor *v, const struct token_regions *regions)
{
    struct options o = {.regions = {.id = NULL}};
    if (regions)
        o.regions = *regions;
    return graph_record(g, &channel_attention_op, graph_copy(g, &o, sizeof o), INPUTS(a, f, v));
}
