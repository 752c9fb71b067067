/* add_table.c - a constant table added to every sample (fixed position embedding).
 * x, y: (B, N, D)  table: (N, D)
 *   y[b] = x[b] + table        dx = dy */
#include "kernels/kernels.h"
#include "ops/ops.h"

static void add_table_infer(struct graph *g, struct node *n)
{
    if (n->in[0]->shape.rank != 3) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "add_table: %s, wanted (B, N, D)",
                   shape_text(text, &n->in[0]->shape));
        return;
    }
    infer_unary(g, n);
}

static void add_table_forward(const struct node *n)
{
    kernel_add_rows(tensor_vec(n->out), tensor_vec(n->in[0]), n->options, tensor_rows(n->out),
                    (size_t)tensor_cols(n->out), (size_t)n->out->shape.dim[1]);
}

static void add_table_backward(const struct node *n)
{
    kernel_accumulate(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), 1,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *add_table_sample(struct graph *g)
{
    static const real table[6] = {1, -2, 3, -4, 5, -6};
    return op_add_table(g, graph_sample(g, SHAPE(2, 3, 2)), table);
}

const struct op add_table_op = {
    .name = "add_table", .infer = add_table_infer, .forward = add_table_forward,
    .backward = add_table_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = add_table_sample,
};

struct tensor *op_add_table(struct graph *g, struct tensor *x, const real *table)
{
    return graph_record(g, &add_table_op, table, INPUTS(x));
}
