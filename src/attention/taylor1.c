/* taylor1.c - linear attention whose weights are the Taylor expansion of exp(s), s = q . k / sqrt d, to
 * first order: 1 + s. Dass et al., "ViTALiTy", arXiv:2211.05109. With the mean of the keys taken away
 * from each of them, which softmax does not notice, a query's weights sum to the number of keys:
 *   y = mean v + q ((k - mean k)^T v) / (N sqrt d)
 * Without that (`none`) the sum is data, may be negative and may vanish. `feature` is the authors' code:
 * each key loses the mean over its own channels, y = q (k^T v) / sqrt d. In a region means and N are the
 * region's.
 *
 * While training the weights of softmax(q k^T / sqrt d) above a threshold are added as they are, of queries
 * and keys rounded to a few bits, whose gradient passes straight through; with `feature` also in
 * evaluation, over sqrt d. */
#include "attention/linear.h"
#include "nn/nn.h"

enum centre { CENTRE_TOKEN, CENTRE_NONE, CENTRE_FEATURE };

struct taylor1 {
    int centre;
    bool residual;
    double threshold;
    int bits, order;
};

static const double MOMENTUM = 0.9;
static const char *const centre_names[] = {"token", "none", "feature", NULL};

static const struct field taylor1_fields[] = {
    FIELD_ENUM(struct taylor1, centre, CENTRE_TOKEN, centre_names,
               "what keys lose: their mean over tokens, nothing, or each its mean over channels"),
    FIELD_BOOL(struct taylor1, residual, true, "adds large softmax weights while training"),
    FIELD_REAL(struct taylor1, threshold, 0.002, 0, 1, "residual: which of them are large"),
    FIELD_INT(struct taylor1, bits, 4, 0, 16,
              "residual: queries and keys are rounded to 2^bits levels; 0: they are not"),
    FIELD_ORDER(struct taylor1),
    FIELD_END,
};

static const struct field_need taylor1_needs[] = {
    {"threshold", "residual", NEED_TRUE},
    {"bits", "residual", NEED_TRUE},
    NEED_END,
};

/* Running least number and range of queries and of keys: which of the four. */
static struct tensor *running(struct graph *g, const char *which)
{
    graph_scope_push(g, "quant");
    struct tensor *buffer = graph_param_flags(g, which, SHAPE(1), INIT_ZEROS, PARAM_BUFFER);
    graph_scope_pop(g);
    return buffer;
}

/* The large softmax weights times v; NULL where there are none. Makes the buffers in any case. */
static struct tensor *residual(struct graph *g, const struct taylor1 *o,
                               const struct attn_site *s, struct qkv t)
{
    struct tensor *of_q[2] = {0}, *of_k[2] = {0};
    if (o->residual && o->bits) {
        of_q[0] = running(g, "q_min"), of_q[1] = running(g, "q_range");
        of_k[0] = running(g, "k_min"), of_k[1] = running(g, "k_range");
    }
    if (!o->residual || !(g->options.noise || o->centre == CENTRE_FEATURE))
        return NULL;
    if (o->bits) {
        t.q = op_quantise(g, op_real(g, t.q), of_q[0], of_q[1], o->bits, MOMENTUM);
        t.k = op_quantise(g, op_real(g, t.k), of_k[0], of_k[1], o->bits, MOMENTUM);
    }
    const struct sdpa_terms terms = {.regions = s->regions, .above = o->threshold,
                                     .above_last = o->threshold};
    return op_stored(g, op_sdpa_terms(g, t.q, t.k, t.v, attn_scale(s), &terms));
}

static struct tensor *token_centred(struct graph *g, const struct attn_site *s, struct qkv t,
                                    int order)
{
    const struct linear_terms terms = {.den = DEN_CONST, .eps = 1 / attn_scale(s),
                                       .per_key = true, .order = order};
    struct tensor *f = op_token_centre(g, t.k, s->regions);
    struct tensor *y = linear_attend(g, s, linear_real(g, t.q), f, t.v, terms);
    return op_add_broadcast(g, y, op_token_mean(g, t.v, s->regions), 0);
}

static struct tensor *uncentred(struct graph *g, const struct attn_site *s, struct qkv t,
                                int order)
{
    const struct linear_terms terms = {.den = DEN_ADD, .order = order, .basis = BASIS_SYM,
                                       .c = {1, attn_scale(s), 0}};
    return linear_attend(g, s, linear_real(g, t.q), linear_real(g, t.k), t.v, terms);
}

/* A key's channels as tokens of one channel, whose mean goes. */
static struct tensor *feature_centred(struct graph *g, const struct attn_site *s, struct qkv t,
                                      int order)
{
    const struct linear_terms terms = {.den = DEN_CONST, .eps = 1 / attn_scale(s), .order = order};
    struct tensor *f = op_real(g, t.k);
    const struct shape shape = f->shape;
    int d = s->D / s->H;
    f = op_token_centre(g, graph_reshape(g, f, SHAPE(s->B, s->H, s->N, d, 1)), NULL);
    f = graph_reshape(g, f, shape);
    return linear_attend(g, s, linear_real(g, t.q), f, t.v, terms);
}

static struct tensor *taylor1_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    static struct tensor *(*const forms[])(struct graph *, const struct attn_site *, struct qkv,
                                           int) = {token_centred, uncentred, feature_centred};
    const struct taylor1 *o = options;
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *y = forms[o->centre](g, s, t, o->order), *more = residual(g, o, s, t);
    if (more && o->centre == CENTRE_FEATURE)
        more = op_scale(g, more, attn_scale(s));
    return linear_project(g, s, more ? op_add(g, y, more) : y);
}

/* 4 N D^2 + 2 N d D, without centring 4 N D^2 + 2 N (d + 1)(D + H), in evaluation; the residual, with
 * `feature` there too, is 2 N^2 D. */
static double taylor1_macs(const void *options, const struct attn_site *s)
{
    const struct taylor1 *o = options;
    bool normalised = o->centre == CENTRE_NONE, stays = o->centre == CENTRE_FEATURE && o->residual;
    return linear_macs(s, (double)s->D / s->H + normalised, normalised) +
           (stays ? 2.0 * s->N * s->N * s->D : 0);
}

/* Rounding and the threshold are steps. */
static void taylor1_exact(void *options)
{
    struct taylor1 *o = options;
    if (!o->residual)
        return;
    o->bits = 0;
    o->threshold = 0;
}

const struct attn_variant taylor1_attn = {
    .name = "taylor1", .summary = "first-order Taylor weights, keys centred (ViTALiTy)",
    .paper = "arXiv:2211.05109", .complexity = "O(N D^2 / H)",
    .fields = taylor1_fields, .options_size = sizeof(struct taylor1),
    .needs = taylor1_needs, .steps = true, .build = taylor1_build, .macs = taylor1_macs, .exact = taylor1_exact,
};
