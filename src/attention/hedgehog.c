/* hedgehog.c - linear attention with trained features that are mirrored and spiky as exponentials are.
 * Zhang et al., "The Hedgehog & the Porcupine", arXiv:2402.04347, section 4, in the forms of the
 * authors' later code and of flash-linear-attention. With z = W x, a matrix W for each head:
 *   softmax  [softmax(z), softmax(-z)]                joint    softmax([2 z, -2 z]), z = W x + b
 *   exp      [exp(z - max z), exp(-z + min z)], each half a softmax divided by its largest number
 * The code's lower bound of 1e-12 on each feature, which none of these misses in sum, is left out. */
#include <math.h>

#include "attention/adapt.h"
#include "attention/linear.h"
#include "nn/nn.h"

enum form { FORM_SOFTMAX, FORM_EXP, FORM_JOINT };
enum map_init { MAP_IDENTITY, MAP_KAIMING, MAP_ZEROS };

struct hedgehog {
    int form, init;
    bool tie;
    int order;
};

static const char *const form_names[] = {"softmax", "exp", "joint", NULL};
static const char *const init_names[] = {"identity", "kaiming", "zeros", NULL};

static const struct field hedgehog_fields[] = {
    FIELD_ENUM(struct hedgehog, form, FORM_SOFTMAX, form_names,
               "features: two softmaxes, two exponentials without their sums, or one softmax of both"),
    FIELD_ENUM(struct hedgehog, init, MAP_IDENTITY, init_names,
               "first maps; zeros: the map is added to its input"),
    FIELD_BOOL(struct hedgehog, tie, false, "one map for queries and keys"),
    FIELD_ORDER(struct hedgehog),
    FIELD_END,
};

/* z of the map `name`: (B, H, N, d), real. */
static struct tensor *mapped(struct graph *g, const struct attn_site *s, const struct hedgehog *o,
                             const char *name, struct tensor *x)
{
    int d = s->D / s->H;
    const struct init first[] = {INIT_IDENTITY, INIT_UNIFORM(sqrt(6.0 / d)), INIT_ZEROS};
    graph_scope_push(g, "%s", name);
    struct tensor *W = graph_param(g, "weight", SHAPE(s->H, d, d), first[o->init]);
    x = linear_real(g, x);
    struct tensor *z = op_matmul_nt_real(g, x, W);
    if (o->init == MAP_ZEROS)
        z = op_add(g, z, op_real(g, x));
    if (o->form == FORM_JOINT) {
        struct tensor *b = graph_param_flags(g, "bias", SHAPE(s->H, d), INIT_ZEROS, 0);
        z = op_add_broadcast(g, z, graph_reshape(g, b, SHAPE(s->H, 1, d)), 0);
    }
    graph_scope_pop(g);
    return z;
}

static struct tensor *features(struct graph *g, const struct hedgehog *o, struct tensor *z)
{
    static const double mirror[] = {2, -2};
    if (o->form == FORM_JOINT)
        return op_softmax(g, op_concat_cols(g, (struct tensor *[]){z, z}, 2, mirror));
    struct tensor *half[] = {op_softmax(g, z), op_softmax(g, op_scale(g, z, -1))};
    for (int i = 0; i < 2 && o->form == FORM_EXP; i++)
        half[i] = op_divide_largest(g, half[i]);
    return op_concat_cols(g, half, 2, NULL);
}

static struct tensor *hedgehog_build(struct graph *g, const void *options,
                                     const struct attn_site *s, struct tensor *x)
{
    const struct hedgehog *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = 1e-12, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = features(g, o, mapped(g, s, o, "q_map", t.q));
    struct tensor *f = features(g, o, mapped(g, s, o, o->tie ? "q_map" : "k_map", t.k));
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N D d + 4 N d (D + H) */
static double hedgehog_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    double N = s->N, D = s->D, d = D / s->H;
    return linear_macs(s, 2 * d, true) + 2 * N * D * d;
}

/* Two mirrored softmaxes of z = c q and of c k give weights in proportion to 1 + c^2 / d q . k and
 * higher terms, means over d apart, and `joint` to 1 + 4 c^2 / d q . k; exp(q . k / sqrt d) begins
 * with 1 + q . k / sqrt d. */
static void hedgehog_adapt(const struct adapt *a, const void *options)
{
    static const char *const names[] = {"q_map.weight", "k_map.weight"};
    const struct hedgehog *o = options;
    double factor = pow((double)a->site->D / a->site->H, 0.25) / (o->form == FORM_JOINT ? 2 : 1);
    for (int i = 0; i < 2; i++)
        adapt_identity(a, names[i], o->init == MAP_ZEROS ? factor - 1 : factor);
}

const struct attn_variant hedgehog_attn = {
    .name = "hedgehog", .summary = "linear attention, trained mirrored features (Hedgehog)",
    .paper = "arXiv:2402.04347", .complexity = "O(N D^2 / H)",
    .fields = hedgehog_fields, .options_size = sizeof(struct hedgehog),
    .kinks = true, .build = hedgehog_build, .macs = hedgehog_macs,
    .adapt = hedgehog_adapt,
};
