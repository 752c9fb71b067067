/* aft_simple.c - attention-free: one weighted mean of the values for all tokens, gated by each of them.
 * Zhai et al., "An Attention Free Transformer", arXiv:2105.14103, section 3.2, eq. 7:
 *   y_t = sigmoid(q_t) * sum over t' of (softmax over tokens of k)_t' * v_t', channel by channel.
 * The form `matrix` takes the same features for linear attention in heads, y = sigmoid(q) (softmax(k)^T v):
 * another reading of the row of QT-ViT's Table 2. */
#include "attention/linear.h"
#include "nn/nn.h"

enum form { FORM_ELEMENTWISE, FORM_MATRIX };

struct aft_simple {
    int form, order;
};

static const char *const form_names[] = {"elementwise", "matrix", NULL};

static const struct field aft_simple_fields[] = {
    FIELD_ENUM(struct aft_simple, form, FORM_ELEMENTWISE, form_names,
               "products channel by channel as in the paper, or of matrices, head by head"),
    FIELD_ORDER(struct aft_simple),
    FIELD_END,
};

static const struct field_need aft_simple_needs[] = {
    {"order", "form", 1u << FORM_MATRIX},
    NEED_END,
};

static struct tensor *elementwise(struct graph *g, const struct attn_site *s, struct tensor *x)
{
    struct tensor *y = nn_linear_bias(g, "qkv", x, 3 * s->D, s->qkv_bias), *t[3]; /* (B, N, D) each */
    for (int i = 0; i < 3; i++)
        t[i] = graph_columns(g, y, i * s->D, s->D);
    struct tensor *a = op_map(g, t[0], MAP_SIGMOID), *f = op_token_softmax(g, t[1], s->regions);
    return op_channel_attention(g, a, f, t[2], s->regions);
}

static struct tensor *aft_simple_build(struct graph *g, const void *options,
                                       const struct attn_site *s, struct tensor *x)
{
    const struct aft_simple *o = options;
    if (o->form == FORM_ELEMENTWISE)
        return linear_project(g, s, elementwise(g, s, x));
    const struct linear_terms terms = {.den = DEN_NONE, .order = o->order};
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct tensor *a = op_map(g, t.q, MAP_SIGMOID), *f = op_token_softmax(g, t.k, s->regions);
    return linear_project(g, s, linear_attend(g, s, a, f, t.v, terms));
}

/* 4 N D^2 + 2 N D, or 4 N D^2 + 2 N d D */
static double aft_simple_macs(const void *options, const struct attn_site *s)
{
    const struct aft_simple *o = options;
    return linear_macs(s, o->form == FORM_ELEMENTWISE ? 1 : (double)s->D / s->H, false);
}

const struct attn_variant aft_simple_attn = {
    .name = "aft_simple", .summary = "attention-free: a gated mean of values over the tokens",
    .paper = "arXiv:2105.14103", .complexity = "O(N D)",
    .fields = aft_simple_fields, .options_size = sizeof(struct aft_simple),
    .needs = aft_simple_needs, .build = aft_simple_build, .macs = aft_simple_macs,
};
