/* lara.c - softmax attention estimated by importance sampling from C proposals, one sample of each.
 * Zheng et al., "Linear Complexity Randomized Self-attention Mechanism", arXiv:2204.04667.
 * q, k: (B, H, N, d)  v: (B, H, N, e)  q_bar, mu, omega: (B, H, P C, d), real  y: (B, H, N, e)
 * For each of the P sequences of tokens, with s the scale and |x|^2 terms of queries left out, which
 * cancel:
 *   r = softmax over m of a_cm = s omega_c k_m - s/2 |k_m|^2,  kappa_c = log sum exp a_c,  f = r v
 *   P = softmax over c' of M_cc' = s omega_c mu_c' - s/2 |mu_c'|^2
 *   opt:    alpha_cn = max(P_cc + alpha (t_cn - mean over c of t_cn), 1e-8),  eta_c = M_cc,
 *           t = softmax over n of s q_bar_c q_n
 *   biased: log alpha_cn = s mu_c q_n    bh: log alpha = 0    both: eta_c = log sum exp M_c
 *   w = softmax over c of log alpha_cn + s omega_c q_n + kappa_c - eta_c,  y = w^T f
 * Only the inputs are kept: backward computes the weights again. */
#include "ops/lara_sequence.h"

enum { Q = LARA_Q, K = LARA_K, V = LARA_V, Q_BAR = LARA_Q_BAR, MU = LARA_MU, OMEGA = LARA_OMEGA };

struct options {
    enum lara_mis mis;
    double alpha, scale;
    struct token_sets sequences; /* first NULL: all tokens as they lie */
};

static int sequences_of(const struct options *o)
{
    return o->sequences.first ? o->sequences.count : 1;
}

static int tokens_of(const struct node *n, int p)
{
    const struct options *o = n->options;
    const int *first = o->sequences.first;
    return first ? first[p + 1] - first[p] : n->in[Q]->shape.dim[2];
}

static int longest(const struct node *n)
{
    const struct options *o = n->options;
    int most = 0;
    for (int p = 0; p < sequences_of(o); p++)
        most = tokens_of(n, p) > most ? tokens_of(n, p) : most;
    return most;
}

static real *take(real *block, size_t *used, size_t count)
{
    real *at = block ? block + *used : NULL;
    *used += count;
    return at;
}

/* Divides a block of scratch; NULL: only counts. Returns the reals. */
static size_t divide(struct lara_sequence *k, const struct node *n, real *block, bool backward)
{
    const struct options *o = n->options;
    size_t used = 0, most = (size_t)longest(n), d = (size_t)n->in[Q]->shape.dim[3];
    size_t e = (size_t)n->in[V]->shape.dim[3], wide = d > e ? d : e;
    size_t C = (size_t)(n->in[MU]->shape.dim[2] / sequences_of(o));
    for (int i = 0; i < 4; i++)
        k->tokens[i] = take(block, &used, most * wide);
    real **maps[] = {&k->r, &k->t, &k->w, &k->dw, &k->dl};
    for (int i = 0; i < (backward ? 5 : 3); i++)
        *maps[i] = take(block, &used, C * most);
    real **squares[] = {&k->M, &k->P, &k->dM};
    for (int i = 0; i < (backward ? 3 : 2); i++)
        *squares[i] = take(block, &used, C * C);
    real **values[] = {&k->f, &k->df};
    for (int i = 0; i < (backward ? 2 : 1); i++)
        *values[i] = take(block, &used, C * e);
    real **columns[] = {&k->kappa, &k->eta, &k->db, &k->sum_dl};
    for (int i = 0; i < (backward ? 4 : 2); i++)
        *columns[i] = take(block, &used, C);
    k->half = take(block, &used, most);
    k->mean = take(block, &used, most);
    k->row = take(block, &used, wide);
    return used;
}

