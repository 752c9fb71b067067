/* test_vit.c - sizes, presets, checks and noise of the Vision Transformer. Values: test_golden.c.
 */
#include "backbone.h"

/* --- sizes --------------------------------------------------------------------------------------
 */

static const char *const attentions[] = {"standard", "optimized", "efficient", "super"};

TEST(presets__have_the_published_numbers_of_parameters)
{
    static const struct {
        const char *width;
        size_t params[4];    /* by attention */
        size_t distilled[4]; /* the same with a second token and head, 198 tokens */
    } rows[] = {
        {"tiny", {5717416, 5272744, 4828072, 5293780}, {5910800, 5466128, 5021456, 5491904}},
        {"small",
         {22050664, 20276584, 18502504, 18968212},
         {22436432, 20662352, 18888272, 19358720}},
        {"base",
         {86567656, 79480552, 72393448, 72859156},
         {87338192, 80251088, 73163984, 73634432}},
    };
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            static const char *const names[] = {"vit_%s_patch16_224", "deit_%s_patch16_224",
                                                "deit_%s_distilled_patch16_224"};
            for (int form = 0; form < 3; form++) {
                struct backbone n;
                const char *end_of_name = strchr(names[form], '%') + 2;
                const char *name = test_text("%.*s%s%s", (int)(end_of_name - 2 - names[form]),
                                             names[form], rows[i].width, end_of_name);
                backbone_choose(&n,
                       test_text("{\"name\": \"%s\", \"attention\": \"%s\"}", name, attentions[k]),
                       1, false);
                backbone_record(&n);
                CHECK_INT(params_counted(&n.rig.params),
                          form == 2 ? rows[i].distilled[k] : rows[i].params[k]);
                backbone_end(&n);
            }
        }
}

TEST(vit_tiny__costs_what_its_sizes_say)
{
    struct backbone n;
    const double N = 197, D = 192;
    backbone_choose(&n, "\"vit_tiny_patch16_224\"", 2, false);
    backbone_record(&n);
    double blocks = 12 * (4 * N * D * D + 2 * N * N * D + 8 * N * D * D);
    CHECK_NEAR(graph_macs(n.rig.graph), 2 * (196 * 768 * D + blocks + 1000 * D), 0.5);
    backbone_end(&n);
}

TEST(vit__takes_rectangular_images_and_patches)
{
    struct backbone n;
    backbone_choose(&n,
           "{\"name\": \"vit\", \"image_size\": [20, 12], \"patch_size\": [5, 2], \"dim\": 8, "
           "\"depth\": 1, \"heads\": 2, \"channels\": 3, \"pool\": \"mean\", "
           "\"attention\": \"super\"}",
           2, false);
    struct model_shape s = model_of(&n.model)->shape(n.model.options);
    CHECK_INT(s.height, 20);
    CHECK_INT(s.width, 12);
    CHECK_INT(s.tokens, 24);
    rig_ready(&n.rig, backbone_record(&n), 3);
    CHECK_INT(rig_param(&n.rig, "patch_embed.proj.weight")->shape.dim[2], 5);
    CHECK_INT(rig_param(&n.rig, "pos_embed")->shape.dim[1], 24);
    CHECK_INT(rig_param(&n.rig, "blocks.0.attn.align.weight")->count, 24 * 24);
    rig_run(&n.rig);
    CHECK(rig_norm(n.rig.y, n.rig.y_count) > 0);
    backbone_end(&n);
}

/* The flags of a parameter: what weight decay spares. */
static void check_decay(const struct backbone *n, const char *name, bool decays)
{
    const struct param *p = rig_param(&n->rig, name);
    test_about("%s", name);
    CHECK_INT(p->flags, decays ? PARAM_DECAY : 0);
}

