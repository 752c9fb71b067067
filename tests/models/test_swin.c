/* test_swin.c - sizes, presets, checks and noise of the Swin Transformer. Values: test_golden.c. */
#include "attention/attention.h"
#include "backbone.h"
#include "ops/drop_path.h"

static const char *const attentions[] = {"standard", "optimized", "efficient", "super"};

/* Three stages of small maps, 8 x 12, 4 x 6 and 2 x 3, but for what `other` says. */
static void choose_small(struct backbone *n, const char *other, int batch, bool noise)
{
    static const char *const pairs[][2] = {
        {"\"image_size\"", "[16, 24]"}, {"\"channels\"", "2"},      {"\"classes\"", "5"},
        {"\"patch_size\"", "2"},        {"\"dim\"", "8"},           {"\"depths\"", "[2, 3, 1]"},
        {"\"heads\"", "[1, 2, 4]"},     {"\"window_size\"", "[4, 3]"},
    };
    const char *text = test_text("{\"name\": \"swin\"%s%s", *other ? ", " : "", other);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!strstr(other, pairs[i][0]))
            text = test_text("%s, %s: %s", text, pairs[i][0], pairs[i][1]);
    backbone_choose(n, test_text("%s}", text), batch, noise);
}

static void check_shape(const struct backbone *n, const char *name, struct shape want)
{
    char a[64], b[64];
    test_about("%s", name);
    CHECK_STR(shape_text(a, &rig_param(&n->rig, name)->shape), shape_text(b, &want));
}

/* --- sizes --------------------------------------------------------------------------------------
 */

TEST(presets__have_the_published_numbers_of_parameters_and_macs)
{
    static const struct {
        const char *width;
        size_t params[4]; /* by attention */
        double gmacs;     /* of standard attention, its products included */
    } rows[] = {
        {"tiny", {28288354, 26127394, 23966434, 23995246}, 4.5},
        {"small", {49606258, 45671218, 41736178, 41793802}, 8.7},
        {"base", {87768224, 80776608, 73784992, 73842616}, 15.4},
    };
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            struct backbone n;
            backbone_choose(&n,
                            test_text("{\"name\": \"swin_%s_patch4_window7_224\", "
                                      "\"attention\": \"%s\"}",
                                      rows[i].width, attentions[k]),
                            1, false);
            backbone_record(&n);
            CHECK_INT(params_counted(&n.rig.params), rows[i].params[k]);
            if (k == 0)
                CHECK_NEAR(graph_macs(n.rig.graph) / 1e9, rows[i].gmacs, 0.05);
            backbone_end(&n);
        }
    struct backbone n;
    backbone_choose(&n,
                    "{\"name\": \"swin_small_patch4_window7_224\", "
                    "\"attention\": {\"name\": \"super\", \"wa_bias\": true}}",
                    1, false);
    backbone_record(&n);
    CHECK_INT(params_counted(&n.rig.params), 41794978);
    backbone_end(&n);
}

TEST(swin__costs_what_its_sizes_say)
{
    struct backbone n;
    choose_small(&n, "", 3, false);
    backbone_record(&n);
    double want = 96 * (2 * 4) * 8 + 5 * 32; /* patches, head */
    static const int blocks[] = {2, 3, 1}, window[] = {12, 12, 6};
    for (int s = 0; s < 3; s++) {
        double N = 96 >> (2 * s), D = 8 << s;
        want += blocks[s] * (12 * N * D * D + 2 * N * window[s] * D);
        want += s < 2 ? N / 4 * 4 * D * 2 * D : 0;
    }
    CHECK_NEAR(graph_macs(n.rig.graph), 3 * want, 0.5);
    backbone_end(&n);
}

