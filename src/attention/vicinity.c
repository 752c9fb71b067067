/* vicinity.c - linear attention with ReLU features, weighted by the distance of patches on the map.
 * Sun et al., "Vicinity Vision Transformer", arXiv:2206.10552, section 3, as in the authors' code. With
 * the angles a = pi / 2 row / rows and b = pi / 2 column / columns of a patch, 0 for prefix tokens:
 *   (relu(q) . relu(k)) (cos(a_q - a_k) + cos(b_q - b_k)),  den = n + 1e-4
 * `product` puts the product of the two cosines there. Queries, keys and values are half as wide as the
 * tokens, D / 2; the gate g = sigmoid(W2 relu(W1 mean x)) of each channel brings back what that lost:
 * y + y g of the projected y. `clamp` keeps the size of all that comes between to 1e-4 .. 1e4. */
#include <math.h>

#include "attention/linear.h"
#include "nn/nn.h"

struct vicinity {
    bool product, clamp;
    int order;
};

static const double DEN_EPS = 1e-4, MOST = 1e4;

static const struct field vicinity_fields[] = {
    FIELD_BOOL(struct vicinity, product, false,
               "weights fall with the product of two cosines of distance, not with their sum"),
    FIELD_BOOL(struct vicinity, clamp, false,
               "keeps sums, their quotients and outputs to sizes of 1e-4 to 1e4; sums over the keys "
               "come first then"),
    FIELD_ORDER(struct vicinity),
    FIELD_END,
};

static const struct field_need vicinity_needs[] = {
    {"order", "clamp", NEED_FALSE},
    NEED_END,
};

static enum status vicinity_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct vicinity *o = options;
    if (s->D % (2 * s->H))
        return error_set(err, ERR_INPUT,
                         "name: vicinity works at half the width, and half of %d channels are no %d "
                         "equal heads (change dim or heads)", s->D, s->H);
    if (o->clamp && s->window[0])
        return error_set(err, ERR_INPUT, "clamp: does not exist inside windows (set it to false)");
    return OK;
}

/* The four factors of each token's features, d' times each: (N, 4 d'). */
static struct tensor *factors(struct graph *g, const struct vicinity *o, const struct attn_site *s)
{
    size_t width = (size_t)(s->D / s->H / 2), N = (size_t)s->N, count = 4 * N * width;
    real *factor = arena_alloc(&g->memory, count * sizeof *factor);
    if (!factor)
        return graph_fail(g, ERR_MEMORY, "out of memory for the angles of %d tokens", s->N);
    for (size_t i = 0; i < count; i++) {
        int token = (int)(i / (4 * width)), part = (int)(i / width % 4), patch = token - s->prefix;
        double right = acos(-1) / 2, a = 0, b = 0;
        if (patch >= 0) {
            a = right * (patch / s->grid[1]) / s->grid[0];
            b = right * (patch % s->grid[1]) / s->grid[1];
        }
        const double sum[] = {cos(a), sin(a), cos(b), sin(b)};
        const double product[] = {cos(a) * cos(b), cos(a) * sin(b), sin(a) * cos(b), sin(a) * sin(b)};
        factor[i] = (real)(o->product ? product : sum)[part];
    }
    return graph_constant(g, SHAPE(s->N, (int)(4 * width)), factor);
}

/* max(x, 0) times each of the factors: (B, H, N, 4 d'), real. */
static struct tensor *features(struct graph *g, struct tensor *x, struct tensor *factor)
{
    struct tensor *r = op_map(g, x, MAP_RELU);
    struct tensor *four = op_concat_cols(g, (struct tensor *[]){r, r, r, r}, 4, NULL);
    return op_multiply_broadcast(g, four, factor);
}

