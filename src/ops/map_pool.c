/* map_pool.c - the mean of what stands around each patch, minus the patch.    x, y: (B, N, C)
 *   y[t] = 1/n[t] sum over k of x[from[t, k]] - x[t], n[t] the number of taps that read a patch
 *   dx[j] = sum over k of dy[to[j, k]] / n[to[j, k]] - dy[j]
 * The border has fewer patches around it, and its means are of those. */
#include "kernels/kernels.h"
#include "kernels/sequence.h"
#include "ops/sample.h"
#include "ops/taps.h"

/* Factors of the taps: as tokens read, and as they are read. */
struct map_pool {
    const struct taps *taps;
    real *from, *to; /* (windows, tokens, count), 0 where a tap reads nothing */
};

static void map_pool_infer(struct graph *g, struct node *n)
{
    const struct map_pool *o = n->options;
    infer_taps(g, n, o->taps);
    graph_out(g, n, n->in[0]->type, n->in[0]->shape);
}

static const real *factors(const struct map_pool *o, const real *of, int b)
{
    return of + (taps_from(o->taps, b) - taps_from(o->taps, 0));
}

static void map_pool_forward(const struct node *n)
{
    const struct map_pool *o = n->options;
    const struct tensor *x = n->in[0];
    for (int b = 0; b < x->shape.dim[0]; b++)
        kernel_tap_rows(sample_vec(n->out, b), 0, sample_vec(x, b), factors(o, o->from, b),
                        taps_from(o->taps, b), (size_t)o->taps->tokens, o->taps->count,
                        (size_t)tensor_cols(x));
}

static void map_pool_backward(const struct node *n)
{
    const struct map_pool *o = n->options;
    const struct tensor *x = n->in[0];
    for (int b = 0; b < x->shape.dim[0]; b++)
        kernel_tap_rows(sample_grad(x, b), n->beta[0], sample_grad(n->out, b),
                        factors(o, o->to, b), taps_to(o->taps, b), (size_t)o->taps->tokens,
                        o->taps->count, (size_t)tensor_cols(x));
}

static struct tensor *map_pool_sample(struct graph *g)
{
    static const unsigned char region[12] = {0, 0, 1, 0, 0, 1, 2, 2, 3, 2, 2, 3};
    static const struct token_regions regions = {.windows = 1, .tokens = 12, .id = region};
    struct token_map map = {.grid = {2, 5}, .prefix = 2};
    struct tensor *x = op_map_pool(g, graph_sample(g, SHAPE(2, 12, 6)), 3, &map);
    map = (struct token_map){.grid = {4, 3}, .regions = &regions};
    return op_map_pool(g, graph_columns(g, x, 2, 3), 5, &map);
}

const struct op map_pool_op = {
    .name = "map_pool", .infer = map_pool_infer, .forward = map_pool_forward,
    .backward = map_pool_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = map_pool_sample,
};

/* Of one window, from tap (window, 0, 0) on. */
static void set_factors(const struct map_pool *o, size_t window)
{
    int tokens = o->taps->tokens, count = o->taps->count;
    size_t at = window * (size_t)tokens * (size_t)count;
    const int *from = o->taps->from + at;
    for (int t = 0; t < tokens; t++) {
        int read = 0;
        for (int k = 0; k < count; k++)
            read += from[t * count + k] >= 0;
        for (int k = 0; k < count; k++) {
            int source = from[t * count + k];
            if (source < 0)
                continue;
            real factor = (real)1 / (real)read - (real)(source == t);
            o->from[at + (size_t)t * (size_t)count + (size_t)k] = factor;
            o->to[at + (size_t)source * (size_t)count + (size_t)k] = factor;
        }
    }
}

struct tensor *op_map_pool(struct graph *g, struct tensor *x, int size, const struct token_map *map)
{
    if (g->error.status)
        return g->inert;
    if (x->shape.rank != 3 || size < 1 || size % 2 == 0) {
        char text[64];
        return graph_fail(g, ERR_SHAPE, "map_pool: %d x %d patches, wanted odd, around each of %s",
                          size, size, shape_text(text, &x->shape));
    }
    int(*offset)[2] = taps_around(g, size, size);
    struct map_pool o = {NULL, NULL, NULL};
    if (offset)
        o.taps = taps_of_map(g, "map_pool", x->shape.dim[1], map, offset, size * size);
    if (!o.taps)
        return g->inert;
    size_t windows = (size_t)o.taps->windows;
    size_t bytes = windows * (size_t)o.taps->tokens * (size_t)o.taps->count * sizeof *o.from;
    o.from = arena_alloc(&g->memory, bytes);
    o.to = arena_alloc(&g->memory, bytes);
    if (!o.from || !o.to)
        return graph_fail(g, ERR_MEMORY, "out of memory for the taps of %s", x->name);
    for (size_t w = 0; w < windows; w++)
        set_factors(&o, w);
    return graph_record(g, &map_pool_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
