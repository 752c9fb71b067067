#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rig.h"
#include "train/checkpoint.h"
#include "train/step.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const weights[] = {"last", "best", "last.ema", "best.ema"};

static const char *below(const char *directory, const char *name)
{
    return test_text("%s/%s", directory, name);
}

/* Trains to the end in a new directory. */
static const char *train_whole(const struct experiment *x, int threads, struct rig_run *run)
{
    struct error err;
    const char *directory = below(test_directory(), "run");
    *run = (struct rig_run){.threads = threads};
    CHECK_OK(rig_train(x, directory, run, &err), err);
    return directory;
}

static void check_same_run(const char *a, const char *b)
{
    for (int i = 0; i < 4; i++)
        CHECK(rig_same_file(below(a, test_text("%s.safetensors", weights[i])),
                            below(b, test_text("%s.safetensors", weights[i]))));
    CHECK_STR(rig_metrics(a), rig_metrics(b));
}

TEST(trainer__bits_do_not_depend_on_threads)
{
    struct experiment x;
    struct rig_run run;
    rig_load(&x, NULL);
    const char *one = train_whole(&x, 1, &run);
    double top1 = run.result.last.test_top1;
    for (int threads = 2; threads <= 3; threads++) {
        check_same_run(one, train_whole(&x, threads, &run));
        CHECK(run.result.last.test_top1 == top1);
    }
    experiment_free(&x);
}

TEST(trainer__resumed_at_any_step_ends_with_the_same_bits)
{
    /* 90 records in batches of 8 are 12 batches, 6 updates an epoch, 18 in all. After 6 updates
     * validation is still to be done; after 18 all but the last validation. */
    static const int stops[] = {1, 2, 5, 6, 7, 12, 17, 18};
    struct experiment x;
    struct rig_run run;
    rig_load(&x, NULL);
    const char *whole = train_whole(&x, 1, &run);
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct error err;
        const char *directory = below(test_directory(), "run");
        test_about("stopped after %d", stops[i]);
        run = (struct rig_run){.stop_after = stops[i], .threads = 1 + (int)(i % 3)};
        CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INTERRUPTED);
        CHECK_CONTAINS(err.text, "--resume");
        CHECK(file_exists(below(directory, "last.safetensors")));
        run = (struct rig_run){.resume = true};
        CHECK_OK(rig_train(&x, directory, &run, &err), err);
        CHECK_CONTAINS(run.said, "resumed in epoch");
        check_same_run(whole, directory);
    }
    experiment_free(&x);
}

TEST(trainer__resumed_around_a_new_draw_of_random_features_ends_with_the_same_bits)
{
    static const int stops[] = {3, 4, 5, 9};
    struct experiment x;
    struct rig_run run;
    rig_load(&x, SETTINGS("model.attention={\"name\": \"performer\", \"m\": 8, \"redraw\": 4}"));
    const char *whole = train_whole(&x, 1, &run);
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct error err;
        const char *directory = below(test_directory(), "run");
        test_about("stopped after %d", stops[i]);
        run = (struct rig_run){.stop_after = stops[i], .threads = 1 + (int)(i % 3)};
        CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INTERRUPTED);
        run = (struct rig_run){.resume = true};
        CHECK_OK(rig_train(&x, directory, &run, &err), err);
        check_same_run(whole, directory);
    }
    experiment_free(&x);
}

TEST(trainer__resumes_often)
{
    struct experiment x;
    struct rig_run run;
    struct error err;
    rig_load(&x,
             SETTINGS("train.optimizer={\"name\": \"sgd\", \"lr\": 0.05}", "train.accumulate=5"));
    const char *whole = train_whole(&x, 1, &run), *directory = below(test_directory(), "run");
    run = (struct rig_run){.stop_after = 2};
    enum status status = rig_train(&x, directory, &run, &err);
    int times = 0;
    for (; status == ERR_INTERRUPTED && times < 20; times++) {
        run = (struct rig_run){.resume = true, .stop_after = 2, .threads = 1 + times % 2};
        status = rig_train(&x, directory, &run, &err);
    }
    CHECK_OK(status, err);
    CHECK(times >= 4);
    check_same_run(whole, directory);
    experiment_free(&x);
}