/* The core with everything kept to its sizes, sums over keys first.  Returns (B, H, N, d'), real. */
static struct tensor *clamped(struct graph *g, const struct attn_site *s, struct tensor *a,
                              struct tensor *f, struct tensor *v)
{
    const real one = 1;
    int width = s->D / s->H / 2;
    struct tensor *ones = graph_constant(g, SHAPE(1), &one);
    v = op_concat_cols(g, (struct tensor *[]){v, ones}, 2, NULL);
    struct tensor *state = op_matmul_tn_real(g, f, v); /* (B, H, 4 d', d' + 1) */
    struct tensor *sums = op_map(g, graph_columns(g, state, 0, width), MAP_MAGNITUDE);
    struct tensor *n = op_matmul_real(g, a, graph_columns(g, state, width, 1)); /* (B, H, N, 1) */
    struct tensor *y = op_map(g, op_matmul_real(g, a, sums), MAP_MAGNITUDE);
    return op_map(g, op_divide_rows(g, y, n, DEN_EPS, MOST), MAP_MAGNITUDE);
}

/* Those of the site, and one region of all tokens in windows that have none: NULL without windows. */
static const struct token_regions *regions_of(struct graph *g, const struct attn_site *s)
{
    if (s->regions || !s->window[0])
        return s->regions;
    const struct token_regions one = {1, s->N, arena_alloc(&g->memory, (size_t)s->N)};
    if (!one.id)
        graph_fail(g, ERR_MEMORY, "out of memory for the regions of windows");
    return one.id ? graph_copy(g, &one, sizeof one) : NULL;
}

/* One number for each channel: (B, 1, D), inside windows (B, N, D), the same within a region; real. */
static struct tensor *gate(struct graph *g, const struct attn_site *s, struct tensor *x)
{
    struct tensor *mean = op_token_mean(g, x, regions_of(g, s)), *h;
    graph_scope_push(g, "gate");
    h = nn_linear_bias(g, "fc1", op_stored(g, mean), s->D, false);
    h = nn_linear_bias(g, "fc2", op_map_stored(g, h, MAP_RELU), s->D, false);
    graph_scope_pop(g);
    return op_map(g, h, MAP_SIGMOID);
}

static struct tensor *vicinity_build(struct graph *g, const void *options,
                                     const struct attn_site *s, struct tensor *x)
{
    const struct vicinity *o = options;
    const struct linear_terms terms = {.den = DEN_ADD, .eps = DEN_EPS, .order = o->order};
    int half = s->D / 2;
    struct tensor *y = nn_linear_bias(g, "qkv", x, 3 * half, s->qkv_bias), *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = graph_split_heads(g, graph_columns(g, y, i * half, half), s->H); /* (B, H, N, d') */
    struct tensor *factor = factors(g, o, s);
    struct tensor *a = features(g, t[0], factor), *f = features(g, t[1], factor);
    y = o->clamp ? op_stored(g, clamped(g, s, a, f, t[2])) : linear_attend(g, s, a, f, t[2], terms);
    y = linear_project(g, s, y);
    if (o->clamp)
        y = op_map_stored(g, y, MAP_MAGNITUDE);
    y = op_add(g, y, op_multiply_broadcast(g, y, gate(g, s, x)));
    return o->clamp ? op_map_stored(g, y, MAP_MAGNITUDE) : y;
}

/* 2 N D^2 + 4 N d (D / 2 + H) + 2 D^2: 8 N d' (d' + 1) a head with d' = d / 2. Inside windows, which may
 * have regions, the gate is made for each token: 2 N D^2 instead of 2 D^2. */
static double vicinity_macs(const void *options, const struct attn_site *s)
{
    double N = s->N, D = s->D;
    (void)options;
    return 2 * N * D * D + 4 * N * (D / s->H) * (D / 2 + s->H) + 2 * D * D * (s->window[0] ? N : 1);
}

const struct attn_variant vicinity_attn = {
    .name = "vicinity", .summary = "linear attention, ReLU features, weights fall with distance on the map",
    .paper = "arXiv:2206.10552", .complexity = "O(N D^2 / H)",
    .fields = vicinity_fields, .options_size = sizeof(struct vicinity),
    .needs = vicinity_needs, .kinks = true,
    .check = vicinity_check, .build = vicinity_build, .macs = vicinity_macs,
};
