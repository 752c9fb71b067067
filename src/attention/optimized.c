/* optimized.c - softmax attention whose values are slices of the input: no value projection.
 * Hosseini and Hosseini, "Cost-Effective Attention Mechanisms for Low Resource Settings",
 * arXiv:2403.01643, Optimized Attention. */
#include "attention/absorb.h"
#include "nn/nn.h"

static struct tensor *optimized_build(struct graph *g, const void *options,
                                      const struct attn_site *s, struct tensor *x)
{
    (void)options;
    struct tensor *qk[2];
    nn_heads(g, "qk", x, 2, s->H, s->qkv_bias, qk);
    struct tensor *v = graph_split_heads(g, x, s->H); /* head i: columns i d .. (i + 1) d - 1 */
    struct tensor *y = attn_sdpa(g, s, qk[0], qk[1], v);
    return nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias);
}

/* 3 N D^2 + 2 N^2 D */
static double optimized_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    double N = s->N, D = s->D;
    return 3 * N * D * D + 2 * N * N * D;
}

static void optimized_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    absorb_values(a);
}

const struct attn_variant optimized_attn = {
    .name = "optimized", .summary = "softmax attention, values sliced from the input",
    .paper = "arXiv:2403.01643", .complexity = "O(N^2 D)",
    .build = optimized_build, .macs = optimized_macs, .adapt = optimized_adapt,
};
