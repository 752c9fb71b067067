/* focused.c - linear attention with features that point more to their largest entries.
 * Han et al., "FLatten Transformer: Vision Transformer using Focused Linear Attention",
 * arXiv:2308.00442, section 4, as in the authors' code:
 *   t = (max(x, 0) + 1e-6) / softplus(scale),  f(x) = |t| t^p / |t^p|,  den = n + N 1e-6
 * The norms are over all heads together, `scale` has a number for each of the D channels and serves
 * queries and keys, patches add rows of `k_pos` to their keys, and a depthwise convolution of the map of
 * values, with one filter for each channel of a head, is added to the output of patches. */
#include "attention/adapt.h"
#include "attention/linear.h"
#include "nn/nn.h"

struct focused {
    int p, kernel, order;
};

static const struct field focused_fields[] = {
    FIELD_INT(struct focused, p, 3, 1, 16, "power of the focusing map"),
    FIELD_INT(struct focused, kernel, 5, 1, 31,
              "side of the depthwise convolution of values, an odd number of patches"),
    FIELD_ORDER(struct focused),
    FIELD_END,
};

static enum status focused_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct focused *o = options;
    (void)s;
    if (o->kernel % 2)
        return OK;
    return error_set(err, ERR_INPUT, "kernel: %d is not odd (try %d)", o->kernel, o->kernel + 1);
}

/* x in real numbers, (B, N, D), focused, as heads (B, H, N, d). */
static struct tensor *features(struct graph *g, const struct attn_site *s, const struct focused *o,
                               struct tensor *x)
{
    struct tensor *scale = graph_param(g, "scale", SHAPE(s->D), INIT_ZEROS);
    return graph_split_heads(g, op_focus(g, linear_real(g, x), scale, o->p), s->H);
}

/* The convolution of the values, with zeros in place of patches off the map or of other regions. */
static struct tensor *convolved(struct graph *g, const struct attn_site *s,
                                const struct focused *o, struct tensor *v)
{
    const struct token_map map = {{s->grid[0], s->grid[1]}, s->prefix, s->regions};
    graph_scope_push(g, "dwc");
    struct tensor *weight = graph_param(g, "weight", SHAPE(s->D / s->H, 1, o->kernel, o->kernel),
                                        INIT_TRUNCATED(0.02));
    struct tensor *bias = graph_param(g, "bias", SHAPE(s->D / s->H), INIT_ZEROS);
    graph_scope_pop(g);
    return op_depthwise(g, v, weight, bias, &map);
}

static struct tensor *focused_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct focused *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = 1e-6, .per_key = true,
                                       .order = o->order};
    struct tensor *y = nn_linear_bias(g, "qkv", x, 3 * s->D, s->qkv_bias), *t[3]; /* (B, N, D) each */
    for (int i = 0; i < 3; i++)
        t[i] = graph_columns(g, y, i * s->D, s->D);
    struct tensor *table = graph_param_flags(g, "k_pos", SHAPE(s->grid[0] * s->grid[1], s->D),
                                             INIT_ZEROS, 0);
    struct tensor *a = features(g, s, o, t[0]);
    struct tensor *f = features(g, s, o, op_add_broadcast(g, t[1], table, s->prefix));
    y = linear_attend(g, s, a, f, graph_split_heads(g, t[2], s->H), terms);
    return linear_project(g, s, op_add(g, op_merge_heads(g, y), convolved(g, s, o, t[2])));
}

/* 4 N D^2 + 2 N d (D + H) + kernel^2 P D with P patches */
static double focused_macs(const void *options, const struct attn_site *s)
{
    const struct focused *o = options;
    return linear_macs(s, (double)s->D / s->H, true) +
           (double)o->kernel * o->kernel * (s->N - s->prefix) * s->D;
}

/* The convolution begins as nothing. */
static void focused_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    adapt_constant(a, "dwc.weight", 0);
}

const struct attn_variant focused_attn = {
    .name = "focused", .summary = "linear attention, focused ReLU features, convolved values (FLatten)",
    .paper = "arXiv:2308.00442", .complexity = "O(N D^2 / H)",
    .fields = focused_fields, .options_size = sizeof(struct focused), .kinks = true,
    .check = focused_check, .build = focused_build, .macs = focused_macs,
    .adapt = focused_adapt,
};
