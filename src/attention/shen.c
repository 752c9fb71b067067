/* shen.c - linear attention with softmaxes as features: of each query over its d numbers, of the keys
 * over the tokens. Shen et al., "Efficient Attention: Attention with Linear Complexities",
 * arXiv:1812.01243, eq. 6 and 7: y = softmax_d(q) (softmax_N(k)^T v). A query's weights sum to 1 by
 * themselves. The residual of the authors' module is the host's. */
#include "attention/linear.h"
#include "nn/nn.h"

struct shen {
    int order;
};

static const struct field shen_fields[] = {
    FIELD_ORDER(struct shen),
    FIELD_END,
};

static struct tensor *shen_build(struct graph *g, const void *options, const struct attn_site *s,
                                 struct tensor *x)
{
    const struct shen *o = options;
    const struct linear_terms terms = {.den = DEN_NONE, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = op_softmax_real(g, t.q), *f = op_token_softmax(g, t.k, s->regions);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N d D */
static double shen_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H, false);
}

const struct attn_variant shen_attn = {
    .name = "shen", .summary = "linear attention, softmax over features and over tokens",
    .paper = "arXiv:1812.01243", .complexity = "O(N D^2 / H)",
    .fields = shen_fields, .options_size = sizeof(struct shen),
    .build = shen_build, .macs = shen_macs,
};
