/* embed.c - from images to tokens: patches, extra tokens, positions. */
#include <math.h>

#include "nn/nn.h"

/* The convolution "proj": patches times its weight. */
static struct tensor *project(struct graph *g, struct tensor *x, const int patch[2], int D)
{
    graph_scope_push(g, "proj");
    struct tensor *rows = op_patchify(g, x, patch[0], patch[1]);
    struct tensor *W = graph_param(g, "weight", SHAPE(D, x->shape.dim[1], patch[0], patch[1]),
                                   INIT_TRUNCATED(0.02));
    struct tensor *bias = graph_param(g, "bias", SHAPE(D), INIT_ZEROS);
    struct tensor *y = op_linear(g, rows, W, bias);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_patch_embed(struct graph *g, const char *name, struct tensor *x,
                              const int patch[2], int D)
{
    graph_scope_push(g, "%s", name);
    struct tensor *y = project(g, x, patch, D);
    graph_trace(g, y);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_patch_embed_norm(struct graph *g, const char *name, struct tensor *x,
                                   const int patch[2], int D, double eps)
{
    graph_scope_push(g, "%s", name);
    struct tensor *y = nn_layer_norm(g, "norm", project(g, x, patch, D), eps);
    graph_trace(g, y);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_token(struct graph *g, const char *name, struct tensor *x, double std)
{
    struct tensor *token =
        graph_param_flags(g, name, SHAPE(1, 1, tensor_cols(x)), INIT_NORMAL(std), 0);
    return op_add_token(g, x, token);
}

struct tensor *nn_pos_embed(struct graph *g, const char *name, struct tensor *x)
{
    struct tensor *p = graph_param_flags(g, name, SHAPE(1, x->shape.dim[1], tensor_cols(x)),
                                         INIT_TRUNCATED(0.02), 0);
    return op_add_rows(g, x, p);
}

struct tensor *nn_pos_sincos(struct graph *g, struct tensor *x, const int grid[2], int prefix)
{
    int D = tensor_cols(x), quarter = D / 4;
    if (D % 4)
        return graph_fail(g, ERR_SHAPE, "sincos position embedding: 4 does not divide %d", D);
    size_t patches = (size_t)grid[0] * (size_t)grid[1];
    real *table = arena_alloc(&g->memory, ((size_t)prefix + patches) * (size_t)D * sizeof *table);
    if (!table)
        return graph_fail(g, ERR_MEMORY, "out of memory for the position table");
    for (size_t t = 0; t < patches; t++) {
        real *row = table + ((size_t)prefix + t) * (size_t)D;
        for (int i = 0; i < quarter; i++) {
            double omega = pow(10000, -(double)i / quarter);
            double at_row = (double)(t / (size_t)grid[1]) * omega;
            double at_column = (double)(t % (size_t)grid[1]) * omega;
            row[i] = (real)sin(at_row);
            row[quarter + i] = (real)cos(at_row);
            row[2 * quarter + i] = (real)sin(at_column);
            row[3 * quarter + i] = (real)cos(at_column);
        }
    }
    return op_add_table(g, x, table);
}
