/* qt_exact.c - linear attention whose weights are the Taylor expansion of exp(s), s = q . k / sqrt d, to
 * second order: 1 + s + s^2 / 2 >= 1 / 2. QT-ViT (NeurIPS 2024, OpenReview V2e0A2XIPF), eq. 2 to 10, in
 * three bases of the same weights: each product once; both x_i x_j and x_j x_i, 1 + d + d^2 features;
 * the paper's Kronecker square of [x / d^(1/4), 1] beside a constant, (d + 1)^2 + 1. */
#include <math.h>

#include "attention/key_table.h"
#include "attention/linear.h"
#include "attention/shortcut.h"
#include "nn/nn.h"

enum basis { BASE_SYM, BASE_FULL, BASE_KRON };

struct qt_exact {
    int basis;
    bool ape, shortcut;
    int order;
};

static const char *const basis_names[] = {"sym", "full", "kron", NULL};

static const struct field qt_exact_fields[] = {
    FIELD_ENUM(struct qt_exact, basis, BASE_SYM, basis_names,
               "features: each product once (cheapest), all products, or the paper's"),
    FIELD_APE(struct qt_exact, false),
    FIELD_SHORTCUT(struct qt_exact, false),
    FIELD_ORDER(struct qt_exact),
    FIELD_END,
};

static struct tensor *qt_exact_build(struct graph *g, const void *options,
                                     const struct attn_site *s, struct tensor *x)
{
    const struct qt_exact *o = options;
    static const enum linear_basis basis[] = {BASIS_SYM, BASIS_FULL, BASIS_KRON};
    double scale = attn_scale(s);
    const struct linear_terms terms = {
        .den = DEN_ADD, .order = o->order,
        .basis = basis[o->basis], .c = {1, scale, scale * scale / 2},
    };
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *k = o->ape ? key_table_add(g, s, t.k) : t.k;
    struct tensor *a = linear_real(g, t.q), *f = linear_real(g, k);
    struct tensor *y = linear_attend(g, s, a, f, t.v, terms);
    return linear_project(g, s, o->shortcut ? shortcut_add(g, y, t.v) : y);
}

/* 4 N D^2 + 2 N F (D + H) with F = (d + 1)(d + 2) / 2, 1 + d + d^2 or (d + 1)^2 + 1 features */
static double qt_exact_macs(const void *options, const struct attn_site *s)
{
    const struct qt_exact *o = options;
    double d = (double)s->D / s->H;
    const double features[] = {(d + 1) * (d + 2) / 2, 1 + d + d * d, (d + 1) * (d + 1) + 1};
    return linear_macs(s, features[o->basis], true);
}

const struct attn_variant qt_exact_attn = {
    .name = "qt_exact", .summary = "exact second-order Taylor weights (QT-ViT, eq. 2)",
    .paper = "NeurIPS 2024, OpenReview V2e0A2XIPF", .complexity = "O(N D^3 / H^2)",
    .fields = qt_exact_fields, .options_size = sizeof(struct qt_exact),
    .build = qt_exact_build, .macs = qt_exact_macs, .adapt = shortcut_adapt,
};
