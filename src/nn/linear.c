/* linear.c - linear maps, alone and cut into heads. */
#include "nn/nn.h"

struct tensor *nn_linear_bias(struct graph *g, const char *name, struct tensor *x, int out,
                              bool bias)
{
    graph_scope_push(g, "%s", name);
    struct tensor *W = graph_param(g, "weight", SHAPE(out, tensor_cols(x)), INIT_TRUNCATED(0.02));
    struct tensor *b = bias ? graph_param(g, "bias", SHAPE(out), INIT_ZEROS) : NULL;
    struct tensor *y = op_linear(g, x, W, b);
    graph_scope_pop(g);
    return y;
}

struct tensor *nn_linear(struct graph *g, const char *name, struct tensor *x, int out)
{
    return nn_linear_bias(g, name, x, out, true);
}

struct tensor *nn_head(struct graph *g, const char *name, struct tensor *x, int classes)
{
    graph_scope_push(g, "%s", name);
    struct tensor *W =
        graph_param(g, "weight", SHAPE(classes, tensor_cols(x)), INIT_TRUNCATED(0.02));
    struct tensor *y = op_linear_real(g, x, W, graph_param(g, "bias", SHAPE(classes), INIT_ZEROS));
    graph_scope_pop(g);
    return y;
}

void nn_heads(struct graph *g, const char *name, struct tensor *x, int count, int H, bool bias,
              struct tensor *heads[])
{
    int D = tensor_cols(x);
    struct tensor *y = nn_linear_bias(g, name, x, count * D, bias);
    for (int i = 0; i < count; i++)
        heads[i] = graph_split_heads(g, graph_columns(g, y, i * D, D), H);
}

struct qkv nn_qkv(struct graph *g, const char *name, struct tensor *x, int H, bool bias)
{
    struct tensor *heads[3];
    nn_heads(g, name, x, 3, H, bias, heads);
    return (struct qkv){heads[0], heads[1], heads[2]};
}
