/* standard.c - multi-head softmax attention: q, k, v and output each projected.
 * Vaswani et al., "Attention Is All You Need", arXiv:1706.03762, section 3.2. */
#include "attention/attention.h"
#include "nn/nn.h"

static struct tensor *standard_build(struct graph *g, const void *options,
                                     const struct attn_site *s, struct tensor *x)
{
    (void)options;
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias);       /* each (B, H, N, d) */
    struct tensor *y = attn_sdpa(g, s, t.q, t.k, t.v); /* (B, H, N, d) */
    return nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias);
}

/* 4 N D^2 + 2 N^2 D */
static double standard_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    double N = s->N, D = s->D;
    return 4 * N * D * D + 2 * N * N * D;
}

const struct attn_variant standard_attn = {
    .name = "standard", .summary = "softmax attention, everything projected",
    .paper = "arXiv:1706.03762", .complexity = "O(N^2 D)",
    .build = standard_build, .macs = standard_macs,
};
