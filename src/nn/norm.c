/* norm.c - layer and batch normalisation, and layer scale. */
#include "nn/nn.h"

struct tensor *nn_layer_norm(struct graph *g, const char *name, struct tensor *x, double eps)
{
    graph_scope_push(g, "%s", name);
    struct tensor *weight = graph_param(g, "weight", SHAPE(tensor_cols(x)), INIT_ONES);
    struct tensor *bias = graph_param(g, "bias", SHAPE(tensor_cols(x)), INIT_ZEROS);
    struct tensor *y = op_layer_norm(g, x, weight, bias, eps);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_layer_norm_traced(struct graph *g, const char *name, struct tensor *x, double eps)
{
    struct tensor *y = nn_layer_norm(g, name, x, eps);
    graph_scope_push(g, "%s", name);
    graph_trace(g, y);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_batch_norm(struct graph *g, const char *name, struct tensor *x)
{
    const struct shape columns = SHAPE(tensor_cols(x));
    graph_scope_push(g, "%s", name);
    struct tensor *weight = graph_param(g, "weight", columns, INIT_ONES);
    struct tensor *bias = graph_param(g, "bias", columns, INIT_ZEROS);
    struct tensor *mean =
        graph_param_flags(g, "running_mean", columns, INIT_ZEROS, PARAM_BUFFER);
    struct tensor *variance =
        graph_param_flags(g, "running_var", columns, INIT_ONES, PARAM_BUFFER);
    struct tensor *y = op_batch_norm(g, x, weight, bias, mean, variance, 1e-5, 0.1);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_layer_scale(struct graph *g, const char *name, struct tensor *x, double start)
{
    graph_scope_push(g, "%s", name);
    struct tensor *gamma = graph_param(g, "gamma", SHAPE(tensor_cols(x)), INIT_CONSTANT(start));
    struct tensor *y = op_scale_cols(g, x, gamma);
    graph_scope_pop(g);
    return y;
}
