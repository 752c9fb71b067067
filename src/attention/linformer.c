/* linformer.c - keys and values projected along the tokens to k rows: O(N k) time and memory. Wang
 * et al., "Linformer: Self-Attention with Linear Complexity", arXiv:2006.04768, section 4. Where
 * the paper offers a choice: tokens are projected after the linear maps of keys and values, E and F
 * are shared by the heads of a layer (`sharing`), and a quarter of the patches are kept. E and F
 * tie a layer to its token count. `pool` is the paper's other projection, means over blocks of
 * patches. In shifted windows the tokens of each region are projected by themselves, and seen by
 * their own alone. */
#include "attention/key_groups.h"

#include <math.h>
#include <string.h>

#include "attention/adapt.h"
#include "ops/ops.h"

enum { SHARE_NONE, SHARE_HEADWISE, SHARE_KV, SHARE_LAYER };

struct linformer {
    int k, sharing, pool;
};

static const char *const sharing_names[] = {"none", "headwise", "kv", "layer", NULL};

static const struct field linformer_fields[] = {
    FIELD_INT(struct linformer, k, 0, 0, 4096,
              "rows that keys and values are projected to; 0: patches / 4, rounded up, and two at least"),
    FIELD_ENUM(
        struct linformer, sharing, SHARE_HEADWISE, sharing_names,
        "projections: none: for each head; headwise: for each layer; kv: one for keys and values; "
        "layer: one for all layers"),
    FIELD_INT(
        struct linformer, pool, 0, 0, 64,
        "projects by means over so many x so many patches instead, which divide the map; 0: no"),
    FIELD_END,
};

static const struct field_need linformer_needs[] = {
    {"k", "pool", NEED_ZERO},
    {"sharing", "pool", NEED_ZERO},
    NEED_END,
};

/* Rows that the tokens of one region are projected to. */
static int linformer_rows(const struct linformer *o, const struct attn_site *s)
{
    int patches = s->N - s->prefix;
    if (o->pool)
        return s->prefix + patches / (o->pool * o->pool);
    if (o->k)
        return o->k;
    int quarter = (patches + 3) / 4;
    return quarter >= 2 || s->N == 1 ? quarter : 2;
}

static enum status linformer_check(const void *options, const struct attn_site *s,
                                   struct error *err)
{
    const struct linformer *o = options;
    enum status status = o->pool ? windows_check_side("pool", o->pool, s->grid, err) : OK;
    if (status)
        return status;
    int rows = linformer_rows(o, s);
    if (rows == 1 && s->N > 1)
        return error_set(err, ERR_INPUT,
                         "%s: one row for %d tokens leaves queries without effect (%s would do)",
                         o->pool ? "pool" : "k", s->N, o->pool ? "less" : "2 and more");
    if (rows > s->N)
        return error_set(err, ERR_INPUT, "k: %d rows are more than the tokens (%d at most)", rows,
                         s->N);
    return OK;
}

/* --- means over blocks ------------------------------------------------------------------------ */

/* Appends the tokens of a block that lie in a region of a map. */
static int block_tokens(const struct token_windows *w, int block, const struct attn_site *s,
                        int map, int region, int *token)
{
    struct token_rect part[4];
    windows_parts(w, block, part);
    int count = windows_tokens(w, part, token), kept = 0;
    for (int i = 0; i < count; i++) {
        const unsigned char *id = s->regions ? s->regions->id + (ptrdiff_t)map * s->N : NULL;
        if (!id || id[token[i]] == region)
            token[kept++] = map * s->N + token[i];
    }
    return kept;
}

/* A set for each row of each region of each map: a prefix token, or what a region has of a block.
 */
