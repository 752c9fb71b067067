/* set_softmax.c - one query for each set of tokens, which sees the keys of its set.
 * q: (B, H, sets, d), or (H, d) for all sets  k: (B, H, N, d)  v: (B, H, N, e)  y: (B, H, sets, e),
 * real a_m = scale q_s . k_m - norm / 2 |k_m|^2,  w = softmax over m in set s of a,  y_s = sum of
 * w_m v_m da_m = w_m dy_s . (v_m - y_s),  dq_s = scale sum of da_m k_m, dk_m += da_m (scale q_s -
 * norm k_m),  dv_m += w_m dy_s, over the sets in which m is With scale = norm, w is the softmax of
 * the logarithms of the positive random features exp(q . k - |k|^2 / 2) of EVA (Zheng et al.,
 * arXiv:2302.04542). The weights are kept. */
#include "ops/ops.h"

enum { Q, K, V };

struct options {
    struct token_sets sets;
    double scale, norm;
    int team;
};

static struct set_softmax softmax_of(const struct node *n)
{
    const struct options *o = n->options;
    const int *k = n->in[K]->shape.dim, *v = n->in[V]->shape.dim;
    return (struct set_softmax){
        .pool = {.B = k[0],
                 .H = k[1],
                 .N = k[2],
                 .d = k[3],
                 .e = v[3],
                 .sets = o->sets,
                 .team = o->team},
        .scale = o->scale,
        .norm = o->norm,
    };
}

static bool is_shared(const struct tensor *q)
{
    return q->shape.rank == 2;
}

/* One query for all sets is seen as rows that lie at one place. */
static struct heads query_heads(const struct tensor *q, void *data)
{
    if (is_shared(q))
        return (struct heads){data, q->type, 0, q->stride[0], 0};
    return (struct heads){data, q->type, q->stride[0], q->stride[1], q->stride[2]};
}

static bool query_fits(const struct tensor *q, const struct tensor *k, int sets)
{
    const int *a = q->shape.dim, *b = k->shape.dim;
    if (is_shared(q))
        return a[0] == b[1] && a[1] == b[3];
    return q->shape.rank == 4 && a[0] == b[0] && a[1] == b[1] && a[2] == sets && a[3] == b[3];
}

static void set_softmax_infer(struct graph *g, struct node *n)
{
    char a[64], b[64], c[64];
    const struct options *o = n->options;
    const struct tensor *q = n->in[Q], *k = n->in[K], *v = n->in[V];
    bool fits = k->shape.rank == 4 && v->shape.rank == 4 && k->shape.dim[0] == v->shape.dim[0] &&
                k->shape.dim[1] == v->shape.dim[1] && k->shape.dim[2] == v->shape.dim[2];
    if (!fits || !query_fits(q, k, o->sets.count) ||
        !token_sets_fit(&o->sets, k->shape.dim[2], 1)) {
        graph_fail(g, ERR_SHAPE, "set_softmax: q %s, k %s, v %s do not fit %d sets",
                   shape_text(a, &q->shape), shape_text(b, &k->shape), shape_text(c, &v->shape),
                   o->sets.count);
        return;
    }
    if (is_shared(q))
        infer_param(g, n, Q);
    struct set_softmax s = softmax_of(n);
    graph_out(g, n, TYPE_REAL, SHAPE(s.pool.B, s.pool.H, o->sets.count, s.pool.e));
    graph_saved(g, n, 0, TYPE_REAL,
                (size_t)s.pool.B * (size_t)s.pool.H * (size_t)o->sets.first[o->sets.count]);
    graph_scratch(g, n, 0, kernel_set_scratch(&s.pool));
}

/* Scores and weighted values of the members, and the norm of every key. */
static double set_softmax_macs(const struct node *n)
{
    struct set_softmax s = softmax_of(n);
    double members = s.pool.sets.first[s.pool.sets.count];
    double norms = s.norm != 0 ? (double)s.pool.N * s.pool.d : 0;
    return ((double)s.pool.B * s.pool.H) * (members * (s.pool.d + s.pool.e) + norms);
}

static void set_softmax_forward(const struct node *n)
{
    struct set_softmax s = softmax_of(n);
    kernel_set_softmax(tensor_heads(n->out), n->saved[0]->data,
                       query_heads(n->in[Q], n->in[Q]->data), tensor_heads(n->in[K]),
                       tensor_heads(n->in[V]), &s);
}

static void set_softmax_backward(const struct node *n)
{
    struct set_softmax s = softmax_of(n);
    kernel_set_softmax_grad(
        query_heads(n->in[Q], n->in[Q]->grad), n->beta[Q], tensor_grad_heads(n->in[K]), n->beta[K],
        tensor_grad_heads(n->in[V]), n->beta[V], query_heads(n->in[Q], n->in[Q]->data),
        tensor_heads(n->in[K]), tensor_heads(n->in[V]), tensor_grad_heads(n->out),
        n->saved[0]->data, &s, n->scratch_backward->data);
}

/* Sets that share a token, and leave one out; keys that are values too. */
static struct tensor *set_softmax_sample(struct graph *g)
{
    static const int first[] = {0, 1, 4}, token[] = {3, 0, 3, 2};
    static const struct token_sets sets = {2, first, token};
    struct tensor *shared = graph_param(g, "query", SHAPE(2, 4), INIT_NORMAL(1));
    struct tensor *k = graph_sample(g, SHAPE(2, 2, 5, 4)), *v = graph_sample(g, SHAPE(2, 2, 5, 3));
    struct tensor *q = op_set_softmax(g, shared, k, k, 1, 0, &sets);
    return op_set_softmax(g, q, k, v, 0.7, 0.5, &sets);
}

const struct op set_softmax_op = {
    .name = "set_softmax",
    .infer = set_softmax_infer,
    .macs = set_softmax_macs,
    .forward = set_softmax_forward,
    .backward = set_softmax_backward,
    .backward_reads = READS_IN(Q) | READS_IN(K) | READS_IN(V),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = set_softmax_sample,
};

struct tensor *op_set_softmax(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                              double scale, double norm, const struct token_sets *sets)
{
    const struct options o = {*sets, scale, norm, g->options.team};
    return graph_record(g, &set_softmax_op, graph_copy(g, &o, sizeof o), INPUTS(q, k, v));
}
