/* swin.c - Swin Transformer. Liu et al., "Swin Transformer: Hierarchical Vision Transformer
 * using Shifted Windows", arXiv:2103.14030; names and sizes of the authors' code. Where a map is
 * not larger than the window, the window shrinks to it and is not shifted, each axis by itself
 * as in timm. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "models/maps.h"
#include "models/model.h"
#include "models/sizes.h"
#include "nn/nn.h"

static const double norm_eps = 1e-5;

enum { MAX_STAGES = MAPS_MAX_STAGES, MAX_DIM = 65536, MAX_SIZE = MAPS_MAX_SIZE };

struct swin {
    int image_size[2], channels, classes;
    int patch_size[2];
    struct ints dim, depths, heads, window_size;
    double mlp_ratio;
    bool qkv_bias, proj_bias;
    double drop_path, dropout;
    struct choices attention;
};

static const struct field swin_fields[] = {
    FIELD_PAIR(struct swin, image_size, 224, 1, MAX_SIZE, "height and width of the input in pixels"),
    FIELD_INT(struct swin, channels, 3, 1, 4, "channels of the input: 1 grey, 3 RGB"),
    FIELD_INT(struct swin, classes, 1000, 2, 1000000, "number of classes"),
    FIELD_PAIR(struct swin, patch_size, 4, 1, MAX_SIZE, "height and width of a patch in pixels"),
    FIELD_INTS(struct swin, dim, "[96]", 1, MAX_DIM,
               "width of the first stage, doubled from stage to stage; or a list with one a stage"),
    FIELD_INTS(struct swin, depths, "[2, 2, 6, 2]", 1, 1000, "blocks of each stage"),
    FIELD_INTS(struct swin, heads, "[3, 6, 12, 24]", 1, 4096, "attention heads of each stage"),
    FIELD_INTS(struct swin, window_size, "[7]", 1, MAX_SIZE,
               "tokens along a window: a number, [height, width], or with other than two stages a "
               "list with one a stage; at most the map's"),
    FIELD_REAL(struct swin, mlp_ratio, 4, 0.001, 64, "hidden width of the MLP over the stage's"),
    FIELD_BOOL(struct swin, qkv_bias, true, "biases in the projections of q, k, v"),
    FIELD_BOOL(struct swin, proj_bias, true, "bias in the output projection of attention"),
    FIELD_REAL(struct swin, drop_path, 0, 0, 0.999,
               "stochastic depth of the last block, growing linearly over all blocks from 0"),
    FIELD_REAL(struct swin, dropout, 0, 0, 0.999,
               "dropout after the patch embedding, attention and both layers of the MLP"),
    FIELD_CHOICES(struct swin, attention, attn_kinds, "standard",
                  "the attention variant, or a list with one a stage"),
    FIELD_END,
};

/* --- stages ------------------------------------------------------------------------------------- */

struct stage {
    int number;    /* from 0, as in names; messages count from 1 */
    int dim, heads, depth;
    int first;     /* number of its first block among all */
    int grid[2];   /* rows and columns of its map */
    int window[2]; /* at most the map's */
    const struct choice *attention;
};

/* Tokens along a window as configured. */
static int swin_window(const struct swin *m, int stage, int axis)
{
    const struct ints *w = &m->window_size;
    return w->count == 2 ? w->at[axis] : w->at[w->count == 1 ? 0 : stage];
}

static struct stage swin_stage(const struct swin *m, int number)
{
    struct stage s = {.number = number, .heads = m->heads.at[number],
                      .depth = m->depths.at[number]};
    s.dim = m->dim.count > 1 ? m->dim.at[number] : m->dim.at[0] << number;
    s.attention = &m->attention.at[m->attention.count > 1 ? number : 0];
    for (int i = 0; i < number; i++)
        s.first += m->depths.at[i];
    for (int axis = 0; axis < 2; axis++) {
        int wanted = swin_window(m, number, axis);
        s.grid[axis] = m->image_size[axis] / m->patch_size[axis] >> number;
        s.window[axis] = wanted < s.grid[axis] ? wanted : s.grid[axis];
    }
    return s;
}

