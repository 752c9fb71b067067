/* lara.c - softmax attention estimated from a fixed number of landmarks: linear time.
 * Zheng et al., "Linear Complexity Randomized Self-attention Mechanism", arXiv:2204.04667, in the form of
 * its authors' code. Proposals are centred at queries and keys that are pooled over cells of the map,
 *   mu = q_bar + k_bar,  omega = mu + noise, standard normal, in training alone
 * and op_lara weighs their samples. With two samples of each, or with mu + noise and mu - noise, training
 * has each proposal twice. Where a model has windows each of their parts is a map of its own.
 * Prefix tokens are tokens like others, but not pooled. */
#include "attention/linear.h"
#include "attention/window.h"
#include "nn/nn.h"

enum { PROPOSAL_POOL, PROPOSAL_POOL_MIXED, PROPOSAL_MEANS, PROPOSAL_MEANS_MIXED };
enum { MODULE_LIGHT, MODULE_DENSE };
enum { SAMPLES_ONE, SAMPLES_TWO, SAMPLES_ANTITHETIC };
enum { LANDMARKS = 49 };

static const double norm_eps = 1e-5;

struct lara {
    int landmarks, proposal, pool_module, mis;
    double alpha;
    bool noise;
    int samples;
};

static const char *const proposal_names[] = {"pool", "pool_mixed", "no_param_pool",
                                             "no_param_pool_mixed", NULL};
static const char *const module_names[] = {"light", "dense", NULL};
static const char *const mis_names[] = {"opt", "bh", "biased", NULL};
static const char *const samples_names[] = {"one", "two", "antithetic", NULL};

static const struct field lara_fields[] = {
    FIELD_INT(struct lara, landmarks, 0, 0, 4096,
              "proposals, a square number, at most as many as patches; 0: 49, where there are fewer "
              "patches the largest that they allow"),
    FIELD_ENUM(struct lara, proposal, PROPOSAL_POOL_MIXED, proposal_names,
               "landmarks: linear map and norm of means, or the means alone (no_param_pool); mixed: "
               "those of keys attend to each other"),
    FIELD_ENUM(struct lara, pool_module, MODULE_LIGHT, module_names,
               "this map and norm: of each head's columns, the same for all heads, or of all columns"),
    FIELD_ENUM(struct lara, mis, LARA_OPT, mis_names,
               "weights of the samples: from the tokens too, the balance heuristic, or biased"),
    FIELD_REAL(struct lara, alpha, 2, 0, 100, "with mis opt, how much the tokens' own weights count"),
    FIELD_BOOL(struct lara, noise, true, "samples are random in training"),
    FIELD_ENUM(struct lara, samples, SAMPLES_ONE, samples_names,
               "random samples of each landmark: one, two, or one and its mirror image (antithetic)"),
    FIELD_END,
};

static const struct field_need lara_needs[] = {
    {"alpha", "mis", 1u << LARA_OPT},
    {"samples", "noise", NEED_TRUE},
    {"pool_module", "proposal", 1u << PROPOSAL_POOL | 1u << PROPOSAL_POOL_MIXED},
    NEED_END,
};

/* --- geometry --------------------------------------------------------------------------------- */

static enum attn_placement lara_placement(const void *options, const struct attn_site *s)
{
    (void)options;
    (void)s;
    return ATTN_GLOBAL;
}

/* The maps of a site: parts of its windows, or all of it. */
struct maps {
    struct token_windows w;
    int count, side; /* side: cells along each axis of each map */
    bool whole;
};

static int square_root(int n)
{
    int side = 1;
    while ((side + 1) * (side + 1) <= n)
        side++;
    return side;
}

/* Patches of a window, or of the map. */
static int patches_of(const struct attn_site *s)
{
    const int *sides = s->window[0] ? s->window : s->grid;
    return sides[0] * sides[1];
}

static int landmarks_of(const struct lara *o, const struct attn_site *s)
{
    int patches = patches_of(s);
    return o->landmarks ? o->landmarks : patches < LANDMARKS ? patches : LANDMARKS;
}

static struct maps maps_of(const struct lara *o, const struct attn_site *s)
{
    struct maps m = {.side = square_root(landmarks_of(o, s)), .whole = !s->window[0]};
    m.w = windows_of_site(s);
    for (int axis = 0; axis < 2 && m.whole; axis++)
        m.w.window[axis] = s->grid[axis];
    struct token_rect part[4];
    for (int i = 0; i < windows_count(&m.w); i++)
        m.count += windows_parts(&m.w, i, part);
    return m;
}

static enum status lara_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct lara *o = options;
    int landmarks = landmarks_of(o, s), side = square_root(landmarks), patches = patches_of(s);
    int most = square_root(patches) * square_root(patches);
    if (o->landmarks && landmarks > patches)
        return error_set(err, ERR_INPUT, "landmarks: %d are more than the %d patches (%d at most)",
                         landmarks, patches, most);
    int next = (side + 1) * (side + 1) <= patches ? side + 1 : 1;
    if (o->landmarks && side * side != landmarks)
        return error_set(err, ERR_INPUT, "landmarks: %d is not a square number (%d and %d are)",
                         landmarks, side * side, next * next);
    return OK;
}

