/* causal_conv.c - convolution along a sequence, each channel by itself, which reads a token and those
 * before it.    x, y: (B, N, C)  weight: (C, 1, k)
 * The sums are in taps.h; the last tap is the token itself, and there are zeros before the first. */
#include "ops/sequences.h"
#include "ops/taps.h"

static struct tensor *causal_conv_sample(struct graph *g)
{
    static const unsigned char region[14] = {0, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0};
    static const struct token_regions regions = {.windows = 2, .tokens = 7, .id = region};
    static const int order[7] = {1, 2, 0, 3, 6, 5, 4};
    struct tensor *weight = graph_param(g, "weight", SHAPE(5, 1, 3), INIT_NORMAL(1));
    struct tensor *last = graph_param(g, "last", SHAPE(3, 1, 2), INIT_NORMAL(1));
    struct tensor *bias = graph_param(g, "bias", SHAPE(5), INIT_NORMAL(1));
    struct tensor *x = graph_sample(g, SHAPE(2, 7, 5));
    x = op_causal_conv(g, x, weight, bias, &(struct token_sequence){.order = order});
    return op_causal_conv(g, graph_columns(g, x, 1, 3), last, NULL,
                          &(struct token_sequence){.reversed = true, .regions = &regions});
}

const struct op causal_conv_op = {
    .name = "causal_conv", .infer = taps_conv_infer, .macs = taps_conv_macs,
    .forward = taps_conv_forward, .backward = taps_conv_backward,
    .backward_reads = READS_IN(0) | READS_IN(1), .takes = TYPE_REAL | TYPE_BF16 | TAKES_ROWS,
    .sample = causal_conv_sample,
};

struct tensor *op_causal_conv(struct graph *g, struct tensor *x, struct tensor *weight,
                              struct tensor *bias, const struct token_sequence *sequence)
{
    if (g->error.status)
        return g->inert;
    if (weight->shape.rank != 3 || x->shape.rank != 3) {
        char a[64], b[64];
        return graph_fail(g, ERR_SHAPE, "causal_conv: weight %s (C, 1, k) on %s (B, N, C)",
                          shape_text(a, &weight->shape), shape_text(b, &x->shape));
    }
    int tokens = x->shape.dim[1], width = weight->shape.dim[2];
    const struct sequences *s = sequences_create(g, "causal_conv", tokens, sequence);
    struct taps *o = taps_create(g, "causal_conv", tokens, width, sequence->regions);
    if (!s || !o)
        return g->inert;
    for (int w = 0; w < o->windows; w++) {
        struct row_sequence at = {NULL, 0};
        while (sequences_next(s, w, &at))
            for (int i = 0; i < (int)at.count; i++)
                for (int k = 0; k < width; k++)
                    if (i - (width - 1 - k) >= 0)
                        taps_set(o, w, at.at[i], k, at.at[i - (width - 1 - k)]);
    }
    return graph_record(g, &causal_conv_op, o, INPUTS(x, weight, bias));
}