static int swin_blocks(const struct swin *m)
{
    int blocks = 0;
    for (int i = 0; i < m->depths.count; i++)
        blocks += m->depths.at[i];
    return blocks;
}

/* Every second block shifts its windows by half, along axes that have more than one window. */
static struct attn_site swin_site(const struct swin *m, const struct stage *s, int B, int block)
{
    struct attn_site site = {
        .B = B, .N = s->grid[0] * s->grid[1], .D = s->dim, .H = s->heads,
        .grid = {s->grid[0], s->grid[1]}, .window = {s->window[0], s->window[1]},
        .block = s->first + block, .blocks = swin_blocks(m),
        .qkv_bias = m->qkv_bias, .proj_bias = m->proj_bias,
    };
    for (int axis = 0; axis < 2; axis++)
        site.shift[axis] = block % 2 && s->window[axis] < s->grid[axis] ? s->window[axis] / 2 : 0;
    return site;
}

/* --- checks ------------------------------------------------------------------------------------- */

static enum status check_lists(const struct swin *m, struct error *err)
{
    int stages = m->depths.count;
    if (stages < 1 || stages > MAX_STAGES)
        return error_set(err, ERR_INPUT, "depths: %d stages, expected 1 to %d (a list with the "
                         "blocks of each stage, as in [2, 2, 6, 2])", stages, MAX_STAGES);
    const struct {
        const char *key;
        int count;
        bool one, pair; /* whether one entry, or two, may stand for all stages */
    } lists[] = {
        {"heads", m->heads.count, false, false},
        {"dim", m->dim.count, true, false},
        {"window_size", m->window_size.count, true, true},
        {"attention", m->attention.count, true, false},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int n = lists[i].count;
        if (n == stages || (n == 1 && lists[i].one) || (n == 2 && lists[i].pair))
            continue;
        return error_set(err, ERR_INPUT, "%s: %d %s for the %d %s of depths (give %s%d)",
                         lists[i].key, n, n == 1 ? "entry" : "entries", stages,
                         stages == 1 ? "stage" : "stages", lists[i].one ? "one for all, or " : "",
                         stages);
    }
    return OK;
}

static enum status check_widths(const struct swin *m, struct error *err)
{
    for (int i = 0; i < m->depths.count; i++) {
        if (m->dim.count == 1 && m->dim.at[0] > MAX_DIM >> i)
            return error_set(err, ERR_INPUT, "dim: %d, doubled from stage to stage, is more than "
                             "%d in stage %d", m->dim.at[0], MAX_DIM, i + 1);
        struct stage s = swin_stage(m, i);
        if (s.dim % s.heads)
            return error_set(err, ERR_INPUT,
                             "heads.%d: %d does not divide the width %d of stage %d (%d would do)",
                             i, s.heads, s.dim, i + 1, model_divisor_near(s.dim, s.heads));
        enum status status = model_check_mlp(m->mlp_ratio, s.dim, err);
        if (status)
            return status;
    }
    return OK;
}

static enum status check_maps(const struct swin *m, struct error *err)
{
    int count = m->window_size.count;
    struct stage first = swin_stage(m, 0);
    struct maps maps = {
        .stages = m->depths.count, .dim = first.dim,
        .patch = {m->patch_size[0], m->patch_size[1]}, .length = {first.grid[0], first.grid[1]},
        .square = m->image_size[0] == m->image_size[1] && m->patch_size[0] == m->patch_size[1],
        .windows = count == 1 ? WINDOWS_ONE : count == 2 ? WINDOWS_PAIR : WINDOWS_STAGES,
    };
    for (int i = 0; i < maps.stages; i++)
        for (int axis = 0; axis < 2; axis++)
            maps.window[i][axis] = swin_window(m, i, axis);
    return maps_check(&maps, err);
}

