/* hydra.c - linear attention with as many heads as channels and unit features.
 * Bolya et al., "Hydra Attention: Efficient Attention with Many Heads", arXiv:2209.07484, eq. 6 to 8:
 *   y_i = q_i / |q_i| * sum over j of (k_j / |k_j| * v_j), norms over all D channels, products by channel.
 * No normaliser: the output grows with the number of tokens. A token of zeros has features 0. */
#include "attention/linear.h"
#include "nn/nn.h"

static struct tensor *hydra_build(struct graph *g, const void *options, const struct attn_site *s,
                                  struct tensor *x)
{
    (void)options;
    struct tensor *y = nn_linear_bias(g, "qkv", x, 3 * s->D, s->qkv_bias), *t[3]; /* (B, N, D) each */
    for (int i = 0; i < 3; i++)
        t[i] = graph_columns(g, y, i * s->D, s->D);
    struct tensor *a = op_normalize(g, t[0], 1, 1e-6), *f = op_normalize(g, t[1], 1, 1e-6);
    return linear_project(g, s, op_channel_attention(g, a, f, t[2], s->regions));
}

/* 4 N D^2 + 2 N D */
static double hydra_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, 1, false);
}

const struct attn_variant hydra_attn = {
    .name = "hydra", .summary = "linear attention, a head for each channel, unit features",
    .paper = "arXiv:2209.07484", .complexity = "O(N D)",
    .build = hydra_build, .macs = hydra_macs,
};
