/* sdpa.c - scaled dot-product attention, fused.    q: (B, H, N, d)  k: (B, H, M, d)  v: (B, H, M, e)
 *   Z = scale q k^T + bias,  S = softmax(Z),  y = (S keep) v    (y: (B, H, N, e), in memory (B, N, H e))
 *   dv = (S keep)^T dy,  dS = keep (dy v^T),  r = rowsum(dy y),  dZ = S (dS - r),  dq = scale dZ k,
 *   dk = scale dZ^T q,  dbias = sum over B of dZ.  bias: (H, N, M)  keep: 0 or 1 / (1 - p), and
 *   0 where S is not above a threshold
 * S is recomputed from the row sums kept by forward (Dao et al., arXiv:2205.14135, section 3.1); it
 * exists for a few query rows at a time, and so does keep, drawn again from the same numbers. */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "graph/copy.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

enum { Q, K, V, BIAS };

struct options {
    double scale;
    struct token_regions regions;
    const bool *mixed; /* of each window, whether it has several regions; NULL: no regions */
    double above, above_last, dropout;
    uint64_t stream;
    int parts; /* of the first axis that belong to one image */
    int team;  /* threads that there is scratch for */
};

static struct sdpa sdpa_of(const struct node *n)
{
    const struct options *o = n->options;
    const int *q = n->in[Q]->shape.dim, *v = n->in[V]->shape.dim;
    return (struct sdpa){
        .B = q[0], .H = q[1], .N = q[2], .M = v[2], .d = q[3], .e = v[3],
        .team = o->team,
        .scale = o->scale,
        .bias = n->in[BIAS] ? n->in[BIAS]->data : NULL,
        .windows = o->regions.windows,
        .region = o->regions.id,
        .mixed = o->mixed,
        .above = o->above + (n->run ? n->run->progress : 0) * (o->above_last - o->above),
        .dropout = o->dropout,
        .stream = o->stream,
        .step = n->run ? n->run->step : 0,
        .sample = n->run ? n->run->sample * (uint64_t)o->parts : 0,
    };
}

static bool bias_fits(const struct tensor *bias, const struct shape *q, const struct shape *k)
{
    return bias->type == TYPE_REAL && bias->shape.rank == 3 && bias->shape.dim[0] == q->dim[1] &&
           bias->shape.dim[1] == q->dim[2] && bias->shape.dim[2] == k->dim[2];
}

static bool regions_fit(const struct token_regions *r, const struct shape *q, const struct shape *k)
{
    return r->windows > 0 && r->tokens == q->dim[2] && r->tokens == k->dim[2] &&
           q->dim[0] % r->windows == 0;
}

static void sdpa_infer(struct graph *g, struct node *n)
{
    char a[64], b[64], c[64];
    const struct options *o = n->options;
    const struct shape *q = &n->in[Q]->shape, *k = &n->in[K]->shape, *v = &n->in[V]->shape;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || q->dim[0] != k->dim[0] ||
        q->dim[0] != v->dim[0] || q->dim[1] != k->dim[1] || q->dim[1] != v->dim[1] ||
        q->dim[3] != k->dim[3] || k->dim[2] != v->dim[2]) {
        graph_fail(g, ERR_SHAPE, "sdpa: q %s, k %s, v %s do not fit", shape_text(a, q),
                   shape_text(b, k), shape_text(c, v));
        return;
    }
    if (n->in[BIAS] && !bias_fits(n->in[BIAS], q, k)) {
        graph_fail(g, ERR_SHAPE, "sdpa: bias %s for q %s, k %s, wanted (H, N, M), real",
                   shape_text(a, &n->in[BIAS]->shape), shape_text(b, q), shape_text(c, k));
        return;
    }
    if (o->regions.id && !regions_fit(&o->regions, q, k)) {
        graph_fail(g, ERR_SHAPE, "sdpa: regions of %d windows of %d tokens for q %s, k %s",
                   o->regions.windows, o->regions.tokens, shape_text(a, q), shape_text(b, k));
        return;
    }
    struct sdpa s = sdpa_of(n);
    size_t scratch = kernel_sdpa_scratch(&s);
    graph_out_heads(g, n, n->in[Q]->type, SHAPE(s.B, s.H, s.N, s.e));
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
    kernel_sdpa(tensor_heads(n->out), n->saved[0]->data, tensor_heads(n->in[Q]),
                tensor_heads(n->in[K]), tensor_heads(n->in[V]), &s,
                n->scratch ? n->scratch->data : NULL);
}

