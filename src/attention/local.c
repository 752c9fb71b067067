/* local.c - softmax attention inside windows that do not overlap, with relative position bias: the
 * W-MSA of Liu et al., "Swin Transformer", arXiv:2103.14030, section 3.2, on any map and without
 * shift. With `overlap`, keys and values come from a larger window, as in the image models of Zheng
 * et al., arXiv:2302.04542; what would lie outside of the map is left out. */
#include "attention/adapt.h"
#include "attention/key_groups.h"

struct local {
    int window;
    bool overlap, rpe;
};

static const struct field local_fields[] = {
    FIELD_INT(struct local, window, 0, 0, 64,
              "patches along a window, which divide the map; 0: 7, 4, 8 or 6, whichever does"),
    FIELD_BOOL(struct local, overlap, false,
               "keys from half a window more on each side, as far as the map goes"),
    FIELD_BOOL(struct local, rpe, true, "relative position bias"),
    FIELD_END,
};

static struct token_windows local_windows(const struct local *o, const struct attn_site *s)
{
    int side = o->window ? o->window : windows_auto(s->grid);
    return (struct token_windows){
        .grid = {s->grid[0], s->grid[1]},
        .window = {side, side},
        .prefix = s->prefix,
        .overlap = o->overlap ? side > 1 ? side / 2 : 1 : 0,
    };
}

static enum status local_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct local *o = options;
    struct token_windows w = local_windows(o, s);
    enum status status = windows_check_side("window", w.window[0], s->grid, err);
    if (status)
        return status;
    if (w.window[0] == 1 && !o->overlap && s->N > 1)
        return error_set(err, ERR_INPUT,
                         "window: one patch sees itself alone (a map of %d x %d "
                         "needs \"overlap\": true, or another patch_size)",
                         s->grid[0], s->grid[1]);
    if (s->window[0] && windows_count(&w) == 1)
        return error_set(err, ERR_INPUT,
                         "window: %d is all of a window of the model, where this is standard "
                         "attention (less, or a larger window_size at this stage, would differ)",
                         w.window[0]);
    return OK;
}

/* Rows of the table for keys less than `reach` rows and columns away. */
static int local_reach(const struct token_windows *w)
{
    return w->window[0] + w->overlap;
}

static int bias_entry(const void *context, int query, int key)
{
    const struct token_windows *w = context;
    int reach = local_reach(w), columns = w->grid[1];
    query -= w->prefix;
    key -= w->prefix;
    return ((query / columns - key / columns + reach - 1) * (2 * reach - 1) + query % columns -
            key % columns + reach - 1) +
           1;
}

static struct tensor *local_build(struct graph *g, const void *options, const struct attn_site *s,
                                  struct tensor *x)
{
    const struct local *o = options;
    struct token_windows w = local_windows(o, s);
    struct group_list l;
    groups_begin(&l, g, s, windows_count(&w));
    struct qkv t = nn_qkv(g, "qkv", groups_fold(&l, x), s->H, s->qkv_bias);
    struct tensor *table = NULL;
    if (o->rpe)
        table = groups_bias(g, s, (2 * local_reach(&w) - 1) * (2 * local_reach(&w) - 1));
    int *token = arena_alloc(&g->memory, 2 * (size_t)s->N * sizeof *token);
    if (!token)
        return graph_fail(g, ERR_MEMORY, "out of memory for the tokens of windows");
    for (int i = 0; i < l.maps * windows_count(&w); i++) {
        struct token_rect part[4];
        windows_parts(&w, i % windows_count(&w), part);
        struct token_rect keys = windows_keys(&w, part);
        struct key_group group = {.query = token, .key = token + s->N};
        group.queries = windows_tokens(&w, part, token);
        group.keys = windows_tokens(&w, &keys, token + s->N);
        groups_add(&l, i / windows_count(&w), &group, o->rpe ? bias_entry : NULL, &w);
    }
    struct tensor *y = groups_attend(&l, &t, NULL, NULL, table);
    return groups_unfold(&l, nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias));
}

/* 4 N D^2 + 2 N w^2 D; with overlap, w^2 is the number of keys of a window. */
static double local_macs(const void *options, const struct attn_site *s)
{
    struct token_windows w = local_windows(options, s);
    double N = s->N, D = s->D;
    return 4 * N * D * D + 2 * (windows_pairs(&w) + groups_prefix_pairs(s)) * D;
}

static bool local_offsets(const void *options, const struct attn_site *s, struct attn_offsets *o)
{
    const struct local *l = options;
    struct token_windows w = local_windows(l, s);
    *o = (struct attn_offsets){{local_reach(&w), local_reach(&w)}, 1};
    return l->rpe;
}

const struct attn_variant local_attn = {
    .name = "local",
    .summary = "softmax attention inside windows",
    .paper = "arXiv:2103.14030",
    .complexity = "O(N w^2 D)",
    .fields = local_fields,
    .options_size = sizeof(struct local),
    .check = local_check,
    .build = local_build,
    .macs = local_macs,
    .offsets = local_offsets,
};
