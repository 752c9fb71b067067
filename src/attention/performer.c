/* performer.c - linear attention over positive random features, an estimate of softmax attention.
 * Choromanski et al., "Rethinking Attention with Performers", arXiv:2009.14794, section 2. With
 * x^ = d^(-1/4) x and m random rows w_r:
 *   positive  phi(x)_r = m^(-1/2) (exp(w_r x^ - |x^|^2 / 2 - top) + eps)
 *   hyp       the same with the rows -w_r as well, 2 m features                   (lemma 1)
 *   relu      phi(x)_r = m^(-1/2) max(w_r x^, 0) + 0.001           (generalised attention)
 * top is the largest w_r x^ of a query, and of all keys of a head; it cancels but for eps, and is a
 * constant to the gradient. Where the codes differ: eps inside the brackets (authors) or outside (code of
 * EVA's authors, who also bound the denominator by 0.01), one matrix for each head. */
#include <math.h>

#include "attention/random_features.h"
#include "nn/nn.h"

enum performer_map { PERFORMER_POSITIVE, PERFORMER_HYP, PERFORMER_RELU };

struct performer {
    int m;
    bool orthogonal, scaling;
    int redraw, map;
    double eps;
    bool eps_inside;
    double den_floor;
    int order;
};

static const char *const map_names[] = {"positive", "hyp", "relu", NULL};

static const struct field performer_fields[] = {
    FIELDS_RANDOM_MATRIX(struct performer),
    FIELD_ENUM(struct performer, map, PERFORMER_POSITIVE, map_names,
               "features: exponentials, those of both signs (2 m), or positive parts"),
    FIELD_REAL(struct performer, eps, 1e-6, 0, 1,
               "added to each exponential; draws attention towards a mean over all tokens"),
    FIELD_BOOL(struct performer, eps_inside, true,
               "eps is added before the division by the root of the number of features, else after it"),
    FIELD_REAL(struct performer, den_floor, 1e-20, 1e-30, 1, "denominators are at least this"),
    FIELD_ORDER(struct performer),
    FIELD_END,
};

static const struct field_need performer_needs[] = {
    {"eps", "map", 1u << PERFORMER_POSITIVE | 1u << PERFORMER_HYP},
    {"eps_inside", "map", 1u << PERFORMER_POSITIVE | 1u << PERFORMER_HYP},
    {"eps_inside", "eps", NEED_OTHER},
    NEED_END,
};

/* max(w x^, 0) / sqrt m + 0.001 */
static struct tensor *positive_parts(struct graph *g, const struct attn_site *s, struct tensor *z)
{
    static const real least = (real)1e-3;
    double factor = random_scale(s) / sqrt(tensor_cols(z));
    struct tensor *y = op_map(g, op_scale(g, z, factor), MAP_RELU);
    return op_add_broadcast(g, y, graph_constant(g, SHAPE(1), &least), 0);
}

/* Features of queries or keys x: (B, H, N, m), with hyp (B, H, N, 2 m). */
static struct tensor *features(struct graph *g, const struct performer *o,
                               const struct attn_site *s, struct tensor *x, struct tensor *omega,
                               bool keys)
{
    struct tensor *z = random_project(g, x, omega);
    if (o->map == PERFORMER_RELU)
        return positive_parts(g, s, z);
    if (o->map == PERFORMER_HYP)
        z = op_concat_cols(g, (struct tensor *[]){z, z}, 2, (const double[]){1, -1});
    double factor = 1 / sqrt(o->map == PERFORMER_HYP ? 2 * o->m : o->m);
    const struct exp_terms terms = {
        .scale = random_scale(s), .factor = factor,
        .eps = o->eps_inside ? factor * o->eps : o->eps,
        .top = keys ? TOP_TOKENS : TOP_ROW, .regions = s->regions,
    };
    return op_exp_features(g, z, x, &terms);
}

static struct tensor *performer_build(struct graph *g, const void *options,
                                      const struct attn_site *s, struct tensor *x)
{
    const struct performer *o = options;
    const struct linear_terms terms = {.den = DEN_CLAMP, .eps = o->den_floor, .order = o->order};
    const struct random_matrix matrix = {o->m, o->orthogonal, o->scaling, o->redraw};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *omega = random_matrix(g, s, matrix);
    struct tensor *a = features(g, o, s, t.q, omega, false);
    struct tensor *f = features(g, o, s, t.k, omega, true);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 4 N m D + 2 N m H + 2 N D, the last for the norms of q and k, which relu lacks; hyp: features
 * twice as wide of as many projections */
static double performer_macs(const void *options, const struct attn_site *s)
{
    const struct performer *o = options;
    double N = s->N, D = s->D, m = o->m;
    return linear_macs(s, o->map == PERFORMER_HYP ? 2 * m : m, true) + 2 * N * m * D +
           (o->map == PERFORMER_RELU ? 0 : 2 * N * D);
}

/* The largest exponent, a constant to the gradient, does not cancel where eps is above 0; few rows have
 * few kinks of relu in reach. */
static void performer_exact(void *options)
{
    struct performer *o = options;
    if (o->map != PERFORMER_RELU) {
        o->eps = 0;
        o->eps_inside = true;
    }
    o->m = 6;
}

const struct attn_variant performer_attn = {
    .name = "performer", .summary = "linear attention, positive random features (FAVOR+)",
    .paper = "arXiv:2009.14794", .complexity = "O(N m D)",
    .fields = performer_fields, .options_size = sizeof(struct performer),
    .needs = performer_needs, .kinks = true, .build = performer_build, .macs = performer_macs,
    .exact = performer_exact,
};