static bool pool_sets(struct graph *g, const struct linformer *o, const struct attn_site *s,
                      int maps, struct token_sets *sets)
{
    const struct token_windows w = {
        .grid = {s->grid[0], s->grid[1]}, .window = {o->pool, o->pool}, .prefix = s->prefix};
    int regions = token_regions_count(s->regions), rows = linformer_rows(o, s), members = 0;
    int *first = arena_alloc(&g->memory, ((size_t)(maps * regions * rows) + 1) * sizeof *first);
    int *token = arena_alloc(
        &g->memory, ((size_t)maps * (size_t)s->N + (size_t)(o->pool * o->pool)) * sizeof *token);
    if (!first || !token) {
        graph_fail(g, ERR_MEMORY, "out of memory for blocks of tokens");
        return false;
    }
    for (int i = 0; i < maps * regions * rows; i++) {
        int row = i % rows, map = i / rows / regions, region = i / rows % regions;
        first[i] = members;
        if (row < s->prefix)
            token[members++] = row;
        else
            members += block_tokens(&w, row - s->prefix, s, map, region, token + members);
    }
    first[maps * regions * rows] = members;
    *sets = (struct token_sets){maps * regions * rows, first, token};
    return true;
}

/* Means of the blocks, also where a region has but some of their patches. With prefix tokens, which
 * are rows of their own, there are no regions. */
static struct tensor *pool_tokens(struct graph *g, const struct linformer *o,
                                  const struct attn_site *s, const struct token_sets *sets,
                                  struct tensor *x)
{
    return op_set_mean(g, x, sets, s->prefix ? 0 : (double)o->pool * o->pool);
}

/* --- the layer -------------------------------------------------------------------------------- */

/* E, or F. */
static struct tensor *projection(struct graph *g, const struct linformer *o,
                                 const struct attn_site *s, const char *name)
{
    int k = linformer_rows(o, s);
    const struct init init = INIT_UNIFORM(1 / sqrt(k));
    if (o->sharing == SHARE_LAYER)
        return graph_param_shared(g, name, SHAPE(s->N, k), init);
    return graph_param(g, name, o->sharing == SHARE_NONE ? SHAPE(s->H, s->N, k) : SHAPE(s->N, k),
                       init);
}

/* Heads of the i-th D columns. */
static struct tensor *heads(struct graph *g, const struct attn_site *s, struct tensor *x, int i)
{
    return graph_split_heads(g, graph_columns(g, x, i * s->D, s->D), s->H);
}

/* Keys and values of every region of every map: (B, H, rows, d), of folded samples. */
static void project(struct graph *g, const struct linformer *o, const struct attn_site *s,
                    const struct group_list *l, struct tensor *qkv, struct tensor *to[2])
{
    struct token_sets sets;
    if (o->pool && !pool_sets(g, o, s, l->maps, &sets))
        return;
    struct tensor *W = o->pool ? NULL : projection(g, o, s, "proj_k");
    for (int i = 0; i < 2; i++) {
        if (o->pool) {
            to[i] = pool_tokens(g, o, s, &sets, heads(g, s, groups_fold(l, qkv), i + 1));
            continue;
        }
        if (i == 1 && o->sharing < SHARE_KV)
            W = projection(g, o, s, "proj_v");
        struct tensor *x = op_project_tokens(g, heads(g, s, qkv, i + 1), W, s->regions);
        to[i] = graph_split_heads(g, groups_fold(l, op_merge_heads(g, x)), s->H);
    }
}

/* Each token sees the rows of its own region. */
static void add_groups(struct group_list *l, const struct attn_site *s, int rows)
{
    int regions = token_regions_count(s->regions);
    int *token = arena_alloc(&l->g->memory, (size_t)(s->N + rows) * sizeof *token);
    if (!token) {
        graph_fail(l->g, ERR_MEMORY, "out of memory for the regions of windows");
        return;
    }
    for (int i = 0; i < l->maps * regions; i++) {
        const unsigned char *id = s->regions->id + (ptrdiff_t)(i / regions) * s->N;
        struct key_group group = {.query = token, .key = token, .rows = rows, .row = token + s->N};
        for (int t = 0; t < s->N; t++)
            if (id[t] == i % regions)
                token[group.queries++] = t;
        for (int r = 0; r < rows; r++)
            token[s->N + r] = i * rows + r;
        if (group.queries)
            groups_add(l, i / regions, &group, NULL, NULL);
    }
}

