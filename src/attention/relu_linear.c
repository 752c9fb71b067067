/* relu_linear.c - linear attention with the positive parts of queries and keys as features.
 * Cai et al., "EfficientViT: Multi-Scale Linear Attention", arXiv:2205.14756, section 3.1, eq. 1 and 3,
 * without the aggregation of its blocks over scales, which is a matter of the backbone. A query without
 * positive features gives 0. */
#include "attention/key_table.h"
#include "attention/linear.h"
#include "attention/shortcut.h"
#include "nn/nn.h"

struct relu_linear {
    double eps;
    bool ape, shortcut;
    int order;
};

static const struct field relu_linear_fields[] = {
    FIELD_REAL(struct relu_linear, eps, 1e-15, 1e-20, 1,
               "added to the denominator; 1e-15 as in the authors' code, 1e-5 in timm"),
    FIELD_APE(struct relu_linear, false),
    FIELD_SHORTCUT(struct relu_linear, false),
    FIELD_ORDER(struct relu_linear),
    FIELD_END,
};

static struct tensor *relu_linear_build(struct graph *g, const void *options,
                                        const struct attn_site *s, struct tensor *x)
{
    const struct relu_linear *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = o->eps, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *k = o->ape ? key_table_add(g, s, t.k) : t.k;
    struct tensor *a = op_map(g, t.q, MAP_RELU), *f = op_map(g, k, MAP_RELU);
    struct tensor *y = linear_attend(g, s, a, f, t.v, terms);
    return linear_project(g, s, o->shortcut ? shortcut_add(g, y, t.v) : y);
}

/* 4 N D^2 + 2 N d (D + H) */
static double relu_linear_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H, true);
}

const struct attn_variant relu_linear_attn = {
    .name = "relu_linear", .summary = "linear attention, ReLU features (EfficientViT)",
    .paper = "arXiv:2205.14756", .complexity = "O(N D^2 / H)",
    .fields = relu_linear_fields, .options_size = sizeof(struct relu_linear),
    .kinks = true, .build = relu_linear_build, .macs = relu_linear_macs, .adapt = shortcut_adapt,
};
