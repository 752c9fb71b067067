/* init.c - initial values of parameters, each number a function of seed, name and position. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "graph/params.h"

/* Rows become orthonormal by modified Gram-Schmidt, twice, in double. */
static enum status orthogonalize(real *value, int rows, int cols, uint64_t stream, size_t first,
                                 struct error *err)
{
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(double);
    double *q = malloc(bytes ? bytes : 1);
    if (!q)
        return error_memory(err, bytes);
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++)
        q[i] = rng_normal(stream, 0, 0, first + i);
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
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++)
        value[i] = (real)q[i];
    free(q);
    return OK;
}

enum status param_initialize(struct param *param, uint64_t seed, struct error *err)
{
    char name[512];
    snprintf(name, sizeof name, "init:%s", param->name);
    uint64_t stream = rng_stream(seed, name);
    int rank = param->shape.rank;
    int cols = rank ? param->shape.dim[rank - 1] : 1;
    int rows = rank > 1 ? param->shape.dim[rank - 2] : 1;
    size_t matrix = (size_t)rows * (size_t)cols;
    double bound = param->init.kind == INIT_KIND_XAVIER_UNIFORM ? sqrt(6.0 / (rows + cols))
                                                                : param->init.value;
    if (param->init.kind == INIT_KIND_ORTHOGONAL) {
        for (size_t first = 0; first < param->count; first += matrix) {
            enum status status =
                orthogonalize(param->value + first, rows, cols, stream, first, err);
            if (status)
                return status;
        }
        return OK;
    }
    for (size_t i = 0; i < param->count; i++) {
        double value = param->init.value;
        switch (param->init.kind) {
        case INIT_KIND_CONSTANT:
        case INIT_KIND_ORTHOGONAL:
            break;
        case INIT_KIND_NORMAL:
            value = bound * rng_normal(stream, 0, 0, i);
            break;
        case INIT_KIND_TRUNCATED:
            value = bound * rng_normal(stream, 0, 0, i);
            for (uint64_t again = 1; value < -2 || value > 2; again++)
                value = bound * rng_normal(stream, 0, again, i);
            break;
        case INIT_KIND_UNIFORM:
        case INIT_KIND_XAVIER_UNIFORM:
            value = bound * (2 * rng_uniform(stream, 0, 0, i) - 1);
            break;
        case INIT_KIND_IDENTITY:
            value = i % matrix / (size_t)cols == i % (size_t)cols;
            break;
        }
        param->value[i] = (real)value;
    }
    return OK;
}