TEST(vit__spares_biases_norms_positions_and_tokens_from_decay)
{
    struct backbone n;
    backbone_choose(&n,
           "{\"name\": \"vit\", \"depth\": 1, \"layer_scale\": 0.1, \"distilled\": true, "
           "\"attention\": {\"name\": \"super\", \"wa_bias\": true}}",
           1, false);
    backbone_record(&n);
    static const char *const decayed[] = {"patch_embed.proj.weight",
                                          "blocks.0.attn.q.weight",
                                          "blocks.0.attn.align.weight",
                                          "blocks.0.attn.proj.weight",
                                          "blocks.0.mlp.fc1.weight",
                                          "blocks.0.mlp.fc2.weight",
                                          "head.weight",
                                          "head_dist.weight",
                                          NULL};
    int count = 0;
    for (; decayed[count]; count++)
        check_decay(&n, decayed[count], true);
    for (int i = 0; i < n.rig.params.count; i++)
        count -= (n.rig.params.list[i]->flags & PARAM_DECAY) != 0;
    CHECK_INT(count, 0); /* no others decay */
    check_decay(&n, "cls_token", false);
    check_decay(&n, "dist_token", false);
    check_decay(&n, "pos_embed", false);
    check_decay(&n, "blocks.0.ls1.gamma", false);
    backbone_end(&n);
}

TEST(vit__starts_as_documented)
{
    struct backbone n;
    backbone_choose(&n, "{\"name\": \"vit\", \"depth\": 1, \"dim\": 64, \"layer_scale\": 0.25}", 1, false);
    rig_ready(&n.rig, backbone_record(&n), 1);
    const struct rig *r = &n.rig;
    double count = 192 * 64;
    CHECK_NEAR(rig_norm(rig_value(r, "blocks.0.attn.qkv.weight"), 192 * 64), 0.02 * sqrt(count),
               0.02 * sqrt(count) * 4 / sqrt(2 * count));
    CHECK_NEAR(rig_norm(rig_value(r, "pos_embed"), 50 * 64), 0.02 * sqrt(3200), 0.06);
    CHECK_NEAR(rig_norm(rig_value(r, "cls_token"), 64), 8e-6, 3e-6);
    CHECK(rig_norm(rig_value(r, "blocks.0.attn.qkv.bias"), 192) == 0);
    CHECK(rig_norm(rig_value(r, "head.bias"), 10) == 0);
    CHECK_NEAR(rig_norm(rig_value(r, "blocks.0.ls2.gamma"), 64), 2, 1e-6);
    CHECK_NEAR(rig_norm(rig_value(r, "norm.weight"), 64), 8, 1e-6);
    backbone_end(&n);
}

/* Variants share what they have in common: the same names start with the same numbers. */
TEST(vit__starts_equal_with_every_attention_outside_of_it)
{
    struct backbone a, b;
    backbone_choose(&a, "{\"name\": \"vit\", \"depth\": 2, \"attention\": \"standard\"}", 1, false);
    backbone_choose(&b, "{\"name\": \"vit\", \"depth\": 2, \"attention\": \"super\"}", 1, false);
    rig_ready(&a.rig, backbone_record(&a), 1);
    rig_ready(&b.rig, backbone_record(&b), 1);
    int shared = 0;
    for (int i = 0; i < a.rig.params.count; i++) {
        const struct param *p = a.rig.params.list[i];
        const struct param *q = params_find(&b.rig.params, p->name);
        test_about("%s", p->name);
        if (!q)
            continue;
        CHECK(memcmp(p->value, q->value, p->count * sizeof *p->value) == 0);
        shared++;
    }
    CHECK_INT(shared, a.rig.params.count - 4); /* all but qkv of both blocks */
    backbone_end(&a);
    backbone_end(&b);
}

/* --- noise --------------------------------------------------------------------------------------
 */

/* What the node multiplies kept samples by: 1 / (1 - p). Its input and output are graph outputs. */
static double kept_factor(const real *in, const real *out, int samples, size_t each)
{
    for (int b = 0; b < samples; b++)
        if (out[(size_t)b * each] != 0)
            return (double)out[(size_t)b * each] / (double)in[(size_t)b * each];
    return 0;
}

