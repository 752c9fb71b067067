/* add_noise.c - standard normal numbers added to rows, in training.    x, y: (B, H, R, d)
 *   y[b, h, r, i] = x[b, h, r, i] + n(b, (h draws + draw[r]) d + i)        dx = dy
 * n is a function of (seed, "PURPOSE:SCOPE", step, sample, index) and nothing else; rows with the
 * same draw get the same numbers. */
#include <stdio.h>

#include "base/rng.h"
#include "ops/ops.h"

struct noise {
    uint64_t stream;
    int draws;       /* 1 more than the largest */
    const int *draw; /* (R) */
    int parts;       /* of the first axis that belong to one image */
};

static void add_noise_infer(struct graph *g, struct node *n)
{
    if (n->in[0]->shape.rank != 4) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "add_noise: %s, wanted (B, H, R, d)",
                   shape_text(text, &n->in[0]->shape));
        return;
    }
    infer_unary(g, n);
    graph_scratch(g, n, (size_t)tensor_cols(n->in[0]), 0);
}

static void add_noise_forward(const struct node *n)
{
    const struct noise *o = n->options;
    const int *dim = n->out->shape.dim;
    struct heads x = tensor_heads(n->in[0]), y = tensor_heads(n->out);
    real *drawn = n->scratch->data;
    size_t d = (size_t)dim[3];
    const struct vec numbers = {drawn, TYPE_REAL, dim[3]};
    for (int b = 0; b < dim[0]; b++)
        for (int h = 0; h < dim[1]; h++)
            for (int r = 0; r < dim[2]; r++) {
                uint64_t first = ((uint64_t)h * (uint64_t)o->draws + (uint64_t)o->draw[r]) * d;
                uint64_t sample = n->run->sample * (uint64_t)o->parts + (uint64_t)b;
                for (size_t i = 0; i < d; i++)
                    drawn[i] = (real)rng_normal(o->stream, n->run->step, sample, first + i);
                kernel_add(vec_at(heads_at(y, b, h), (size_t)r, 0),
                           vec_at(heads_at(x, b, h), (size_t)r, 0), numbers, 1, d);
            }
}

static void add_noise_backward(const struct node *n)
{
    kernel_accumulate(tensor_grad(n->in[0]), n->beta[0], tensor_grad(n->out), 1,
                      tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static struct tensor *add_noise_sample(struct graph *g)
{
    static const int draw[] = {1, 0, 1};
    return op_add_noise(g, graph_sample(g, SHAPE(2, 2, 3, 5)), "noise", draw);
}

const struct op add_noise_op = {
    .name = "add_noise",
    .infer = add_noise_infer,
    .forward = add_noise_forward,
    .backward = add_noise_backward,
    .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = add_noise_sample,
};

struct tensor *op_add_noise(struct graph *g, struct tensor *x, const char *purpose, const int *draw)
{
    if (!g->options.noise || g->error.status)
        return x;
    char name[320];
    snprintf(name, sizeof name, "%s:%s", purpose, g->scope);
    struct noise o = {
        .stream = rng_stream(g->options.seed, name), .draw = draw, .parts = noise_parts(g, x)};
    for (int r = 0; x->shape.rank == 4 && r < x->shape.dim[2]; r++)
        o.draws = draw[r] >= o.draws ? draw[r] + 1 : o.draws;
    return graph_record(g, &add_noise_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