/* Windows are at most the map's, each axis by itself, and l of Super follows them. */
TEST(swin__windows_shrink_to_the_map)
{
    struct backbone n;
    choose_small(&n, "\"attention\": \"super\"", 2, false);
    struct model_shape s = model_of(&n.model)->shape(n.model.options);
    CHECK(s.height == 16 && s.width == 24 && s.tokens == (2 * 96 + 3 * 24 + 6) / 6);
    rig_ready(&n.rig, backbone_record(&n), 2);
    check_shape(&n, "patch_embed.proj.weight", SHAPE(8, 2, 2, 2));
    check_shape(&n, "layers.0.blocks.1.attn.align.weight", SHAPE(12, 12));
    check_shape(&n, "layers.1.blocks.0.attn.align.weight", SHAPE(12, 12));
    check_shape(&n, "layers.2.blocks.0.attn.align.weight", SHAPE(6, 6));
    check_shape(&n, "layers.0.blocks.0.attn.relative_position_bias_table", SHAPE(7 * 5, 1));
    check_shape(&n, "layers.2.blocks.0.attn.relative_position_bias_table", SHAPE(3 * 5, 4));
    check_shape(&n, "layers.0.downsample.norm.weight", SHAPE(32));
    check_shape(&n, "layers.1.downsample.reduction.weight", SHAPE(32, 64));
    CHECK(!params_find(&n.rig.params, "layers.1.downsample.reduction.bias"));
    CHECK(!params_find(&n.rig.params, "layers.2.downsample.norm.weight"));
    rig_run(&n.rig);
    CHECK(rig_norm(n.rig.y, n.rig.y_count) > 0);
    backbone_end(&n);
}

/* Regions are there in every second block, where there is more than one window. */
TEST(swin__shifts_every_second_block_where_there_are_more_windows_than_one)
{
    static const struct {
        const char *scope;
        int permutations; /* of one block: cut and join, or none for a single window */
    } rows[] = {
        {"layers.0.blocks.0.attn", 2},     {"layers.0.blocks.1.attn", 2},
        {"layers.0.downsample", 1},        {"layers.1.blocks.0.attn", 2},
        {"layers.1.blocks.1.attn", 2},     {"layers.1.blocks.2.attn", 2},
        {"layers.1.downsample", 1},
    };
    struct backbone n;
    choose_small(&n, "", 1, false);
    backbone_record(&n);
    int at = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < rows[i].permutations; k++) {
            const struct node *node = backbone_node(&n, "permute_tokens", at++);
            CHECK(node != NULL);
            CHECK_STR(node->scope, rows[i].scope);
        }
    CHECK(!backbone_node(&n, "permute_tokens", at)); /* none in stage 3 */
    backbone_end(&n);
}

TEST(swin__takes_widths_windows_and_attentions_stage_by_stage)
{
    struct backbone n;
    choose_small(&n,
                 "\"dim\": [4, 12, 8], \"window_size\": [2, 1, 9], \"attention\": "
                 "[\"efficient\", {\"name\": \"super\", \"base\": \"standard\"}, \"standard\"]",
                 1, false);
    backbone_record(&n);
    check_shape(&n, "layers.0.blocks.0.attn.q.weight", SHAPE(4, 4));
    check_shape(&n, "layers.1.blocks.2.attn.qkv.weight", SHAPE(36, 12));
    check_shape(&n, "layers.1.blocks.2.attn.align.weight", SHAPE(1, 1));
    check_shape(&n, "layers.2.blocks.0.attn.qkv.weight", SHAPE(24, 8));
    check_shape(&n, "layers.2.blocks.0.attn.relative_position_bias_table", SHAPE(15, 4));
    check_shape(&n, "layers.0.downsample.reduction.weight", SHAPE(12, 16));
    check_shape(&n, "layers.1.downsample.reduction.weight", SHAPE(8, 48));
    backbone_end(&n);
}

TEST(swin__spares_biases_norms_and_position_tables_from_decay)
{
    struct backbone n;
    choose_small(&n, "\"attention\": \"super\"", 1, false);
    backbone_record(&n);
    for (int i = 0; i < n.rig.params.count; i++) {
        const struct param *p = n.rig.params.list[i];
        bool spared = p->shape.rank == 1 || strstr(p->name, "relative_position_bias_table");
        test_about("%s", p->name);
        CHECK_INT(p->flags, spared ? 0 : PARAM_DECAY);
    }
    backbone_end(&n);
}

/* --- noise --------------------------------------------------------------------------------------
 */

TEST(drop_path__grows_linearly_over_the_blocks_of_all_stages)
{
    static const char *const blocks[] = {"layers.0.blocks.1", "layers.1.blocks.0",
                                         "layers.1.blocks.1", "layers.1.blocks.2",
                                         "layers.2.blocks.0"};
    struct backbone n;
    choose_small(&n, "\"drop_path\": 0.5", 1, true);
    backbone_record(&n);
    for (int i = 0; i < 10; i++) {
        const struct node *node = backbone_node(&n, "drop_path", i);
        CHECK(node != NULL);
        const struct drop_path *o = node->options;
        CHECK_STR(node->scope, test_text("%s.drop_path%d", blocks[i / 2], i % 2 + 1));
        CHECK_NEAR(o->p, 0.1 * (i / 2 + 1), 1e-12);
    }
    CHECK(!backbone_node(&n, "drop_path", 10)); /* the first block has rate 0 */
    backbone_end(&n);
}

