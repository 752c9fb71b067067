/* random_features.c - the random matrix: orthogonal blocks, lengths of rows. Gram-Schmidt leaves the
 * diagonal of its triangular factor positive, so that the blocks are uniform over all orthogonal
 * matrices; a factorisation that leaves its signs open is not. */
#include "attention/random_features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { DIRECTIONS, LENGTHS }; /* steps of the stream; init_orthogonal draws at the first */

static double length_of(const real *row, int d)
{
    double sum = 0;
    for (int c = 0; c < d; c++)
        sum += (double)row[c] * (double)row[c];
    return sqrt(sum);
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

/* The first m of the orthonormal rows of whole blocks, for each head. */
static enum status fill_blocks(real *value, const struct shape *shape, uint64_t stream,
                               struct error *err)
{
    int H = shape->dim[0], m = shape->dim[1], d = shape->dim[2], blocks = (m + d - 1) / d;
    const struct shape whole = SHAPE(H * blocks, d, d);
    size_t wanted = (size_t)m * (size_t)d, made = (size_t)blocks * (size_t)d * (size_t)d;
    real *rows = malloc(shape_count(&whole) * sizeof *rows);
    if (!rows)
        return error_memory(err, shape_count(&whole) * sizeof *rows);
    enum status status = init_orthogonal(rows, &whole, &INIT_ORTHOGONAL, stream, err);
    for (int h = 0; h < H && !status; h++)
        memcpy(value + (size_t)h * wanted, rows + (size_t)h * made, wanted * sizeof *rows);
    free(rows);
    return status;
}

/* init->a: orthogonal, init->b: scaling. */
static enum status fill_matrix(real *value, const struct shape *shape, const struct init *init,
                               uint64_t stream, struct error *err)
{
    bool orthogonal = init->a != 0, scaling = init->b != 0;
    int d = shape->dim[2];
    enum status status = orthogonal ? fill_blocks(value, shape, stream, err)
                                    : init_normal(value, shape, &INIT_NORMAL(1), stream, err);
    if (status || (!orthogonal && !scaling))
        return status;
    for (size_t r = 0; r < (size_t)shape->dim[0] * (size_t)shape->dim[1]; r++) {
        real *row = value + r * (size_t)d;
        double wanted = scaling ? sqrt(d) : drawn_length(stream, r, d);
        double factor = wanted / length_of(row, d);
        for (int c = 0; c < d; c++)
            row[c] = (real)(factor * (double)row[c]);
    }
    return OK;
}

struct tensor *random_matrix(struct graph *g, const struct attn_site *s, struct random_matrix o)
{
    const struct init draw = {fill_matrix, o.orthogonal, o.scaling};
    return graph_param_flags(g, "omega", SHAPE(s->H, o.m, s->D / s->H), draw, PARAM_BUFFER);
}

enum status random_redraw_check(int redraw, struct error *err)
{
    if (redraw)
        return error_set(err, ERR_INPUT,
                         "redraw: %d: the random matrix is drawn once, before training, and cannot "
                         "be drawn again (0: never)",
                         redraw);
    return OK;
}

struct tensor *random_project(struct graph *g, struct tensor *x, struct tensor *omega)
{
    return op_matmul_nt_real(g, linear_real(g, x), omega);
}

double random_scale(const struct attn_site *s)
{
    return sqrt(attn_scale(s));
}
