/* angular.c - linear attention with the first terms of the angular kernel: weights 1/2 + c / pi of the
 * cosine c of query and key, between 0.18 and 0.82. You et al., "Castling-ViT", arXiv:2211.10526, in the
 * form that QT-ViT's Table 2 compares, with a denominator. A query or key of 0 has cosine 0. */
#include <math.h>

#include "attention/linear.h"
#include "nn/nn.h"

static const double LEAST_NORM = 1e-6;

struct angular {
    int order;
};

static const struct field angular_fields[] = {
    FIELD_ORDER(struct angular),
    FIELD_END,
};

static struct tensor *angular_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct angular *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .order = o->order, .basis = BASIS_SYM,
                                       .c = {0.5, 1 / acos(-1), 0}};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = op_normalize(g, t.q, 1, LEAST_NORM);
    struct tensor *f = op_normalize(g, t.k, 1, LEAST_NORM);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N (d + 1)(D + H) */
static double angular_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H + 1, true);
}

const struct attn_variant angular_attn = {
    .name = "angular", .summary = "linear part of the angle between query and key (Castling-ViT)",
    .paper = "arXiv:2211.10526", .complexity = "O(N D^2 / H)",
    .fields = angular_fields, .options_size = sizeof(struct angular),
    .build = angular_build, .macs = angular_macs,
};