TEST(dropout__follows_the_embedding_attention_and_both_layers_of_the_mlp)
{
    static const char *const want[] = {"pos_drop", "layers.0.blocks.0.attn_drop",
                                       "layers.0.blocks.0.mlp.drop1",
                                       "layers.0.blocks.0.mlp.drop2"};
    struct backbone n;
    choose_small(&n, "\"dropout\": 0.1", 1, true);
    backbone_record(&n);
    for (int i = 0; i < 4; i++)
        CHECK_STR(backbone_node(&n, "dropout", i)->scope, want[i]);
    CHECK(backbone_node(&n, "dropout", 3 * 6) && !backbone_node(&n, "dropout", 3 * 6 + 1));
    backbone_end(&n);
}

/* --- checks -------------------------------------------------------------------------------------
 */

TEST(swin__says_which_sizes_do_not_fit_together)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"\"patch_size\": [3, 2]", "patch_size: 3 does not divide the image height 16 (2 does; or height 15 or 18)"},
        {"\"depths\": []", "depths: 0 stages, expected 1 to 11"},
        {"\"depths\": [2, 2]", "heads: 3 entries for the 2 stages of depths (give 2)"},
        {"\"heads\": 2", "heads: 1 entry for the 3 stages of depths (give 3)"},
        {"\"dim\": [8, 16]", "dim: 2 entries for the 3 stages of depths (give one for all, or 3)"},
        {"\"window_size\": [1, 2, 3, 4]", "window_size: 4 entries for the 3 stages"},
        {"\"attention\": [\"super\", \"super\"]", "attention: 2 entries for the 3 stages"},
        {"\"heads\": [1, 3, 4]",
         "heads.1: 3 does not divide the width 16 of stage 2 (2 would do)"},
        {"\"dim\": 65536",
         "dim: 65536, doubled from stage to stage, is more than 65536 in stage 2"},
        {"\"mlp_ratio\": 0.01", "mlp_ratio: 0.01 times dim 8 is not in 1..2^20"},
        {"\"image_size\": [16, 20], \"window_size\": [4, 5]",
         "image_size: the 4 x 5 map of stage 2 is odd and cannot be merged (an image width of 8 or "
         "40 would do, or 2 stages)"},
        {"\"image_size\": 14, \"window_size\": 1",
         "image_size: the 7 x 7 map of stage 1 is odd and cannot be merged (image_size 8 or 16 "
         "would do, or 1 stage)"},
        {"\"window_size\": 3",
         "window_size: 3 does not divide the 8 x 12 map of stage 1 (1 or 12 would do, or an "
         "image height of 24)"},
        {"\"image_size\": 28, \"depths\": [2, 2], \"heads\": [1, 1], \"window_size\": 4",
         "window_size: 4 does not divide the 14 x 14 map of stage 1 (1 or 7 would do, or "
         "image_size 16 or 32)"},
        {"\"image_size\": 32, \"window_size\": [4, 3]", /* one size for both axes */
         "window_size: 3 does not divide the 16 x 16 map of stage 1 (2 or 4 would do, or image_size "
         "96)"},
        {"\"image_size\": [32, 40], \"window_size\": 4", /* one window for both axes */
         "window_size: 4 does not divide the 8 x 10 map of stage 2 (1 or 20 would do, or an image "
         "width of 32 or 64)"},
        {"\"image_size\": 8, \"patch_size\": [2, 4], \"depths\": [1, 1, 1, 1], \"heads\": [1, 1, 1, 1]",
         "image_size: the 2 x 1 map of stage 2 is odd and cannot be merged"},
        {"\"image_size\": 44, \"patch_size\": 4, \"window_size\": 7", /* one stage is no way out */
         "image_size: the 11 x 11 map of stage 1 is odd and cannot be merged (image_size 16 or 112 "
         "would do)"},
        {"\"window_size\": [4, 5, 4]", "window_size: 5 does not divide the 4 x 6 map of stage 2"},
        {"\"image_size\": 65536, \"window_size\": 4",
         "image_size: 1073741824 tokens of width 8 are too large"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct backbone n;
        choose_small(&n, rows[i].json, 1, false);
        CHECK_INT(model_of(&n.model)->check(n.model.options, &n.rig.error), ERR_INPUT);
        CHECK_CONTAINS(n.rig.error.text, rows[i].text);
        backbone_end(&n);
    }
}
