/* sdpa_above.c - the large weights of softmax attention, as they are.
 * q: (B, H, N, d)  k: (B, H, N, d)  v: (B, H, N, e)  y: (B, H, N, e), in memory (B, N, H e)
 *   P = softmax(scale q k^T),  W = P where P > threshold, else 0,  y = W v
 *   dW = dy v^T,  dP = dW where P > threshold, else 0,  dS = P (dP - sum of dP P)
 *   dq = scale dS k,  dk = scale dS^T q,  dv = W^T dy
 * Some queries at a time, whose weights are computed again in backward. The step at the threshold has no
 * gradient. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/team.h"
#include "ops/regions.h"

enum { Q, K, V };
enum { ROWS = 64 }; /* queries at a time */

struct sdpa_above {
    double scale, threshold, last; /* the threshold moves to `last` over the training */
    const struct regions *regions;
    int team; /* threads that there is scratch for */
};

/* One head of one sample. */
struct head {
    const struct sdpa_above *o;
    struct vec q, k, v;
    struct token_groups groups;
    int N, d, e;
};

static struct head head_of(const struct node *n, size_t i)
{
    const struct sdpa_above *o = n->options;
    return (struct head){
        .o = o,
        .q = tensor_matrix(n->in[Q], i),
        .k = tensor_matrix(n->in[K], i),
        .v = tensor_matrix(n->in[V], i),
        .groups = regions_of(o->regions, n->in[Q], i),
        .N = n->in[Q]->shape.dim[2],
        .d = tensor_cols(n->in[Q]),
        .e = tensor_cols(n->in[V]),
    };
}

static void sdpa_above_infer(struct graph *g, struct node *n)
{
    const struct sdpa_above *o = n->options;
    const struct shape *q = &n->in[Q]->shape, *v = &n->in[V]->shape;
    if (q->rank != 4 || !shape_equal(q, &n->in[K]->shape) || v->rank != 4 ||
        v->dim[0] != q->dim[0] || v->dim[1] != q->dim[1] || v->dim[2] != q->dim[2]) {
        char a[64], b[64], c[64];
        graph_fail(g, ERR_SHAPE, "sdpa_above: %s, %s and %s do not fit", shape_text(a, q),
                   shape_text(b, &n->in[K]->shape), shape_text(c, v));
        return;
    }
    infer_tokens(g, n, o->regions);
    graph_out_heads(g, n, g->options.type, *v);
    size_t N = (size_t)q->dim[2], d = (size_t)q->dim[3], e = (size_t)v->dim[3];
    size_t team = (size_t)o->team;
    graph_scratch(g, n, team * ROWS * N, team * (2 * ROWS * N + N * (d + e)));
}

static void sdpa_above_products(const struct node *n, product_visit *visit, void *context)
{
    struct head h = head_of(n, 0);
    double count = (double)n->in[Q]->shape.dim[0] * n->in[Q]->shape.dim[1];
    const struct product scores = {
        .m = h.N, .n = h.N, .k = h.d, .tb = TRANSPOSED, .a = Q, .b = K, .count = count,
    };
    const struct product y = {
        .m = h.N, .n = h.e, .k = h.N, .a = PRODUCT_BETWEEN, .b = V, .real = true, .count = count,
    };
    visit(&scores, context);
    visit(&y, context);
}

static int rows_from(const struct head *h, int first)
{
    return h->N - first < ROWS ? h->N - first : ROWS;
}

/* P of the queries from `first` on, (rows, N). */
static void find_weights(const struct head *h, int first, struct vec p)
{
    int rows = rows_from(h, first);
    kernel_gemm(p, 0, h->o->scale, PLAIN, vec_at(h->q, (size_t)first, 0), TRANSPOSED, h->k, rows,
                h->N, h->d, NULL);
    for (int r = 0; r < rows && h->groups.number; r++) {
        real *row = vec_at(p, (size_t)r, 0).data;
        for (int j = 0; j < h->N; j++)
            if (h->groups.number[first + r] != h->groups.number[j])
                row[j] = -(real)INFINITY;
    }
    kernel_softmax(p, p, (size_t)rows, (size_t)h->N);
}

/* Moved along as the training is. */
static real threshold_of(const struct node *n)
{
    const struct sdpa_above *o = n->options;
    double progress = n->run ? n->run->progress : 0;
    return (real)(o->threshold + progress * (o->last - o->threshold));
}

/* Forward of head i. */
static void forward_part(const void *job, int i, int member)
{
    const struct node *n = job;
    struct head h = head_of(n, (size_t)i);
    real *room = (real *)n->scratch->data + (ptrdiff_t)member * ROWS * h.N;
    struct vec y = tensor_matrix(n->out, (size_t)i), p = {room, TYPE_REAL, h.N};
    const real threshold = threshold_of(n);
    for (int first = 0; first < h.N; first += ROWS) {
        int rows = rows_from(&h, first);
        find_weights(&h, first, p);
        for (ptrdiff_t j = 0; j < (ptrdiff_t)rows * h.N; j++)
            room[j] = room[j] > threshold ? room[j] : 0;
        kernel_gemm(vec_at(y, (size_t)first, 0), 0, 1, PLAIN, p, PLAIN, h.v, rows, h.e, h.N, NULL);
    }
}

