/* super.c - efficient attention whose values are first mixed over the tokens by a learned N x N
 * kernel. Hosseini and Hosseini, arXiv:2403.01643, eq. 19 to 23: K_i and V_i are slices of the
 * input, V'_i = W^A V_i with one W^A for all heads of a layer. W^A ties a layer to its token
 * count. Beyond the paper: other bases, a bias, a kernel for each head, other initial values,
 * and in shifted windows a kernel that keeps regions apart as the softmax does. */
#include "attention/absorb.h"
#include "nn/nn.h"

enum base { BASE_EFFICIENT, BASE_OPTIMIZED, BASE_STANDARD };
enum wa_init { WA_XAVIER_UNIFORM, WA_IDENTITY, WA_ORTHOGONAL };

struct super {
    int base;
    bool wa_bias;
    int wa_init;
    bool wa_share, wa_mask;
};

static const char *const base_names[] = {"efficient", "optimized", "standard", NULL};
static const char *const init_names[] = {"xavier_uniform", "identity", "orthogonal", NULL};

static const struct field super_fields[] = {
    FIELD_ENUM(struct super, base, BASE_EFFICIENT, base_names,
               "what the kernel is added to: efficient as in the paper, optimized or standard"),
    FIELD_BOOL(struct super, wa_bias, false, "adds a learned number to each row of mixed values"),
    FIELD_ENUM(struct super, wa_init, WA_XAVIER_UNIFORM, init_names,
               "initial kernel; identity starts as the base"),
    FIELD_BOOL(struct super, wa_share, true, "one kernel for all heads; false: one for each head"),
    FIELD_BOOL(struct super, wa_mask, false,
               "in shifted windows the kernel does not mix tokens that do not touch in the image"),
    FIELD_END,
};

static enum status super_check(const void *options, const struct attn_site *s, struct error *err)
{
    const struct super *o = options;
    if (!o->wa_mask || s->window[0])
        return OK;
    return error_set(err, ERR_INPUT,
                     "wa_mask: true is for shifted windows, and there are none here (leave it out)");
}

static struct tensor *super_build(struct graph *g, const void *options, const struct attn_site *s,
                                  struct tensor *x)
{
    const struct super *o = options;
    static const char *const name[] = {"q", "qk", "qkv"};
    const struct init init[] = {INIT_XAVIER_UNIFORM, INIT_IDENTITY, INIT_ORTHOGONAL};
    int projected = o->base == BASE_STANDARD ? 3 : o->base == BASE_OPTIMIZED ? 2 : 1;

    struct tensor *y = nn_linear_bias(g, name[projected - 1], x, projected * s->D, s->qkv_bias);
    struct tensor *q = graph_columns(g, y, 0, s->D);
    struct tensor *k = projected > 1 ? graph_columns(g, y, s->D, s->D) : x;
    struct tensor *v = projected > 2 ? graph_columns(g, y, 2 * s->D, s->D) : x;

    graph_scope_push(g, "align");
    struct shape shape = o->wa_share ? SHAPE(s->N, s->N) : SHAPE(s->H, s->N, s->N);
    struct tensor *W = graph_param(g, "weight", shape, init[o->wa_init]);
    struct tensor *bias = o->wa_bias ? graph_param(g, "bias", SHAPE(s->N), INIT_ZEROS) : NULL;
    v = op_token_mix_regions(g, v, W, bias, o->wa_mask ? s->regions : NULL); /* W^A V: (B, N, D) */
    graph_scope_pop(g);

    y = attn_sdpa(g, s, graph_split_heads(g, q, s->H), graph_split_heads(g, k, s->H),
                  graph_split_heads(g, v, s->H));
    return nn_linear_bias(g, "proj", op_merge_heads(g, y), s->D, s->proj_bias);
}

/* p N D^2 + 3 N^2 D with p = 2, 3, 4 projections */
static double super_macs(const void *options, const struct attn_site *s)
{
    const struct super *o = options;
    double N = s->N, D = s->D;
    double projections = o->base == BASE_STANDARD ? 4 : o->base == BASE_OPTIMIZED ? 3 : 2;
    return projections * N * D * D + 3 * N * N * D;
}

/* With the identity as kernel the layer is its base. */
static void super_adapt(const struct adapt *a, const void *options)
{
    (void)options;
    adapt_identity(a, "align.weight", 1);
    absorb_keys(a);
    absorb_values(a);
}

const struct attn_variant super_attn = {
    .name = "super", .summary = "efficient attention with a learned mixture of value tokens",
    .paper = "arXiv:2403.01643", .complexity = "O(N^2 D)",
    .fields = super_fields, .options_size = sizeof(struct super),
    .check = super_check, .build = super_build, .macs = super_macs, .adapt = super_adapt,
};
