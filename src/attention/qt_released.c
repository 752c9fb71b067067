/* qt_released.c - linear attention as in the released code of QT-ViT (NeurIPS 2024, OpenReview
 * V2e0A2XIPF), which reproduces the published sizes and is not eq. 11 of the paper:
 *   phi(x) = [w, gamma],  w = y / |y|,  y = x^2 element by element
 * with one learned number gamma a layer. All weights lie in gamma^2 .. gamma^2 + 1, whatever the size of
 * queries and keys. The code normalises x as well, which changes nothing and is left out. */
#include "attention/key_table.h"
#include "attention/linear.h"
#include "attention/shortcut.h"
#include "nn/nn.h"

static const double EPS = 1e-15;

struct qt_released {
    bool ape, shortcut;
    int order;
};

static const struct field qt_released_fields[] = {
    FIELD_APE(struct qt_released, true),
    FIELD_SHORTCUT(struct qt_released, true),
    FIELD_ORDER(struct qt_released),
    FIELD_END,
};

/* gamma decays, as in the authors' code. */
static struct tensor *features(struct graph *g, struct tensor *x)
{
    struct tensor *w = op_normalize(g, op_map(g, x, MAP_SQUARE), 1, EPS);
    struct tensor *gamma = graph_param_flags(g, "gamma", SHAPE(1), INIT_ONES, PARAM_DECAY);
    return op_concat_cols(g, (struct tensor *[]){w, gamma}, 2, NULL);
}

static struct tensor *qt_released_build(struct graph *g, const void *options,
                                        const struct attn_site *s, struct tensor *x)
{
    const struct qt_released *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = EPS, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *k = o->ape ? key_table_add(g, s, t.k) : t.k;
    struct tensor *a = features(g, t.q), *f = features(g, k);
    struct tensor *y = linear_attend(g, s, a, f, t.v, terms);
    return linear_project(g, s, o->shortcut ? shortcut_add(g, y, t.v) : y);
}

/* 4 N D^2 + 2 N (d + 1)(D + H) */
static double qt_released_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    return linear_macs(s, (double)s->D / s->H + 1, true);
}

const struct attn_variant qt_released_attn = {
    .name = "qt_released", .summary = "normalised squares and a constant (QT-ViT, released code)",
    .paper = "NeurIPS 2024, OpenReview V2e0A2XIPF", .complexity = "O(N D^2 / H)",
    .fields = qt_released_fields, .options_size = sizeof(struct qt_released),
    .build = qt_released_build, .macs = qt_released_macs, .adapt = shortcut_adapt,
};
