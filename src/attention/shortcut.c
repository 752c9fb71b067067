/* shortcut.c - values past the attention. */
#include "attention/shortcut.h"

#include "attention/adapt.h"
#include "nn/nn.h"

struct tensor *shortcut_add(struct graph *g, struct tensor *y, struct tensor *v)
{
    graph_scope_push(g, "shortcut");
    /* One plane for all heads: whole rows, which the team can share. */
    struct tensor *past = op_gelu(g, op_merge_heads(g, nn_batch_norm(g, "norm", v)));
    y = op_add(g, op_merge_heads(g, y), past);
    graph_scope_pop(g);
    return y;
}

void shortcut_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    adapt_constant(a, "shortcut.norm.weight", 0);
}
