/* longformer.c - a sliding window and global tokens. Beltagy et al., "Longformer: The Long-Document
 * Transformer", arXiv:2004.05150, section 3. Global are the class token and its like: seen by all,
 * they see all. The window lies along the tokens in raster order, as in the paper, or in two
 * dimensions. `shared` false: what global tokens ask has projections of its own for query, keys and
 * values (section 3.1); they are the larger part of a layer's parameters where one token is global.
 */
#include <string.h>

#include "attention/adapt.h"
#include "attention/neighbourhood.h"

enum { RASTER, MAP_CLAMP, MAP_CLIP };
enum { CHUNK = 32 }; /* queries of a group along the raster */
enum { RASTER_WINDOW = 24, MAP_WINDOW = 3 };

struct longformer {
    int form, window, dilation;
    bool shared;
};

static const char *const form_names[] = {"raster", "na", "clip", NULL};

static const struct field longformer_fields[] = {
    FIELD_ENUM(
        struct longformer, form, RASTER, form_names,
        "window along the raster order; na: on the map, moved inwards at its border; clip: on the "
        "map, cut off there"),
    FIELD_INT(struct longformer, window, 0, 0, 4096,
              "patches seen on each side, on the map along each axis; 0: 24, on the map 3"),
    FIELD_INT(struct longformer, dilation, 1, 1, 64,
              "along the raster, only every so many-th is seen"),
    FIELD_BOOL(struct longformer, shared, true,
               "false: queries, keys and values of what global tokens see are projected anew"),
    FIELD_END,
};

static const struct field_need longformer_needs[] = {
    {"dilation", "form", 1u << RASTER},
    NEED_END,
};

static int longformer_window(const struct longformer *o)
{
    return o->window ? o->window : o->form == RASTER ? RASTER_WINDOW : MAP_WINDOW;
}

static struct neighbourhood longformer_map(const struct longformer *o, const struct attn_site *s)
{
    return (struct neighbourhood){
        .grid = {s->grid[0], s->grid[1]},
        .prefix = s->prefix,
        .kernel = 2 * longformer_window(o) + 1,
        .clip = o->form == MAP_CLIP,
    };
}

static enum status longformer_check(const void *options, const struct attn_site *s,
                                    struct error *err)
{
    const struct longformer *o = options;
    if (!o->shared && !s->prefix)
        return error_set(err, ERR_INPUT,
                         "shared: false is for what global tokens see, and there are none here (leave it "
                         "out; a class token would be one)");
    if (o->form != RASTER) {
        const struct neighbourhood n = longformer_map(o, s);
        return neighbourhood_check("window", &n, s, err);
    }
    int patches = s->N - s->prefix;
    if (patches > 1 && o->dilation >= patches)
        return error_set(err, ERR_INPUT,
                         "dilation: %d is past the %d patches: each sees no other (%d at most)",
                         o->dilation, patches, patches - 1);
    if (s->window[0] && o->dilation == 1 && longformer_window(o) >= s->N - 1)
        return error_set(err, ERR_INPUT,
                         "window: %d on each side see all of a window of %d patches, "
                         "where this is standard attention (fewer would differ)",
                         longformer_window(o), s->N);
    return OK;
}

/* --- along the raster ------------------------------------------------------------------------- */

/* Patches are seen in rows of their own: those with one remainder by the dilation. */
struct raster {
    int window, dilation, prefix, patches;
};

static struct raster raster_of(const struct longformer *o, const struct attn_site *s)
{
    return (struct raster){longformer_window(o), o->dilation, s->prefix, s->N - s->prefix};
}

/* Patches of the row with this remainder. */
static int row_length(const struct raster *r, int remainder)
{
    return remainder < r->patches ? (r->patches - 1 - remainder) / r->dilation + 1 : 0;
}

static int raster_groups(const struct raster *r)
{
    int groups = 0;
    for (int i = 0; i < r->dilation; i++)
        groups += (row_length(r, i) + CHUNK - 1) / CHUNK;
    return groups;
}

static double raster_pairs(const struct raster *r)
{
    double pairs = 0;
    for (int i = 0; i < r->dilation; i++)
        for (int n = row_length(r, i), t = 0; t < n; t++)
            pairs += (t < r->window ? t : r->window) + 1 +
                     (n - 1 - t < r->window ? n - 1 - t : r->window);
    return pairs;
}

