/* test_recipes.c - values of the recipes, what they follow from, and overriding them. */
#include "train/recipes.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "train/experiment.h"

static struct experiment read(const char *text)
{
    struct experiment x;
    struct error err;
    CHECK_OK(experiment_parse(&x, text, "config", &err), err);
    return x;
}

static double number(const struct experiment *x, const char *path)
{
    char *text = config_value(x->config, path);
    CHECK(text != NULL);
    double value = strtod(text, NULL);
    free(text);
    return value;
}

static bool is(const struct experiment *x, const char *path, const char *value)
{
    char *text = config_value(x->config, path);
    CHECK(text != NULL);
    bool same = strcmp(text, value) == 0;
    free(text);
    return same;
}

TEST(recipes__deit_is_as_published)
{
    struct experiment x = read("{\"recipe\": \"deit\", \"data\": {\"format\": \"synthetic\"},"
                               " \"model\": \"deit_small_patch16_224\", \"train\": "
                               "{\"batch_size\": 64, \"accumulate\": 16}}");
    const struct augment *a = &x.data.augment;
    CHECK_INT(x.train.epochs, 300);
    CHECK_NEAR(number(&x, "train.optimizer.lr"), 1e-3, 1e-12);
    CHECK_NEAR(number(&x, "train.optimizer.weight_decay"), 0.05, 0);
    CHECK_NEAR(number(&x, "train.schedule.warmup_epochs"), 5, 0);
    CHECK_NEAR(number(&x, "train.schedule.warmup_lr"), 1e-6, 0);
    CHECK_NEAR(number(&x, "train.schedule.min_lr"), 1e-5, 0);
    CHECK_NEAR(number(&x, "model.drop_path"), 0.1, 0);
    CHECK_NEAR(x.train.label_smoothing, 0.1, 0);
    CHECK(is(&x, "train.clip_norm", "null"));
    CHECK_STR(a->auto_augment, "rand-m9-mstd0.5-inc1");
    CHECK(a->random_resized_crop && a->random_crop_padding == 0);
    CHECK_NEAR(a->random_resized_crop->scale.at[0], 0.08, 0);
    CHECK_INT(a->interpolation, INTERPOLATE_BICUBIC);
    CHECK(a->random_erasing && a->random_erasing->mode == ERASE_PIXEL);
    CHECK_NEAR(a->random_erasing->probability, 0.25, 0);
    CHECK_NEAR(a->mixup, 0.8, 0);
    CHECK_NEAR(a->cutmix, 1, 0);
    CHECK_NEAR(a->mix_probability, 1, 0);
    CHECK_NEAR(a->mix_switch, 0.5, 0);
    CHECK_INT(a->repeated, 3);
    experiment_free(&x);
}

TEST(recipes__swin_scales_the_ends_of_its_schedule_and_drops_by_size)
{
    static const struct {
        const char *model;
        double drop_path;
    } sizes[] = {{"swin_tiny_patch4_window7_224", 0.2},
                 {"swin_small_patch4_window7_224", 0.3},
                 {"swin_base_patch4_window7_224", 0.5},
                 {"vit_tiny_patch16_224", 0.1}};
    for (int i = 0; i < 4; i++) {
        struct experiment x =
            read(test_text("{\"recipe\": \"swin\", \"data\": {\"format\": \"synthetic\"}, "
                           "\"model\": \"%s\", \"train\": {\"batch_size\": 256}}",
                           sizes[i].model));
        CHECK_NEAR(number(&x, "model.drop_path"), sizes[i].drop_path, 0);
        CHECK_NEAR(number(&x, "train.optimizer.lr"), 2.5e-4, 1e-12);
        CHECK_NEAR(number(&x, "train.schedule.warmup_lr"), 2.5e-7, 1e-15);
        CHECK_NEAR(number(&x, "train.schedule.min_lr"), 2.5e-6, 1e-15);
        CHECK_NEAR(number(&x, "train.schedule.warmup_epochs"), 20, 0);
        CHECK_NEAR(number(&x, "train.clip_norm"), 5, 0);
        CHECK_NEAR(x.data.augment.color_jitter, 0.4, 0);
        CHECK_INT(x.data.augment.repeated, 1);
        experiment_free(&x);
    }
}

