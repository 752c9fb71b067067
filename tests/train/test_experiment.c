#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "rig.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The setting is refused, and the message names the path and says what is wrong. */
static void check_refused(const char *setting, const char *path, const char *what)
{
    struct error err;
    test_about("%s", setting);
    CHECK_INT(rig_refused(SETTINGS(setting), &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, path);
    CHECK_CONTAINS(err.text, what);
    CHECK(strchr(err.text, '\n') == NULL);
}

TEST(experiment__refuses_values_that_do_not_fit_together)
{
    static const struct {
        const char *setting, *path, *what;
    } rows[] = {
        {"train.schedule.warmup_epochs=3", "train.schedule.warmup_epochs: ", "3 epochs"},
        {"train.schedule.min_lr=0.5", "train.schedule.min_lr: ", "learning rate"},
        {"train.schedule=step", "train.schedule.milestones: ", "is empty"},
        {"train.optimizer.betas=[0.9]", "train.optimizer.betas: ", "expected two"},
        {"train.distill={\"teacher\": \"t\", \"kind\": \"warm\"}", "train.distill.kind: ", "soft"},
        {"train.epochs=2.5", "train.epochs: ", "whole number"},
        {"train.epochs=\"3\"", "train.epochs: ", "whole number"},
        {"train.batch_size=0", "train.batch_size: ", "1.."},
        {"train.batch_size=-1", "train.batch_size: ", "1.."},
        {"train.batch_size=1e300", "train.batch_size: ", "1.."},
        {"train.accumulate=1000000000", "train.accumulate: ", "1.."},
        {"train.learning_rat=1", "train.learning_rat: ", "lr"},
        {"train.clip_norm=0", "train.clip_norm: ", "1e-12"},
        {"train.ema={\"decay\": 1.5}", "train.ema.decay: ", "0..1"},
        {"train.checkpoint_every=0", "train.checkpoint_every: ", "1.."},
        {"train.optimizer=null", "train.optimizer: ", "null"},
        {"model.dim=25", "model.dim: ", "heads"},
        {"model.image_size=[12, 9]", "model.", "9"},
        {"model.dim=1000000", "model.dim: ", "1000000"},
        {"output=", "output: ", "empty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_refused(rows[i].setting, rows[i].path, rows[i].what);
}

TEST(experiment__window_that_overflows_is_refused)
{
    struct error err;
    enum status status =
        rig_refused(SETTINGS("train.batch_size=1048576", "train.accumulate=1048576"), &err);
    CHECK_INT(status, ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.accumulate: ");
}

TEST(experiment__defaults_are_filled_in)
{
    struct experiment x;
    rig_load(&x, SETTINGS("train.optimizer=adamw", "train.ema=null", "train.clip_norm=null"));
    const struct optimizer_base *base = optimizer_base_of(&x.train.optimizer);
    CHECK_NEAR(base->lr, 1e-3, 0);
    CHECK_NEAR(base->weight_decay, 0.05, 0);
    CHECK(!x.train.ema && x.train.clip_norm.name == -2 && !x.train.init_from);
    char *text = experiment_text(&x);
    CHECK_CONTAINS(text, "\"betas\": [0.9, 0.999]");
    CHECK_CONTAINS(text, "\"checkpoint_every\": 1");

    /* The effective config reads back as itself. */
    struct experiment again;
    struct error err;
    CHECK_OK(experiment_parse(&again, text, "again", &err), err);
    char *text_again = experiment_text(&again);
    CHECK_STR(text_again, text);
    free(text);
    free(text_again);
    experiment_free(&x);
    experiment_free(&again);
}

TEST(experiment__text_without_paths_has_none_and_reads_back)
{
    struct experiment x, again;
    struct error err;
    rig_load(&x, SETTINGS("data.format=mnist", "data.path=/somewhere/mnist",
                          "train.init_from=/somewhere/a.safetensors", "output=/somewhere/run"));
    char *text = experiment_text_without_paths(&x);
    CHECK(text && !strstr(text, "somewhere"));
    CHECK_OK(experiment_parse(&again, text, "again", &err), err);
    CHECK(!again.data.path && !again.output && !again.train.init_from);
    CHECK_INT(again.train.batch_size, 8);
    free(text);
    experiment_free(&x);
    experiment_free(&again);
}

TEST(experiment_locate__names_the_file_of_a_value)
{
    struct experiment x;
    struct error err;
    rig_load(&x, NULL);
    error_set(&err, ERR_INPUT, "train.batch_size: is odd (hint)");
    CHECK_INT(experiment_locate(&x, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "tiny.json: train.batch_size: is odd (hint)");
    error_set(&err, ERR_INPUT, "/a/b: is missing");
    CHECK_INT(experiment_locate(&x, &err), ERR_INPUT);
    CHECK_STR(err.text, "/a/b: is missing");
    experiment_free(&x);
}

TEST(experiment_slice__is_between_one_image_and_the_batch)
{
    static const char *const sizes[] = {"model.image_size=8", "model.image_size=28",
                                        "model.image_size=96", "model.image_size=224"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct experiment x;
        rig_load(&x, SETTINGS(sizes[i]));
        int tokens = model_of(&x.model)->shape(x.model.options).tokens;
        for (int batch = 1; batch <= 512; batch = batch * 2 + batch / 5) {
            int slice = experiment_slice(&x, batch);
            int slices = (batch + slice - 1) / slice;
            test_about("%s, batch %d, slice %d", sizes[i], batch, slice);
            CHECK(slice >= 1 && slice <= batch);
            CHECK(slice == 1 || slice * tokens <= 2 * 400);
            for (int millions = 1; millions <= 100; millions *= 10) {
                int lanes = experiment_lanes(&x, batch, (size_t)millions * 1000000);
                CHECK(lanes >= 1 && lanes <= slices);
                CHECK(lanes <= (millions > 40 ? 2 : millions > 8 ? 4 : 8));
            }
        }
        experiment_free(&x);
    }
}

TEST(experiment_slice__spreads_large_batches_evenly)
{
    struct experiment x;
    rig_load(&x, SETTINGS("model.image_size=28"));
    int slice = experiment_slice(&x, 128);
    CHECK_INT(128 % slice, 0);
    CHECK_INT(128 / slice % 8, 0);
    CHECK_INT(experiment_lanes(&x, 128, 200000), 8);
    CHECK_INT(experiment_lanes(&x, 1, 200000), 1);
    experiment_free(&x);
}

TEST(experiment_epoch_updates__counts_the_shorter_window)
{
    struct experiment x;
    rig_load(&x, SETTINGS("train.accumulate=3"));
    CHECK_INT(experiment_epoch_updates(&x, 1), 1);
    CHECK_INT(experiment_epoch_updates(&x, 3), 1);
    CHECK_INT(experiment_epoch_updates(&x, 4), 2);
    experiment_free(&x);
}