static void sdpa_above_forward(const struct node *n)
{
    const struct sdpa_above *o = n->options;
    team_share(forward_part, n, (int)tensor_matrices(n->out), o->team);
}

/* ds, dW before, becomes dS, and p, P before, W: (rows, N). */
static void scores_grad(const struct head *h, real threshold, int rows, real *ds, real *p)
{
    for (int r = 0; r < rows; r++, ds += h->N, p += h->N) {
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int j = 0; j < h->N; j++) {
            ds[j] = p[j] > threshold ? ds[j] : 0;
            sum += ds[j] * p[j];
        }
        for (int j = 0; j < h->N; j++) {
            ds[j] = p[j] * (ds[j] - sum);
            p[j] = p[j] > threshold ? p[j] : 0;
        }
    }
}

/* dk: (N, d) and dv: (N, e), real, are sums over blocks of queries; p, ds: room for a block. */
static void head_grad(const struct node *n, size_t i, struct vec p, struct vec ds, struct vec dk,
                      struct vec dv)
{
    struct head h = head_of(n, i);
    struct vec dy = tensor_matrix_grad(n->out, i), dq = tensor_matrix_grad(n->in[Q], i);
    for (int first = 0; first < h.N; first += ROWS) {
        int rows = rows_from(&h, first), beta = first > 0;
        struct vec of_y = vec_at(dy, (size_t)first, 0), of_q = vec_at(h.q, (size_t)first, 0);
        find_weights(&h, first, p);
        kernel_gemm(ds, 0, 1, PLAIN, of_y, TRANSPOSED, h.v, rows, h.N, h.e, NULL);
        scores_grad(&h, threshold_of(n), rows, ds.data, p.data);
        if (dq.data)
            kernel_gemm(vec_at(dq, (size_t)first, 0), n->beta[Q], h.o->scale, PLAIN, ds, PLAIN,
                        h.k, rows, h.d, h.N, NULL);
        kernel_gemm(dk, beta, h.o->scale, TRANSPOSED, ds, PLAIN, of_q, h.N, h.d, rows, NULL);
        kernel_gemm(dv, beta, 1, TRANSPOSED, p, PLAIN, of_y, h.N, h.e, rows, NULL);
    }
}

/* Backward of head i. */
static void backward_part(const void *job, int i, int member)
{
    const struct node *n = job;
    ptrdiff_t N = n->in[Q]->shape.dim[2], d = tensor_cols(n->in[Q]), e = tensor_cols(n->in[V]);
    real *room = (real *)n->scratch_backward->data + member * (2 * ROWS * N + N * (d + e));
    struct vec p = {room, TYPE_REAL, N}, ds = {room + ROWS * N, TYPE_REAL, N};
    struct vec dk = {room + 2 * ROWS * N, TYPE_REAL, d}, dv = {room + (2 * ROWS + d) * N, TYPE_REAL, e};
    struct vec to_k = tensor_matrix_grad(n->in[K], (size_t)i);
    struct vec to_v = tensor_matrix_grad(n->in[V], (size_t)i);
    head_grad(n, (size_t)i, p, ds, dk, dv);
    if (to_k.data)
        kernel_accumulate(to_k, n->beta[K], dk, 1, (size_t)N, (size_t)d);
    if (to_v.data)
        kernel_accumulate(to_v, n->beta[V], dv, 1, (size_t)N, (size_t)e);
}

static void sdpa_above_backward(const struct node *n)
{
    const struct sdpa_above *o = n->options;
    team_share(backward_part, n, (int)tensor_matrices(n->out), o->team);
}

/* Weights on either side of the threshold, none near it, and all of them, in regions. */
static struct tensor *sdpa_above_sample(struct graph *g)
{
    static const unsigned char region[6] = {4, 4, 4, 1, 0, 1};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct tensor *x = graph_sample(g, SHAPE(2, 3, 18)), *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, x, 6 * i, 6), 2);
    struct tensor *y = op_sdpa_above(g, t[0], t[1], t[2], 4, 0.1, 0.1, NULL);
    return op_add(g, y, op_sdpa_above(g, t[2], op_real(g, t[1]), t[0], 0.5, 0, 0, &regions));
}

const struct op sdpa_above_op = {
    .name = "sdpa_above", .infer = sdpa_above_infer, .products = sdpa_above_products,
    .forward = sdpa_above_forward, .backward = sdpa_above_backward,
    .backward_reads = READS_IN(Q) | READS_IN(K) | READS_IN(V),
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS, .sample = sdpa_above_sample,
};

struct tensor *op_sdpa_above(struct graph *g, struct tensor *q, struct tensor *k,
                             struct tensor *v, double scale, double threshold,
                             double last, const struct token_regions *regions)
{
    const struct sdpa_above o = {
        .scale = scale,
        .threshold = threshold,
        .last = last,
        .regions = regions_copy(g, "sdpa_above", regions),
        .team = g->options.team > 1 ? g->options.team : 1,
    };
    return graph_record(g, &sdpa_above_op, graph_copy(g, &o, sizeof o), INPUTS(q, k, v));
}
