/* eva_layer.c - EVA's layer, from its parts: means and softmaxes over groups (op_set_mean,
 * op_set_softmax), and one softmax over patches and groups (op_sdpa_tables). Sums over groups are
 * real in every precision.
 *
 * The paper leaves open how pooled keys come about; the forms of `param` are those of the authors'
 * image models (default, none), of their causal ones (sum), of EvaByte (evabyte), and plain means.
 * What the authors' code scales by d^(-1/2) would be d^(-1/4) in the features of the paper:
 * `scale`. */
#include "attention/eva_layer.h"

#include <math.h>

#include "attention/adapt.h"
#include "attention/eva_geometry.h"
#include "attention/key_groups.h"
#include "base/rng.h"

enum { PARAM_DEFAULT, PARAM_SUM, PARAM_NO_LN, PARAM_NONE, PARAM_EVABYTE, PARAM_MEAN };
enum { SCALE_CODE, SCALE_PRF };
enum { MEAN_VALID, MEAN_CODE };

static const double norm_eps = 1e-5;

static const char *const param_names[] = {"default", "sum",  "no_ln", "none",
                                          "evabyte", "mean", NULL};
static const char *const visibility_names[] = {"all", "disjoint", "remainder", NULL};
static const char *const scale_names[] = {"code", "prf", NULL};
static const char *const mean_names[] = {"valid", "code", NULL};

const struct field eva_fields[] = {
    FIELD_INT(
        struct eva, window, 0, 0, 64,
        "patches along a window, which divide the map; 0: 7, 4, 8 or 6, whichever does, or the "
        "model's windows where it has them"),
    FIELD_BOOL(struct eva, overlap, false,
               "keys and groups reach half a window over their borders, as far as the map goes"),
    FIELD_BOOL(struct eva, rpe, true, "relative position bias inside windows"),
    FIELD_INT(struct eva, group, 0, 0, 64,
              "patches along a group, which divide the map; 0: rows of the map / automatic window, or what "
              "is next to that and divides the map"),
    FIELD_ENUM(
        struct eva, param, PARAM_DEFAULT, param_names,
        "how keys and queries are pooled: linear map and norm of their means; sum: omega is the "
        "sum of both, not half of it; no_ln: no norms; none: omega is noise alone; evabyte: by "
        "learned weights; mean: the means themselves"),
    FIELD_ENUM(
        struct eva, visibility, EVA_ALL, visibility_names,
        "groups that a window sees: all; disjoint: those without keys of the window; remainder: "
        "of each group what is not among them"),
    FIELD_BOOL(struct eva, allow_gaps, false, "lets disjoint hide tokens altogether"),
    FIELD_BOOL(struct eva, mass_bias, false, "adds the logarithm of its size to a group's score"),
    FIELD_ENUM(struct eva, scale, SCALE_CODE, scale_names,
               "of omega . k: d^-1/2 as in the authors' code; prf: d^-1/4 as the features ask for"),
    FIELD_ENUM(
        struct eva, group_mean, MEAN_VALID, mean_names,
        "with overlap, means over the patches of a group; code: cells outside of the map count"),
    FIELD_BOOL(struct eva, noise, true, "omega is random in training"),
    FIELD_END,
};

const struct field_need eva_needs[] = {
    {"group_mean", "overlap", NEED_TRUE},
    {"group_mean", "param", ~(1u << PARAM_EVABYTE)},
    {"allow_gaps", "visibility", 1u << EVA_DISJOINT},
    {"noise", "param", ~(1u << PARAM_EVABYTE)},
    NEED_END,
};

/* --- geometry --------------------------------------------------------------------------------- */

enum attn_placement eva_placement(const void *options, const struct attn_site *s)
{
    (void)options;
    (void)s;
    return ATTN_GLOBAL;
}

/* As in the authors' code rows of the map / automatic window, where that divides both sides; else the
 * next side below it, or else above, that does and is not 1; else 0. */
