/* mlp.c - what follows attention in a block, and the noise of both branches. */
#include "nn/nn.h"

struct tensor *nn_dropout(struct graph *g, const char *name, struct tensor *x, double p)
{
    graph_scope_push(g, "%s", name);
    x = op_dropout(g, x, p);
    graph_scope_pop(g);
    return x;
}

struct tensor *nn_drop_path(struct graph *g, const char *name, struct tensor *x, double p)
{
    graph_scope_push(g, "%s", name);
    x = op_drop_path(g, x, p);
    graph_scope_pop(g);
    return x;
}

struct tensor *nn_mlp(struct graph *g, const char *name, struct tensor *x, int hidden,
                      double dropout)
{
    int D = tensor_cols(x);
    graph_scope_push(g, "%s", name);
    x = op_gelu(g, nn_linear(g, "fc1", x, hidden));
    x = nn_dropout(g, "drop1", x, dropout);
    x = nn_linear(g, "fc2", x, D);
    x = nn_dropout(g, "drop2", x, dropout);
    graph_scope_pop(g);
    return x;
}
