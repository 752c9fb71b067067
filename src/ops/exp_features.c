/* exp_features.c - exponentials of projections as features.   z: (B, .., N, m), real
 * x: (B, .., N, d)  y: (B, .., N, m), real
 *   y[n, r] = factor exp(scale z[n, r] - h[n] - top) + eps,  h = scale^2 / 2 |x[n]|^2, 0 without x
 *   u = (y - eps) dy        dz = scale u,  dx[n] = -scale^2 (sum over r of u[n, r]) x[n]
 * top, a constant in the gradient, is 0, the largest scale z of the row, or that of all tokens of
 * n's region. */
#include "kernels/kernels.h"
#include "ops/regions.h"

enum { Z, X };
enum { GROUPS_MOST = 256 }; /* regions of a window, whose ids are bytes */

struct options {
    struct exp_terms terms;
    const struct regions *regions;
};

static void exp_features_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *z = n->in[Z], *x = n->in[X];
    char a[64], b[64];
    infer_tokens(g, n, o->regions);
    if (z->type != TYPE_REAL || (x && (x->shape.rank != z->shape.rank ||
                                       tensor_rows(x) != tensor_rows(z)))) {
        graph_fail(g, ERR_SHAPE, "exp_features: exponents %s of %s do not fit, or are not real",
                   shape_text(a, &z->shape), x ? shape_text(b, &x->shape) : "nothing");
        return;
    }
    graph_out(g, n, TYPE_REAL, z->shape);
    graph_scratch(g, n, x ? (size_t)tensor_cols(x) : 0, 0);
}

/* The squares of x. */
static double exp_features_macs(const struct node *n)
{
    return n->in[X] ? (double)tensor_count(n->in[X]) : 0;
}

static real largest_of(const real *row, size_t cols)
{
    real most = row[0];
    for (size_t c = 1; c < cols; c++)
        most = row[c] > most ? row[c] : most;
    return most;
}

/* The largest number of all rows of each group. */
static void group_tops(real *top, struct vec z, const struct token_groups *groups, size_t rows,
                       size_t cols)
{
    bool seen[GROUPS_MOST] = {false};
    for (size_t r = 0; r < rows; r++) {
        int k = groups->number ? groups->number[r] : 0;
        real most = largest_of(vec_at(z, r, 0).data, cols);
        top[k] = seen[k] && top[k] > most ? top[k] : most;
        seen[k] = true;
    }
}

/* scale^2 / 2 |x|^2 of a row, which is made real in `row`. */
static real half_norm(struct vec x, size_t cols, double scale, real *row)
{
    real sum = 0;
    kernel_accumulate((struct vec){row, TYPE_REAL, 0}, 0, x, scale, 1, cols);
    for (size_t c = 0; c < cols; c++)
        sum += row[c] * row[c];
    return sum / 2;
}

/* y[r] = scale z[r] - h - top: (rows, cols) of matrix i. */
static void exponents(const struct node *n, struct vec y, struct vec z, size_t i, size_t rows,
                      size_t cols)
{
    const struct options *o = n->options;
    const struct tensor *x = n->in[X];
    real scale = (real)o->terms.scale, tops[GROUPS_MOST];
    struct token_groups groups = regions_of(o->regions, n->out, i);
    if (o->terms.top == TOP_TOKENS)
        group_tops(tops, z, &groups, rows, cols);
    for (size_t r = 0; r < rows; r++) {
        const real *from = vec_at(z, r, 0).data;
        real *to = vec_at(y, r, 0).data, top = 0, half = 0;
        if (o->terms.top == TOP_TOKENS)
            top = tops[groups.number ? groups.number[r] : 0];
        else if (o->terms.top == TOP_ROW)
            top = largest_of(from, cols);
        if (x)
            half = half_norm(vec_at(tensor_matrix(x, i), r, 0), (size_t)tensor_cols(x),
                             o->terms.scale, n->scratch->data);
        for (size_t c = 0; c < cols; c++)
            to[c] = scale * (from[c] - top) - half;
    }
}

