/* vit.c - Vision Transformer. Dosovitskiy et al., "An Image is Worth 16x16 Words", arXiv:2010.11929;
 * pre-norm encoder as in timm; with `distilled` the extra token and head of DeiT (Touvron et al.,
 * arXiv:2012.12877): logits are the mean of both heads. */
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "models/model.h"
#include "models/sizes.h"
#include "nn/nn.h"

static const double norm_eps = 1e-6;

enum pool_kind { VIT_POOL_CLS, VIT_POOL_MEAN };
enum pos_kind { POS_LEARNED, POS_SINCOS, POS_NONE };

struct vit {
    int image_size[2], channels, classes;
    int patch_size[2], dim, depth, heads;
    double mlp_ratio;
    int pool, pos_embed;
    bool qkv_bias, proj_bias, fc_norm, distilled;
    struct number_or_name layer_scale;
    double drop_path, dropout;
    struct choice attention;
};

static const char *const pool_names[] = {"cls", "mean", NULL};
static const char *const pos_names[] = {"learned", "sincos", "none", NULL};

static const struct field vit_fields[] = {
    FIELD_PAIR(struct vit, image_size, 28, 1, 65536, "height and width of the input in pixels"),
    FIELD_INT(struct vit, channels, 1, 1, 4, "channels of the input: 1 grey, 3 RGB"),
    FIELD_INT(struct vit, classes, 10, 2, 1000000, "number of classes"),
    FIELD_PAIR(struct vit, patch_size, 4, 1, 65536, "height and width of a patch in pixels"),
    FIELD_INT(struct vit, dim, 64, 1, 65536, "width of the tokens"),
    FIELD_INT(struct vit, depth, 6, 1, 1000, "number of blocks"),
    FIELD_INT(struct vit, heads, 4, 1, 4096, "attention heads in each block"),
    FIELD_REAL(struct vit, mlp_ratio, 4, 0.001, 64, "hidden width of the MLP over dim"),
    FIELD_ENUM(struct vit, pool, VIT_POOL_CLS, pool_names,
               "cls: class token; mean: no class token, mean over the patches"),
    FIELD_ENUM(struct vit, pos_embed, POS_LEARNED, pos_names, "position embedding"),
    FIELD_BOOL(struct vit, qkv_bias, true, "biases in the projections of q, k, v"),
    FIELD_BOOL(struct vit, proj_bias, true, "bias in the output projection of attention"),
    FIELD_BOOL(struct vit, fc_norm, false,
               "with pool mean: normalise after the mean (tensor fc_norm) instead of before"),
    FIELD_BOOL(struct vit, distilled, false, "distillation token and second head of DeiT"),
    FIELD_RANGE(struct vit, layer_scale, "null", NULL, 0, 10,
                "start value of the learned factors on both branches; null: none"),
    FIELD_REAL(struct vit, drop_path, 0, 0, 0.999,
               "stochastic depth of the last block, growing linearly from 0 in the first"),
    FIELD_REAL(struct vit, dropout, 0, 0, 0.999,
               "dropout after the position embedding, attention and both layers of the MLP"),
    FIELD_CHOICE(struct vit, attention, attn_kinds, "standard", "the attention variant"),
    FIELD_END,
};

static int vit_prefix(const struct vit *m)
{
    return m->pool == VIT_POOL_MEAN ? 0 : m->distilled ? 2 : 1;
}

static int vit_patches(const struct vit *m)
{
    return m->image_size[0] / m->patch_size[0] * (m->image_size[1] / m->patch_size[1]);
}

static int vit_tokens(const struct vit *m)
{
    return vit_prefix(m) + vit_patches(m);
}

static struct attn_site vit_site(const struct vit *m, int B, int block)
{
    return (struct attn_site){
        .B = B, .N = vit_tokens(m), .D = m->dim, .H = m->heads, .prefix = vit_prefix(m),
        .grid = {m->image_size[0] / m->patch_size[0], m->image_size[1] / m->patch_size[1]},
        .block = block, .blocks = m->depth, .qkv_bias = m->qkv_bias, .proj_bias = m->proj_bias,
    };
}

