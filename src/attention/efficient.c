/* efficient.c - softmax attention whose keys and values are slices of the input; only queries and
 * output are projected. This is "Efficient Attention" of Hosseini and Hosseini, arXiv:2403.01643, not
 * the linear attention of that name by Shen et al. (arXiv:1812.01243). */
#include "attention/absorb.h"
#include "nn/nn.h"

static struct tensor *efficient_build(struct graph *g, const void *options,
                                      const struct attn_site *s, struct tensor *x)
{
    (void)options;
    struct tensor *q;
    nn_heads(g, "q", x, 1, s->H, s->qkv_bias, &q);
    struct tensor *kv = graph_split_heads(g, x, s->H); /* head i: columns i d .. (i + 1) d - 1 */
    struct tensor *y = attn_sdpa(g, s, q, kv, kv);
    return nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias);
}

/* 2 N D^2 + 2 N^2 D */
static double efficient_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    double N = s->N, D = s->D;
    return 2 * N * D * D + 2 * N * N * D;
}

static void efficient_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    absorb_keys(a);
    absorb_values(a);
}

const struct attn_variant efficient_attn = {
    .name = "efficient", .summary = "softmax attention, keys and values sliced (Hosseini)",
    .paper = "arXiv:2403.01643", .complexity = "O(N^2 D)",
    .build = efficient_build, .macs = efficient_macs, .adapt = efficient_adapt,
};
