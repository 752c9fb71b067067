/* drop_path.c - stochastic depth: whole samples zeroed at random (arXiv:1603.09382).    x, y: (B, ..)
 *   y[b] = keep[b] x[b] / (1 - p)        dx[b] = keep[b] dy[b] / (1 - p) */
#include "ops/drop_path.h"

#include <stdio.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

void drop_path_factors(real *factor, const struct drop_path *o, const struct run *run, int count)
{
    for (int b = 0; b < count; b++) {
        double u = rng_uniform(o->stream, run->step, run->sample + (uint64_t)b, 0);
        factor[b] = u < o->p ? 0 : (real)(1 / (1 - o->p));
    }
}

static void drop_path_infer(struct graph *g, struct node *n)
{
    if (n->in[0]->shape.rank < 2) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "drop_path: %s, wanted (B, ..)",
                   shape_text(text, &n->in[0]->shape));
        return;
    }
    infer_unary(g, n);
    graph_saved(g, n, 0, TYPE_REAL, (size_t)n->in[0]->shape.dim[0]); /* factor of each sample */
}

static void drop_path_forward(const struct node *n)
{
    int B = n->out->shape.dim[0];
    drop_path_factors(n->saved[0]->data, n->options, n->run, B);
    kernel_scale_rows(tensor_vec(n->out), 0, tensor_vec(n->in[0]), n->saved[0]->data,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out),
                      tensor_rows(n->out) / (size_t)B);
}

static void drop_path_backward(const struct node *n)
{
    kernel_scale_rows(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), n->saved[0]->data,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out),
                      tensor_rows(n->out) / (size_t)n->out->shape.dim[0]);
}

static struct tensor *drop_path_sample(struct graph *g)
{
    return op_drop_path(g, graph_sample(g, SHAPE(8, 2, 3)), 0.5);
}

const struct op drop_path_op = {
    .name = "drop_path", .infer = drop_path_infer, .forward = drop_path_forward,
    .backward = drop_path_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = drop_path_sample,
};

struct tensor *op_drop_path(struct graph *g, struct tensor *x, double p)
{
    if (!g->options.noise || p <= 0)
        return x;
    char name[300];
    snprintf(name, sizeof name, "drop_path:%s", g->scope);
    struct drop_path o = {p, rng_stream(g->options.seed, name)};
    return graph_record(g, &drop_path_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
