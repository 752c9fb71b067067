/* relative_bias.c - the relative position bias of a window's tokens (arXiv:2103.14030, eq. 4).
 * table: ((2 h - 1)(2 w - 1), H)  y: (H, N, N), N = h w
 *   y[a, i, j] = table[(yi - yj + h - 1)(2 w - 1) + xi - xj + w - 1, a]
 *   dtable[r, a] = sum of dy[a, i, j] over the pairs that row r stands for
 * The first axis counts heads: y is one and the same for every sample of a slice. */
#include "ops/ops.h"

struct window {
    int h, w;
};

static void relative_bias_infer(struct graph *g, struct node *n)
{
    const struct window *o = n->options;
    const struct shape *table = &n->in[0]->shape;
    if (o->h < 1 || o->w < 1 || table->rank != 2 ||
        table->dim[0] != (2 * o->h - 1) * (2 * o->w - 1)) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "relative_bias: table %s does not fit windows of %d x %d",
                   shape_text(text, table), o->h, o->w);
        return;
    }
    infer_param(g, n, 0);
    graph_out(g, n, TYPE_REAL, SHAPE(table->dim[1], o->h * o->w, o->h * o->w));
}

/* Row of the table for tokens i and j: token j = 0, 1, .. of a row of the window has it, less j. */
static ptrdiff_t table_row(const struct window *o, int i, int yj)
{
    return (ptrdiff_t)(i / o->w - yj + o->h - 1) * (2 * o->w - 1) + i % o->w + o->w - 1;
}

static void relative_bias_forward(const struct node *n)
{
    const struct window *o = n->options;
    int H = n->out->shape.dim[0], N = o->h * o->w;
    real *y = n->out->data;
    for (int a = 0; a < H; a++)
        for (int i = 0; i < N; i++)
            for (int yj = 0; yj < o->h; yj++) {
                const real *from = (const real *)n->in[0]->data + table_row(o, i, yj) * H + a;
                for (int xj = 0; xj < o->w; xj++, from -= H)
                    *y++ = *from;
            }
}

static void relative_bias_backward(const struct node *n)
{
    const struct window *o = n->options;
    int H = n->out->shape.dim[0], N = o->h * o->w;
    const real *dy = n->out->grad;
    for (int a = 0; a < H; a++)
        for (int i = 0; i < N; i++)
            for (int yj = 0; yj < o->h; yj++) {
                real *to = (real *)n->in[0]->grad + table_row(o, i, yj) * H + a;
                for (int xj = 0; xj < o->w; xj++, to -= H)
                    *to += *dy++;
            }
}

static struct tensor *relative_bias_sample(struct graph *g)
{
    struct tensor *table = graph_param(g, "table", SHAPE(3 * 5, 2), INIT_NORMAL(1));
    return op_relative_bias(g, table, (const int[]){2, 3});
}

const struct op relative_bias_op = {
    .name = "relative_bias", .infer = relative_bias_infer, .forward = relative_bias_forward,
    .backward = relative_bias_backward, .takes = TYPE_REAL, .sample = relative_bias_sample,
};

struct tensor *op_relative_bias(struct graph *g, struct tensor *table, const int window[2])
{
    const struct window o = {window[0], window[1]};
    return graph_record(g, &relative_bias_op, graph_copy(g, &o, sizeof o), INPUTS(table));
}
