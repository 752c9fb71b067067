/* ops.c - the table made from ops.def, and what several ops share. */
#include "ops/ops.h"

static const struct op *const ops[] = {
#define OP(name) &name##_op,
#include "ops/ops.def"
#undef OP
};

const struct op *op_at(int i)
{
    return i >= 0 && i < (int)(sizeof ops / sizeof ops[0]) ? ops[i] : NULL;
}

void infer_unary(struct graph *g, struct node *n)
{
    graph_out_like(g, n, n->in[0]->type, n->in[0]);
}

void infer_param(struct graph *g, struct node *n, int i)
{
    if (n->in[i] && !n->in[i]->root->param)
        graph_fail(g, ERR_SHAPE, "%s: input %d must be a parameter", n->op->name, i);
}

int noise_parts(const struct graph *g, const struct tensor *x)
{
    int batch = g->options.batch, first = x->shape.dim[0];
    return batch > 0 && first > 0 && first % batch == 0 ? first / batch : 1;
}

void infer_same(struct graph *g, struct node *n)
{
    for (int i = 1; i < n->inputs; i++) {
        if (!shape_equal(&n->in[0]->shape, &n->in[i]->shape)) {
            char a[64], b[64];
            graph_fail(g, ERR_SHAPE, "%s: shapes %s and %s differ", n->op->name,
                       shape_text(a, &n->in[0]->shape), shape_text(b, &n->in[i]->shape));
            return;
        }
    }
    infer_unary(g, n);
}