static void exp_features_forward(const struct node *n)
{
    const struct options *o = n->options;
    size_t count = tensor_matrices(n->out), rows = tensor_rows(n->out) / count;
    size_t cols = (size_t)tensor_cols(n->out);
    real factor = (real)o->terms.factor, eps = (real)o->terms.eps;
    for (size_t i = 0; i < count; i++) {
        struct vec y = tensor_matrix(n->out, i);
        exponents(n, y, tensor_matrix(n->in[Z], i), i, rows, cols);
        kernel_map(y, MAP_EXP, y, rows, cols);
        for (size_t r = 0; r < rows; r++) {
            real *to = vec_at(y, r, 0).data;
            for (size_t c = 0; c < cols; c++)
                to[c] = factor * to[c] + eps;
        }
    }
}

static void exp_features_backward(const struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *x = n->in[X];
    size_t count = tensor_matrices(n->out), rows = tensor_rows(n->out) / count;
    size_t cols = (size_t)tensor_cols(n->out);
    real scale = (real)o->terms.scale, eps = (real)o->terms.eps;
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < rows; r++) {
            const real *y = vec_at(tensor_matrix(n->out, i), r, 0).data;
            const real *dy = vec_at(tensor_matrix_grad(n->out, i), r, 0).data;
            real *dz = n->in[Z]->grad ? vec_at(tensor_matrix_grad(n->in[Z], i), r, 0).data : NULL;
            real sum = 0;
            for (size_t c = 0; c < cols; c++) {
                real u = (y[c] - eps) * dy[c];
                if (dz)
                    dz[c] = (n->beta[Z] ? dz[c] : 0) + scale * u;
                sum += u;
            }
            if (x && x->grad)
                kernel_accumulate(vec_at(tensor_matrix_grad(x, i), r, 0), n->beta[X],
                                  vec_at(tensor_matrix(x, i), r, 0), (double)(-scale * scale * sum),
                                  1, (size_t)tensor_cols(x));
        }
    }
}

/* Features of queries and of keys in linear attention, where what is subtracted cancels; last those
 * from which nothing is. */
static struct tensor *exp_features_sample(struct graph *g)
{
    static const unsigned char region[6] = {0, 0, 0, 4, 9, 4};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct exp_terms terms = {.scale = 0.7, .factor = 0.5, .top = TOP_ROW, .regions = &regions};
    struct linear_terms core = {.den = DEN_CLAMP, .eps = 1e-20, .regions = &regions};
    struct tensor *x = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *w = graph_param(g, "w", SHAPE(2, 3, 4), INIT_NORMAL(1));
    struct tensor *z = op_matmul_nt_real(g, x, w);
    struct tensor *a = op_exp_features(g, z, x, &terms);
    terms.top = TOP_TOKENS;
    struct tensor *y = op_linear_attention(g, a, op_exp_features(g, z, NULL, &terms), x, &core);
    terms = (struct exp_terms){.scale = 0.7, .factor = 0.5, .eps = 0.1};
    struct tensor *f = op_exp_features(g, z, x, &terms);
    return op_linear_attention(g, f, f, y, &core);
}

const struct op exp_features_op = {
    .name = "exp_features", .infer = exp_features_infer, .macs = exp_features_macs,
    .forward = exp_features_forward, .backward = exp_features_backward,
    .backward_reads = READS_IN(X) | READS_OUT, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = exp_features_sample,
};

struct tensor *op_exp_features(struct graph *g, struct tensor *z, struct tensor *x,
                               const struct exp_terms *terms)
{
    struct options o = {*terms, regions_copy(g, "exp_features", terms->regions)};
    return graph_record(g, &exp_features_op, graph_copy(g, &o, sizeof o), INPUTS(z, x));
}
