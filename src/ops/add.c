/* add.c - sum of two tensors.    a, b, y: any shape
 *   y = a + b        da = dy, db = dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void add_forward(const struct node *n)
{
    kernel_add(tensor_vec(n->out), tensor_vec(n->in[0]), tensor_vec(n->in[1]), tensor_rows(n->out),
               (size_t)tensor_cols(n->out));
}

static void add_backward(const struct node *n)
{
    for (int i = 0; i < 2; i++)
        if (n->in[i]->grad)
            kernel_accumulate(tensor_grad(n->in[i]), n->beta[i], tensor_grad(n->out), 1,
                              tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *add_sample(struct graph *g)
{
    return op_add(g, graph_sample(g, SHAPE(2, 3, 5)), graph_sample(g, SHAPE(2, 3, 5)));
}

const struct op add_op = {
    .name = "add", .infer = infer_same, .forward = add_forward, .backward = add_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS, .sample = add_sample,
};

struct tensor *op_add(struct graph *g, struct tensor *a, struct tensor *b)
{
    return graph_record(g, &add_op, NULL, INPUTS(a, b));
}
