/* taps.c - the tables of taps, and the convolution along them. */
#include "ops/taps.h"

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sequence.h"
#include "ops/sample.h"

static size_t at(const struct taps *o, int window, int t, int k)
{
    return ((size_t)window * (size_t)o->tokens + (size_t)t) * (size_t)o->count + (size_t)k;
}

struct taps *taps_create(struct graph *g, const char *op, int tokens, int count,
                         const struct token_regions *regions)
{
    if (g->error.status)
        return NULL;
    if (tokens < 1 || count < 1 ||
        (regions && (regions->windows < 1 || regions->tokens != tokens))) {
        graph_fail(g, ERR_SHAPE, "%s: %d taps for %d tokens, regions of %d windows of %d", op,
                   count, tokens, regions ? regions->windows : 1,
                   regions ? regions->tokens : tokens);
        return NULL;
    }
    struct taps o = {.windows = regions ? regions->windows : 1, .tokens = tokens, .count = count, .alike = 1};
    size_t all = at(&o, o.windows, 0, 0);
    o.from = arena_alloc(&g->memory, all * sizeof *o.from);
    o.to = arena_alloc(&g->memory, all * sizeof *o.to);
    if (!o.from || !o.to) {
        graph_fail(g, ERR_MEMORY, "out of memory for the taps of %d tokens", tokens);
        return NULL;
    }
    for (size_t i = 0; i < all; i++)
        o.from[i] = o.to[i] = -1;
    return graph_copy(g, &o, sizeof o);
}

void taps_set(struct taps *o, int window, int t, int k, int from)
{
    o->from[at(o, window, t, k)] = from;
    o->to[at(o, window, from, k)] = t;
}

int (*taps_around(struct graph *g, int rows, int columns))[2]
{
    int(*offset)[2] = arena_alloc(&g->memory, (size_t)rows * (size_t)columns * sizeof *offset);
    if (!offset) {
        graph_fail(g, ERR_MEMORY, "out of memory for %d x %d taps", rows, columns);
        return NULL;
    }
    for (int k = 0; k < rows * columns; k++) {
        offset[k][0] = k / columns - rows / 2;
        offset[k][1] = k % columns - columns / 2;
    }
    return offset;
}

static bool same_region(const struct token_regions *r, int window, int t, int other)
{
    const unsigned char *id = r ? r->id + (size_t)window * (size_t)r->tokens : NULL;
    return !r || id[t] == id[other];
}

struct taps *taps_of_map(struct graph *g, const char *op, int tokens, const struct token_map *map,
                         int (*offset)[2], int count)
{
    const int rows = map->grid[0], columns = map->grid[1], first = map->prefix;
    if (!g->error.status &&
        (rows < 1 || columns < 1 || first < 0 || (long long)rows * columns + first != tokens))
        graph_fail(g, ERR_SHAPE, "%s: a map of %d x %d behind %d tokens for %d tokens", op, rows,
                   columns, first, tokens);
    struct taps *o = taps_create(g, op, tokens, count, map->regions);
    if (!o)
        return NULL;
    o->first = first;
    for (int w = 0; w < o->windows; w++) {
        for (int t = first; t < tokens; t++) {
            int row = (t - first) / columns, column = (t - first) % columns;
            for (int k = 0; k < count; k++) {
                int y = row + offset[k][0], x = column + offset[k][1];
                if (y < 0 || y >= rows || x < 0 || x >= columns)
                    continue;
                int other = first + y * columns + x;
                if (same_region(map->regions, w, t, other))
                    taps_set(o, w, t, k, other);
            }
        }
    }
    return o;
}

void infer_taps(struct graph *g, struct node *n, const struct taps *o)
{
    const struct shape *x = &n->in[0]->shape;
    if (x->rank != 3 || x->dim[1] != o->tokens || x->dim[0] % o->windows) {
        char text[64];
        graph_fail(g, ERR_SHAPE, "%s: %d windows of %d tokens for %s", n->op->name, o->windows,
                   o->tokens, shape_text(text, x));
    }
}

const int *taps_from(const struct taps *o, int b)
{
    return o->from + at(o, b % o->windows, 0, 0);
}

const int *taps_to(const struct taps *o, int b)
{
    return o->to + at(o, b % o->windows, 0, 0);
}

/* --- convolution ------------------------------------------------------------------------------ */

enum { X, WEIGHT, BIAS };

void taps_conv_infer(struct graph *g, struct node *n)
{
    const struct taps *o = n->options;
    const struct tensor *W = n->in[WEIGHT], *bias = n->in[BIAS];
    size_t C = (size_t)tensor_cols(n->in[X]), taps = (size_t)o->count;
    size_t filters = (size_t)W->shape.dim[0];
    infer_taps(g, n, o);
    if (C % (filters * (size_t)o->alike) || tensor_count(W) != filters * taps ||
        (bias && tensor_count(bias) != filters)) {
        char a[64], b[64];
        graph_fail(g, ERR_SHAPE, "%s: a weight %s and %d taps do not fit %s", n->op->name,
                   shape_text(a, &W->shape), o->count, shape_text(b, &n->in[X]->shape));
        return;
    }
    infer_param(g, n, WEIGHT);
    infer_param(g, n, BIAS);
    graph_out(g, n, n->in[X]->type, n->in[X]->shape);
    graph_scratch(g, n, C * (taps + 1), C * (taps + 1));
}

