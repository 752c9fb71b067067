/* dijiang.c - linear attention over features of a cosine transform with drawn factors.
 * Chen et al., "DiJiang: Efficient Large Language Models through Compact Kernelization",
 * arXiv:2403.19928, and the authors' code, over all tokens in place of the causal decay. With C the
 * orthonormal DCT-II, C[j, n] = a_j cos(pi (2 n + 1) j / 2 d), and factors t that are drawn once:
 *   projection  code: z = x C diag(t)    paper: z = diag(t) C x
 *   map         softmax: phi = softmax(z)    exp: phi = w exp(z - top), w learned
 *   norm        sum: y = phi(q) S / phi(q) z    group_norm: y = SiLU(x W_G) GroupNorm(phi(q) S), in d
 *               groups of H channels, as in the authors' code
 * top is the largest z of a query, and of all keys of a head; it cancels. Drawn from a normal
 * distribution, as in the code, the factors do not make this an estimate of softmax attention; lengths of
 * d-dimensional normal vectors (chi) are what the theorem asks for. */
#include <math.h>

#include "attention/linear.h"
#include "base/rng.h"
#include "nn/nn.h"

enum { PROJECTION_CODE, PROJECTION_PAPER };
enum { FEATURES_SOFTMAX, FEATURES_EXP };
enum { NORM_SUM, NORM_GROUPS };
enum { RADIAL_NORMAL, RADIAL_CHI };

struct dijiang {
    int projection, map, norm, radial;
    double group_eps;
    int order;
};

static const char *const projection_names[] = {"code", "paper", NULL};
static const char *const map_names[] = {"softmax", "exp", NULL};
static const char *const norm_names[] = {"sum", "group_norm", NULL};
static const char *const radial_names[] = {"normal", "chi", NULL};

static const struct field dijiang_fields[] = {
    FIELD_ENUM(struct dijiang, projection, PROJECTION_CODE, projection_names,
               "the transform of the authors' code, the paper's transposed, or the paper's"),
    FIELD_ENUM(struct dijiang, map, FEATURES_SOFTMAX, map_names,
               "features: softmax (code), or exponentials with learned weights (paper)"),
    FIELD_ENUM(struct dijiang, norm, NORM_SUM, norm_names,
               "division by the sum of weights (paper), or group normalisation and a gate (code)"),
    FIELD_ENUM(struct dijiang, radial, RADIAL_NORMAL, radial_names,
               "what the factors are drawn from: normal, or lengths of normal vectors"),
    FIELD_REAL(struct dijiang, group_eps, 1e-5, 1e-12, 1, "added to the variance of a group"),
    FIELD_ORDER(struct dijiang),
    FIELD_END,
};

static const struct field_need dijiang_needs[] = {
    {"group_eps", "norm", 1u << NORM_GROUPS},
    NEED_END,
};

static enum status dijiang_check(const void *options, const struct attn_site *s,
                                 struct error *err)
{
    const struct dijiang *o = options;
    if (o->norm == NORM_GROUPS && o->map == FEATURES_EXP)
        return error_set(err, ERR_INPUT,
                         "norm: group_norm has no denominator, which map exp needs (norm sum, or "
                         "map softmax)");
    if (o->norm == NORM_GROUPS && s->H < 2)
        return error_set(err, ERR_INPUT,
                         "norm: group_norm has one channel of each head in a group, and nothing to "
                         "normalise with one head (2 heads or more)");
    return OK;
}

/* Lengths of vectors of as many normal numbers as there are factors. */
static enum status fill_chi(real *value, const struct shape *shape, const struct init *init,
                            uint64_t stream, struct error *err)
{
    (void)init;
    (void)err;
    int d = shape->dim[0];
    for (int i = 0; i < d; i++) {
        double sum = 0;
        for (int c = 0; c < d; c++) {
            double x = rng_normal(stream, 0, (uint64_t)i, (uint64_t)c);
            sum += x * x;
        }
        value[i] = (real)sqrt(sum);
    }
    return OK;
}

/* C, or C^T: (d, d). */
static struct tensor *cosines(struct graph *g, int d, bool transposed)
{
    const double pi = 3.14159265358979323846;
    real *C = arena_alloc(&g->memory, (size_t)d * (size_t)d * sizeof *C);
    if (!C)
        return graph_fail(g, ERR_MEMORY, "out of memory for a transform of %d numbers", d);
    for (int j = 0; j < d; j++)
        for (int n = 0; n < d; n++)
            C[transposed ? n * d + j : j * d + n] =
                (real)(sqrt((j ? 2.0 : 1.0) / d) * cos(pi * (2 * n + 1) * j / (2 * d)));
    return graph_constant(g, SHAPE(d, d), C);
}

struct projection {
    struct tensor *cosines, *t, *weight; /* the last: of the map exp alone */
};