static int eva_group(const struct eva *o, const struct attn_site *s)
{
    int rows = s->grid[0], columns = s->grid[1], rule = rows / windows_auto(s->grid);
    if (o->group || (rows % rule == 0 && columns % rule == 0))
        return o->group ? o->group : rule;
    for (int side = rule - 1; side > 1; side--)
        if (rows % side == 0 && columns % side == 0)
            return side;
    for (int side = rule + 1; side <= rows; side++)
        if (rows % side == 0 && columns % side == 0)
            return side;
    return 0;
}

static struct eva_geometry geometry_of(const struct eva *o, const struct attn_site *s)
{
    int group = eva_group(o, s), side = o->window ? o->window : windows_auto(s->grid);
    struct eva_geometry e = {.windows = windows_of_site(s),
                             .visibility = (enum eva_visibility)o->visibility};
    for (int axis = 0; axis < 2 && !s->window[0]; axis++)
        e.windows.window[axis] = side;
    e.windows.overlap = o->overlap ? side > 1 ? side / 2 : 1 : 0;
    e.groups = e.windows;
    for (int axis = 0; axis < 2; axis++) {
        e.groups.window[axis] = group;
        e.groups.shift[axis] = 0;
    }
    return e;
}

enum status eva_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct eva *o = options;
    enum status status = OK;
    if (o->scale == SCALE_PRF && o->param == PARAM_SUM)
        return error_set(err, ERR_INPUT,
                         "param: \"sum\" is \"default\" with scale \"prf\", which has its own factor of the "
                         "sum (leave it out, or set scale to \"code\")");
    if (o->scale == SCALE_PRF && o->param == PARAM_NONE && !o->noise)
        return error_set(err, ERR_INPUT,
                         "scale: \"prf\" has no effect with an omega of 0 (leave it out, or set noise to "
                         "true)");
    if (s->window[0] && o->window)
        return error_set(err, ERR_INPUT,
                         "window: %d, but the windows are the model's here, %d x %d "
                         "(leave it out)",
                         o->window, s->window[0], s->window[1]);
    if (s->window[0] && o->overlap)
        return error_set(err, ERR_INPUT,
                         "overlap: the windows are the model's here, and end at their "
                         "borders (false would do)");
    if (o->window)
        status = windows_check_side("window", o->window, s->grid, err);
    if (!status && !eva_group(o, s))
        return error_set(err, ERR_INPUT,
                         "group: no square but that of one patch divides a map of %d x %d (\"group\": 1 has "
                         "patches as groups, where omega has no effect; another patch_size has others)",
                         s->grid[0], s->grid[1]);
    if (!status)
        status = windows_check_side("group", eva_group(o, s), s->grid, err);
    if (status || o->visibility != EVA_DISJOINT || o->allow_gaps)
        return status;
    struct eva_geometry e = geometry_of(o, s);
    int outside, gaps = eva_gaps(&e, &outside);
    if (gaps)
        return error_set(
            err, ERR_INPUT,
            "visibility: disjoint hides %d of the %d tokens outside of a "
            "window from it altogether (\"allow_gaps\": true accepts that, \"remainder\" "
            "hides none, nor does a window of whole groups)",
            gaps, outside);
    return OK;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Rows of the table of biases on each side of a patch: keys are fewer rows and columns away. */
static int eva_reach(const struct eva_geometry *e, int axis)
{
    return e->windows.window[axis] + e->windows.overlap;
}

static int bias_entry(const void *context, int query, int key)
{
    const struct eva_geometry *e = context;
    int columns = e->windows.grid[1];
    query -= e->windows.prefix;
    key -= e->windows.prefix;
    int row = query / columns - key / columns + eva_reach(e, 0) - 1;
    int column = query % columns - key % columns + eva_reach(e, 1) - 1;
    return row * (2 * eva_reach(e, 1) - 1) + column + 1;
}

