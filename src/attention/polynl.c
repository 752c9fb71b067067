/* polynl.c - linear attention without features or nonlinearity: y = q (k^T v) / N, the mean over keys
 * of their values, weighted by q . k, which may be negative. The kernel of Poly-NL (Babiloni et al.,
 * arXiv:2107.02859) as QT-ViT's Table 2 compares it; the paper's own block is of third order and has
 * projections of its own. In a region N counts its tokens. */
#include "attention/linear.h"
#include "nn/nn.h"

struct polynl {
    int order;
};

static const struct field polynl_fields[] = {
    FIELD_ORDER(struct polynl),
    FIELD_END,
};

static struct tensor *polynl_build(struct graph *g, const void *options, const struct attn_site *s,
                                   struct tensor *x)
{
    const struct polynl *o = options;
    const struct linear_terms terms = {
        .den = DEN_CONST, .eps = 1, .per_key = true, .order = o->order,
    };
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = linear_real(g, t.q), *f = linear_real(g, t.k);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N d D */
static double polynl_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H, false);
}

const struct attn_variant polynl_attn = {
    .name = "polynl", .summary = "mean over keys of products, no normaliser (Poly-NL)",
    .paper = "arXiv:2107.02859", .complexity = "O(N D^2 / H)",
    .fields = polynl_fields, .options_size = sizeof(struct polynl),
    .build = polynl_build, .macs = polynl_macs,
};
