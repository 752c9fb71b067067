/* line_conv.c - convolution along the patches in raster order.    x, y: (B, N, C)  weight: (F, k)
 * The sums are in taps.h, with the filters each for C / F neighbouring channels; the middle tap is the
 * patch itself. */
#include "ops/taps.h"

static struct tensor *line_conv_sample(struct graph *g)
{
    static const unsigned char region[16] = {0, 0, 1, 0, 0, 1, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0};
    static const struct token_regions regions = {.windows = 2, .tokens = 8, .id = region};
    struct tensor *weight = graph_param(g, "weight", SHAPE(2, 5), INIT_NORMAL(1));
    struct tensor *last = graph_param(g, "last", SHAPE(3, 3), INIT_NORMAL(1));
    struct tensor *x = graph_sample(g, SHAPE(2, 8, 6));
    struct token_map map = {.grid = {2, 3}, .prefix = 2};
    x = op_line_conv(g, x, weight, &map);
    map = (struct token_map){.grid = {4, 2}, .regions = &regions};
    return op_line_conv(g, graph_columns(g, x, 1, 3), last, &map);
}

const struct op line_conv_op = {
    .name = "line_conv", .infer = taps_conv_infer, .macs = taps_conv_macs,
    .forward = taps_conv_forward, .backward = taps_conv_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = line_conv_sample,
};

struct tensor *op_line_conv(struct graph *g, struct tensor *x, struct tensor *weight,
                            const struct token_map *map)
{
    if (g->error.status)
        return g->inert;
    const int *dim = weight->shape.dim, C = tensor_cols(x);
    if (weight->shape.rank != 2 || x->shape.rank != 3 || dim[1] % 2 == 0 || C % dim[0]) {
        char a[64], b[64];
        return graph_fail(g, ERR_SHAPE, "line_conv: weight %s (F, odd) on %s (B, N, C)",
                          shape_text(a, &weight->shape), shape_text(b, &x->shape));
    }
    const struct token_map line = {{1, map->grid[0] * map->grid[1]}, map->prefix, map->regions};
    int(*offset)[2] = taps_around(g, 1, dim[1]);
    struct taps *o =
        offset ? taps_of_map(g, "line_conv", x->shape.dim[1], &line, offset, dim[1]) : NULL;
    if (!o)
        return g->inert;
    o->alike = C / dim[0];
    return graph_record(g, &line_conv_op, o, INPUTS(x, weight, NULL));
}
