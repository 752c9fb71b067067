/* linear_attention.c - attention whose weights are products of features.   a: (B, H, N, D)
 *   f: (B, H, M, D)  v: (B, H, M, e)  y: (B, H, N, e), in memory (B, N, H e)
 *   s = f^T v,  z = f^T 1,  n = a z,  y = a s / den(n)
 *   with dp = dy / den(n), dn = -den'(n) (dy . y) / den(n):
 *   da = dp s^T + dn z^T,  ds = a^T dp,  dz = a^T dn,  df = v ds^T + 1 dz^T,  dv = f ds
 * or, where that is less work, t = a f^T, n = t 1, y = t v / den(n), some rows of t at a time.
 * With a basis the weights are a polynomial of a . f: the first way then makes features of some
 * rows at a time. */
#include "kernels/kernels.h"
#include "ops/ops.h"

enum { A, F, V };
enum { SUM, STATE }; /* saved: n, and [s, z] in the linear order */

struct options {
    struct linear_terms terms;
    const int *at, *length; /* the regions as the kernel wants them; NULL: one in each window */
    int team;               /* threads that there is scratch for */
};

/* N M (d + e) products against (N + M) D (e + 1). */
static bool is_quadratic(enum linear_order order, const struct linear_attention *k)
{
    double N = k->N, M = k->M;
    if (order == ORDER_AUTO)
        return N * M * (k->d + k->e) < (N + M) * k->D * (k->e + 1);
    return order == ORDER_QUADRATIC;
}

static struct linear_attention kernel_of(const struct node *n)
{
    const struct options *o = n->options;
    const struct linear_terms *t = &o->terms;
    const int *a = n->in[A]->shape.dim, *v = n->in[V]->shape.dim;
    struct linear_attention k = {
        .B = a[0], .H = a[1], .N = a[2], .M = v[2], .d = a[3], .e = v[3],
        .basis = t->basis, .c = {t->c[0], t->c[1], t->c[2]},
        .D = kernel_linear_features(a[3], t->basis, t->c),
        .den = t->den,
        .eps = t->eps,
        .per_key = t->per_key,
        .windows = o->length ? t->regions->windows : 0,
        .at = o->at,
        .length = o->length,
        .team = o->team,
    };
    k.quadratic = is_quadratic(t->order, &k);
    return k;
}

static bool is_normalised(const struct linear_attention *k)
{
    return k->den == DEN_ADD || k->den == DEN_CLAMP;
}

static real *saved_at(const struct node *n, int i)
{
    return n->saved[i] ? n->saved[i]->data : NULL;
}

static bool shapes_fit(const struct shape *a, const struct shape *f, const struct shape *v)
{
    return a->rank == 4 && f->rank == 4 && v->rank == 4 && a->dim[0] == f->dim[0] &&
           a->dim[0] == v->dim[0] && a->dim[1] == f->dim[1] && a->dim[1] == v->dim[1] &&
           a->dim[3] == f->dim[3] && f->dim[2] == v->dim[2];
}

static bool regions_fit(const struct token_regions *r, const struct shape *a, const struct shape *f)
{
    return r->windows > 0 && r->tokens == a->dim[2] && r->tokens == f->dim[2] &&
           a->dim[0] % r->windows == 0;
}

static void linear_attention_infer(struct graph *g, struct node *n)
{
    char text_a[64], text_f[64], text_v[64];
    const struct options *o = n->options;
    const struct shape *a = &n->in[A]->shape, *f = &n->in[F]->shape, *v = &n->in[V]->shape;
    if (!shapes_fit(a, f, v) || n->in[A]->type != TYPE_REAL || n->in[F]->type != TYPE_REAL) {
        graph_fail(g, ERR_SHAPE,
                   "linear_attention: features %s and %s, values %s do not fit, or the features "
                   "are not real",
                   shape_text(text_a, a), shape_text(text_f, f), shape_text(text_v, v));
        return;
    }
    if (o->terms.basis && !(kernel_linear_features(a->dim[3], o->terms.basis, o->terms.c) > 0)) {
        graph_fail(g, ERR_SHAPE, "linear_attention: a polynomial without terms");
        return;
    }
    if (o->terms.regions && !regions_fit(o->terms.regions, a, f)) {
        graph_fail(g, ERR_SHAPE, "linear_attention: regions of %d windows of %d tokens for %s, %s",
                   o->terms.regions->windows, o->terms.regions->tokens, shape_text(text_a, a),
                   shape_text(text_f, f));
        return;
    }
    struct linear_attention k = kernel_of(n);
    size_t scratch = kernel_linear_attention_scratch(&k), state = kernel_linear_attention_state(&k);
    graph_out_heads(g, n, g->options.type, SHAPE(k.B, k.H, k.N, k.e));
    if (is_normalised(&k))
        graph_saved(g, n, SUM, TYPE_REAL, (size_t)k.B * (size_t)k.H * (size_t)k.N);
    if (state)
        graph_saved(g, n, STATE, TYPE_REAL, state);
    graph_scratch(g, n, scratch, scratch);
}