/* What is needed to turn parts of windows into groups of queries. */
struct parts {
    struct group_list list;
    const struct eva_geometry *e;
    int *token; /* room for the queries and keys of a part */
    bool rpe;
};

static void add_part(void *context, const struct eva_part *part)
{
    struct parts *p = context;
    const struct token_windows *w = &p->e->windows;
    struct key_group group = {.query = p->token, .rows = part->sets, .row = part->set};
    group.queries = windows_tokens(w, &part->queries, p->token);
    group.key = p->token + group.queries;
    group.keys = windows_tokens(w, &part->keys, p->token + group.queries);
    groups_add(&p->list, 0, &group, p->rpe ? bias_entry : NULL, p->e);
}

/* Logarithms of the sizes of sets, in the graph's arena. */
static const real *log_sizes(struct graph *g, const struct token_sets *sets)
{
    real *size = arena_alloc(&g->memory, (size_t)sets->count * sizeof *size);
    if (!size)
        graph_fail(g, ERR_MEMORY, "out of memory for the sizes of groups");
    for (int i = 0; size && i < sets->count; i++)
        size[i] = (real)log(sets->first[i + 1] - sets->first[i]);
    return size;
}

/* --- pooling ---------------------------------------------------------------------------------- */

/* One pooled row a group: (B, H, sets, d) of x (B, H, N, d), with a linear map, shared by the
 * heads, and a norm of its own as `param` wants them. */
static struct tensor *pool_rows(struct graph *g, const struct eva *o, const char *name,
                                const char *norm, struct tensor *x, const struct token_sets *sets,
                                double divisor)
{
    x = op_set_mean(g, x, sets, divisor);
    if (o->param == PARAM_MEAN)
        return x;
    x = nn_linear(g, name, x, tensor_cols(x));
    return o->param == PARAM_NO_LN ? x : nn_layer_norm(g, norm, x, norm_eps);
}

/* Standard normal numbers cut off at -1 and 1, times init->a. */
static enum status init_clipped(real *value, const struct shape *shape, const struct init *init,
                                uint64_t stream, struct error *err)
{
    (void)err;
    size_t count = shape_count(shape);
    for (size_t i = 0; i < count; i++)
        value[i] = (real)(init->a * fmax(-1, fmin(1, rng_normal(stream, 0, 0, i))));
    return OK;
}

/* One learned row a head, normal, cut off at 1, over the root of d. */
static struct tensor *head_rows(struct graph *g, const struct attn_site *s, const char *name)
{
    return graph_param(g, name, SHAPE(s->H, s->D / s->H),
                       ((struct init){init_clipped, attn_scale(s), 0}));
}

/* omega before its noise: (B, H, sets, d). */
static struct tensor *proposal(struct graph *g, const struct eva *o, struct tensor *q,
                               struct tensor *k_pool, const struct token_sets *sets, double divisor)
{
    double width = tensor_cols(k_pool);
    if (o->param == PARAM_NONE)
        return op_scale(g, k_pool, 0);
    struct tensor *q_pool = pool_rows(g, o, "q_pool", "q_pool_norm", q, sets, divisor);
    struct tensor *sum = op_add(g, q_pool, k_pool);
    if (o->scale == SCALE_PRF)
        return op_scale(g, sum, pow(width, -0.25));
    return o->param == PARAM_SUM ? sum : op_scale(g, sum, 0.5);
}

/* The second table: one key and one value of each set. */
static void pool_sets(struct graph *g, const struct eva *o, const struct attn_site *s,
                      const struct qkv *t, const struct eva_sets *sets, double divisor,
                      struct tensor **k_pool, struct tensor **beta)
{
    struct tensor *omega;
    if (o->param == PARAM_EVABYTE) {
        struct tensor *a = head_rows(g, s, "adaptive_mu_k");
        *k_pool = op_set_softmax(g, a, t->k, t->k, 1, 0, &sets->sets);
        omega = head_rows(g, s, "adaptive_phi");
    } else {
        *k_pool = pool_rows(g, o, "k_pool", "k_pool_norm", t->k, &sets->sets, divisor);
        omega = proposal(g, o, t->q, *k_pool, &sets->sets, divisor);
        if (o->noise)
            omega = op_add_noise(g, omega, "eva_noise", sets->group);
    }
    double scale = attn_scale(s);
    *beta = op_set_softmax(g, omega, t->k, t->v, o->scale == SCALE_PRF ? sqrt(scale) : scale, scale,
                           &sets->sets);
}

