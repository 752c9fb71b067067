/* bi_wkv.c - Bi-WKV: an average of v over all tokens of a sequence, each weighed by its key and its
 * distance, in linear time.    k, v, y: (B, N, C)  decay, first: (C)
 *   y[t] = (sum over i /= t of e^(k[i] - w(|t - i| - 1)) v[i] + e^(k[t] + u) v[t]) / the same of 1
 * for T tokens, w = decay / T, u = first / T. With P[t, i] = the weight of v[i] in y[t], zeta[t] the
 * log of the sum of the weights:
 *   dv[i] = sum over t of P dy[t],  dk[i] = v[i] dv[i] - sum over t of P dy[t] y[t],
 *   dw = - sum over t /= i of (|t - i| - 1) P dy[t] (v[i] - y[t]),  du = sum of P[t, t] dy[t] (v[t] - y[t]) */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sequence.h"
#include "ops/sample.h"
#include "ops/sequences.h"

enum { K, V, DECAY, FIRST };

/* Operations a token and channel, as the authors count them. */
enum { WKV_MACS = 29 };

static void bi_wkv_infer(struct graph *g, struct node *n)
{
    const struct sequences *o = n->options;
    const struct tensor *k = n->in[K], *v = n->in[V];
    size_t C = (size_t)tensor_cols(k);
    infer_sequences(g, n, o, K);
    if (!shape_equal(&k->shape, &v->shape) || tensor_count(n->in[DECAY]) != C ||
        tensor_count(n->in[FIRST]) != C) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "bi_wkv: keys %s, values %s, and a decay for each column",
                   shape_text(a, &k->shape), shape_text(b, &v->shape));
        return;
    }
    infer_param(g, n, DECAY);
    infer_param(g, n, FIRST);
    size_t scratch = kernel_bi_wkv_scratch((size_t)o->longest);
    graph_out(g, n, v->type, v->shape);
    graph_saved(g, n, 0, TYPE_REAL, tensor_count(v)); /* zeta */
    graph_scratch(g, n, scratch, scratch + 2 * C);
}

static double bi_wkv_macs(const struct node *n)
{
    return WKV_MACS * (double)tensor_count(n->out);
}

/* zeta of sample b. */
static struct vec zeta_of(const struct node *n, int b)
{
    size_t cols = (size_t)tensor_cols(n->out), rows = (size_t)n->out->shape.dim[1];
    return (struct vec){(real *)n->saved[0]->data + (size_t)b * rows * cols, TYPE_REAL,
                        (ptrdiff_t)cols};
}

static void bi_wkv_forward(const struct node *n)
{
    const struct sequences *o = n->options;
    for (int b = 0; b < n->out->shape.dim[0]; b++) {
        struct row_sequence rows = {NULL, 0};
        while (sequences_next(o, b, &rows))
            kernel_bi_wkv(sample_vec(n->out, b), zeta_of(n, b), sample_vec(n->in[K], b),
                          sample_vec(n->in[V], b), n->in[DECAY]->data, n->in[FIRST]->data, &rows,
                          (size_t)tensor_cols(n->out), n->scratch->data);
    }
}

static void bi_wkv_backward(const struct node *n)
{
    const struct sequences *o = n->options;
    size_t cols = (size_t)tensor_cols(n->out);
    real *sums = n->scratch_backward->data, *scratch = sums + 2 * cols;
    memset(sums, 0, 2 * cols * sizeof *sums);
    for (int b = 0; b < n->out->shape.dim[0]; b++) {
        struct row_sequence rows = {NULL, 0};
        while (sequences_next(o, b, &rows))
            kernel_bi_wkv_grad(sample_grad(n->in[K], b), n->beta[K], sample_grad(n->in[V], b), n->beta[V],
                               sums, sums + cols, sample_vec(n->in[K], b), sample_vec(n->in[V], b),
                               sample_vec(n->out, b), zeta_of(n, b), sample_grad(n->out, b),
                               n->in[DECAY]->data, n->in[FIRST]->data, &rows, cols, scratch);
    }
    if (n->in[DECAY]->grad)
        kernel_sum_into(n->in[DECAY]->grad, sums, cols);
    if (n->in[FIRST]->grad)
        kernel_sum_into(n->in[FIRST]->grad, sums + cols, cols);
}

/* A sequence of all tokens with the first one at the end, then two regions, one of them scattered. */
static struct tensor *bi_wkv_sample(struct graph *g)
{
    static const int order[6] = {1, 2, 3, 4, 5, 0};
    static const unsigned char region[6] = {4, 4, 1, 4, 4, 1};
    static const struct token_regions regions = {.windows = 1, .tokens = 6, .id = region};
    struct tensor *x = graph_sample(g, SHAPE(2, 6, 7));
    struct tensor *decay = graph_param(g, "decay", SHAPE(3), INIT_NORMAL(1));
    struct tensor *first = graph_param(g, "first", SHAPE(3), INIT_NORMAL(1));
    struct tensor *k = graph_columns(g, x, 0, 3), *v = graph_columns(g, x, 4, 3);
    struct tensor *y = op_bi_wkv(g, k, v, decay, first, &(struct token_sequence){.order = order});
    return op_bi_wkv(g, y, v, decay, first, &(struct token_sequence){.regions = &regions});
}

const struct op bi_wkv_op = {
    .name = "bi_wkv", .infer = bi_wkv_infer, .macs = bi_wkv_macs, .forward = bi_wkv_forward,
    .backward = bi_wkv_backward,
    .backward_reads = READS_IN(K) | READS_IN(V) | READS_IN(DECAY) | READS_IN(FIRST) | READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = bi_wkv_sample,
};

struct tensor *op_bi_wkv(struct graph *g, struct tensor *k, struct tensor *v, struct tensor *decay,
                         struct tensor *first, const struct token_sequence *sequence)
{
    if (g->error.status)
        return g->inert;
    if (k->shape.rank != 3) {
        char text[64];
        return graph_fail(g, ERR_SHAPE, "bi_wkv: keys %s, wanted (B, N, C)",
                          shape_text(text, &k->shape));
    }
    const struct sequences *o = sequences_create(g, "bi_wkv", k->shape.dim[1], sequence);
    return o ? graph_record(g, &bi_wkv_op, o, INPUTS(k, v, decay, first)) : g->inert;
}
