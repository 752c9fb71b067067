/* dropout.c - elements zeroed at random (Srivastava et al., JMLR 15, 2014).    x, y: (B, ..)
 *   y = keep x / (1 - p)        dx = keep dy / (1 - p), keep drawn again from the same numbers */
#include <stdio.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

struct dropout {
    double p;
    uint64_t stream;
    int parts; /* of the first axis that belong to one image */
};

static void dropout_infer(struct graph *g, struct node *n)
{
    if (n->in[0]->shape.rank < 2) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "dropout: %s, wanted (B, ..)",
                   shape_text(text, &n->in[0]->shape));
        return;
    }
    infer_unary(g, n);
}

static void dropout_run(const struct node *n, struct vec y, int beta, struct vec x)
{
    const struct dropout *o = n->options;
    size_t rows = tensor_rows(n->out);
    kernel_dropout(y, beta, x, rows, (size_t)tensor_cols(n->out),
                   rows / (size_t)n->out->shape.dim[0], o->p, o->stream, n->run->step,
                   n->run->sample * (uint64_t)o->parts);
}

static void dropout_forward(const struct node *n)
{
    dropout_run(n, tensor_vec(n->out), 0, tensor_vec(n->in[0]));
}

static void dropout_backward(const struct node *n)
{
    dropout_run(n, tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out));
}

static struct tensor *dropout_sample(struct graph *g)
{
    return op_dropout(g, graph_sample(g, SHAPE(2, 3, 5)), 0.4);
}

const struct op dropout_op = {
    .name = "dropout", .infer = dropout_infer, .forward = dropout_forward,
    .backward = dropout_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = dropout_sample,
};

struct tensor *op_dropout(struct graph *g, struct tensor *x, double p)
{
    if (!g->options.noise || p <= 0)
        return x;
    char name[300];
    snprintf(name, sizeof name, "dropout:%s", g->scope);
    struct dropout o = {p, rng_stream(g->options.seed, name), noise_parts(g, x)};
    return graph_record(g, &dropout_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