/* --- the layer -------------------------------------------------------------------------------- */

struct tensor *eva_attend(struct graph *g, const struct eva *o, const struct attn_site *s,
                          const struct qkv *t)
{
    const struct eva_geometry e = geometry_of(o, s);
    struct tensor *table = NULL, *k_pool, *beta;
    if (o->rpe)
        table = groups_bias(g, s, (2 * eva_reach(&e, 0) - 1) * (2 * eva_reach(&e, 1) - 1));
    if (g->error.status)
        return g->inert;

    struct parts p = {.e = &e, .rpe = o->rpe};
    struct eva_sets sets;
    groups_begin(&p.list, g, s, 4 * windows_count(&e.windows));
    p.token = arena_alloc(&g->memory, 2 * (size_t)s->N * sizeof *p.token);
    if (!p.token)
        return graph_fail(g, ERR_MEMORY, "out of memory for the tokens of windows");
    if (o->mass_bias && eva_arrange(g, &e, &sets, NULL, NULL))
        p.list.row_shift = log_sizes(g, &sets.sets);
    if (!eva_arrange(g, &e, &sets, add_part, &p))
        return g->inert;

    int side = e.groups.window[0] + 2 * e.groups.overlap;
    double divisor = o->group_mean == MEAN_CODE ? (double)side * side : 0;
    pool_sets(g, o, s, t, &sets, divisor, &k_pool, &beta);
    return groups_attend(&p.list, t, k_pool, beta, table);
}

struct tensor *eva_build(struct graph *g, const void *options, const struct attn_site *s,
                         struct tensor *x)
{
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias);
    struct tensor *y = eva_attend(g, options, s, &t); /* (B, H, N, d) */
    return nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias);
}

/* 4 N D^2 + 2 N (w^2 + C) D + 2 C d D + 3 N D, where w^2 and C are the mean numbers of patches and
 * groups that a patch sees, and the last terms count all sets and their members; `param` takes of C
 * d D what it has linear maps, evabyte 2 N D for its keys. */
double eva_macs(const void *options, const struct attn_site *s)
{
    const struct eva *o = options;
    const struct eva_geometry e = geometry_of(o, s);
    const struct eva_counts n = eva_count(&e);
    double N = s->N, D = s->D, d = D / s->H;
    double maps = o->param == PARAM_NONE ? 1 : o->param < PARAM_NONE ? 2 : 0;
    double pooling = o->param == PARAM_EVABYTE ? 4 : 2;
    return 4 * N * D * D + 2 * (windows_pairs(&e.windows) + n.pairs + groups_prefix_pairs(s)) * D +
           maps * n.sets * d * D + (pooling * n.members + N) * D;
}

/* --- from another attention ------------------------------------------------------------------- */

bool eva_offsets(const void *options, const struct attn_site *s, struct attn_offsets *o)
{
    const struct eva *v = options;
    const struct eva_geometry e = geometry_of(v, s);
    *o = (struct attn_offsets){{eva_reach(&e, 0), eva_reach(&e, 1)}, 1};
    return v->rpe;
}

/* Pooled keys start as the means of keys, as far as their norms let them. */
void eva_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    adapt_identity(a, "q_pool.weight", 1);
    adapt_identity(a, "k_pool.weight", 1);
    adapt_constant(a, "adaptive_mu_k", 0);
    adapt_constant(a, "adaptive_phi", 0);
}
