/* init.c - initial values of parameters, each number a function of seed, name and position. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "graph/params.h"

/* The last two axes: a matrix. */
static int rows_of(const struct shape *s)
{
    return s->rank > 1 ? s->dim[s->rank - 2] : 1;
}

static int cols_of(const struct shape *s)
{
    return s->rank ? s->dim[s->rank - 1] : 1;
}

enum status init_constant(real *value, const struct shape *shape, const struct init *init,
                          uint64_t stream, struct error *err)
{
    (void)stream;
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++)
        value[i] = (real)init->a;
    return OK;
}

enum status init_normal(real *value, const struct shape *shape, const struct init *init,
                        uint64_t stream, struct error *err)
{
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++)
        value[i] = (real)(init->a * rng_normal(stream, 0, 0, i));
    return OK;
}

enum status init_truncated(real *value, const struct shape *shape, const struct init *init,
                           uint64_t stream, struct error *err)
{
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++) {
        double drawn = init->a * rng_normal(stream, 0, 0, i);
        for (uint64_t again = 1; drawn < -2 || drawn > 2; again++)
            drawn = init->a * rng_normal(stream, 0, again, i);
        value[i] = (real)drawn;
    }
    return OK;
}

enum status init_uniform(real *value, const struct shape *shape, const struct init *init,
                         uint64_t stream, struct error *err)
{
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++)
        value[i] = (real)(init->a * (2 * rng_uniform(stream, 0, 0, i) - 1));
    return OK;
}

enum status init_xavier_uniform(real *value, const struct shape *shape, const struct init *init,
                                uint64_t stream, struct error *err)
{
    (void)init;
    const struct init within = INIT_UNIFORM(sqrt(6.0 / (rows_of(shape) + cols_of(shape))));
    return init_uniform(value, shape, &within, stream, err);
}

enum status init_identity(real *value, const struct shape *shape, const struct init *init,
                          uint64_t stream, struct error *err)
{
    (void)init;
    (void)stream;
    (void)err;
    size_t count = shape_count(shape), cols = (size_t)cols_of(shape);
    size_t matrix = (size_t)rows_of(shape) * cols;
    for (size_t i = 0; i < count; i++)
        value[i] = i % matrix / cols == i % cols;
    return OK;
}

/* Rows become orthonormal by modified Gram-Schmidt, twice. */
static void orthogonalize(double *q, int rows, int cols)
{
    for (int r = 0; r < rows; r++) {
        double *row = q + (size_t)r * (size_t)cols;
        for (int pass = 0; pass < 2; pass++) {
            for (int s = 0; s < r; s++) {
                const double *other = q + (size_t)s * (size_t)cols;
                double dot = 0;
                for (int c = 0; c < cols; c++)
                    dot += row[c] * other[c];
                for (int c = 0; c < cols; c++)
                    row[c] -= dot * other[c];
            }
        }
        double norm = 0;
        for (int c = 0; c < cols; c++)
            norm += row[c] * row[c];
        norm = sqrt(norm);
        for (int c = 0; c < cols; c++)
            row[c] /= norm;
    }
}

enum status init_orthogonal(real *value, const struct shape *shape, const struct init *init,
                            uint64_t stream, struct error *err)
{
    (void)init;
    int rows = rows_of(shape), cols = cols_of(shape);
    size_t count = shape_count(shape), matrix = (size_t)rows * (size_t)cols;
    double *q = malloc(matrix * sizeof *q);
    if (!q)
        return error_memory(err, matrix * sizeof *q);
    for (size_t first = 0; first < count; first += matrix) {
        for (size_t i = 0; i < matrix; i++)
            q[i] = rng_normal(stream, 0, 0, first + i);
        orthogonalize(q, rows, cols);
        for (size_t i = 0; i < matrix; i++)
            value[first + i] = (real)q[i];
    }
    free(q);
    return OK;
}

static enum status fill_from(struct param *param, uint64_t seed, const char *stream,
                             struct error *err)
{
    return param->init.fill(param->value, &param->shape, &param->init, rng_stream(seed, stream),
                            err);
}

enum status param_initialize(struct param *param, uint64_t seed, struct error *err)
{
    char stream[512];
    snprintf(stream, sizeof stream, "init:%s", param->name);
    return fill_from(param, seed, stream, err);
}

enum status params_renew(struct params *p, uint64_t seed, long long update, struct error *err)
{
    enum status status = OK;
    for (int i = 0; i < p->count && update > 0 && !status; i++) {
        struct param *param = p->list[i];
        char stream[512];
        if (!param->interval || update % param->interval)
            continue;
        snprintf(stream, sizeof stream, "init:%s:%lld", param->name, update / param->interval);
        status = fill_from(param, seed, stream, err);
    }
    return status;
}