static enum status vit_check(const void *options, struct error *err)
{
    const struct vit *m = options;
    enum status status = model_check_patches(m->image_size, m->patch_size, err);
    if (status)
        return status;
    if (m->dim % m->heads)
        return error_set(err, ERR_INPUT, "dim: %d is not divisible by heads %d (heads %d would do)",
                         m->dim, m->heads, model_divisor_near(m->dim, m->heads));
    if (m->pos_embed == POS_SINCOS && m->dim % 4)
        return error_set(err, ERR_INPUT, "dim: %d is not divisible by 4, as pos_embed sincos needs",
                         m->dim);
    if (m->fc_norm && m->pool == VIT_POOL_CLS)
        return error_set(err, ERR_INPUT, "fc_norm: needs \"pool\": \"mean\"");
    if (m->distilled && m->pool == VIT_POOL_MEAN)
        return error_set(err, ERR_INPUT, "distilled: needs \"pool\": \"cls\"");
    const int grid[] = {m->image_size[0] / m->patch_size[0], m->image_size[1] / m->patch_size[1]};
    status = model_check_mlp(m->mlp_ratio, m->dim, err);
    if (!status)
        status = model_check_map(grid, m->dim, err);
    if (status)
        return status;
    struct attn_site site = vit_site(m, 1, 0);
    status = attn_check(&m->attention, &site, err);
    if (status)
        error_prefix(err, "attention.");
    return status;
}

static struct model_shape vit_shape(const void *options)
{
    const struct vit *m = options;
    return (struct model_shape){.channels = m->channels, .height = m->image_size[0],
                                .width = m->image_size[1], .classes = m->classes,
                                .tokens = vit_tokens(m)};
}

static bool vit_layer(const void *options, int i, struct model_layer *layer)
{
    const struct vit *m = options;
    if (i >= m->depth)
        return false;
    snprintf(layer->scope, sizeof layer->scope, "blocks.%d.attn", i);
    layer->attention = &m->attention;
    layer->site = vit_site(m, 1, i);
    return true;
}

/* The end of a branch: layer scale where the model has it, then stochastic depth. */
static struct tensor *vit_branch(struct graph *g, const char *scale, const char *path,
                                 const struct vit *m, int block, struct tensor *h)
{
    if (m->layer_scale.name == -1)
        h = nn_layer_scale(g, scale, h, m->layer_scale.number);
    return nn_drop_path(g, path, h, model_drop_path(m->drop_path, block, m->depth));
}

/* One pre-norm encoder block (arXiv:2010.11929, eq. 2 and 3).  x: (B, N, D). Returns (B, N, D). */
static struct tensor *vit_block(struct graph *g, const struct vit *m, int block, struct tensor *x)
{
    graph_segment(g);
    graph_scope_push(g, "blocks.%d", block);
    struct attn_site site = vit_site(m, x->shape.rank ? x->shape.dim[0] : 1, block);

    struct tensor *h = nn_layer_norm(g, "norm1", x, norm_eps);
    h = attn_build(g, "attn", &m->attention, &site, h);
    h = nn_dropout(g, "attn_drop", h, m->dropout);
    x = op_add(g, x, vit_branch(g, "ls1", "drop_path1", m, block, h));

    h = nn_layer_norm(g, "norm2", x, norm_eps);
    h = nn_mlp(g, "mlp", h, model_mlp_width(m->mlp_ratio, m->dim), m->dropout);
    x = op_add(g, x, vit_branch(g, "ls2", "drop_path2", m, block, h));

    graph_trace(g, x);
    graph_scope_pop(g);
    return x;
}

static struct tensor *vit_embed(struct graph *g, const struct vit *m, struct tensor *x)
{
    x = nn_patch_embed(g, "patch_embed", x, m->patch_size, m->dim);
    if (m->distilled)
        x = nn_token(g, "dist_token", x, 0.02);
    if (m->pool == VIT_POOL_CLS)
        x = nn_token(g, "cls_token", x, 1e-6);
    if (m->pos_embed == POS_LEARNED)
        x = nn_pos_embed(g, "pos_embed", x);
    else if (m->pos_embed == POS_SINCOS)
        x = nn_pos_sincos(g, x, vit_site(m, 1, 0).grid, vit_prefix(m));
    return nn_dropout(g, "pos_drop", x, m->dropout);
}

static struct tensor *vit_record(struct graph *g, const void *options, struct tensor *x,
                                 struct tensor **taught)
{
    const struct vit *m = options;
    int tokens = vit_tokens(m);
    if (taught)
        *taught = NULL;
    x = vit_embed(g, m, x);
    for (int i = 0; i < m->depth; i++)
        x = vit_block(g, m, i, x);
    graph_segment(g);
    if (!m->fc_norm)
        x = nn_layer_norm_traced(g, "norm", x, norm_eps);
    if (m->distilled) {
        struct tensor *a = nn_head(g, "head", op_pool(g, x, 0, 1), m->classes);
        struct tensor *b = nn_head(g, "head_dist", op_pool(g, x, 1, 1), m->classes);
        if (!taught)
            return op_scale(g, op_add(g, a, b), 0.5);
        *taught = b;
        return a;
    }
    x = op_pool(g, x, 0, m->pool == VIT_POOL_CLS ? 1 : tokens);
    if (m->fc_norm)
        x = nn_layer_norm_traced(g, "fc_norm", x, norm_eps);
    return nn_head(g, "head", x, m->classes);
}