TEST(trainer__cuts_what_a_killed_process_wrote_after_its_last_state)
{
    struct experiment x;
    struct rig_run run;
    struct error err;
    rig_load(&x, NULL);
    const char *whole = train_whole(&x, 1, &run), *directory = below(test_directory(), "run");
    run = (struct rig_run){.stop_after = 8};
    CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INTERRUPTED);
    const char late[] = "{\"event\":\"epoch\",\"epoch\":2}\n{\"event\":\"epo";
    CHECK_OK(file_append(below(directory, "metrics.jsonl"), late, sizeof late - 1, &err), err);
    CHECK_OK(file_write(below(directory, "last.safetensors.tmp"), late, 5, &err), err);
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    check_same_run(whole, directory);
    const char *text = rig_text(below(directory, "metrics.jsonl"));
    const char *start = strstr(text, "\"start\"");
    CHECK(start && !strstr(start + 1, "\"start\""));
    experiment_free(&x);
}

TEST(trainer__starts_anew_where_nothing_was_saved)
{
    struct experiment x;
    struct rig_run run;
    struct error err;
    rig_load(&x, NULL);
    const char *whole = train_whole(&x, 1, &run), *directory = below(test_directory(), "run");
    CHECK_OK(file_make_directory(directory, &err), err);
    char *text = experiment_text(&x);
    CHECK_OK(file_write(below(directory, "config.json"), text, strlen(text), &err), err);
    free(text);
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    CHECK_CONTAINS(run.said, "starting anew");
    check_same_run(whole, directory);
    experiment_free(&x);
}

TEST(trainer__complete_run_is_left_alone)
{
    struct experiment x;
    struct rig_run run;
    struct error err;
    rig_load(&x, NULL);
    const char *directory = train_whole(&x, 1, &run);
    const char *before = rig_text(below(directory, "metrics.jsonl"));
    struct train_result first = run.result;
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    CHECK_CONTAINS(run.said, "complete");
    CHECK_STR(rig_text(below(directory, "metrics.jsonl")), before);
    CHECK(run.result.last.test_top1 == first.last.test_top1);
    CHECK(run.result.best.val_top1 == first.best.val_top1);
    CHECK_INT(run.result.params, first.params);
    experiment_free(&x);
}

TEST(trainer__another_run_in_the_directory_is_refused)
{
    struct experiment x, other;
    struct rig_run run;
    struct error err;
    rig_load(&x, NULL);
    const char *directory = train_whole(&x, 1, &run);
    run = (struct rig_run){.resume = false};
    CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, directory);
    CHECK_CONTAINS(err.text, "--resume");
    CHECK_CONTAINS(err.text, "--out");

    rig_load(&other, SETTINGS("model.dim=48", "model.attention=super"));
    run = (struct rig_run){.resume = true};
    CHECK_INT(rig_train(&other, directory, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "model.dim: 24 -> 48");
    CHECK_CONTAINS(err.text, "model.attention.name: \"standard\" -> \"super\"");
    experiment_free(&other);

    rig_load(&other, SETTINGS("train.checkpoint_every=2", "data.workers=0", "output=elsewhere"));
    CHECK_OK(rig_train(&other, directory, &run, &err), err);
    experiment_free(&other);
    experiment_free(&x);
}

TEST(trainer__nothing_is_left_behind_by_a_refusal)
{
    static const struct {
        const char *setting, *what;
    } rows[] = {
        {"data.format=mnist", "data.path"},
        {"data.validation={\"holdout\": 110}", "--set: data.validation.holdout"},
        {"data.validation=val", "--set: data.validation"},
        {"train.freeze=[\"nothing\"]", "train.freeze"},
        {"train.init_from=/not/here.safetensors", "/not/here.safetensors"},
        {"data.normalize={\"mean\": [0.1, 0.2, 0.3]}", "data.normalize"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct experiment x;
        struct error err;
        struct rig_run run = {.resume = false};
        const char *above = test_directory(), *directory = below(above, "run");
        test_about("%s", rows[i].setting);
        rig_load(&x, SETTINGS(rows[i].setting));
        CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, rows[i].what);
        CHECK(!file_exists(directory));

        run = (struct rig_run){.resume = true};
        CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INPUT);
        CHECK(!file_exists(directory));
        experiment_free(&x);
    }
}