static enum status check_attention(const struct swin *m, struct error *err)
{
    for (int i = 0; i < m->depths.count; i++) {
        struct stage s = swin_stage(m, i);
        struct attn_site site = swin_site(m, &s, 1, s.depth > 1);
        enum status status = attn_check(s.attention, &site, err);
        if (!status)
            continue;
        if (m->attention.count > 1)
            error_prefix(err, "attention.%d.", i);
        else
            error_prefix(err, "attention.");
        error_append(err, " (stage %d: width %d, %d heads, a map of %d x %d in windows of %d x %d)",
                     i + 1, s.dim, s.heads, s.grid[0], s.grid[1], s.window[0], s.window[1]);
        return status;
    }
    return OK;
}

static enum status swin_check(const void *options, struct error *err)
{
    const struct swin *m = options;
    enum status status = model_check_patches(m->image_size, m->patch_size, err);
    if (!status)
        status = check_lists(m, err);
    if (!status)
        status = check_widths(m, err);
    if (!status)
        status = check_maps(m, err);
    if (!status)
        status = model_check_map(swin_stage(m, 0).grid, swin_stage(m, 0).dim, err);
    return status ? status : check_attention(m, err);
}

static struct model_shape swin_shape(const void *options)
{
    const struct swin *m = options;
    double tokens = 0;
    for (int i = 0; i < m->depths.count; i++) {
        struct stage s = swin_stage(m, i);
        tokens += (double)s.depth * s.grid[0] * s.grid[1] / swin_blocks(m);
    }
    return (struct model_shape){.channels = m->channels, .height = m->image_size[0],
                                .width = m->image_size[1], .classes = m->classes,
                                .tokens = (int)lround(tokens)};
}

static bool swin_attention(const void *options, int i, struct model_layer *layer)
{
    const struct swin *m = options;
    int stage = 0;
    while (stage < m->depths.count && i >= m->depths.at[stage])
        i -= m->depths.at[stage++];
    if (stage == m->depths.count)
        return false;
    struct stage s = swin_stage(m, stage);
    snprintf(layer->scope, sizeof layer->scope, "layers.%d.blocks.%d.attn", stage, i);
    layer->attention = s.attention;
    layer->site = swin_site(m, &s, 1, i);
    return true;
}

/* --- recording ---------------------------------------------------------------------------------- */

/* Two blocks in a row make one layer of the paper (eq. 3): windows, then shifted windows.
 * x: (B, N, D). Returns (B, N, D). */
static struct tensor *swin_block(struct graph *g, const struct swin *m, const struct stage *s,
                                 int block, struct tensor *x)
{
    graph_segment(g);
    graph_scope_push(g, "blocks.%d", block);
    struct attn_site site = swin_site(m, s, g->options.batch, block);
    double drop_path = model_drop_path(m->drop_path, site.block, site.blocks);

    struct tensor *h = nn_layer_norm(g, "norm1", x, norm_eps);
    h = attn_build(g, "attn", s->attention, &site, h);
    h = nn_dropout(g, "attn_drop", h, m->dropout);
    x = op_add(g, x, nn_drop_path(g, "drop_path1", h, drop_path));

    h = nn_layer_norm(g, "norm2", x, norm_eps);
    h = nn_mlp(g, "mlp", h, model_mlp_width(m->mlp_ratio, s->dim), m->dropout);
    x = op_add(g, x, nn_drop_path(g, "drop_path2", h, drop_path));

    graph_trace(g, x);
    graph_scope_pop(g);
    return x;
}

/* Brings the four tokens of each 2 x 2 square together, column by column as the authors do.
 * x: (B, N, D). Returns (B, N / 4, 4 D). */