double taps_conv_macs(const struct node *n)
{
    const struct taps *o = n->options;
    return (double)n->in[X]->shape.dim[0] * (o->tokens - o->first) * tensor_cols(n->in[X]) *
           o->count;
}

static size_t filter_of(const struct node *n, size_t c)
{
    const struct taps *o = n->options;
    return c / (size_t)o->alike % (size_t)n->in[WEIGHT]->shape.dim[0];
}

/* to (taps, C) = the channels' filters of weight (F, taps): rows are then as long as the tokens'. */
static void transpose(real *to, const struct node *n)
{
    const struct taps *o = n->options;
    const real *weight = n->in[WEIGHT]->data;
    size_t C = (size_t)tensor_cols(n->in[X]), taps = (size_t)o->count;
    for (size_t c = 0; c < C; c++)
        for (size_t k = 0; k < taps; k++)
            to[k * C + c] = weight[filter_of(n, c) * taps + k];
}

/* to (C): each channel's bias. NULL where there is none. */
static const real *biases(real *to, const struct node *n)
{
    const struct tensor *bias = n->in[BIAS];
    for (size_t c = 0; bias && c < (size_t)tensor_cols(n->in[X]); c++)
        to[c] = ((const real *)bias->data)[filter_of(n, c)];
    return bias ? to : NULL;
}

void taps_conv_forward(const struct node *n)
{
    const struct taps *o = n->options;
    const struct tensor *x = n->in[X];
    size_t C = (size_t)tensor_cols(x), first = (size_t)o->first;
    size_t rows = (size_t)o->tokens - first;
    real *weight = n->scratch->data;
    const real *bias = biases(weight + (size_t)o->count * C, n);
    transpose(weight, n);
    for (int b = 0; b < x->shape.dim[0]; b++) {
        struct vec y = sample_vec(n->out, b);
        kernel_taps(y, 0, sample_vec(x, b), weight, NULL, taps_from(o, b), first, 0, C);
        kernel_taps(vec_at(y, first, 0), 0, sample_vec(x, b), weight, bias,
                    taps_from(o, b) + first * (size_t)o->count, rows, o->count, C);
    }
}

static void input_grad(const struct node *n)
{
    const struct taps *o = n->options;
    const struct tensor *x = n->in[X];
    size_t C = (size_t)tensor_cols(x);
    real *weight = n->scratch_backward->data;
    transpose(weight, n);
    for (int b = 0; b < x->shape.dim[0]; b++)
        kernel_taps(sample_grad(x, b), n->beta[X], sample_grad(n->out, b), weight, NULL,
                    taps_to(o, b), (size_t)o->tokens, o->count, C);
}

static void weight_grad(const struct node *n)
{
    const struct taps *o = n->options;
    const struct tensor *x = n->in[X];
    size_t C = (size_t)tensor_cols(x), taps = (size_t)o->count, first = (size_t)o->first;
    real *sums = n->scratch_backward->data, *grad = n->in[WEIGHT]->grad;
    memset(sums, 0, C * taps * sizeof *sums);
    for (int b = 0; b < x->shape.dim[0]; b++)
        kernel_taps_grad(sums, sample_vec(x, b), vec_at(sample_grad(n->out, b), first, 0),
                         taps_from(o, b) + first * taps, (size_t)o->tokens - first, o->count, C);
    for (size_t c = 0; c < C; c++)
        for (size_t k = 0; k < taps; k++)
            grad[filter_of(n, c) * taps + k] += sums[k * C + c];
}

static void bias_grad(const struct node *n)
{
    const struct taps *o = n->options;
    size_t C = (size_t)tensor_cols(n->in[X]), first = (size_t)o->first;
    real *sums = n->scratch_backward->data, *grad = n->in[BIAS]->grad;
    memset(sums, 0, C * sizeof *sums);
    for (int b = 0; b < n->in[X]->shape.dim[0]; b++)
        kernel_column_sums(sums, vec_at(sample_grad(n->out, b), first, 0),
                           (size_t)o->tokens - first, C);
    for (size_t c = 0; c < C; c++)
        grad[filter_of(n, c)] += sums[c];
}

void taps_conv_backward(const struct node *n)
{
    if (n->in[X]->grad)
        input_grad(n);
    if (n->in[WEIGHT]->grad)
        weight_grad(n);
    if (n->in[BIAS] && n->in[BIAS]->grad)
        bias_grad(n);
}
