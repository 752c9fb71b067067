/* trig_features.c - sines and cosines of projections as features.   z: (B, .., N, m), real
 * x: (B, .., N, d)  y: (B, .., N, 2 m), real
 *   y[n] = f[n] [sin(scale z[n]), cos(scale z[n])],  f = factor exp(h[n] - top)
 *   h = scale^2 / 2 |x[n]|^2, top, a constant in the gradient, 0 or its maximum in n's region
 *   dz = scale (y_cos dy_sin - y_sin dy_cos),  dx[n] = scale^2 (y[n] . dy[n]) x[n] */
#include <math.h>

#include "kernels/kernels.h"
#include "ops/regions.h"

enum { Z, X };
enum { GROUPS_MOST = 256 }; /* regions of a window, whose ids are bytes */

struct options {
    struct exp_terms terms;
    const struct regions *regions;
};

static void trig_features_infer(struct graph *g, struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *z = n->in[Z], *x = n->in[X];
    char a[64], b[64];
    struct shape shape = z->shape;
    infer_tokens(g, n, o->regions);
    if (z->type != TYPE_REAL || x->shape.rank != shape.rank || tensor_rows(x) != tensor_rows(z)) {
        graph_fail(g, ERR_SHAPE, "trig_features: angles %s of %s do not fit, or are not real",
                   shape_text(a, &z->shape), shape_text(b, &x->shape));
        return;
    }
    shape.dim[shape.rank - 1] *= 2;
    graph_out(g, n, TYPE_REAL, shape);
    graph_scratch(g, n, tensor_rows(x) / tensor_matrices(x) + (size_t)tensor_cols(x), 0);
}

/* The squares of x. */
static double trig_features_macs(const struct node *n)
{
    return (double)tensor_count(n->in[X]);
}

/* half[r] = scale^2 / 2 |x[r]|^2; a row of x is made real in `row`. */
static void half_norms(real *half, struct vec x, double scale, size_t rows, size_t cols, real *row)
{
    for (size_t r = 0; r < rows; r++) {
        real sum = 0;
        kernel_accumulate((struct vec){row, TYPE_REAL, 0}, 0, vec_at(x, r, 0), scale, 1, cols);
        for (size_t c = 0; c < cols; c++)
            sum += row[c] * row[c];
        half[r] = sum / 2;
    }
}

/* half[r] becomes factor exp(half[r] - top). */
static void to_factors(real *half, const struct exp_terms *terms, const struct token_groups *groups,
                       size_t rows)
{
    real top[GROUPS_MOST] = {0}; /* none is below 0 */
    for (size_t r = 0; r < rows && terms->top == TOP_TOKENS; r++) {
        int k = groups->number ? groups->number[r] : 0;
        top[k] = half[r] > top[k] ? half[r] : top[k];
    }
    for (size_t r = 0; r < rows; r++) {
        real below = half[r] - top[groups->number ? groups->number[r] : 0];
        half[r] = (real)(terms->factor * exp((double)below));
    }
}

static void trig_features_forward(const struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *z = n->in[Z], *x = n->in[X];
    size_t count = tensor_matrices(z), rows = tensor_rows(z) / count, m = (size_t)tensor_cols(z);
    real *factor = n->scratch->data, *row = factor + rows;
    for (size_t i = 0; i < count; i++) {
        struct token_groups groups = regions_of(o->regions, z, i);
        struct vec sines = tensor_matrix(n->out, i), cosines = vec_at(sines, 0, m);
        half_norms(factor, tensor_matrix(x, i), o->terms.scale, rows, (size_t)tensor_cols(x), row);
        to_factors(factor, &o->terms, &groups, rows);
        kernel_accumulate(sines, 0, tensor_matrix(z, i), o->terms.scale, rows, m);
        kernel_map(cosines, MAP_COS, sines, rows, m);
        kernel_map(sines, MAP_SIN, sines, rows, m);
        for (size_t r = 0; r < rows; r++) {
            real *y = vec_at(sines, r, 0).data;
            for (size_t c = 0; c < 2 * m; c++)
                y[c] *= factor[r];
        }
    }
}

static void trig_features_backward(const struct node *n)
{
    const struct options *o = n->options;
    const struct tensor *z = n->in[Z], *x = n->in[X];
    size_t count = tensor_matrices(z), rows = tensor_rows(z) / count, m = (size_t)tensor_cols(z);
    real scale = (real)o->terms.scale;
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < rows; r++) {
            const real *y = vec_at(tensor_matrix(n->out, i), r, 0).data;
            const real *dy = vec_at(tensor_matrix_grad(n->out, i), r, 0).data;
            real *dz = z->grad ? vec_at(tensor_matrix_grad(z, i), r, 0).data : NULL;
            real sum = 0;
            for (size_t c = 0; c < m; c++) {
                if (dz)
                    dz[c] = (n->beta[Z] ? dz[c] : 0) +
                            scale * (y[m + c] * dy[c] - y[c] * dy[m + c]);
                sum += y[c] * dy[c] + y[m + c] * dy[m + c];
            }
            if (x->grad)
                kernel_accumulate(vec_at(tensor_matrix_grad(x, i), r, 0), n->beta[X],
                                  vec_at(tensor_matrix(x, i), r, 0), (double)(scale * scale * sum),
                                  1, (size_t)tensor_cols(x));
        }
    }
}

/* In linear attention, where what is subtracted cancels, at angles small enough to keep the
 * denominators away from 0; last those from which nothing is. */
static struct tensor *trig_features_sample(struct graph *g)
{
    static const unsigned char region[6] = {0, 0, 0, 4, 9, 4};
    static const struct token_regions regions = {.windows = 2, .tokens = 3, .id = region};
    struct exp_terms terms = {.scale = 0.3, .factor = 0.5, .top = TOP_TOKENS, .regions = &regions};
    const struct linear_terms core = {.den = DEN_CLAMP, .eps = 1e-20, .regions = &regions};
    struct tensor *x = graph_split_heads(g, graph_sample(g, SHAPE(2, 3, 8)), 2);
    struct tensor *w = graph_param(g, "w", SHAPE(2, 3, 4), INIT_NORMAL(0.5));
    struct tensor *z = op_matmul_nt_real(g, x, w), *f = op_trig_features(g, z, x, &terms);
    struct tensor *y = op_linear_attention(g, f, f, x, &core);
    terms.top = TOP_NONE;
    f = op_trig_features(g, z, x, &terms);
    return op_linear_attention(g, f, f, y, &core);
}

const struct op trig_features_op = {
    .name = "trig_features", .infer = trig_features_infer, .macs = trig_features_macs,
    .forward = trig_features_forward, .backward = trig_features_backward,
    .backward_reads = READS_IN(X) | READS_OUT, .takes = TYPE_REAL | TYPE_BF16 | TAKES_HEADS,
    .sample = trig_features_sample,
};

struct tensor *op_trig_features(struct graph *g, struct tensor *z, struct tensor *x,
                                const struct exp_terms *terms)
{
    struct options o = {*terms, regions_copy(g, "trig_features", terms->regions)};
    return graph_record(g, &trig_features_op, graph_copy(g, &o, sizeof o), INPUTS(z, x));
}
