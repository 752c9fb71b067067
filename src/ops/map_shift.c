/* map_shift.c - Q-Shift: a quarter of the columns each from the patches to the left, to the right,
 * above and below.    x, y: (B, N, C)
 *   y[t, c] = x[from_q[t], c] in quarter q, 0 where that is off the map     dx[j, c] = dy[to_q[j], c]
 * Duan et al., arXiv:2403.02308, section 3.2, in the order of the authors' code. */
#include "kernels/kernels.h"
#include "kernels/sequence.h"
#include "ops/sample.h"
#include "ops/taps.h"

enum { QUARTERS = 4 };

struct map_shift {
    const struct taps *quarter[QUARTERS]; /* one tap each */
};

static void map_shift_infer(struct graph *g, struct node *n)
{
    const struct map_shift *o = n->options;
    infer_taps(g, n, o->quarter[0]);
    graph_out(g, n, n->in[0]->type, n->in[0]->shape);
}

/* y = beta y + what the taps, or with `back` their inverses, find in x; one sample. */
static void shift(struct vec y, int beta, struct vec x, const struct map_shift *o, bool back, int b,
                  size_t cols)
{
    for (size_t q = 0; q < QUARTERS; q++) {
        const struct taps *taps = o->quarter[q];
        size_t c = cols * q / QUARTERS, end = cols * (q + 1) / QUARTERS;
        kernel_tap_rows(vec_at(y, 0, c), beta, vec_at(x, 0, c), NULL,
                        back ? taps_to(taps, b) : taps_from(taps, b), (size_t)taps->tokens, 1,
                        end - c);
    }
}

static void map_shift_forward(const struct node *n)
{
    for (int b = 0; b < n->out->shape.dim[0]; b++)
        shift(sample_vec(n->out, b), 0, sample_vec(n->in[0], b), n->options, false, b,
              (size_t)tensor_cols(n->out));
}

static void map_shift_backward(const struct node *n)
{
    for (int b = 0; b < n->out->shape.dim[0]; b++)
        shift(sample_grad(n->in[0], b), n->beta[0], sample_grad(n->out, b), n->options, true, b,
              (size_t)tensor_cols(n->out));
}

static struct tensor *map_shift_sample(struct graph *g)
{
    static const unsigned char region[12] = {0, 0, 1, 0, 0, 1, 2, 2, 3, 2, 2, 3};
    static const struct token_regions regions = {.windows = 1, .tokens = 12, .id = region};
    struct token_map map = {.grid = {2, 5}, .prefix = 2};
    struct tensor *x = op_map_shift(g, graph_sample(g, SHAPE(2, 12, 7)), 1, &map);
    map = (struct token_map){.grid = {4, 3}, .regions = &regions};
    return op_map_shift(g, graph_columns(g, x, 1, 5), 1, &map);
}

const struct op map_shift_op = {
    .name = "map_shift", .infer = map_shift_infer, .forward = map_shift_forward,
    .backward = map_shift_backward, .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = map_shift_sample,
};

struct tensor *op_map_shift(struct graph *g, struct tensor *x, int pixels,
                            const struct token_map *map)
{
    if (g->error.status)
        return g->inert;
    if (x->shape.rank != 3 || pixels < 0) {
        char text[64];
        return graph_fail(g, ERR_SHAPE, "map_shift: %s by %d patches",
                          shape_text(text, &x->shape), pixels);
    }
    int offset[QUARTERS][1][2] = {{{0, -pixels}}, {{0, pixels}}, {{-pixels, 0}}, {{pixels, 0}}};
    struct map_shift o;
    for (int q = 0; q < QUARTERS; q++) {
        struct taps *taps = taps_of_map(g, "map_shift", x->shape.dim[1], map, offset[q], 1);
        if (!taps)
            return g->inert;
        for (int w = 0; w < taps->windows; w++)
            for (int t = 0; t < map->prefix; t++)
                taps_set(taps, w, t, 0, t);
        taps->first = 0;
        o.quarter[q] = taps;
    }
    return graph_record(g, &map_shift_op, graph_copy(g, &o, sizeof o), INPUTS(x));
}