static struct tensor *gather_squares(struct graph *g, const struct stage *s, struct tensor *x)
{
    int rows = s->grid[0], columns = s->grid[1], N = rows * columns;
    int *from = arena_alloc(&g->memory, (size_t)N * sizeof *from);
    if (!from)
        return graph_fail(g, ERR_MEMORY, "out of memory for the order of merged tokens");
    for (int t = 0; t < N / 4; t++) {
        int row = 2 * (t / (columns / 2)), column = 2 * (t % (columns / 2));
        for (int i = 0; i < 4; i++)
            from[4 * t + i] = (row + i % 2) * columns + column + i / 2;
    }
    x = op_permute_tokens(g, x, from, N);
    return graph_reshape(g, x, SHAPE(g->options.batch, N / 4, 4 * s->dim));
}

/* Patch merging: half as many tokens along each axis, `dim` wide. */
static struct tensor *swin_merge(struct graph *g, const struct stage *s, int dim, struct tensor *x)
{
    graph_segment(g);
    graph_scope_push(g, "downsample");
    x = nn_layer_norm(g, "norm", gather_squares(g, s, x), norm_eps);
    x = nn_linear_bias(g, "reduction", x, dim, false);
    graph_trace(g, x);
    graph_scope_pop(g);
    return x;
}

static struct tensor *swin_layer(struct graph *g, const struct swin *m, const struct stage *s,
                                 struct tensor *x)
{
    graph_scope_push(g, "layers.%d", s->number);
    for (int i = 0; i < s->depth; i++)
        x = swin_block(g, m, s, i, x);
    if (s->number + 1 < m->depths.count)
        x = swin_merge(g, s, swin_stage(m, s->number + 1).dim, x);
    graph_scope_pop(g);
    return x;
}

static struct tensor *swin_record(struct graph *g, const void *options, struct tensor *x,
                                  struct tensor **taught)
{
    const struct swin *m = options;
    if (taught)
        *taught = NULL;
    struct stage s = swin_stage(m, 0);
    x = nn_patch_embed_norm(g, "patch_embed", x, m->patch_size, s.dim, norm_eps);
    x = nn_dropout(g, "pos_drop", x, m->dropout);
    for (int i = 0; i < m->depths.count; i++) {
        s = swin_stage(m, i);
        x = swin_layer(g, m, &s, x);
    }
    graph_segment(g);
    x = nn_layer_norm_traced(g, "norm", x, norm_eps);
    x = op_pool(g, x, 0, s.grid[0] * s.grid[1]);
    return nn_head(g, "head", x, m->classes);
}

/* --- files of other programs -------------------------------------------------------------------- */

/* The rest of a name behind "layers.S.", and S; NULL for names outside the stages. */
static const char *in_stage(const char *name, int *stage)
{
    int length = 0;
    if (sscanf(name, "layers.%d.%n", stage, &length) != 1 || length == 0)
        return NULL;
    return name + length;
}

/* timm since 0.9: merging belongs to the stage behind it. */
static void rename_timm(char theirs[MODEL_NAME_SIZE], const char *ours)
{
    int stage;
    const char *rest = in_stage(ours, &stage);
    if (rest && strncmp(rest, "downsample.", 11) == 0)
        snprintf(theirs, MODEL_NAME_SIZE, "layers.%d.%s", stage + 1, rest);
    else if (strncmp(ours, "head.", 5) == 0)
        snprintf(theirs, MODEL_NAME_SIZE, "head.fc.%s", ours + 5);
    else
        snprintf(theirs, MODEL_NAME_SIZE, "%s", ours);
}

/* torchvision counts what runs one after the other: embedding, stage, merging, stage, ... */
static void rename_torchvision(char theirs[MODEL_NAME_SIZE], const char *ours)
{
    static const char *const parts[][2] = {
        {"patch_embed.proj.", "features.0.0."}, {"patch_embed.norm.", "features.0.2."},
        {"mlp.fc1.", "mlp.0."}, {"mlp.fc2.", "mlp.3."}, {"", ""},
    };
    char place[64] = "", block[64] = "";
    int stage, number, length = 0;
    const char *rest = in_stage(ours, &stage);
    if (rest && strncmp(rest, "downsample.", 11) == 0) {
        snprintf(place, sizeof place, "features.%d.", 2 * stage + 2);
        rest += 11;
    } else if (rest && sscanf(rest, "blocks.%d.%n", &number, &length) == 1 && length) {
        snprintf(place, sizeof place, "features.%d.", 2 * stage + 1);
        snprintf(block, sizeof block, "%d.", number);
        rest += length;
    } else {
        rest = ours;
    }
    int i = 0;
    while (strncmp(rest, parts[i][0], strlen(parts[i][0])) != 0)
        i++;
    snprintf(theirs, MODEL_NAME_SIZE, "%s%s%s%s", place, block, parts[i][1],
             rest + strlen(parts[i][0]));
}