TEST(drop_path__grows_linearly_over_the_blocks)
{
    enum { ROWS = 16, DEPTH = 5 };
    struct backbone n;
    struct rig *r = &n.rig;
    real *in[2 * DEPTH], *out[2 * DEPTH];
    const char *scopes[2 * DEPTH];
    int found = 0;
    backbone_choose(&n,
           "{\"name\": \"vit\", \"image_size\": 8, \"dim\": 8, \"depth\": 5, \"heads\": 2, "
           "\"drop_path\": 0.4}",
           ROWS, true);
    struct tensor *logits = backbone_record(&n);
    size_t each = 5 * 8;
    for (int i = 0; i < r->graph->node_count; i++) {
        const struct node *node = r->graph->nodes[i];
        if (strcmp(node->op->name, "drop_path") != 0)
            continue;
        CHECK(found < 2 * DEPTH);
        CHECK_INT(tensor_count(node->out), ROWS * each);
        r->feed.output[r->graph->output_count] = in[found] =
            rig_alloc(r, ROWS * each * sizeof(real));
        graph_output(r->graph, node->in[0]);
        r->feed.output[r->graph->output_count] = out[found] =
            rig_alloc(r, ROWS * each * sizeof(real));
        graph_output(r->graph, node->out);
        scopes[found++] = node->scope;
    }
    CHECK_INT(found, 2 * (DEPTH - 1)); /* the first block has rate 0 */
    rig_ready(r, logits, ROWS);
    rig_randomize(r, 1);
    rig_run(r);
    for (int i = 0; i < found; i++) {
        int block = 1 + i / 2;
        double rate = 0.4 * block / (DEPTH - 1);
        test_about("node %d", i);
        CHECK_STR(scopes[i], test_text("blocks.%d.drop_path%d", block, 1 + i % 2));
        CHECK_NEAR(kept_factor(in[i], out[i], ROWS, each), 1 / (1 - rate), 1e-5);
    }
    backbone_end(&n);
}

TEST(dropout__follows_positions_attention_and_both_layers_of_the_mlp)
{
    static const char *const want[] = {
        "pos_drop",           "blocks.0.attn_drop", "blocks.0.mlp.drop1", "blocks.0.mlp.drop2",
        "blocks.1.attn_drop", "blocks.1.mlp.drop1", "blocks.1.mlp.drop2"};
    struct backbone n;
    size_t found = 0;
    backbone_choose(&n, "{\"name\": \"vit\", \"depth\": 2, \"dropout\": 0.1}", 1, true);
    backbone_record(&n);
    for (int i = 0; i < n.rig.graph->node_count; i++) {
        const struct node *node = n.rig.graph->nodes[i];
        if (strcmp(node->op->name, "dropout") != 0)
            continue;
        CHECK(found < sizeof want / sizeof want[0]);
        CHECK_STR(node->scope, want[found++]);
    }
    CHECK_INT(found, sizeof want / sizeof want[0]);
    backbone_end(&n);
}

/* --- checks -------------------------------------------------------------------------------------
 */

TEST(vit__says_which_sizes_do_not_fit_together)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"image_size\": 28, \"patch_size\": 5",
         "patch_size: 5 does not divide the image height 28 (4 does; or height 25 or 30)"},
        {"\"image_size\": [28, 30], \"patch_size\": 7",
         "patch_size: 7 does not divide the image width 30 (6 does; or width 28 or 35)"},
        {"\"dim\": 64, \"heads\": 5", "dim: 64 is not divisible by heads 5 (heads 4 would do)"},
        {"\"dim\": 6, \"heads\": 2, \"pos_embed\": \"sincos\"",
         "dim: 6 is not divisible by 4, as pos_embed sincos needs"},
        {"\"fc_norm\": true", "fc_norm: needs \"pool\": \"mean\""},
        {"\"distilled\": true, \"pool\": \"mean\"", "distilled: needs \"pool\": \"cls\""},
        {"\"image_size\": 65536, \"patch_size\": 1", "image_size: 4294967296 tokens of width 64"},
        {"\"dim\": 65536, \"heads\": 1, \"mlp_ratio\": 64", "mlp_ratio: 64 times dim 65536"},
        {"\"dim\": 64, \"mlp_ratio\": 0.001", "mlp_ratio: 0.001 times dim 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct backbone n;
        backbone_choose(&n, test_text("{\"name\": \"vit\", %s}", rows[i].json), 1, false);
        CHECK_INT(model_of(&n.model)->check(n.model.options, &n.rig.error), ERR_INPUT);
        CHECK_CONTAINS(n.rig.error.text, rows[i].text);
        backbone_end(&n);
    }
}
