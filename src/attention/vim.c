/* vim.c - the mixer of Vision Mamba: Zhu et al., arXiv:2401.09417, algorithm 1, with the mean of both
 * directions as in the authors' models. x and a gate z of r D channels each; in both directions
 * with parameters of their own a short convolution, SiLU, coefficients from a linear map, a selective scan
 * (Gu and Dao, arXiv:2312.00752); the gate and a linear map. Prefix tokens stand in the middle of the
 * sequence. Both directions start alike; in the authors' code the second one's dt does not, which looks
 * unintended. Beyond the paper: in a shifted window each region is a sequence of its own. */
#include <math.h>

#include "attention/attention.h"
#include "attention/mixers.h"
#include "base/rng.h"
#include "kernels/sequence.h"
#include "nn/nn.h"

struct vim {
    int expand, state, conv, rank;
};

static const struct field vim_fields[] = {
    FIELD_INT(struct vim, expand, 2, 1, 8, "channels of the scan as multiples of D"),
    FIELD_INT(struct vim, state, 16, 1, SCAN_STATES, "numbers in the state of a channel"),
    FIELD_INT(struct vim, conv, 4, 1, 16, "tokens along the convolution"),
    FIELD_INT(struct vim, rank, 0, 0, 4096, "rank of the map to dt; 0: D / 16, rounded up"),
    FIELD_END,
};

static int vim_rank(const struct vim *o, const struct attn_site *s)
{
    return o->rank ? o->rank : (s->D + 15) / 16;
}

/* --- initial values ----------------------------------------------------------------------------- */

/* A = - 1, - 2, .. - n for each channel: ln of the column's number. */
static enum status fill_A_log(real *value, const struct shape *shape, const struct init *init,
                              uint64_t stream, struct error *err)
{
    (void)init;
    (void)stream;
    (void)err;
    size_t count = shape_count(shape), states = (size_t)shape->dim[1];
    for (size_t i = 0; i < count; i++)
        value[i] = (real)log((double)(i % states + 1));
    return OK;
}

/* softplus of it is spread evenly in the logarithm over a .. b. */
static enum status fill_dt_bias(real *value, const struct shape *shape, const struct init *init,
                                uint64_t stream, struct error *err)
{
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++) {
        double dt = init->a * pow(init->b / init->a, rng_uniform(stream, 0, 0, i));
        value[i] = (real)(dt + log(-expm1(-dt)));
    }
    return OK;
}

static const struct init start_A_log = {fill_A_log, 0, 0}, start_dt = {fill_dt_bias, 1e-3, 0.1};

/* --- the mixer ---------------------------------------------------------------------------------- */

/* x W^T + bias with weights in +- bound, PyTorch's way for linear maps where it is 1 / sqrt(in). */
static struct tensor *linear(struct graph *g, const char *name, struct tensor *x, int out,
                             double bound, const struct init *bias)
{
    graph_scope_push(g, "%s", name);
    struct tensor *W = graph_param(g, "weight", SHAPE(out, tensor_cols(x)), INIT_UNIFORM(bound));
    struct tensor *b = bias ? graph_param(g, "bias", SHAPE(out), *bias) : NULL;
    struct tensor *y = op_linear(g, x, W, b);
    graph_scope_pop(g);
    return y;
}

static struct tensor *convolved(struct graph *g, const char *name, struct tensor *x, int width,
                                const struct token_sequence *sequence)
{
    const struct init start = INIT_UNIFORM(1 / sqrt(width));
    graph_scope_push(g, "%s", name);
    struct tensor *weight = graph_param(g, "weight", SHAPE(tensor_cols(x), 1, width), start);
    struct tensor *bias = graph_param(g, "bias", SHAPE(tensor_cols(x)), start);
    struct tensor *y = op_causal_conv(g, x, weight, bias, sequence);
    graph_scope_pop(g);
    return y;
}

/* Names of the parameters of one direction. */
struct direction {
    const char *conv, *x_proj, *dt_proj, *A_log, *D;
};

/* One direction: its scan's output.  x: (B, N, E). Returns (B, N, E). */
static struct tensor *scanned(struct graph *g, const struct vim *o, const struct attn_site *s,
                              const struct direction *name, struct tensor *x,
                              const struct token_sequence *sequence)
{
    int E = tensor_cols(x), n = o->state, rank = vim_rank(o, s);
    x = op_map_stored(g, convolved(g, name->conv, x, o->conv, sequence), MAP_SILU);
    struct tensor *y = linear(g, name->x_proj, x, rank + 2 * n, 1 / sqrt(E), NULL);
    struct tensor *B = graph_columns(g, y, rank, n), *C = graph_columns(g, y, rank + n, n);
    struct tensor *dt = linear(g, name->dt_proj, graph_columns(g, y, 0, rank), E, 1 / sqrt(rank),
                               &start_dt);
    struct tensor *A_log = graph_param_flags(g, name->A_log, SHAPE(E, n), start_A_log, 0);
    struct tensor *D = graph_param(g, name->D, SHAPE(E), INIT_ONES);
    return op_selective_scan(g, x, op_map(g, dt, MAP_SOFTPLUS), A_log, B, C, D, sequence);
}

static struct tensor *vim_build(struct graph *g, const void *options, const struct attn_site *s,
                                struct tensor *x)
{
    static const struct direction onward = {"conv1d", "x_proj", "dt_proj", "A_log", "D"};
    static const struct direction back = {"conv1d_b", "x_proj_b", "dt_proj_b", "A_b_log", "D_b"};
    const struct vim *o = options;
    struct token_sequence sequence = mixer_sequence(g, s, (s->N - s->prefix) / 2);
    int E = o->expand * s->D;

    struct tensor *xz = linear(g, "in_proj", x, 2 * E, 1 / sqrt(s->D), NULL);
    struct tensor *u = graph_columns(g, xz, 0, E), *z = graph_columns(g, xz, E, E);
    struct tensor *y = scanned(g, o, s, &onward, u, &sequence);
    sequence.reversed = true;
    y = op_add(g, y, scanned(g, o, s, &back, u, &sequence));
    y = op_scale(g, op_multiply(g, y, op_map_stored(g, z, MAP_SILU)), 0.5);
    return linear(g, "out_proj", y, s->D, 1 / sqrt((double)E * s->blocks), NULL);
}

/* 3 r N D^2 + 2 r N D (conv + 2 rank + 5 n), r the expansion */
static double vim_macs(const void *options, const struct attn_site *s)
{
    const struct vim *o = options;
    double N = s->N, D = s->D, E = o->expand * D;
    return 3 * N * D * E + 2 * N * E * (o->conv + 2 * vim_rank(o, s) + 5 * o->state);
}

const struct attn_variant vim_attn = {
    .name = "vim", .summary = "selective scans in both directions (Vision Mamba)",
    .paper = "arXiv:2401.09417", .complexity = "O(N D^2)", .fields = vim_fields,
    .options_size = sizeof(struct vim), .build = vim_build, .macs = vim_macs,
};