static void lara_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct shape *q = &n->in[Q]->shape, *v = &n->in[V]->shape, *mu = &n->in[MU]->shape;
    bool fits = q->rank == 4 && v->rank == 4 && mu->rank == 4 &&
                shape_equal(q, &n->in[K]->shape) && v->dim[0] == q->dim[0] &&
                v->dim[1] == q->dim[1] && v->dim[2] == q->dim[2] &&
                mu->dim[0] == q->dim[0] && mu->dim[1] == q->dim[1] && mu->dim[3] == q->dim[3] &&
                mu->dim[2] % sequences_of(o) == 0;
    fits = fits && (n->in[Q_BAR] != NULL) == (o->mis == LARA_OPT);
    for (int i = Q_BAR; i <= OMEGA; i++)
        if (n->in[i])
            fits = fits && n->in[i]->type == TYPE_REAL && shape_equal(mu, &n->in[i]->shape);
    if (fits && o->sequences.first)
        fits = token_sets_fit(&o->sequences, q->dim[2], 1);
    if (!fits) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "lara: queries %s, values %s and %d times proposals %s do not fit",
                   shape_text(a, q), shape_text(b, v), sequences_of(o), shape_text(c, mu));
        return;
    }
    struct lara_sequence k;
    graph_out_heads(g, n, g->options.type, SHAPE(q->dim[0], q->dim[1], q->dim[2], v->dim[3]));
    graph_scratch(g, n, divide(&k, n, NULL, false), divide(&k, n, NULL, true));
}

static void lara_products(const struct node *n, product_visit *visit, void *context)
{
    const struct options *o = n->options;
    int d = n->in[Q]->shape.dim[3], e = n->in[V]->shape.dim[3];
    int C = n->in[MU]->shape.dim[2] / sequences_of(o);
    for (int p = 0; p < sequences_of(o); p++) {
        int N = tokens_of(n, p);
        const struct product all[] = {
            {.m = C, .n = N, .k = d, .tb = TRANSPOSED, .a = OMEGA, .b = K},
            {.m = C, .n = e, .k = N, .a = PRODUCT_BETWEEN, .b = V},
            {.m = C, .n = C, .k = d, .tb = TRANSPOSED, .a = OMEGA, .b = MU},
            {.m = C, .n = N, .k = d, .tb = TRANSPOSED, .a = OMEGA, .b = Q},
            {.m = N, .n = e, .k = C, .ta = TRANSPOSED, .a = PRODUCT_BETWEEN, .b = PRODUCT_BETWEEN},
            {.m = C, .n = N, .k = d, .tb = TRANSPOSED, .a = o->mis == LARA_OPT ? Q_BAR : MU, .b = Q},
        };
        for (int i = 0; i < (o->mis == LARA_BH ? 5 : 6); i++) {
            struct product one = all[i];
            one.real = true;
            one.count = (double)n->in[Q]->shape.dim[0] * n->in[Q]->shape.dim[1];
            visit(&one, context);
        }
    }
}

static void add_product(const struct product *p, void *sum)
{
    *(double *)sum += p->count * p->m * p->n * p->k;
}

/* The products, and the squares of queries and keys, of which those of queries cancel. */
static double lara_macs(const struct node *n)
{
    double sum = (double)(tensor_count(n->in[Q]) + tensor_count(n->in[K]));
    lara_products(n, add_product, &sum);
    return sum;
}

/* The sequence's rows of x, where they lie or gathered. */
static struct vec own_tokens(const struct lara_sequence *k, struct vec x, real *room, int cols)
{
    if (!k->order.at)
        return x;
    kernel_gather_rows(lara_rows(room, cols), 0, x, &k->order, NULL, 0, (size_t)k->n, (size_t)cols);
    return lara_rows(room, cols);
}

static struct vec own_proposals(const struct tensor *x, int b, int h, int p, int count)
{
    return vec_at(heads_at(tensor_heads(x), b, h), (size_t)p * (size_t)count, 0);
}

static void begin(struct lara_sequence *k, const struct node *n, int b, int h, int p)
{
    const struct options *o = n->options;
    k->mis = o->mis;
    k->alpha = o->alpha;
    k->scale = o->scale;
    k->n = tokens_of(n, p);
    k->C = n->in[MU]->shape.dim[2] / sequences_of(o);
    k->d = n->in[Q]->shape.dim[3];
    k->e = n->in[V]->shape.dim[3];
    k->order = (struct row_order){NULL, (size_t)k->n};
    if (o->sequences.first)
        k->order.at = o->sequences.token + o->sequences.first[p];
    k->q = own_tokens(k, heads_at(tensor_heads(n->in[Q]), b, h), k->tokens[0], k->d);
    k->k = own_tokens(k, heads_at(tensor_heads(n->in[K]), b, h), k->tokens[1], k->d);
    k->v = own_tokens(k, heads_at(tensor_heads(n->in[V]), b, h), k->tokens[2], k->e);
    if (o->mis == LARA_OPT)
        k->q_bar = own_proposals(n->in[Q_BAR], b, h, p, k->C);
    k->mu = own_proposals(n->in[MU], b, h, p, k->C);
    k->omega = own_proposals(n->in[OMEGA], b, h, p, k->C);
}