/* Rows or columns of cell i of `side`, which together cover first .. end - 1 and may overlap. */
static void cell_range(int to[2], int first, int end, int side, int i)
{
    int length = end - first;
    to[0] = first + i * length / side;
    to[1] = first + ((i + 1) * length + side - 1) / side;
}

static struct token_rect cell_of(const struct token_rect *map, int side, int i)
{
    struct token_rect cell;
    for (int axis = 0; axis < 2; axis++) {
        int range[2];
        cell_range(range, map->first[axis], map->end[axis], side, axis ? i % side : i / side);
        cell.first[axis] = range[0];
        cell.end[axis] = range[1];
    }
    return cell;
}

static int area(const struct token_rect *r)
{
    return (r->end[0] - r->first[0]) * (r->end[1] - r->first[1]);
}

/* Tokens of each map, and of each cell of each map, in the graph's arena. */
struct arrangement {
    struct token_sets sequences, cells;
    int *numbers; /* of the samples, of which a cell may have two */
};

static int cell_members(const struct maps *m)
{
    struct token_rect part[4];
    int members = 0;
    for (int i = 0; i < windows_count(&m->w); i++)
        for (int p = windows_parts(&m->w, i, part) - 1; p >= 0; p--)
            for (int c = 0; c < m->side * m->side; c++) {
                struct token_rect cell = cell_of(&part[p], m->side, c);
                members += area(&cell);
            }
    return members;
}

static bool arrange(struct graph *g, const struct maps *m, const struct attn_site *s,
                    struct arrangement *a)
{
    int cells = m->count * m->side * m->side, maps = 0, n = 0, here = 0, held = 0;
    int *first = arena_alloc(&g->memory, ((size_t)m->count + 1) * sizeof *first);
    int *token = arena_alloc(&g->memory, (size_t)s->N * sizeof *token);
    int *cell_first = arena_alloc(&g->memory, ((size_t)cells + 1) * sizeof *cell_first);
    int *cell_token = arena_alloc(&g->memory, (size_t)cell_members(m) * sizeof *cell_token);
    a->numbers = arena_alloc(&g->memory, 2 * (size_t)cells * sizeof *a->numbers);
    if (!first || !token || !cell_first || !cell_token || !a->numbers) {
        graph_fail(g, ERR_MEMORY, "out of memory for the cells of a map");
        return false;
    }
    for (int i = 0; i < windows_count(&m->w); i++) {
        struct token_rect part[4];
        int parts = windows_parts(&m->w, i, part);
        for (int p = 0; p < parts; p++) {
            first[maps++] = n;
            n += windows_tokens(&m->w, &part[p], token + n);
            for (int c = 0; c < m->side * m->side; c++) {
                struct token_rect cell = cell_of(&part[p], m->side, c);
                cell_first[here++] = held;
                held += windows_tokens(&m->w, &cell, cell_token + held);
            }
        }
    }
    first[maps] = n;
    cell_first[here] = held;
    for (int i = 0; i < 2 * cells; i++)
        a->numbers[i] = i;
    a->sequences = (struct token_sets){maps, first, token};
    a->cells = (struct token_sets){cells, cell_first, cell_token};
    return true;
}

/* --- the layer -------------------------------------------------------------------------------- */

/* Landmarks of queries or keys x (B, H, N, d): (B, H, cells, d), real. */
static struct tensor *landmarks(struct graph *g, const struct lara *o, const struct attn_site *s,
                                const struct token_sets *cells, const char *name, const char *norm,
                                struct tensor *x)
{
    x = op_set_mean(g, x, cells, 0);
    if (o->proposal >= PROPOSAL_MEANS)
        return x;
    if (o->pool_module == MODULE_DENSE)
        x = op_merge_heads(g, x);
    x = nn_linear(g, name, x, tensor_cols(x));
    x = nn_layer_norm(g, norm, x, norm_eps);
    if (o->pool_module == MODULE_DENSE)
        x = graph_split_heads(g, x, s->H);
    return op_real(g, x);
}

/* softmax(s k k^T) k among the landmarks of each map. */
static struct tensor *mixed(struct graph *g, const struct attn_site *s, int maps, struct tensor *k)
{
    const struct shape shape = k->shape;
    if (g->error.status)
        return g->inert;
    k = graph_reshape(g, k, SHAPE(shape.dim[0], shape.dim[1] * maps, shape.dim[2] / maps,
                                  shape.dim[3]));
    struct tensor *scores = op_scale(g, op_matmul_nt_real(g, k, k), attn_scale(s));
    return graph_reshape(g, op_matmul_real(g, op_softmax_real(g, scores), k), shape);
}