static struct tensor *linformer_build(struct graph *g, const void *options,
                                      const struct attn_site *s, struct tensor *x)
{
    const struct linformer *o = options;
    struct group_list l;
    groups_begin(&l, g, s, token_regions_count(s->regions));
    struct tensor *qkv = nn_linear_bias(g, "qkv", x, 3 * s->D, s->qkv_bias), *kv[2], *y;
    if (g->error.status)
        return g->inert;
    project(g, o, s, &l, qkv, kv);
    if (g->error.status)
        return g->inert;
    if (s->regions) {
        struct tensor *all = groups_fold(&l, qkv);
        struct qkv t = {heads(g, s, all, 0), heads(g, s, all, 1), heads(g, s, all, 2)};
        add_groups(&l, s, linformer_rows(o, s));
        y = groups_attend(&l, &t, kv[0], kv[1], NULL);
    } else {
        y = op_sdpa(g, heads(g, s, qkv, 0), kv[0], kv[1], attn_scale(s));
    }
    return groups_unfold(&l, nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias));
}

/* 4 N D^2 + 4 N k D; with pool 2 N k D, where sums are not counted. */
static double linformer_macs(const void *options, const struct attn_site *s)
{
    const struct linformer *o = options;
    double N = s->N, D = s->D, k = linformer_rows(o, s);
    return 4 * N * D * D + (o->pool ? 2 : 4) * N * k * D;
}

/* --- from another attention ------------------------------------------------------------------- */

/* A matrix (N, columns) that takes means over blocks of patches. */
struct means {
    real *value;
    int columns;
    const struct attn_site *s;
};

/* Columns first .. first + count - 1 for the patches of a rectangle, which are as many at least: halves
 * of the longer side get their share of them. */
static void put_means(const struct means *m, struct token_rect r, int first, int count)
{
    int size[2] = {r.end[0] - r.first[0], r.end[1] - r.first[1]};
    if (count > 1) {
        int axis = size[1] > size[0], half = size[axis] / 2;
        int share = (2 * count * half + size[axis]) / (2 * size[axis]);
        struct token_rect part[2] = {r, r};
        part[0].end[axis] = part[1].first[axis] = r.first[axis] + half;
        put_means(m, part[0], first, share);
        put_means(m, part[1], first + share, count - share);
        return;
    }
    for (int row = r.first[0]; row < r.end[0]; row++)
        for (int column = r.first[1]; column < r.end[1]; column++) {
            int token = m->s->prefix + row * m->s->grid[1] + column;
            m->value[(size_t)token * (size_t)m->columns + (size_t)first] =
                (real)(1.0 / (size[0] * size[1]));
        }
}

/* The paper's other projection to start with: each row of keys and values is the mean over a block of
 * the map, or a prefix token, as far as rows are left for these. */
static void linformer_adapt(const struct adapt *a, const void *options)
{
    static const char *const names[] = {"proj_k", "proj_v"};
    const struct attn_site *s = a->site;
    (void)options;
    for (int i = 0; i < 2; i++) {
        struct adapt_tensor *t = adapt_open(a, names[i]);
        if (!t)
            continue;
        int k = t->shape.dim[t->shape.rank - 1], own = s->prefix < k ? s->prefix : k - 1;
        size_t matrix = (size_t)s->N * (size_t)k, count = shape_count(&t->shape);
        memset(t->value, 0, count * sizeof *t->value);
        for (size_t at = 0; at < count; at += matrix) {
            const struct means m = {t->value + at, k, s};
            for (int token = 0; token < own; token++)
                m.value[token * k + token] = 1;
            put_means(&m, (struct token_rect){{0, 0}, {s->grid[0], s->grid[1]}}, own, k - own);
        }
        adapt_say(t, "means over blocks of patches");
    }
}

const struct attn_variant linformer_attn = {
    .name = "linformer",
    .summary = "low-rank keys and values",
    .paper = "arXiv:2006.04768",
    .complexity = "O(N k D)",
    .fields = linformer_fields,
    .options_size = sizeof(struct linformer),
    .needs = linformer_needs,
    .check = linformer_check,
    .build = linformer_build,
    .macs = linformer_macs,
    .adapt = linformer_adapt,
};