static void lara_forward(const struct node *n)
{
    struct lara_sequence k;
    const struct options *o = n->options;
    const int *dim = n->out->shape.dim;
    divide(&k, n, n->scratch->data, false);
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            for (int p = 0; p < sequences_of(o); p++) {
                struct vec y = heads_at(tensor_heads(n->out), b, h);
                begin(&k, n, b, h, p);
                lara_weigh(&k);
                struct vec to = k.order.at ? lara_rows(k.tokens[3], k.e) : y;
                kernel_gemm(to, 0, 1, TRANSPOSED, lara_rows(k.w, k.n), PLAIN, lara_rows(k.f, k.e), k.n, k.e,
                            k.C, NULL);
                if (k.order.at)
                    kernel_scatter_rows(y, 0, to, &k.order, 0, (size_t)k.n, (size_t)k.e);
            }
}

static struct lara_grads grads_of(const struct node *n, int b, int h, int p, int C)
{
    struct vec to[OMEGA + 1];
    for (int i = 0; i <= OMEGA; i++) {
        to[i] = (struct vec){NULL, TYPE_REAL, 0};
        if (n->in[i] && n->in[i]->grad)
            to[i] = heads_at(tensor_grad_heads(n->in[i]), b, h);
        if (to[i].data && i >= Q_BAR)
            to[i] = vec_at(to[i], (size_t)p * (size_t)C, 0);
    }
    return (struct lara_grads){to[Q], to[K], to[V], to[Q_BAR], to[MU], to[OMEGA],
                               n->beta};
}

static void lara_backward(const struct node *n)
{
    struct lara_sequence k;
    const struct options *o = n->options;
    const int *dim = n->out->shape.dim;
    divide(&k, n, n->scratch_backward->data, true);
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            for (int p = 0; p < sequences_of(o); p++) {
                begin(&k, n, b, h, p);
                lara_weigh(&k);
                struct lara_grads to = grads_of(n, b, h, p, k.C);
                struct vec dy = heads_at(tensor_grad_heads(n->out), b, h);
                lara_sequence_grads(&k, &to, own_tokens(&k, dy, k.tokens[3], k.e));
            }
}

/* Each kind of weights; sequences of two lengths, and all tokens in one. */
static struct tensor *lara_sample(struct graph *g)
{
    static const int first[] = {0, 2, 5}, token[] = {3, 0, 1, 4, 2};
    static const struct token_sets sequences = {2, first, token};
    struct tensor *x = graph_sample(g, SHAPE(2, 2, 5, 3)), *y = x;
    struct tensor *mu = op_real(g, graph_sample(g, SHAPE(2, 2, 4, 3)));
    struct tensor *omega = op_add(g, mu, op_real(g, graph_sample(g, SHAPE(2, 2, 4, 3))));
    const enum lara_mis kinds[] = {LARA_OPT, LARA_BIASED, LARA_BH};
    for (int i = 0; i < 3; i++) {
        const struct lara_terms terms = {kinds[i], 0.1, 0.6, i ? NULL : &sequences};
        y = op_lara(g, x, op_scale(g, x, 0.5), y, i ? NULL : omega, mu, i == 2 ? mu : omega, &terms);
    }
    return y;
}

const struct op lara_op = {
    .name = "lara_core", .infer = lara_infer, .products = lara_products, .macs = lara_macs,
    .forward = lara_forward, .backward = lara_backward,
    .backward_reads = READS_IN(Q) | READS_IN(K) | READS_IN(V) | READS_IN(Q_BAR) | READS_IN(MU) |
                      READS_IN(OMEGA),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = lara_sample,
};

struct tensor *op_lara(struct graph *g, struct tensor *q, struct tensor *k, struct tensor *v,
                       struct tensor *q_bar, struct tensor *mu, struct tensor *omega,
                       const struct lara_terms *terms)
{
    struct options o = {.mis = terms->mis, .alpha = terms->alpha, .scale = terms->scale};
    if (terms->sequences)
        o.sequences = *terms->sequences;
    return graph_record(g, &lara_op, graph_copy(g, &o, sizeof o),
                        INPUTS(q, k, v, q_bar, mu, omega));
}
