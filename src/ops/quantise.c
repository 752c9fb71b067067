/* quantise.c - numbers rounded to a few levels.    x, y: (B, .., d), real
 *   y = least + step clamp(round((x - least) / step), 0, levels),  levels = 2^bits - 1,
 *   step = max(range / levels, 1e-8)
 *   dx = dy: rounding is passed straight through. With 0 bits y is x.
 * In training least and range are those of the whole batch, which then runs as one slice, and the running
 * ones follow them; else they are the running ones. Padding at the end of a batch has no part. */
#include "graph/planes.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

struct quantise {
    bool own; /* the batch's least number and range */
    int bits;
    double momentum;
};

enum { X, LEAST, RANGE }; /* inputs */
enum { OWN };             /* saved: least number and range */

static void quantise_infer(struct graph *g, struct node *n)
{
    const struct quantise *o = n->options;
    const struct tensor *x = n->in[X];
    for (int i = LEAST; i <= RANGE; i++)
        infer_param(g, n, i);
    if (x->type != TYPE_REAL || o->bits < 0 || o->bits > 16 || tensor_count(n->in[LEAST]) != 1 ||
        tensor_count(n->in[RANGE]) != 1) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "quantise: %d bits of %s, which must be real, by single numbers",
                   o->bits, shape_text(text, &x->shape));
        return;
    }
    graph_out(g, n, TYPE_REAL, x->shape);
    if (!o->own)
        return;
    graph_saved(g, n, OWN, TYPE_REAL, 2);
    g->whole_batch = true;
}

/* Numbers of the samples that are there. */
static size_t present_count(const struct node *n)
{
    size_t samples = (size_t)n->in[X]->shape.dim[0];
    size_t present = samples * (size_t)n->run->present / (size_t)n->run->batch;
    return present * (tensor_count(n->in[X]) / samples);
}

static void find_range(const struct node *n)
{
    const real *x = n->in[X]->data;
    real *own = n->saved[OWN]->data, least = x[0], most = x[0];
    size_t count = present_count(n);
#pragma omp simd reduction(min : least) reduction(max : most)
    for (size_t i = 1; i < count; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    own[0] = least;
    own[1] = most - least;
}

/* To the nearest level, even ones from the middle: a sum this large has no room for fractions. */
static void round_row(real *y, const real *x, real least, real step, real levels, int cols)
{
    const real large = (real)(sizeof(real) == 4 ? 0x1.8p23 : 0x1.8p52);
#pragma omp simd
    for (int c = 0; c < cols; c++) {
        real level = (x[c] - least) / step;
        level = level > 0 ? level : 0;
        level = level < levels ? level : levels;
        y[c] = ((level + large) - large) * step + least;
    }
}

static void forward_planes(const struct node *n, const struct planes *p, size_t i)
{
    const struct quantise *o = n->options;
    const real *own = o->own ? n->saved[OWN]->data : NULL;
    real least = own ? own[0] : *(const real *)n->in[LEAST]->data;
    real range = own ? own[1] : *(const real *)n->in[RANGE]->data;
    real levels = (real)((1 << o->bits) - 1), step = range / levels;
    step = step > (real)1e-8 ? step : (real)1e-8;
    struct vec y = plane_vec(n->out, p, i), x = plane_vec(n->in[X], p, i);
    if (o->bits == 0)
        kernel_accumulate(y, 0, x, 1, p->rows, p->cols);
    for (size_t r = 0; r < p->rows && o->bits; r++)
        round_row(vec_at(y, r, 0).data, vec_at(x, r, 0).data, least, step, levels, (int)p->cols);
}

static void quantise_forward(const struct node *n)
{
    const struct quantise *o = n->options;
    if (o->own)
        find_range(n);
    planes_share(n, node_planes(n), forward_planes);
}

static void quantise_backward(const struct node *n)
{
    const struct vec dx = tensor_grad(n->in[X]), dy = tensor_grad(n->out);
    if (dx.data)
        kernel_accumulate(dx, n->beta[X], dy, 1, tensor_rows(n->out), (size_t)tensor_cols(n->out));
}

static void quantise_update(const struct node *n)
{
    const struct quantise *o = n->options;
    const real *own = o->own ? n->saved[OWN]->data : NULL;
    for (int i = LEAST; own && i <= RANGE; i++) {
        real *running = n->in[i]->data;
        *running = (real)(o->momentum * (double)*running +
                          (1 - o->momentum) * (double)own[i - LEAST]);
    }
}

/* Not rounded: the derivative of rounding is not what backward gives. */
static struct tensor *quantise_sample(struct graph *g)
{
    struct tensor *least = graph_param_flags(g, "least", SHAPE(1), INIT_ZEROS, PARAM_BUFFER);
    struct tensor *range = graph_param_flags(g, "range", SHAPE(1), INIT_ONES, PARAM_BUFFER);
    return op_quantise(g, op_real(g, graph_sample(g, SHAPE(2, 3, 4))), least, range, 0, 0.9);
}

const struct op quantise_op = {
    .name = "quantise", .infer = quantise_infer, .forward = quantise_forward,
    .backward = quantise_backward, .update = quantise_update, .takes = TYPE_REAL,
    .sample = quantise_sample,
};

struct tensor *op_quantise(struct graph *g, struct tensor *x, struct tensor *least,
                           struct tensor *range, int bits, double momentum)
{
    const struct quantise o = {.own = g->options.noise, .bits = bits, .momentum = momentum};
    return graph_record(g, &quantise_op, graph_copy(g, &o, sizeof o), INPUTS(x, least, range));
}