TEST(trainer__what_is_wrong_with_the_model_comes_before_data_is_read)
{
    struct experiment x;
    struct error err;
    struct rig_run run = {.resume = false};
    rig_load(&x, SETTINGS("data.format=mnist", "data.path=/not/here", "model.attention=super",
                          "model.image_size=1024", "model.patch_size=1", "model.dim=4",
                          "model.heads=1"));
    CHECK_INT(rig_train(&x, below(test_directory(), "run"), &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "tiny.json: model: blocks.0.attn");
    CHECK(!strstr(err.text, "/not/here"));
    experiment_free(&x);
}

TEST(trainer__a_bf16_run_says_so)
{
    struct experiment x;
    struct rig_run run;
    rig_load(&x, SETTINGS("train.precision=bf16", "train.epochs=2"));
    const char *directory = train_whole(&x, 1, &run);
    CHECK_CONTAINS(rig_text(below(directory, "metrics.jsonl")), "\"precision\":\"bf16\"");
    experiment_free(&x);
}

TEST(trainer__directory_must_be_one)
{
    struct experiment x;
    struct error err;
    struct rig_run run = {.resume = false};
    rig_load(&x, NULL);
    const char *file = below(test_directory(), "file");
    CHECK_OK(file_write(file, "text", 4, &err), err);
    CHECK_INT(rig_train(&x, file, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "is a file");
    CHECK_INT(rig_train(&x, below(file, "run"), &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "is a file");
    CHECK_INT(rig_train(&x, NULL, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "--out");
    experiment_free(&x);
}

TEST(trainer__other_data_are_refused_on_resume)
{
    /* Data that changed under an equal config: the count is altered behind the document. */
    struct experiment x, other;
    struct rig_run run;
    struct error err;
    rig_load(&x, NULL);
    const char *directory = below(test_directory(), "run");
    run = (struct rig_run){.stop_after = 3};
    CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INTERRUPTED);
    rig_load(&other, NULL);
    other.data.train_count = 109;
    run = (struct rig_run){.resume = true};
    CHECK_INT(rig_train(&other, directory, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "fingerprint");
    experiment_free(&x);
    experiment_free(&other);
}

TEST(trainer__divergence_says_where_and_keeps_metrics_readable)
{
    struct experiment x;
    struct error err;
    struct rig_run run = {.resume = false};
    rig_load(&x, SETTINGS("train.optimizer={\"name\": \"sgd\", \"lr\": 1e9}",
                          "train.clip_norm=null", "train.schedule=constant"));
    const char *directory = below(test_directory(), "run");
    CHECK_INT(rig_train(&x, directory, &run, &err), ERR_NUMERIC);
    CHECK_CONTAINS(err.text, directory);
    CHECK_CONTAINS(err.text, "epoch 1, step ");
    CHECK_CONTAINS(err.text, "not finite");
    CHECK_CONTAINS(err.text, "learning rate 1e+09");
    CHECK_CONTAINS(err.text, "gradient norm");
    if (sizeof(real) == sizeof(float)) /* in double the norm overflows before any value does */
        CHECK_CONTAINS(err.text, "first in ");
    CHECK(!file_exists(below(directory, "last.safetensors")));
    CHECK(strlen(rig_metrics(directory)) > 2); /* every line is JSON */
    experiment_free(&x);
}

/* Sets the learning rate of the running experiment, from the callback after each update. */
static double *rate;
static int updates;

static void explode_later(void)
{
    if (++updates == 8)
        *rate = 1e20;
}

TEST(trainer__divergence_after_an_epoch_leaves_its_checkpoint)
{
    struct experiment x;
    struct error err;
    struct rig_run run = {.each = explode_later};
    rig_load(&x,
             SETTINGS("train.optimizer={\"name\": \"sgd\", \"lr\": 1e-3}", "train.clip_norm=null"));
    rate = &((struct optimizer_base *)x.train.optimizer.options)->lr;
    updates = 0;
    const char *directory = below(test_directory(), "run");
    CHECK_INT(rig_train(&x, directory, &run, &err), ERR_NUMERIC);
    CHECK_CONTAINS(err.text, "epoch 2, step ");
    CHECK_CONTAINS(err.text, below(directory, "last.safetensors"));

    struct network *n = NULL;
    CHECK_OK(network_create(&n, &x, NETWORK_INFER, 8, 1, &err), err);
    const char *last = below(directory, "last.safetensors");
    CHECK_OK(checkpoint_load(&n->params, &x.model, last, NULL, &err), err);
    CHECK(step_values_finite(n));
    network_destroy(n);
    CHECK(strlen(rig_metrics(directory)) > 2);
    experiment_free(&x);
}

TEST(trainer__validation_on_the_test_set_is_said_everywhere)
{
    struct experiment x;
    struct rig_run run;
    rig_load(&x, SETTINGS("data.validation=test", "train.epochs=2"));
    const char *directory = train_whole(&x, 1, &run);
    CHECK_CONTAINS(run.said, "official test set");
    const char *metrics = rig_text(below(directory, "metrics.jsonl"));
    const char *epoch = strstr(metrics, "\"event\":\"epoch\"");
    CHECK_CONTAINS(metrics, "\"validation\":\"test\"");
    CHECK_CONTAINS(epoch, "\"validation\":\"test\"");
    CHECK_CONTAINS(rig_text(below(directory, "summary.json")), "\"validation\":\"test\"");
    CHECK(run.result.last.val_top1 == run.result.last.test_top1);
    experiment_free(&x);
}

TEST(trainer__without_validation_there_is_no_best)
{
    struct experiment x;
    struct rig_run run;
    rig_load(&x, SETTINGS("data.validation=null", "train.epochs=2", "train.ema=null"));
    const char *directory = train_whole(&x, 1, &run);
    CHECK(!file_exists(below(directory, "best.safetensors")));
    CHECK(!file_exists(below(directory, "last.ema.safetensors")));
    CHECK(file_exists(below(directory, "last.safetensors")));
    const char *metrics = rig_text(below(directory, "metrics.jsonl"));
    const char *summary = rig_text(below(directory, "summary.json"));
    CHECK(!strstr(metrics, "\"val_") && !strstr(metrics, "\"best\""));
    CHECK(!strstr(summary, "\"val_") && !strstr(summary, "\"best\""));
    CHECK_CONTAINS(summary, "\"test_top1\":");
    CHECK_CONTAINS(metrics, "\"weights\":\"last\"");
    CHECK(isnan(run.result.best.val_top1) && isnan(run.result.best.test_top1));
    CHECK(!isnan(run.result.last.test_top1));
    experiment_free(&x);
}

TEST(trainer__writes_checks_of_the_first_ten_updates)
{
    struct experiment x;
    struct rig_run run;
    rig_load(&x, NULL);
    const char *metrics = rig_metrics(train_whole(&x, 1, &run));
    int checks = 0;
    for (const char *at = metrics; (at = strstr(at, "\"event\":\"check\"")); at++)
        checks++;
    CHECK_INT(checks, 10);
    CHECK_CONTAINS(metrics, "\"step\":10,\"loss\":");
    CHECK_CONTAINS(metrics, "\"epoch\":3,\"step\":18,");
    CHECK_CONTAINS(metrics, "\"val_ema_top1\":");
    experiment_free(&x);
}

TEST(trainer__start_weights_come_from_init_from)
{
    struct experiment x, y;
    struct rig_run run;
    struct error err;
    rig_load(&x, SETTINGS("train.epochs=2"));
    const char *first = below(train_whole(&x, 1, &run), "last.safetensors");
    rig_load(&y, SETTINGS(test_text("train.init_from=%s", first), "train.optimizer.lr=0",
                          "train.schedule=constant", "train.epochs=1"));
    const char *second = below(train_whole(&y, 1, &run), "last.ema.safetensors");
    CHECK_CONTAINS(run.said, "init_from: ");
    struct network *a = NULL, *b = NULL;
    CHECK_OK(network_create(&a, &x, NETWORK_INFER, 8, 1, &err), err);
    CHECK_OK(network_create(&b, &x, NETWORK_INFER, 8, 1, &err), err);
    CHECK_OK(checkpoint_load(&a->params, &x.model, first, NULL, &err), err);
    CHECK_OK(checkpoint_load(&b->params, &x.model, second, NULL, &err), err);
    for (size_t i = 0; i < a->params.total; i++)
        CHECK_NEAR(a->params.values[i], b->params.values[i], 1e-6);
    network_destroy(a);
    network_destroy(b);
    experiment_free(&x);
    experiment_free(&y);
}

static const char *state_path;
static int updates_without_state;

static void count_until_state(void)
{
    updates_without_state = file_exists(state_path) ? updates_without_state : ++updates;
}

TEST(trainer__checkpoint_every_changes_nothing_but_when_files_appear)
{
    struct experiment x, y;
    struct rig_run run;
    struct error err;
    rig_load(&x, SETTINGS("train.checkpoint_every=2"));
    rig_load(&y, NULL);
    CHECK_STR(rig_metrics(train_whole(&x, 1, &run)), rig_metrics(train_whole(&y, 1, &run)));

    const char *directory = below(test_directory(), "run");
    state_path = below(directory, "last.state.safetensors");
    updates = 0;
    run = (struct rig_run){.each = count_until_state};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    CHECK_INT(updates_without_state, 12); /* two epochs */
    experiment_free(&x);
    experiment_free(&y);
}
