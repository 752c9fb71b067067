/* vrwkv.c - the spatial mix of Vision-RWKV: Duan et al., arXiv:2403.02308, section 3.2. Keys, values and a
 * gate r of the input blended with its shifted self, Bi-WKV, the gate, a linear map; no biases.
 * Where formula and code of the paper differ the code's way is taken: mu x + (1 - mu) x shifted, and
 * `first` is divided by the number of tokens as `decay` is. The formula itself is computed, which the
 * authors' kernel does not quite. Beyond the paper: a class token is not shifted and stands at the end of
 * the sequence, as in VRWKV6; in a shifted window each region is a sequence of its own. */
#include <math.h>

#include "attention/attention.h"
#include "attention/mixers.h"
#include "nn/nn.h"

enum vrwkv_init { START_FANCY, START_LOCAL, START_GLOBAL };

struct vrwkv {
    int shift;
    bool key_norm;
    int init;
};

static const char *const init_names[] = {"fancy", "local", "global", NULL};

static const struct field vrwkv_fields[] = {
    FIELD_INT(struct vrwkv, shift, 1, 0, 16, "patches by which Q-Shift moves; 0: no Q-Shift"),
    FIELD_BOOL(struct vrwkv, key_norm, false, "normalises the scan's output"),
    FIELD_ENUM(struct vrwkv, init, START_FANCY, init_names,
               "initial decay, first and mix: by block and channel, all 1, or no decay and halves"),
    FIELD_END,
};

/* --- initial values: channel c of D ------------------------------------------------------------- */

/* -5 + 8 (c / (D - 1))^a */
static enum status fill_decay(real *value, const struct shape *shape, const struct init *init,
                              uint64_t stream, struct error *err)
{
    (void)stream;
    (void)err;
    int D = shape->dim[0];
    for (int c = 0; c < D; c++)
        value[c] = (real)(-5 + 8 * pow(D > 1 ? (double)c / (D - 1) : 0, init->a));
    return OK;
}

/* ln 0.3 and a half more, less, or neither */
static enum status fill_first(real *value, const struct shape *shape, const struct init *init,
                              uint64_t stream, struct error *err)
{
    (void)init;
    (void)stream;
    (void)err;
    for (int c = 0; c < shape->dim[0]; c++)
        value[c] = (real)(log(0.3) + 0.5 * ((c + 1) % 3 - 1));
    return OK;
}

/* (c / D)^a + b */
static enum status fill_mix(real *value, const struct shape *shape, const struct init *init,
                            uint64_t stream, struct error *err)
{
    (void)stream;
    (void)err;
    int D = shape->dim[0];
    for (int c = 0; c < D; c++)
        value[c] = (real)(pow((double)c / D, init->a) + init->b);
    return OK;
}

struct start {
    struct init decay, first, mix_k, mix_v, mix_r;
};

static struct start start_of(const struct vrwkv *o, const struct attn_site *s)
{
    if (o->init == START_LOCAL)
        return (struct start){INIT_ONES, INIT_ONES, INIT_ONES, INIT_ONES, INIT_ONES};
    const struct init half = INIT_CONSTANT(0.5);
    if (o->init == START_GLOBAL)
        return (struct start){INIT_ZEROS, INIT_ZEROS, half, half, half};
    double up = s->blocks > 1 ? (double)s->block / (s->blocks - 1) : 0;
    double down = 1 - (double)s->block / s->blocks;
    return (struct start){
        .decay = {fill_decay, 0.7 + 1.3 * up, 0},
        .first = {fill_first, 0, 0},
        .mix_k = {fill_mix, down, 0},
        .mix_v = {fill_mix, down, 0.3 * up},
        .mix_r = {fill_mix, down / 2, 0},
    };
}

/* --- the mixer ---------------------------------------------------------------------------------- */

/* The linear map `name` of x blended with its shifted self (NULL: of x). */
static struct tensor *projected(struct graph *g, const char *name, const char *mix,
                                struct init start, struct tensor *x, struct tensor *shifted)
{
    int D = tensor_cols(x);
    if (shifted)
        x = op_blend_cols(g, x, shifted, graph_param(g, mix, SHAPE(D), start));
    return nn_linear_bias(g, name, x, D, false);
}

static struct tensor *vrwkv_build(struct graph *g, const void *options, const struct attn_site *s,
                                  struct tensor *x)
{
    const struct vrwkv *o = options;
    const struct start start = start_of(o, s);
    const struct token_map map = mixer_map(s);
    const struct token_sequence sequence = mixer_sequence(g, s, s->N - s->prefix);

    struct tensor *shifted = o->shift ? op_map_shift(g, x, o->shift, &map) : NULL;
    struct tensor *k = projected(g, "key", "mix_k", start.mix_k, x, shifted);
    struct tensor *v = projected(g, "value", "mix_v", start.mix_v, x, shifted);
    struct tensor *r = projected(g, "receptance", "mix_r", start.mix_r, x, shifted);

    struct tensor *decay = graph_param(g, "decay", SHAPE(s->D), start.decay);
    struct tensor *first = graph_param(g, "first", SHAPE(s->D), start.first);
    struct tensor *y = op_bi_wkv(g, k, v, decay, first, &sequence);
    if (o->key_norm)
        y = nn_layer_norm(g, "key_norm", y, 1e-5);
    y = op_multiply(g, op_map_stored(g, r, MAP_SIGMOID), y);
    return nn_linear_bias(g, "output", y, s->D, false);
}

/* 4 N D^2 + 29 N D */
static double vrwkv_macs(const void *options, const struct attn_site *s)
{
    (void)options;
    double N = s->N, D = s->D;
    return 4 * N * D * D + 29 * N * D;
}

const struct attn_variant vrwkv_attn = {
    .name = "vrwkv", .summary = "weights by key and distance, two scans (Vision-RWKV)",
    .paper = "arXiv:2403.02308", .complexity = "O(N D^2)", .fields = vrwkv_fields,
    .options_size = sizeof(struct vrwkv), .build = vrwkv_build, .macs = vrwkv_macs,
};