/* The side of a square window with so many relative positions, 0 where there is none. */
static int window_of_table(int entries)
{
    for (int w = 1; (2 * w - 1) * (2 * w - 1) <= entries; w++)
        if ((2 * w - 1) * (2 * w - 1) == entries)
            return w;
    return 0;
}

static bool swin_misfit(const void *options, const char *name, const struct shape *theirs,
                        char hint[MODEL_HINT_SIZE])
{
    int number;
    const struct swin *m = options;
    const int patches[] = {swin_stage(m, 0).dim, m->channels, m->patch_size[0], m->patch_size[1]};
    if (model_patches_misfit(name, patches, theirs, hint))
        return true;
    const char *rest = in_stage(name, &number), *dot = rest ? strrchr(rest, '.') : NULL;
    if (!dot || strcmp(dot, ".relative_position_bias_table") != 0 || theirs->rank != 2)
        return false;
    struct stage s = swin_stage(m, number);
    int h = s.window[0], w = s.window[1], side = window_of_table(theirs->dim[0]);
    if (theirs->dim[0] == (2 * h - 1) * (2 * w - 1))
        return false;
    char size[64] = "of another size";
    if (side)
        snprintf(size, sizeof size, "of %d x %d", side, side);
    snprintf(hint, MODEL_HINT_SIZE,
             "the checkpoint has windows %s, the model of %d x %d in stage %d: window_size and "
             "image_size must be the checkpoint's",
             size, h, w, number + 1);
    return true;
}

/* Windows of 2 x 8 and of 3 x 5 have as many relative positions, those of 4 x 2 and 2 x 4 as well;
 * projections for any number of heads have the same shapes. */
static bool swin_conflict(const void *options, const void *theirs, bool resized,
                          char hint[MODEL_HINT_SIZE])
{
    const struct swin *ours = options, *other = theirs;
    for (int i = 0; i < ours->depths.count && i < other->depths.count; i++) {
        struct stage a = swin_stage(ours, i), b = swin_stage(other, i);
        if (a.heads != b.heads) {
            snprintf(hint, MODEL_HINT_SIZE,
                     "model.heads.%d is %d, the checkpoint's %d: its projections are made for that many",
                     i, a.heads, b.heads);
            return true;
        }
        if (resized || (a.window[0] == b.window[0] && a.window[1] == b.window[1]))
            continue;
        snprintf(hint, MODEL_HINT_SIZE,
                 "the checkpoint has windows of %d x %d, the model of %d x %d in stage %d: window_size "
                 "and image_size must be the checkpoint's",
                 b.window[0], b.window[1], a.window[0], a.window[1], i + 1);
        return true;
    }
    return false;
}

static const char *const swin_heads[] = {"head", NULL};
static const char *const swin_derived[] = {"relative_position_index", "attn_mask", NULL};
static const struct model_layout swin_layouts[] = {
    {"timm", rename_timm}, {"torchvision", rename_torchvision}, {NULL, NULL},
};

const struct model swin_model = {
    .name = "swin", .summary = "Swin Transformer, arXiv:2103.14030",
    .fields = swin_fields, .options_size = sizeof(struct swin),
    .check = swin_check, .shape = swin_shape, .record = swin_record,
    .layer = swin_attention,
    .heads = swin_heads, .derived = swin_derived, .layouts = swin_layouts, .misfit = swin_misfit,
    .conflict = swin_conflict,
};
