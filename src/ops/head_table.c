/* head_table.c - a learned map as rows of tokens, head by head.
 * table: (H d, rows, columns), a parameter  y: (H, rows columns, d)
 *   y[a, t, c] = table[a d + c, t]        dtable[a d + c, t] = dy[a, t, c]
 * The first axis counts heads: y is one and the same for every sample of a slice. */
#include "ops/ops.h"

struct head_table {
    int H;
};

static void head_table_infer(struct graph *g, struct node *n)
{
    const struct head_table *o = n->options;
    const struct shape *table = &n->in[0]->shape;
    if (table->rank != 3 || o->H < 1 || table->dim[0] % o->H) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "head_table: table %s does not fit %d heads",
                   shape_text(text, table), o->H);
        return;
    }
    infer_param(g, n, 0);
    graph_out(g, n, TYPE_REAL, SHAPE(o->H, table->dim[1] * table->dim[2], table->dim[0] / o->H));
}

static void head_table_forward(const struct node *n)
{
    const struct shape *s = &n->out->shape;
    real *y = n->out->data;
    for (int a = 0; a < s->dim[0]; a++)
        for (int t = 0; t < s->dim[1]; t++) {
            const real *from =
                (const real *)n->in[0]->data + (ptrdiff_t)a * s->dim[2] * s->dim[1] + t;
            for (int c = 0; c < s->dim[2]; c++, from += s->dim[1])
                *y++ = *from;
        }
}

static void head_table_backward(const struct node *n)
{
    const struct shape *s = &n->out->shape;
    const real *dy = n->out->grad;
    for (int a = 0; a < s->dim[0]; a++)
        for (int t = 0; t < s->dim[1]; t++) {
            real *to = (real *)n->in[0]->grad + (ptrdiff_t)a * s->dim[2] * s->dim[1] + t;
            for (int c = 0; c < s->dim[2]; c++, to += s->dim[1])
                *to += *dy++;
        }
}

static struct tensor *head_table_sample(struct graph *g)
{
    return op_head_table(g, graph_param(g, "table", SHAPE(6, 2, 2), INIT_NORMAL(1)), 2);
}

const struct op head_table_op = {
    .name = "head_table", .infer = head_table_infer, .forward = head_table_forward,
    .backward = head_table_backward, .takes = TYPE_REAL, .sample = head_table_sample,
};

struct tensor *op_head_table(struct graph *g, struct tensor *table, int H)
{
    const struct head_table o = {H};
    return graph_record(g, &head_table_op, graph_copy(g, &o, sizeof o), INPUTS(table));
}
