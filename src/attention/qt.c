/* qt.c - linear attention with the compact second-order Taylor features of QT-ViT (NeurIPS 2024,
 * OpenReview V2e0A2XIPF), eq. 11:
 *   phi(x) = [alpha {x_i^2}, beta (4 / d)^(1/4) {x_i}, gamma]
 * with three learned numbers a layer, for queries and keys alike. The paper's outer factors are merged:
 * (1 / sqrt 2, 0, 1) at first, which is exact; its rebuttal says gamma = sqrt 2. Table 3 puts other
 * products in place of the squares, here each divided by their norm: those of averages of `pool`
 * channels, those inside `chunk` parts, or d random ones of all d^2. Weights can be negative where
 * gamma^2 < beta^4 / alpha^2, and with random products, whose denominator is at least 1e-6. */
#include <math.h>
#include <stdlib.h>

#include "attention/adapt.h"
#include "attention/key_table.h"
#include "attention/linear.h"
#include "attention/shortcut.h"
#include "base/rng.h"
#include "nn/nn.h"

enum zero { ZERO_NONE, ZERO_ALPHA, ZERO_BETA, ZERO_GAMMA };
enum reduce { REDUCE_SELF, REDUCE_POOL, REDUCE_CHUNK, REDUCE_RANDOM };

struct qt {
    double alpha0, beta0, gamma0;
    int zero, reduce, pool, chunk;
    bool ape, shortcut;
    int order;
};

static const char *const zero_names[] = {"none", "alpha", "beta", "gamma", NULL};
static const char *const reduce_names[] = {"self", "pool", "chunk", "random", NULL};

static const struct field qt_fields[] = {
    FIELD_REAL(struct qt, alpha0, 0.70710678118654752440, -10, 10, "first factor of the products"),
    FIELD_REAL(struct qt, beta0, 0, -10, 10, "first factor of the linear features; 0 stays 0"),
    FIELD_REAL(struct qt, gamma0, 1, -10, 10, "first constant feature"),
    FIELD_ENUM(struct qt, zero, ZERO_NONE, zero_names, "which of these starts at 0.001 instead"),
    FIELD_ENUM(struct qt, reduce, REDUCE_SELF, reduce_names,
               "products: of each channel with itself, of pooled channels, inside chunks, random"),
    FIELD_INT(struct qt, pool, 2, 1, 512, "channels that are averaged into one; divides a head's"),
    FIELD_INT(struct qt, chunk, 2, 1, 512, "chunks of a head's channels; divides them"),
    FIELD_APE(struct qt, true),
    FIELD_SHORTCUT(struct qt, true),
    FIELD_ORDER(struct qt),
    FIELD_END,
};

static const struct field_need qt_needs[] = {
    {"alpha0", "zero", ~(1u << ZERO_ALPHA)},
    {"beta0", "zero", ~(1u << ZERO_BETA)},
    {"gamma0", "zero", ~(1u << ZERO_GAMMA)},
    {"pool", "reduce", 1u << REDUCE_POOL},
    {"chunk", "reduce", 1u << REDUCE_CHUNK},
    NEED_END,
};

static enum status qt_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct qt *o = options;
    const double least = 1e-6; /* smaller factors have squares that are no weights in float */
    if (fabs(o->alpha0) < least && fabs(o->gamma0) < least && o->zero != ZERO_ALPHA &&
        o->zero != ZERO_GAMMA)
        return error_set(err, ERR_INPUT,
                         "gamma0: without it and alpha0 keys have no weight (1, as in the paper, would "
                         "do, or another alpha0)");
    int d = s->D / s->H;
    int parts = o->reduce == REDUCE_POOL ? o->pool : o->reduce == REDUCE_CHUNK ? o->chunk : 1;
    int divisor = parts < d ? parts : d;
    while (d % divisor)
        divisor--;
    if (d % parts)
        return error_set(err, ERR_INPUT,
                         "%s: %d does not divide the %d channels of a head (%d and %d would)",
                         reduce_names[o->reduce], parts, d, divisor, d);
    int products = o->reduce == REDUCE_POOL || o->reduce == REDUCE_CHUNK ? d / parts : 1;
    if (products > OUTER_MOST)
        return error_set(err, ERR_INPUT, "%s: products of %d channels (%d at most)",
                         reduce_names[o->reduce], products, OUTER_MOST);
    return OK;
}

/* How many products there are. */
static int products_of(const struct qt *o, const struct attn_site *s)
{
    int d = s->D / s->H;
    if (o->reduce == REDUCE_POOL)
        return d / o->pool * (d / o->pool);
    return o->reduce == REDUCE_CHUNK ? d / o->chunk * d : d;
}

/* Distinct ones of all pairs (i, j) of d channels.  value: (d, 2) */
static enum status init_pairs(real *value, const struct shape *shape, const struct init *init,
                              uint64_t stream, struct error *err)
{
    (void)init;
    size_t d = (size_t)shape->dim[0];
    size_t *order = malloc(d * d * sizeof *order);
    if (!order)
        return error_memory(err, d * d * sizeof *order);
    rng_permutation(order, d * d, stream, 0);
    for (size_t i = 0; i < d; i++) {
        value[2 * i] = (real)(order[i] / d);
        value[2 * i + 1] = (real)(order[i] % d);
    }
    free(order);
    return OK;
}