/* Those of the linear order, whichever runs: what is compared is the mechanism. */
static void linear_attention_products(const struct node *n, product_visit *visit, void *context)
{
    struct linear_attention k = kernel_of(n);
    double count = (double)k.B * k.H;
    int a = k.basis ? PRODUCT_BETWEEN : A, f = k.basis ? PRODUCT_BETWEEN : F;
    const struct product sums = {
        .m = k.D, .n = k.e, .k = k.M, .ta = TRANSPOSED, .a = f, .b = V, .real = true,
        .count = count,
    };
    const struct product keys = {
        .m = k.D, .n = 1, .k = k.M, .ta = TRANSPOSED, .a = f, .b = PRODUCT_BETWEEN, .real = true,
        .count = count,
    };
    const struct product weights = {
        .m = k.N, .n = 1, .k = k.D, .a = a, .b = PRODUCT_BETWEEN, .real = true, .count = count,
    };
    const struct product y = {
        .m = k.N, .n = k.e, .k = k.D, .a = a, .b = PRODUCT_BETWEEN, .real = true, .count = count,
    };
    visit(&sums, context);
    if (is_normalised(&k)) {
        visit(&keys, context);
        visit(&weights, context);
    }
    visit(&y, context);
}

static void linear_attention_forward(const struct node *n)
{
    struct linear_attention k = kernel_of(n);
    kernel_linear_attention(tensor_heads(n->out), saved_at(n, STATE), saved_at(n, SUM),
                            tensor_heads(n->in[A]), tensor_heads(n->in[F]),
                            tensor_heads(n->in[V]), &k, n->scratch->data);
}

static void linear_attention_backward(const struct node *n)
{
    struct linear_attention k = kernel_of(n);
    kernel_linear_attention_grad(
        tensor_grad_heads(n->in[A]), n->beta[A], tensor_grad_heads(n->in[F]), n->beta[F],
        tensor_grad_heads(n->in[V]), n->beta[V], tensor_heads(n->in[A]), tensor_heads(n->in[F]),
        tensor_heads(n->in[V]), tensor_grad_heads(n->out),
        saved_at(n, STATE), saved_at(n, SUM), &k, n->scratch_backward->data);
}

/* Positive features, which keep the denominators away from 0. */
static struct tensor *sample_features(struct graph *g, int N)
{
    return op_softmax(g, graph_input(g, "features", TYPE_REAL, SHAPE(2, 2, N, 4), true));
}

/* Other keys than queries; then both orders in regions, two windows an image; then no denominator,
 * and a polynomial. */
static struct tensor *linear_attention_sample(struct graph *g)
{
    static const unsigned char region[6] = {0, 0, 0, 4, 9, 4};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *a = sample_features(g, 3), *f = sample_features(g, 3);
    struct linear_terms terms = {.den = DEN_ADD, .eps = 0.1, .order = ORDER_LINEAR};
    struct tensor *y = op_linear_attention(g, a, sample_features(g, 5),
                                           graph_sample(g, SHAPE(2, 2, 5, 3)), &terms);
    terms.regions = &regions;
    terms.per_key = true;
    y = op_linear_attention(g, a, f, y, &terms);
    terms = (struct linear_terms){.den = DEN_CLAMP, .order = ORDER_QUADRATIC, .regions = &regions};
    y = op_linear_attention(g, f, a, y, &terms);
    y = op_linear_attention(g, a, f, y, &(struct linear_terms){.den = DEN_NONE});
    terms = (struct linear_terms){.den = DEN_ADD, .basis = BASIS_SYM, .c = {1, 0.7, 0.3}};
    return op_linear_attention(g, a, f, y, &terms);
}

const struct op linear_attention_op = {
    .name = "linear_attention", .infer = linear_attention_infer,
    .products = linear_attention_products, .forward = linear_attention_forward,
    .backward = linear_attention_backward,
    .backward_reads = READS_IN(A) | READS_IN(F) | READS_IN(V),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = linear_attention_sample,
};

/* Lists the tokens of a window region by region. Returns whether there are several. */
static bool list_regions(int *at, int *length, const unsigned char *id, int tokens)
{
    int count = 0;
    for (int t = 0; t < tokens; t++) {
        int first = 0, begin = count;
        while (id[first] != id[t])
            first++;
        for (int u = t; u < tokens && first == t; u++)
            if (id[u] == id[t])
                at[count++] = u;
        if (first == t)
            length[begin] = count - begin;
    }
    return length[0] < tokens;
}

/* The regions of all windows, in the graph's arena; none where each window has one alone. */
static void find_regions(struct graph *g, struct options *o)
{
    const struct token_regions *r = o->terms.regions;
    if (r->windows < 1 || r->tokens < 1)
        return; /* infer refuses them */
    size_t tokens = (size_t)r->tokens, bytes = (size_t)r->windows * tokens * sizeof(int);
    int *at = arena_alloc(&g->memory, bytes), *length = arena_alloc(&g->memory, bytes);
    o->terms.regions = graph_copy(g, r, sizeof *r);
    if (!at || !length || !o->terms.regions) {
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of %d windows", r->windows);
        return;
    }
    bool several = false;
    for (size_t w = 0; w < (size_t)r->windows; w++)
        if (list_regions(at + w * tokens, length + w * tokens, r->id + w * tokens, r->tokens))
            several = true;
    o->at = several ? at : NULL;
    o->length = several ? length : NULL;
}

struct tensor *op_linear_attention(struct graph *g, struct tensor *a, struct tensor *f,
                                   struct tensor *v, const struct linear_terms *terms)
{
    struct options o = {.terms = *terms, .team = g->options.team};
    if (terms->regions)
        find_regions(g, &o);
    return graph_record(g, &linear_attention_op, graph_copy(g, &o, sizeof o), INPUTS(a, f, v));
}
