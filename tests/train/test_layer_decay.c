/* test_layer_decay.c - which learning rate each parameter gets, and that it learns at it. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "rig.h"
#include "train/layer_decay.h"
#include "train/step.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char swin[] =
    "{\"data\": {\"format\": \"synthetic\"}, \"train\": {\"layer_decay\": 0.5}, \"model\": {\"name\": "
    "\"swin\", \"image_size\": 16, \"channels\": 1, \"classes\": 6, \"patch_size\": 2, \"dim\": 8, "
    "\"depths\": [2, 1], \"heads\": [2, 2], \"window_size\": 4}}";

struct row {
    const char *name;
    int power; /* of the decay */
};

static void check_rates(const struct experiment *x, const struct row *rows, int count)
{
    struct network *n;
    struct error err;
    CHECK_OK(network_plan(&n, x, NETWORK_TRAIN, 4, 1, &err), err);
    CHECK(n->rates != NULL);
    for (int i = 0; i < count; i++) {
        const struct param *p = params_find(&n->params, rows[i].name);
        test_about("%s", rows[i].name);
        CHECK(p != NULL);
        CHECK_NEAR(n->rates[p->number], pow(0.5, rows[i].power), 0);
    }
    network_destroy(n);
}

TEST(layer_decay__falls_from_the_head_to_the_embedding_in_vit)
{
    static const struct row rows[] = {
        {"patch_embed.proj.weight", 3}, {"cls_token", 3}, {"pos_embed", 3}, {"dist_token", 3},
        {"blocks.0.norm1.weight", 2}, {"blocks.0.attn.qkv.bias", 2}, {"blocks.1.mlp.fc2.weight", 1},
        {"norm.weight", 1}, {"head.weight", 0}, {"head_dist.bias", 0},
    };
    struct experiment x;
    rig_load(&x, SETTINGS("train.layer_decay=0.5", "model.distilled=true"));
    check_rates(&x, rows, sizeof rows / sizeof *rows);
    experiment_free(&x);
}

TEST(layer_decay__counts_the_blocks_of_all_stages_in_swin)
{
    static const struct row rows[] = {
        {"patch_embed.norm.weight", 4}, {"layers.0.blocks.0.norm1.weight", 3},
        {"layers.0.blocks.1.attn.relative_position_bias_table", 2},
        {"layers.0.downsample.reduction.weight", 1}, {"layers.1.blocks.0.mlp.fc1.weight", 1},
        {"norm.bias", 1}, {"head.weight", 0},
    };
    struct experiment x;
    struct error err;
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(experiment_parse(&x, swin, "swin.json", &err), err);
    check_rates(&x, rows, sizeof rows / sizeof *rows);
    experiment_free(&x);
}

TEST(layer_decay__without_it_there_are_no_rates)
{
    struct experiment x;
    struct network *n;
    struct error err;
    rig_load(&x, NULL);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, 4, 1, &err), err);
    CHECK(!n->rates);
    network_destroy(n);
    experiment_free(&x);
}

/* The first update of Lion is as long as the learning rate, wherever the gradient is not 0. */
TEST(layer_decay__updates_are_as_long_as_the_rates)
{
    struct experiment x;
    struct network *n;
    struct step s;
    struct error err;
    real images[4 * 12 * 8];
    int labels[4] = {0, 1, 2, 3};
    rig_load(&x, SETTINGS("train.layer_decay=0.5", "train.optimizer={\"name\": \"lion\", "
                          "\"weight_decay\": 0}", "train.clip_norm=null", "train.ema=null"));
    CHECK_OK(network_create(&n, &x, NETWORK_TRAIN, 4, 1, &err), err);
    CHECK_OK(step_create(&s, n, 4, &err), err);
    for (int i = 0; i < 4 * 12 * 8; i++)
        images[i] = (real)sin(i);
    const struct batch b = {.images = images, .labels = labels, .count = 4};
    const struct param *first = params_find(&n->params, "patch_embed.proj.bias");
    const struct param *head = params_find(&n->params, "head.bias");
    memset(first->value, 0, first->count * sizeof(real));
    CHECK_OK(step_batch(&s, &b, 4, 0, &err), err);
    CHECK_OK(step_update(&s, &b, 0.25, 0, &err), err);
    for (size_t i = 0; i < head->count; i++)
        CHECK_NEAR(fabs((double)head->value[i]), 0.25, 0);
    for (size_t i = 0; i < first->count; i++)
        CHECK_NEAR(fabs((double)first->value[i]), 0.25 / 8, 0);
    step_free(&s);
    network_destroy(n);
    experiment_free(&x);
}
