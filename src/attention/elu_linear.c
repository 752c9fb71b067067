/* elu_linear.c - linear attention with the features elu(x) + 1: x + 1 above 0, e^x below.
 * Katharopoulos et al., "Transformers are RNNs", arXiv:2006.16236, eq. 7, without its causal order.
 * Queries are not scaled; 1e-6 is added to the denominator, as in the authors' code. */
#include "attention/linear.h"
#include "nn/nn.h"

struct elu_linear {
    int order;
};

static const struct field elu_linear_fields[] = {
    FIELD_ORDER(struct elu_linear),
    FIELD_END,
};

static struct tensor *elu_linear_build(struct graph *g, const void *options,
                                       const struct attn_site *s, struct tensor *x)
{
    const struct elu_linear *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = 1e-6, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = op_map(g, t.q, MAP_ELU1), *f = op_map(g, t.k, MAP_ELU1);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N d (D + H) */
static double elu_linear_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H, true);
}

const struct attn_variant elu_linear_attn = {
    .name = "elu_linear", .summary = "linear attention, ELU + 1 features",
    .paper = "arXiv:2006.16236", .complexity = "O(N D^2 / H)",
    .fields = elu_linear_fields, .options_size = sizeof(struct elu_linear),
    .build = elu_linear_build, .macs = elu_linear_macs,
};
