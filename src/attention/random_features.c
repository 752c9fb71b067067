/* random_features.c - the random matrix: orthogonal blocks, lengths of rows. Gram-Schmidt leaves the
 * diagonal of its triangular factor positive, so that the blocks are uniform over all orthogonal
 * matrices; a factorisation that leaves its signs open is not. */
#include "attention/random_features.h"

#include <math.h>

#include "base/rng.h"

enum { DIRECTIONS, LENGTHS }; /* steps of the stream */

static double dot(const real *a, const real *b, int d)
{
    double sum = 0;
    for (int c = 0; c < d; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

static void stretch(real *row, int d, double length)
{
    double factor = length / sqrt(dot(row, row, d));
    for (int c = 0; c < d; c++)
        row[c] = (real)(factor * (double)row[c]);
}

/* The length of a row of d normal numbers. */
static double drawn_length(uint64_t stream, size_t row, int d)
{
    double sum = 0;
    for (int c = 0; c < d; c++) {
        double x = rng_normal(stream, LENGTHS, row, (uint64_t)c);
        sum += x * x;
    }
    return sqrt(sum);
}

/* Takes from `row` what lies along the `count` rows before it, which are orthogonal; twice, because once
 * leaves what was rounded. */
static void make_orthogonal(real *row, int count, int d)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 1; r <= count; r++) {
            const real *other = row - (ptrdiff_t)r * d;
            double share = dot(row, other, d) / dot(other, other, d);
            for (int c = 0; c < d; c++)
                row[c] -= (real)(share * (double)other[c]);
        }
    }
}

/* init->a: orthogonal, init->b: scaling. */
static enum status fill_matrix(real *value, const struct shape *shape, const struct init *init,
                               uint64_t stream, struct error *err)
{
    (void)err;
    bool orthogonal = init->a != 0, scaling = init->b != 0;
    int m = shape->dim[1], d = shape->dim[2];
    for (int r = 0; r < shape->dim[0] * m; r++) {
        real *row = value + (ptrdiff_t)r * d;
        for (int c = 0; c < d; c++)
            row[c] = (real)rng_normal(stream, DIRECTIONS, (uint64_t)r, (uint64_t)c);
        if (orthogonal)
            make_orthogonal(row, r % m % d, d);
        if (scaling || orthogonal)
            stretch(row, d, scaling ? sqrt(d) : drawn_length(stream, (size_t)r, d));
    }
    return OK;
}

struct tensor *random_matrix(struct graph *g, const struct attn_site *s, struct random_matrix o)
{
    const struct init draw = {fill_matrix, o.orthogonal, o.scaling};
    return graph_param_renewed(g, "omega", SHAPE(s->H, o.m, s->D / s->H), draw, o.redraw);
}

struct tensor *random_project(struct graph *g, struct tensor *x, struct tensor *omega)
{
    return op_matmul_nt_real(g, linear_real(g, x), omega);
}

double random_scale(const struct attn_site *s)
{
    return sqrt(attn_scale(s));
}
