/* cosformer.c - linear attention with ReLU features, weighted by the cosine of the distance of tokens.
 * Qin et al., "cosFormer: Rethinking Softmax in Attention", arXiv:2202.08791, eq. 10 to 12:
 *   (relu(q_i) . relu(k_j)) cos(pi / 2 (i - j) / M) = [a_i sin, a_i cos] . [f_j sin, f_j cos]
 * with the angles pi / 2 i / M for M keys. Patches are counted from 1 in raster order; the angle of
 * prefix tokens is 0. */
#include <math.h>

#include "attention/linear.h"
#include "nn/nn.h"

struct cosformer {
    int order;
};

static const struct field cosformer_fields[] = {
    FIELD_ORDER(struct cosformer),
    FIELD_END,
};

/* Sine and cosine of each token's angle, d times each: (N, 2 d). */
static struct tensor *factors(struct graph *g, const struct attn_site *s)
{
    size_t d = (size_t)(s->D / s->H), N = (size_t)s->N;
    real *factor = arena_alloc(&g->memory, 2 * N * d * sizeof *factor);
    if (!factor)
        return graph_fail(g, ERR_MEMORY, "out of memory for the angles of %d tokens", s->N);
    for (size_t i = 0; i < 2 * N * d; i++) {
        int token = (int)(i / (2 * d)), place = token < s->prefix ? 0 : token - s->prefix + 1;
        double angle = acos(-1) / 2 * place / s->N;
        factor[i] = (real)(i / d % 2 ? cos(angle) : sin(angle));
    }
    return graph_constant(g, SHAPE(s->N, (int)(2 * d)), factor);
}

/* [max(x, 0) sin, max(x, 0) cos]: (B, H, N, 2 d), real. */
static struct tensor *features(struct graph *g, struct tensor *x, struct tensor *factor)
{
    struct tensor *r = op_map(g, x, MAP_RELU);
    return op_multiply_broadcast(g, op_concat_cols(g, (struct tensor *[]){r, r}, 2, NULL), factor);
}

static struct tensor *cosformer_build(struct graph *g, const void *options,
                                      const struct attn_site *s, struct tensor *x)
{
    const struct cosformer *o = options;
    const struct linear_terms terms = {.den = DEN_CLAMP, .eps = 1e-6, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *factor = factors(g, s);
    struct tensor *a = features(g, t.q, factor), *f = features(g, t.k, factor);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 4 N d (D + H) */
static double cosformer_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, 2.0 * s->D / s->H, true);
}

const struct attn_variant cosformer_attn = {
    .name = "cosformer", .summary = "linear attention, ReLU features, weights fall with distance",
    .paper = "arXiv:2202.08791", .complexity = "O(N D^2 / H)",
    .fields = cosformer_fields, .options_size = sizeof(struct cosformer),
    .kinks = true, .build = cosformer_build, .macs = cosformer_macs,
};
