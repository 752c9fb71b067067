/* angular.c - linear attention with the first terms of the angular kernel 1 - arccos(c) / pi of the
 * cosine c of query and key. You et al., "Castling-ViT", arXiv:2211.10526.
 * `kernel`: weights 1/2 + c / pi, between 0.18 and 0.82, over their sum, as QT-ViT's Table 2 compares.
 * `castling`: what the authors' code computes, which has the query's own value in place of the sum of all:
 *   x = v / 2 + 1 / pi sum over keys of c v,  y = x / |x| in each head + a convolution of v along the
 * patches, 9 taps, one filter a head; with `aux`, while training, x also has the softmax weights above
 * `threshold`, as they are, times v. A query or key of 0 has cosine 0. */
#include <math.h>

#include "attention/adapt.h"
#include "attention/linear.h"
#include "nn/nn.h"

enum { TAPS = 9 };
enum form { FORM_KERNEL, FORM_CASTLING };

struct angular {
    int form;
    bool aux, ramp;
    double threshold;
    int order;
};

static const double LEAST_NORM = 1e-6;
static const char *const form_names[] = {"kernel", "castling", NULL};

static const struct field angular_fields[] = {
    FIELD_ENUM(struct angular, form, FORM_KERNEL, form_names,
               "weights over their sum, or unit outputs and a convolution as in the authors' code"),
    FIELD_BOOL(struct angular, aux, true,
               "castling: adds large softmax weights while training"),
    FIELD_REAL(struct angular, threshold, 0.02, 0, 1, "castling: which of them are large"),
    FIELD_BOOL(struct angular, ramp, false,
               "castling: the threshold grows to 1 over the training, where no weight is left"),
    FIELD_ORDER(struct angular),
    FIELD_END,
};

static const struct field_need angular_needs[] = {
    {"aux", "form", 1u << FORM_CASTLING},
    {"threshold", "form", 1u << FORM_CASTLING},
    {"threshold", "aux", NEED_TRUE},
    {"ramp", "form", 1u << FORM_CASTLING},
    {"ramp", "aux", NEED_TRUE},
    NEED_END,
};

static struct tensor *kernel_form(struct graph *g, const struct angular *o,
                                  const struct attn_site *s, struct tensor *a, struct tensor *f,
                                  struct tensor *v)
{
    const struct linear_terms terms = {.den = DEN_ADD, .order = o->order, .basis = BASIS_SYM,
                                       .c = {0.5, 1 / acos(-1), 0}};
    return linear_attend(g, s, a, f, v, terms);
}

/* Returns (B, N, D). */
static struct tensor *castling_form(struct graph *g, const struct angular *o,
                                    const struct attn_site *s, struct tensor *a, struct tensor *f,
                                    struct qkv t)
{
    const struct linear_terms terms = {.den = DEN_CONST, .eps = acos(-1), .order = o->order};
    const struct sdpa_terms large = {.regions = s->regions, .above = o->threshold,
                                     .above_last = o->ramp ? 1 : o->threshold};
    const struct token_map map = {{s->grid[0], s->grid[1]}, s->prefix, s->regions};
    struct tensor *x = op_add(g, linear_attend(g, s, a, f, t.v, terms), op_scale(g, t.v, 0.5));
    if (o->aux && g->options.noise)
        x = op_add(g, x, op_sdpa_terms(g, t.q, t.k, t.v, attn_scale(s), &large));
    x = op_stored(g, op_normalize(g, op_merge_heads(g, x), s->H, LEAST_NORM));
    graph_scope_push(g, "dwc");
    struct tensor *weight = graph_param(g, "weight", SHAPE(s->H, TAPS), INIT_TRUNCATED(0.02));
    graph_scope_pop(g);
    return op_add(g, x, op_line_conv(g, op_merge_heads(g, t.v), weight, &map));
}

static struct tensor *angular_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct angular *o = options;
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = op_normalize(g, t.q, 1, LEAST_NORM);
    struct tensor *f = op_normalize(g, t.k, 1, LEAST_NORM);
    return linear_project(g, s, o->form == FORM_KERNEL ? kernel_form(g, o, s, a, f, t.v)
                                                       : castling_form(g, o, s, a, f, t));
}

/* 4 N D^2 + 2 N (d + 1)(D + H); castling 4 N D^2 + 2 N d D + 9 P D with P patches, in evaluation */
static double angular_macs(const void *options, const struct attn_site *s)
{
    const struct angular *o = options;
    double d = (double)s->D / s->H;
    if (o->form == FORM_KERNEL)
        return linear_macs(s, d + 1, true);
    return linear_macs(s, d, false) + (double)TAPS * (s->N - s->prefix) * s->D;
}

/* The convolution of `castling` begins as nothing. */
static void angular_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    adapt_constant(a, "dwc.weight", 0);
}

/* The threshold is a step. */
static void angular_exact(void *options)
{
    struct angular *o = options;
    if (o->form == FORM_CASTLING && o->aux)
        o->threshold = 0;
}

const struct attn_variant angular_attn = {
    .name = "angular", .summary = "linear part of the angle between query and key (Castling-ViT)",
    .paper = "arXiv:2211.10526", .complexity = "O(N D^2 / H)",
    .fields = angular_fields, .options_size = sizeof(struct angular),
    .needs = angular_needs, .steps = true, .build = angular_build, .macs = angular_macs, .exact = angular_exact,
    .adapt = angular_adapt,
};
