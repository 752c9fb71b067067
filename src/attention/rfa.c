/* rfa.c - linear attention over random Fourier features, an estimate of softmax attention whose weights
 * may be negative. Peng et al., "Random Feature Attention", arXiv:2103.02143, section 3.1, eq. 4 to 6.
 * With x^ = d^(-1/4) x and m random rows w_r:
 *   phi(x) = m^(-1/2) exp(|x^|^2 / 2 - top) [sin w_r x^, cos w_r x^]
 * As in the code of EVA's authors q and k are taken as they are, not at unit length; top is the largest
 * |x^|^2 / 2 of the tokens, a constant to the gradient, for queries as for keys (0 without stabilize).
 * Denominators are at least den_floor, below which they mean nothing: there a query's output is not a mean
 * of values. */
#include <math.h>

#include "attention/random_features.h"
#include "nn/nn.h"

struct rfa {
    int m;
    bool orthogonal, scaling;
    int redraw;
    bool stabilize;
    double den_floor;
    int order;
};

static const struct field rfa_fields[] = {
    FIELDS_RANDOM_MATRIX(struct rfa),
    FIELD_BOOL(struct rfa, stabilize, true,
               "the largest exponent is taken from all, lest they overflow; false: as the paper has it"),
    FIELD_REAL(struct rfa, den_floor, 1e-2, 1e-12, 1, "denominators are at least this"),
    FIELD_ORDER(struct rfa),
    FIELD_END,
};

/* Features of queries or keys x: (B, H, N, 2 m). */
static struct tensor *features(struct graph *g, const struct rfa *o, const struct attn_site *s,
                               struct tensor *x, struct tensor *omega)
{
    const struct exp_terms terms = {
        .scale = random_scale(s), .factor = 1 / sqrt(o->m),
        .top = o->stabilize ? TOP_TOKENS : TOP_NONE, .regions = s->regions,
    };
    return op_trig_features(g, random_project(g, x, omega), x, &terms);
}

static struct tensor *rfa_build(struct graph *g, const void *options, const struct attn_site *s,
                                struct tensor *x)
{
    const struct rfa *o = options;
    const struct linear_terms terms = {.den = DEN_CLAMP, .eps = o->den_floor, .order = o->order};
    const struct random_matrix matrix = {o->m, o->orthogonal, o->scaling, o->redraw};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *omega = random_matrix(g, s, matrix);
    struct tensor *a = features(g, o, s, t.q, omega), *f = features(g, o, s, t.k, omega);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 6 N m D + 4 N m H + 2 N D: m projections, 2 m features, norms of q and k */
static double rfa_macs(const void *options, const struct attn_site *s)
{
    const struct rfa *o = options;
    double N = s->N, D = s->D, m = o->m;
    return linear_macs(s, 2 * m, true) + 2 * N * m * D + 2 * N * D;
}

/* The largest exponent, a constant to the gradient, does not cancel where a denominator is at its floor; and
 * denominators that happen to be near 0 are steeper than a step, so that the floor is where there are few. */
static void rfa_exact(void *options)
{
    struct rfa *o = options;
    o->stabilize = false;
    o->den_floor = 100;
}

const struct attn_variant rfa_attn = {
    .name = "rfa", .summary = "linear attention, random Fourier features",
    .paper = "arXiv:2103.02143", .complexity = "O(N m D)",
    .fields = rfa_fields, .options_size = sizeof(struct rfa),
    .kinks = true, /* where denominators meet their floor */
    .build = rfa_build, .macs = rfa_macs, .exact = rfa_exact,
};
