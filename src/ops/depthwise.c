/* depthwise.c - convolution of a map, each channel by itself.    x, y: (B, N, C)  weight: (F, 1, h, w)
 * The sums are in taps.h; tap k of a patch is the k-th patch of the h x w around it. */
#include "ops/taps.h"

static struct tensor *depthwise_sample(struct graph *g)
{
    static const unsigned char region[24] = {0, 0, 1, 0, 0, 1, 2, 2, 3, 2, 2, 3,
                                             0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const struct token_regions regions = {.windows = 2, .tokens = 12, .id = region};
    struct tensor *square = graph_param(g, "square", SHAPE(6, 1, 3, 3), INIT_NORMAL(1));
    struct tensor *wide = graph_param(g, "wide", SHAPE(3, 1, 1, 5), INIT_NORMAL(1));
    struct tensor *shared = graph_param(g, "shared", SHAPE(2, 1, 3, 1), INIT_NORMAL(1));
    struct tensor *shared_bias = graph_param(g, "shared_bias", SHAPE(2), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(6), INIT_NORMAL(1));
    struct tensor *x = graph_sample(g, SHAPE(2, 12, 6));
    struct token_map map = {.grid = {2, 5}, .prefix = 2};
    x = op_depthwise(g, x, square, bias, &map);
    x = op_depthwise(g, x, shared, shared_bias, &map);
    map = (struct token_map){.grid = {4, 3}, .regions = &regions};
    return op_depthwise(g, graph_columns(g, x, 2, 3), wide, NULL, &map);
}

const struct op depthwise_op = {
    .name = "depthwise", .infer = taps_conv_infer, .macs = taps_conv_macs,
    .forward = taps_conv_forward, .backward = taps_conv_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = depthwise_sample,
};

struct tensor *op_depthwise(struct graph *g, struct tensor *x, struct tensor *weight,
                            struct tensor *bias, const struct token_map *map)
{
    if (g->error.status)
        return g->inert;
    const int *dim = weight->shape.dim;
    if (weight->shape.rank != 4 || x->shape.rank != 3 || dim[2] % 2 == 0 || dim[3] % 2 == 0) {
        char a[64], b[64];
        return graph_fail(g, ERR_SHAPE, "depthwise: weight %s (F, 1, odd, odd) on %s (B, N, C)",
                          shape_text(a, &weight->shape), shape_text(b, &x->shape));
    }
    int(*offset)[2] = taps_around(g, dim[2], dim[3]);
    const struct taps *o =
        offset ? taps_of_map(g, "depthwise", x->shape.dim[1], map, offset, dim[2] * dim[3]) : NULL;
    return o ? graph_record(g, &depthwise_op, o, INPUTS(x, weight, bias)) : g->inert;
}