static bool vit_misfit(const void *options, const char *name, const struct shape *theirs,
                       char hint[MODEL_HINT_SIZE])
{
    const struct vit *m = options;
    const int patches[] = {m->dim, m->channels, m->patch_size[0], m->patch_size[1]};
    if (model_patches_misfit(name, patches, theirs, hint))
        return true;
    if (strcmp(name, "pos_embed") != 0 || theirs->rank != 3 || theirs->dim[1] == vit_tokens(m))
        return false;
    static const char *const made[] = {"model.pool \"mean\"", "model.pool \"cls\"",
                                       "model.pool \"cls\" and model.distilled true"};
    int prefix = theirs->dim[1] - vit_patches(m);
    if (prefix >= 0 && prefix <= 2) {
        snprintf(hint, MODEL_HINT_SIZE,
                 "the checkpoint has %d tokens for the same %d patches, the model %d: it was made with %s, "
                 "which would do here too",
                 theirs->dim[1], vit_patches(m), vit_tokens(m), made[prefix]);
        return true;
    }
    snprintf(hint, MODEL_HINT_SIZE,
             "the checkpoint has %d tokens, the model %d: image_size, patch_size, pool and distilled "
             "must be the checkpoint's",
             theirs->dim[1], vit_tokens(m));
    return true;
}

static bool vit_conflict(const void *options, const void *theirs, bool resized,
                         char hint[MODEL_HINT_SIZE])
{
    const struct vit *ours = options, *other = theirs;
    if (ours->heads != other->heads) {
        snprintf(hint, MODEL_HINT_SIZE,
                 "model.heads is %d, the checkpoint's %d: its projections are made for that many",
                 ours->heads, other->heads);
        return true;
    }
    struct attn_site a = vit_site(ours, 1, 0), b = vit_site(other, 1, 0);
    if (resized || (a.grid[0] == b.grid[0] && a.grid[1] == b.grid[1]))
        return false;
    snprintf(hint, MODEL_HINT_SIZE,
             "the checkpoint has %d x %d patches, the model %d x %d: image_size and patch_size must be "
             "the checkpoint's",
             b.grid[0], b.grid[1], a.grid[0], a.grid[1]);
    return true;
}

/* torchvision's VisionTransformer. */
static void rename_torchvision(char theirs[MODEL_NAME_SIZE], const char *ours)
{
    static const char *const parts[][2] = {
        {"attn.qkv.", "self_attention.in_proj_"}, {"attn.proj.", "self_attention.out_proj."},
        {"attn.", "self_attention."}, {"norm1.", "ln_1."}, {"norm2.", "ln_2."}, {"mlp.fc1.", "mlp.0."}, {"mlp.fc2.", "mlp.3."},
        {"patch_embed.proj.", "conv_proj."}, {"cls_token", "class_token"},
        {"pos_embed", "encoder.pos_embedding"}, {"norm.", "encoder.ln."}, {"head.", "heads.head."},
        {"", ""},
    };
    char block[64] = "";
    int number, length = 0, i = 0;
    if (sscanf(ours, "blocks.%d.%n", &number, &length) == 1 && length)
        snprintf(block, sizeof block, "encoder.layers.encoder_layer_%d.", number);
    const char *rest = ours + length;
    while (strncmp(rest, parts[i][0], strlen(parts[i][0])) != 0)
        i++;
    snprintf(theirs, MODEL_NAME_SIZE, "%s%s%s", block, parts[i][1], rest + strlen(parts[i][0]));
}

static const char *const vit_heads[] = {"head", "head_dist", NULL};
static const char *const vit_prefix_tokens[] = {"cls_token", "dist_token", NULL};
static const char *const vit_twins[] = {"norm.", "fc_norm.", NULL};
static const struct model_layout vit_layouts[] = {
    {"torchvision", rename_torchvision}, {NULL, NULL},
};

const struct model vit_model = {
    .name = "vit", .summary = "Vision Transformer, arXiv:2010.11929",
    .fields = vit_fields, .options_size = sizeof(struct vit),
    .check = vit_check, .shape = vit_shape, .record = vit_record, .layer = vit_layer,
    .heads = vit_heads, .layouts = vit_layouts,
    .position = "pos_embed", .tokens = vit_prefix_tokens, .twins = vit_twins,
    .misfit = vit_misfit, .conflict = vit_conflict,
};
