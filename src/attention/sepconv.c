/* sepconv.c - separable convolution: a linear map, StarReLU, a depthwise convolution of the map and a
 * linear map back, without biases. The inverted block of MobileNetV2 as in Yu et al., "MetaFormer
 * Baselines for Vision", arXiv:2210.13452, eq. 7 to 9; StarReLU s relu(x)^2 + b with learned numbers
 * s = 1 and b = 0 at first. */
#include "attention/attention.h"
#include "attention/mixers.h"
#include "nn/nn.h"

struct sepconv {
    int expand, kernel;
};

static const struct field sepconv_fields[] = {
    FIELD_INT(struct sepconv, expand, 2, 1, 8, "channels of the convolution as multiples of D"),
    FIELD_INT(struct sepconv, kernel, 7, 1, 15, "patches along the convolution, odd"),
    FIELD_END,
};

static enum status sepconv_check(const void *options, const struct attn_site *s,
                                 struct error *err)
{
    const struct sepconv *o = options;
    enum status status = mixer_check_prefix("sepconv", s, err);
    return status ? status : mixer_check_odd("kernel", o->kernel, err);
}

static struct tensor *star_relu(struct graph *g, const char *name, struct tensor *x)
{
    graph_scope_push(g, "%s", name);
    struct tensor *scale = graph_param(g, "scale", SHAPE(1), INIT_ONES);
    struct tensor *bias = graph_param(g, "bias", SHAPE(1), INIT_ZEROS);
    struct tensor *y = op_map(g, op_map(g, x, MAP_RELU), MAP_SQUARE);
    y = op_multiply_broadcast(g, y, scale);
    y = op_stored(g, op_add_broadcast(g, y, bias, 0));
    graph_scope_pop(g);
    return y;
}

static struct tensor *sepconv_build(struct graph *g, const void *options,
                                    const struct attn_site *s, struct tensor *x)
{
    const struct sepconv *o = options;
    const struct token_map map = mixer_map(s);
    int width = o->expand * s->D;
    x = star_relu(g, "act", nn_linear_bias(g, "pwconv1", x, width, false));
    struct tensor *weight = graph_param(g, "dwconv.weight", SHAPE(width, 1, o->kernel, o->kernel),
                                        INIT_TRUNCATED(0.02));
    x = op_depthwise(g, x, weight, NULL, &map);
    return nn_linear_bias(g, "pwconv2", x, s->D, false);
}

/* 2 r N D^2 + r k^2 N D, r the expansion */
static double sepconv_macs(const void *options, const struct attn_site *s)
{
    const struct sepconv *o = options;
    double N = s->N, D = s->D, k = o->kernel;
    return o->expand * (2 * N * D * D + k * k * N * D);
}

const struct attn_variant sepconv_attn = {
    .name = "sepconv", .summary = "separable convolution (ConvFormer)",
    .paper = "arXiv:2210.13452", .complexity = "O(N k^2 D + N D^2)", .fields = sepconv_fields,
    .options_size = sizeof(struct sepconv), .check = sepconv_check, .build = sepconv_build,
    .macs = sepconv_macs,
};