/* Averages of `pool` channels each.  x: (B, H, N, d), real. Returns (B, H, N, d / pool). */
static struct tensor *pooled(struct graph *g, const struct qt *o, const struct attn_site *s,
                             struct tensor *x)
{
    int d = s->D / s->H, kept = d / o->pool;
    x = graph_reshape(g, op_real(g, x), SHAPE(s->B, s->H, s->N * kept, o->pool, 1));
    return graph_reshape(g, op_token_mean(g, x, NULL), SHAPE(s->B, s->H, s->N, kept));
}

/* The second-order features, before alpha.  x: (B, H, N, d), real. */
static struct tensor *products(struct graph *g, const struct qt *o, const struct attn_site *s,
                               struct tensor *x)
{
    int d = s->D / s->H;
    const struct init pairs = {init_pairs, 0, 0};
    switch ((enum reduce)o->reduce) {
    case REDUCE_SELF:
        return op_map(g, x, MAP_SQUARE);
    case REDUCE_POOL:
        x = op_outer(g, pooled(g, o, s, x), 1);
        break;
    case REDUCE_CHUNK:
        x = op_outer(g, x, o->chunk);
        break;
    case REDUCE_RANDOM:
        x = op_pair_products(g, x, graph_param_flags(g, "pairs", SHAPE(d, 2), pairs, PARAM_BUFFER));
    }
    return op_normalize(g, x, 1, 1e-15);
}

/* One of the learned numbers; they decay as the authors' code lets gamma. */
static struct tensor *scalar(struct graph *g, const struct qt *o, enum zero which, double start)
{
    return graph_param_flags(g, zero_names[which], SHAPE(1),
                             INIT_CONSTANT(o->zero == (int)which ? 1e-3 : start), PARAM_DECAY);
}

static struct tensor *features(struct graph *g, const struct qt *o, const struct attn_site *s,
                               struct tensor *x)
{
    const double factor[] = {1, pow(4.0 * s->H / s->D, 0.25), 1};
    x = linear_real(g, x);
    struct tensor *alpha = scalar(g, o, ZERO_ALPHA, o->alpha0);
    struct tensor *beta = scalar(g, o, ZERO_BETA, o->beta0);
    struct tensor *part[] = {op_multiply_broadcast(g, products(g, o, s, x), alpha),
                             op_multiply_broadcast(g, x, beta),
                             scalar(g, o, ZERO_GAMMA, o->gamma0)};
    return op_concat_cols(g, part, 3, factor);
}

static struct tensor *qt_build(struct graph *g, const void *options, const struct attn_site *s,
                               struct tensor *x)
{
    const struct qt *o = options;
    bool may_vanish = o->reduce == REDUCE_RANDOM;
    const struct linear_terms terms = {.den = may_vanish ? DEN_CLAMP : DEN_ADD,
                                       .eps = may_vanish ? 1e-6 : 0, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *k = o->ape ? key_table_add(g, s, t.k) : t.k;
    struct tensor *a = features(g, o, s, t.q), *f = features(g, o, s, k);
    struct tensor *y = linear_attend(g, s, a, f, t.v, terms);
    return linear_project(g, s, o->shortcut ? shortcut_add(g, y, t.v) : y);
}

/* 4 N D^2 + 2 N (products + d + 1)(D + H) */
static double qt_macs(const void *options, const struct attn_site *s)
{
    return linear_macs(s, products_of(options, s) + (double)s->D / s->H + 1, true);
}

/* Weights begin with 1 + q . k / sqrt d, as exp(q . k / sqrt d) does. With this alpha they stay
 * positive. */
static void qt_adapt(const struct adapt *a, const void *options)
{
    adapt_constant(a, "alpha", sqrt(0.5));
    adapt_constant(a, "beta", sqrt(0.5));
    adapt_constant(a, "gamma", 1);
    shortcut_adapt(a, options);
}

/* Weights of random products that cannot cancel: a sum near 0 is steep, and what it divides is so large
 * that nothing else is seen beside it. */
static void qt_positive(void *options)
{
    struct qt *o = options;
    if (o->reduce == REDUCE_RANDOM && o->zero != ZERO_GAMMA)
        o->gamma0 = 2;
}

const struct attn_variant qt_attn = {
    .name = "qt", .summary = "compact second-order Taylor features (QT-ViT, eq. 11)",
    .paper = "NeurIPS 2024, OpenReview V2e0A2XIPF", .complexity = "O(N D^2 / H)",
    .fields = qt_fields, .options_size = sizeof(struct qt),
    .needs = qt_needs, .check = qt_check, .build = qt_build, .macs = qt_macs, .exact = qt_positive,
    .adapt = qt_adapt,
};