static int raster_entry(const void *context, int query, int key)
{
    const struct raster *r = context;
    int apart = query > key ? query - key : key - query;
    return apart <= r->window * r->dilation ? KEY_PLAIN : KEY_HIDDEN;
}

/* Patches first .. end - 1 of a row. */
static int raster_list(const struct raster *r, int remainder, int first, int end, int *token)
{
    for (int t = first; t < end; t++)
        token[t - first] = r->prefix + remainder + t * r->dilation;
    return end - first;
}

static void raster_add(struct group_list *l, const struct raster *r)
{
    int *token = arena_alloc(&l->g->memory, (CHUNK + (size_t)r->patches) * sizeof *token);
    if (!token) {
        graph_fail(l->g, ERR_MEMORY, "out of memory for sliding windows");
        return;
    }
    for (int i = 0; i < l->maps * r->dilation; i++) {
        int remainder = i % r->dilation, n = row_length(r, remainder);
        for (int t = 0; t < n; t += CHUNK) {
            int end = t + CHUNK < n ? t + CHUNK : n;
            int first_key = t > r->window ? t - r->window : 0;
            int end_key = n - end > r->window ? end + r->window : n;
            struct key_group group = {.query = token, .key = token + CHUNK};
            group.queries = raster_list(r, remainder, t, end, token);
            group.keys = raster_list(r, remainder, first_key, end_key, token + CHUNK);
            groups_add(l, i / r->dilation, &group, raster_entry, r);
        }
    }
}

/* --- the layer -------------------------------------------------------------------------------- */

static struct tensor *longformer_build(struct graph *g, const void *options,
                                       const struct attn_site *s, struct tensor *x)
{
    const struct longformer *o = options;
    const struct neighbourhood map = longformer_map(o, s);
    const struct raster raster = raster_of(o, s);
    struct group_list l;
    groups_begin(&l, g, s, o->form == RASTER ? raster_groups(&raster) : neighbourhood_groups(&map));
    x = groups_fold(&l, x);
    struct qkv t = nn_qkv(g, "qkv", x, s->H, s->qkv_bias), global = {.k = NULL};
    if (!o->shared && s->prefix) {
        global = nn_qkv(g, "qkv_global", x, s->H, s->qkv_bias);
        t.q = op_replace_tokens(g, t.q, global.q, s->prefix);
        l.prefix_sees_rows = true;
    }
    if (o->form == RASTER)
        raster_add(&l, &raster);
    else
        neighbourhood_add(&l, &map);
    struct tensor *y = groups_attend(&l, &t, global.k, global.v, NULL);
    return groups_unfold(&l, nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias));
}

/* 4 N D^2 + 2 N (2 a + 1) D with the mean number of keys for 2 a + 1, and 3 N D^2 for projections
 * that are not shared. */
static double longformer_macs(const void *options, const struct attn_site *s)
{
    const struct longformer *o = options;
    const struct neighbourhood map = longformer_map(o, s);
    const struct raster raster = raster_of(o, s);
    double pairs = o->form == RASTER ? raster_pairs(&raster) : neighbourhood_pairs(&map);
    double N = s->N, D = s->D, projections = !o->shared && s->prefix ? 7 : 4;
    return projections * N * D * D + 2 * (pairs + groups_prefix_pairs(s)) * D;
}

/* The projections of what global tokens ask start as those of all tokens, as in the paper
 * (section 3.1). */
static void longformer_adapt(const struct adapt *a, const void *options)
{
    static const char *const names[][2] = {{"qkv_global.weight", "qkv.weight"},
                                           {"qkv_global.bias", "qkv.bias"}};
    (void)options;
    for (int i = 0; i < 2; i++) {
        struct adapt_tensor *to = adapt_open(a, names[i][0]), *from = adapt_find(a->to, names[i][1]);
        if (!to)
            continue;
        memcpy(to->value, from->value, shape_count(&to->shape) * sizeof *to->value);
        adapt_say(to, "as %s", names[i][1]);
    }
}

const struct attn_variant longformer_attn = {
    .name = "longformer",
    .summary = "sliding window and global tokens",
    .paper = "arXiv:2004.05150",
    .complexity = "O(N a D)",
    .fields = longformer_fields,
    .options_size = sizeof(struct longformer),
    .needs = longformer_needs,
    .check = longformer_check,
    .build = longformer_build,
    .macs = longformer_macs,
    .adapt = longformer_adapt,
};
