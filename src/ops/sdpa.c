/* sdpa.c - scaled dot-product attention, fused.    q: (B, H, N, d)  k: (B, H, M, d)  v: (B, H, M, e)
 *   S = softmax(scale q k^T),  y = S v        (y: (B, H, N, e) in memory (B, N, H e))
 *   dv = S^T dy,  dS = dy v^T,  r = rowsum(dy y),  dZ = S (dS - r),  dq = scale dZ k,
 *   dk = scale dZ^T q.  S is recomputed from the row sums kept by forward (Dao et al.,
 *   arXiv:2205.14135, section 3.1); it exists for a few query rows at a time. */
#include "kernels/kernels.h"
#include "ops/ops.h"

static struct sdpa sdpa_of(const struct node *n)
{
    const int *q = n->in[0]->shape.dim, *v = n->in[2]->shape.dim;
    return (struct sdpa){.B = q[0], .H = q[1], .N = q[2], .M = v[2], .d = q[3], .e = v[3],
                         .scale = *(const double *)n->options};
}

static void sdpa_infer(struct graph *g, struct node *n)
{
    const struct shape *q = &n->in[0]->shape, *k = &n->in[1]->shape, *v = &n->in[2]->shape;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || q->dim[0] != k->dim[0] ||
        q->dim[0] != v->dim[0] || q->dim[1] != k->dim[1] || q->dim[1] != v->dim[1] ||
        q->dim[3] != k->dim[3] || k->dim[2] != v->dim[2]) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "sdpa: q %s, k %s, v %s do not fit", shape_text(a, q),
                   shape_text(b, k), shape_text(c, v));
        return;
    }
    struct sdpa s = sdpa_of(n);
    size_t scratch = kernel_sdpa_scratch(&s);
    graph_out_heads(g, n, n->in[0]->type, SHAPE(s.B, s.H, s.N, s.e));
    graph_saved(g, n, 0, TYPE_REAL, (size_t)s.B * (size_t)s.H * (size_t)s.N);
    graph_scratch(g, n, scratch, scratch);
}

static void sdpa_products(const struct node *n, product_visit *visit, void *context)
{
    struct sdpa s = sdpa_of(n);
    double count = (double)s.B * s.H;
    const struct product scores = {
        .m = s.N, .n = s.M, .k = s.d, .tb = TRANSPOSED, .a = 0, .b = 1, .count = count,
    };
    const struct product y = {
        .m = s.N, .n = s.e, .k = s.M, .a = PRODUCT_BETWEEN, .b = 2, .count = count,
    };
    visit(&scores, context);
    visit(&y, context);
}

static void sdpa_forward(const struct node *n)
{
    struct sdpa s = sdpa_of(n);
    kernel_sdpa(tensor_heads(n->out), n->saved[0]->data, tensor_heads(n->in[0]),
                tensor_heads(n->in[1]), tensor_heads(n->in[2]), &s,
                n->scratch ? n->scratch->data : NULL);
}

static void sdpa_backward(const struct node *n)
{
    struct sdpa s = sdpa_of(n);
    kernel_sdpa_grad(tensor_grad_heads(n->in[0]), n->beta[0], tensor_grad_heads(n->in[1]),
                     n->beta[1], tensor_grad_heads(n->in[2]), n->beta[2], tensor_heads(n->in[0]),
                     tensor_heads(n->in[1]), tensor_heads(n->in[2]), tensor_heads(n->out),
                     tensor_grad_heads(n->out), n->saved[0]->data, &s,
                     n->scratch_backward ? n->scratch_backward->data : NULL);
}

static struct tensor *sdpa_sample(struct graph *g)
{
    struct tensor *q = graph_sample(g, SHAPE(2, 2, 3, 4)), *k = graph_sample(g, SHAPE(2, 2, 5, 4));
    return op_sdpa(g, q, k, graph_sample(g, SHAPE(2, 2, 5, 3)), 0.7);
}

const struct op sdpa_op = {
    .name = "sdpa", .infer = sdpa_infer, .products = sdpa_products,
    .forward = sdpa_forward, .backward = sdpa_backward,
    .backward_reads = READS_IN(0) | READS_IN(1) | READS_IN(2) | READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = sdpa_sample,
};

struct tensor *op_sdpa(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                       double scale)
{
    return graph_record(g, &sdpa_op, graph_copy(g, &scale, sizeof scale), INPUTS(q, k, v));
}