/* The landmarks x (B, H, maps C, d) of each map, followed by `sign` times the same: (B, H, maps 2 C, d). */
static struct tensor *twice(struct graph *g, int maps, struct tensor *x, double sign)
{
    const int *dim = x->shape.dim;
    if (g->error.status)
        return g->inert;
    struct tensor *flat = graph_reshape(g, x, SHAPE(dim[0], dim[1], maps, dim[2] / maps * dim[3]));
    flat = op_concat_cols(g, (struct tensor *[]){flat, flat}, 2, (const double[]){1, sign});
    return graph_reshape(g, flat, SHAPE(dim[0], dim[1], 2 * dim[2], dim[3]));
}

/* The samples of op_lara, and mu and q_bar as many times; q_bar NULL: none. */
struct proposals {
    struct tensor *q_bar, *mu, *omega;
};

static struct proposals draw(struct graph *g, const struct lara *o, const struct maps *m,
                             const int *numbers, struct tensor *q_bar, struct tensor *mu)
{
    static const char purpose[] = "lara_noise";
    if (!o->noise || !g->options.noise)
        return (struct proposals){q_bar, mu, mu};
    if (o->samples == SAMPLES_ONE)
        return (struct proposals){q_bar, mu, op_add_noise(g, mu, purpose, numbers)};
    struct proposals p = {.mu = twice(g, m->count, mu, 1)};
    p.q_bar = q_bar ? twice(g, m->count, q_bar, 1) : NULL;
    if (o->samples == SAMPLES_TWO) {
        p.omega = op_add_noise(g, p.mu, purpose, numbers);
    } else {
        struct tensor *noise = op_add_noise(g, op_scale(g, mu, 0), purpose, numbers);
        p.omega = op_add(g, p.mu, twice(g, m->count, noise, -1));
    }
    return p;
}

static struct tensor *lara_build(struct graph *g, const void *options, const struct attn_site *s,
                                 struct tensor *x)
{
    const struct lara *o = options;
    const struct maps m = maps_of(o, s);
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias); /* each (B, H, N, d) */
    struct arrangement a;
    if (g->error.status || !arrange(g, &m, s, &a))
        return g->inert;
    struct tensor *q_bar = landmarks(g, o, s, &a.cells, "q_pool", "q_pool_norm", t.q);
    struct tensor *k_bar = landmarks(g, o, s, &a.cells, "k_pool", "k_pool_norm", t.k);
    if (o->proposal == PROPOSAL_POOL_MIXED || o->proposal == PROPOSAL_MEANS_MIXED)
        k_bar = mixed(g, s, m.count, k_bar);
    struct tensor *mu = op_add(g, q_bar, k_bar);
    const struct proposals p = draw(g, o, &m, a.numbers, o->mis == LARA_OPT ? q_bar : NULL, mu);
    const struct lara_terms terms = {
        .mis = (enum lara_mis)o->mis, .alpha = o->alpha, .scale = attn_scale(s),
        .sequences = m.whole ? NULL : &a.sequences,
    };
    struct tensor *y = op_lara(g, t.q, t.k, t.v, p.q_bar, p.mu, p.omega, &terms);
    return linear_project(g, s, y);
}

/* 4 N D^2 + 5 N C D + 3 C^2 D + 2 C d D + 2 N D, with C landmarks of each map: bh has 4 N C D, landmarks
 * that are not mixed C^2 D, dense ones 2 C D^2 in place of 2 C d D and those without parameters nothing */
static double lara_macs(const void *options, const struct attn_site *s)
{
    const struct lara *o = options;
    const struct maps m = maps_of(o, s);
    double N = s->N, D = s->D, C = m.side * m.side, maps = m.count;
    bool mixes = o->proposal == PROPOSAL_POOL_MIXED || o->proposal == PROPOSAL_MEANS_MIXED;
    double width = o->pool_module == MODULE_DENSE ? D : D / s->H;
    double macs = 4 * N * D * D + (o->mis == LARA_BH ? 4 : 5) * N * C * D + 2 * N * D;
    macs += maps * (mixes ? 3 : 1) * C * C * D;
    return macs + (o->proposal < PROPOSAL_MEANS ? maps * 2 * C * width * D : 0);
}

/* Weights of the tokens' own that are small keep alpha off its floor, near which it is steep. */
static void lara_exact(void *options)
{
    struct lara *o = options;
    if (o->mis == LARA_OPT)
        o->alpha = 0.01;
}

const struct attn_variant lara_attn = {
    .name = "lara", .summary = "importance sampling from landmarks of the map",
    .paper = "arXiv:2204.04667", .complexity = "O(N C D)",
    .fields = lara_fields, .options_size = sizeof(struct lara), .needs = lara_needs,
    .placement = lara_placement,
    .kinks = true, /* where alpha meets its floor */
    .check = lara_check, .build = lara_build, .macs = lara_macs, .exact = lara_exact,
};