TEST(recipes__keys_of_the_config_override_them_one_by_one)
{
    struct experiment x = read(
        "{\"recipe\": \"deit3\", \"data\": {\"format\": \"synthetic\", \"augment\": {\"cutmix\": "
        "0, \"random_resized_crop\": {\"scale\": [0.5, 1]}}},"
        " \"model\": {\"name\": \"vit_tiny_patch16_224\", \"drop_path\": 0.3},"
        " \"train\": {\"epochs\": 50, \"optimizer\": {\"lr\": 0.01}}}");
    const struct augment *a = &x.data.augment;
    CHECK_STR(a->auto_augment, "3a");
    CHECK_NEAR(a->cutmix, 0, 0);
    CHECK_NEAR(a->mixup, 0.8, 0);
    CHECK_NEAR(a->random_resized_crop->scale.at[0], 0.5, 0);
    CHECK_NEAR(a->random_resized_crop->ratio.at[0], 0.75, 0);
    CHECK(!a->random_erasing);
    CHECK_NEAR(number(&x, "model.drop_path"), 0.3, 0);
    CHECK_NEAR(number(&x, "train.optimizer.lr"), 0.01, 0);
    CHECK_NEAR(number(&x, "train.optimizer.weight_decay"), 0.05, 0);
    CHECK_INT(x.train.epochs, 50);
    experiment_free(&x);
    x = read("{\"recipe\": \"deit\", \"data\": {\"format\": \"synthetic\"},"
             " \"train\": {\"optimizer\": \"sgd\"}}");
    CHECK_STR(x.train.optimizer.name, "sgd"); /* starts afresh, as under "extends" */
    CHECK_NEAR(number(&x, "train.optimizer.weight_decay"), 0, 0);
    experiment_free(&x);
}

TEST(recipes__small_and_grey_images_get_what_they_can_have)
{
    struct experiment x = read("{\"recipe\": \"deit\", \"data\": {\"format\": \"synthetic\"},"
                               " \"model\": {\"image_size\": 32, \"channels\": 3}}");
    CHECK(!x.data.augment.random_resized_crop);
    CHECK_INT(x.data.augment.random_crop_padding, 4);
    CHECK(x.data.augment.auto_augment != NULL);
    experiment_free(&x);
    x = read("{\"recipe\": \"small\", \"data\": {\"format\": \"synthetic\"},"
             " \"model\": {\"image_size\": 64, \"channels\": 3}}");
    CHECK_INT(x.data.augment.random_crop_padding, 8);
    CHECK_NEAR(number(&x, "train.optimizer.lr"), 1e-3, 1e-12);
    CHECK_NEAR(x.data.augment.mix_probability, 0.5, 0);
    experiment_free(&x);
    x = read("{\"recipe\": \"small\", \"data\": {\"format\": \"mnist\"}}"); /* 28 pixels, grey */
    CHECK_INT(x.data.augment.random_crop_padding, 4);
    CHECK(!x.data.augment.auto_augment);
    experiment_free(&x);
}

TEST(recipes__the_effective_config_reads_back_as_itself)
{
    struct experiment x = read("{\"recipe\": \"swin\", \"data\": {\"format\": \"synthetic\"}, "
                               "\"model\": \"swin_small_patch4_window7_224\"}");
    char *text = experiment_text(&x);
    struct experiment again = read(text);
    char *same = experiment_text(&again);
    CHECK_STR(same, text);
    free(text);
    free(same);
    experiment_free(&x);
    experiment_free(&again);
}

TEST(recipes__what_is_none_is_refused)
{
    struct experiment x;
    struct error err;
    CHECK_INT(experiment_parse(&x, "{\"recipe\": \"deti\"}", "a.json", &err), ERR_INPUT);
    CHECK_STR(err.text,
              "a.json: recipe: \"deti\" is no recipe (nearest: \"deit\"; one of \"deit\", "
              "\"deit3\", \"swin\", \"small\")");
    CHECK_INT(experiment_parse(&x, "{\"recipe\": 3}", "a.json", &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "a.json: recipe: ");
    CHECK_INT(experiment_parse(&x,
                               "{\"recipe\": \"deit\", \"data\": {\"format\": \"synthetic\"}, "
                               "\"train\": {\"epochs\": 5}}",
                               "a.json", &err),
              ERR_INPUT);
    CHECK_STR(err.text, "recipe deit: train.schedule.warmup_epochs: 5 is not below the 5 epochs of "
                        "the run");
}