static struct projection projection_of(struct graph *g, const struct dijiang *o, int d)
{
    const struct init draw = o->radial == RADIAL_CHI ? (struct init){fill_chi, 0, 0}
                                                     : INIT_NORMAL(1);
    struct projection p = {
        .cosines = cosines(g, d, o->projection == PROJECTION_PAPER),
        .t = graph_param_flags(g, "t", SHAPE(d), draw, PARAM_BUFFER),
    };
    if (o->map == FEATURES_EXP)
        p.weight = graph_param(g, "map.weight", SHAPE(d), INIT_ONES);
    return p;
}

/* Features of queries or keys x: (B, H, N, d), real. */
static struct tensor *features(struct graph *g, const struct projection *p,
                               const struct attn_site *s, struct tensor *x, bool keys)
{
    const struct exp_terms terms = {
        .scale = 1, .factor = 1, .top = keys ? TOP_TOKENS : TOP_ROW, .regions = s->regions,
    };
    struct tensor *z = op_matmul_real(g, linear_real(g, x), p->cosines);
    z = op_multiply_broadcast(g, z, p->t);
    if (!p->weight)
        return op_softmax(g, z);
    return op_multiply_broadcast(g, op_exp_features(g, z, NULL, &terms), p->weight);
}

/* SiLU(x W_G) times the group normalisation of y, in groups of the H channels that follow one
 * another.  y: (B, N, D) */
static struct tensor *normalised_and_gated(struct graph *g, const struct attn_site *s, double eps,
                                           struct tensor *y, struct tensor *x)
{
    int d = s->D / s->H;
    const struct shape flat = y->shape;
    real *ones = arena_alloc(&g->memory, 2 * (size_t)s->H * sizeof *ones), *zeros = ones + s->H;
    if (!ones)
        return graph_fail(g, ERR_MEMORY, "out of memory for a group of %d channels", s->H);
    for (int h = 0; h < s->H; h++) {
        ones[h] = 1;
        zeros[h] = 0;
    }
    y = op_layer_norm(g, graph_reshape(g, y, SHAPE(s->B, s->N, d, s->H)),
                      graph_constant(g, SHAPE(s->H), ones), graph_constant(g, SHAPE(s->H), zeros),
                      eps);
    y = graph_reshape(g, y, flat);
    graph_scope_push(g, "group_norm");
    y = op_multiply_broadcast(g, y, graph_param(g, "weight", SHAPE(s->D), INIT_ONES));
    y = op_add_broadcast(g, y, graph_param(g, "bias", SHAPE(s->D), INIT_ZEROS), 0);
    graph_scope_pop(g);
    struct tensor *W = graph_param(g, "gate.weight", SHAPE(s->D, s->D),
                                   INIT_UNIFORM(exp2(-2.5) * sqrt(3.0 / s->D)));
    return op_multiply(g, y, op_map_stored(g, op_linear(g, x, W, NULL), MAP_SILU));
}

static struct tensor *dijiang_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct dijiang *o = options;
    const struct linear_terms terms = {
        .den = o->norm == NORM_SUM ? DEN_CLAMP : DEN_NONE, .eps = 1e-20, .order = o->order,
    };
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    const struct projection p = projection_of(g, o, s->D / s->H);
    struct tensor *a = features(g, &p, s, t.q, false), *f = features(g, &p, s, t.k, true);
    struct tensor *y = linear_attend(g, s, a, f, t.v, terms);
    if (o->norm == NORM_GROUPS)
        y = normalised_and_gated(g, s, o->group_eps, op_merge_heads(g, y), x);
    return linear_project(g, s, y);
}

/* 4 N D^2 + 4 N D d + 2 N D; without denominator 4 N D^2 + 4 N D d, and N D^2 for the gate */
static double dijiang_macs(const void *options, const struct attn_site *s)
{
    const struct dijiang *o = options;
    double N = s->N, D = s->D, d = D / s->H;
    double macs = linear_macs(s, d, o->norm == NORM_SUM) + 2 * N * D * d;
    return macs + (o->norm == NORM_GROUPS ? N * D * D : 0);
}

/* Groups of two channels are normalised to almost their sign, of which differences say little. */
static void dijiang_exact(void *options)
{
    struct dijiang *o = options;
    if (o->norm == NORM_GROUPS)
        o->group_eps = 0.1;
}

const struct attn_variant dijiang_attn = {
    .name = "dijiang", .summary = "linear attention, features of a cosine transform (DiJiang)",
    .paper = "arXiv:2403.19928", .complexity = "O(N D^2 / H)",
    .fields = dijiang_fields, .options_size = sizeof(struct dijiang),
    .needs = dijiang_needs, .check = dijiang_check, .build = dijiang_build, .macs = dijiang_macs,
    .exact = dijiang_exact,
};