static void sdpa_backward(const struct node *n)
{
    struct sdpa s = sdpa_of(n);
    const struct tensor *bias = n->in[BIAS];
    kernel_sdpa_grad(tensor_grad_heads(n->in[Q]), n->beta[Q], tensor_grad_heads(n->in[K]),
                     n->beta[K], tensor_grad_heads(n->in[V]), n->beta[V], bias ? bias->grad : NULL,
                     n->beta[BIAS], tensor_heads(n->in[Q]), tensor_heads(n->in[K]),
                     tensor_heads(n->in[V]), tensor_heads(n->out), tensor_grad_heads(n->out),
                     n->saved[0]->data, &s,
                     n->scratch_backward ? n->scratch_backward->data : NULL);
}

/* Without terms, other keys than queries; then with all of them, two windows an image; then without
 * small weights. */
static struct tensor *sdpa_sample(struct graph *g)
{
    static const unsigned char region[6] = {0, 0, 0, 4, 9, 4};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *q = graph_sample(g, SHAPE(2, 2, 3, 4)), *k = graph_sample(g, SHAPE(2, 2, 5, 4));
    struct tensor *v = op_sdpa(g, q, k, graph_sample(g, SHAPE(2, 2, 5, 3)), 0.7);
    struct sdpa_terms terms = {.regions = &regions, .dropout = 0.2};
    terms.bias = graph_param(g, "bias", SHAPE(2, 3, 3), INIT_NORMAL(1));
    v = op_sdpa_terms(g, q, graph_sample(g, SHAPE(2, 2, 3, 4)), v, 0.7, &terms);
    return op_sdpa_terms(g, q, graph_sample(g, SHAPE(2, 2, 3, 4)), v, 2,
                         &(struct sdpa_terms){.above = 0.2, .above_last = 0.2});
}

const struct op sdpa_op = {
    .name = "sdpa", .infer = sdpa_infer, .products = sdpa_products,
    .forward = sdpa_forward, .backward = sdpa_backward,
    .backward_reads = READS_IN(Q) | READS_IN(K) | READS_IN(V) | READS_IN(BIAS) | READS_OUT,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = sdpa_sample,
};

/* Of each window, whether it has several regions; in the graph's arena. */
static const bool *find_mixed(struct graph *g, const struct token_regions *r)
{
    if (r->windows < 1 || r->tokens < 1)
        return NULL; /* infer refuses them */
    size_t tokens = (size_t)r->tokens;
    bool *mixed = arena_alloc(&g->memory, (size_t)r->windows * sizeof *mixed);
    for (size_t w = 0; mixed && w < (size_t)r->windows; w++) {
        const unsigned char *id = r->id + w * tokens;
        mixed[w] = memcmp(id, id + 1, tokens - 1) != 0;
    }
    if (!mixed)
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of %d windows", r->windows);
    return mixed;
}

struct tensor *op_sdpa_terms(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                             double scale, const struct sdpa_terms *terms)
{
    struct tensor *bias = terms->bias;
    struct options o = {.scale = scale, .above = terms->above, .above_last = terms->above_last,
                        .team = g->options.team};
    if (terms->regions) {
        o.regions = *terms->regions;
        o.mixed = find_mixed(g, terms->regions);
    }
    if (g->options.noise && terms->dropout > 0) {
        char name[300];
        snprintf(name, sizeof name, "dropout:%s", g->scope);
        o.dropout = terms->dropout;
        o.stream = rng_stream(g->options.seed, name);
        o.parts = noise_parts(g, q);
    }
    if (bias && !tensor_is_contiguous(bias))
        bias = graph_op_copy(g, bias);
    return graph_record(g, &sdpa_op, graph_copy(g, &o, sizeof o), INPUTS(q, k, v, bias));
}

struct tensor *op_sdpa(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                       double scale)
{
    return op_sdpa_terms(g, q, k, v, scale, &(struct sdpa_terms){.bias = NULL});
}
