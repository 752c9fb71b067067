/* What a run refuses to go on from, or to share. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/timer.h"
#include "rig.h"
#include "train/checkpoint.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *below(const char *directory, const char *name)
{
    return test_text("%s/%s", directory, name);
}

/* A new directory with a run that was stopped after `updates`; an epoch has 6. */
static const char *stopped(const struct experiment *x, int updates)
{
    struct error err;
    const char *directory = below(test_directory(), "run");
    struct rig_run run = {.stop_after = updates};
    CHECK_INT(rig_train(x, directory, &run, &err), ERR_INTERRUPTED);
    return directory;
}

static void check_refused(const struct experiment *x, const char *directory, const char *what)
{
    struct error err;
    struct rig_run run = {.resume = true};
    CHECK_INT(rig_train(x, directory, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, directory);
    CHECK_CONTAINS(err.text, what);
    CHECK_CONTAINS(err.text, "--out");
}

static const struct experiment *shared;
static const char *shared_directory;
static struct error second;
static enum status second_status;

static void start_another(void)
{
    struct rig_run run = {.resume = true};
    second_status = rig_train(shared, shared_directory, &run, &second);
}

TEST(trainer__a_directory_has_one_process)
{
    struct experiment x;
    struct error err;
    rig_load(&x, NULL);
    shared = &x;
    shared_directory = below(test_directory(), "run");
    struct rig_run run = {.each = start_another, .stop_after = 1};
    CHECK_INT(rig_train(&x, shared_directory, &run, &err), ERR_INTERRUPTED);
    CHECK_INT(second_status, ERR_INPUT);
    CHECK_CONTAINS(second.text, shared_directory);
    CHECK_CONTAINS(second.text, "in use by another process");
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&x, shared_directory, &run, &err), err); /* it was released */
    experiment_free(&x);
}

TEST(trainer__a_removed_state_is_no_new_start)
{
    struct experiment x;
    rig_load(&x, NULL);
    const char *directory = stopped(&x, 13);
    CHECK_INT(unlink(below(directory, "last.state.safetensors")), 0);
    check_refused(&x, directory, "last.state.safetensors is missing");
    CHECK_INT(unlink(below(directory, "last.safetensors")), 0);
    CHECK_INT(unlink(below(directory, "last.ema.safetensors")), 0);
    check_refused(&x, directory, "last.state.safetensors is missing");
    experiment_free(&x);
}

TEST(trainer__metrics_that_are_not_the_runs_are_refused)
{
    struct experiment x;
    struct error err;
    rig_load(&x, NULL);
    const char *directory = stopped(&x, 7), *path = below(directory, "metrics.jsonl");
    char *text = NULL;
    size_t size = 0;
    CHECK_OK(file_read(&text, &size, path, (size_t)1 << 20, &err), err);
    text[size / 2] ^= 1;
    CHECK_OK(file_write(path, text, size, &err), err);
    check_refused(&x, directory, "was altered");
    CHECK_OK(file_write(path, text, size - 9, &err), err);
    check_refused(&x, directory, "fewer than");
    CHECK_INT(unlink(path), 0);
    check_refused(&x, directory, "is missing");
    text[size / 2] ^= 1;
    CHECK_OK(file_write(path, text, size, &err), err);
    struct rig_run run = {.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    free(text);
    experiment_free(&x);
}

TEST(trainer__a_flipped_bit_of_the_state_is_found)
{
    struct experiment x;
    struct error err;
    rig_load(&x, NULL);
    const char *directory = stopped(&x, 7), *path = below(directory, "last.state.safetensors");
    char *data = NULL;
    size_t size = 0;
    CHECK_OK(file_read(&data, &size, path, (size_t)1 << 24, &err), err);
    data[size - 40] ^= 1;
    CHECK_OK(file_write(path, data, size, &err), err);
    check_refused(&x, directory, "is damaged");
    free(data);
    experiment_free(&x);
}

static void more_updates(struct train_state *s)
{
    s->update += 1;
}

static void late_epoch(struct train_state *s)
{
    s->epoch = 4;
}

static void odd_position(struct train_state *s)
{
    s->position += 1;
}

static void many_correct(struct train_state *s)
{
    s->correct = s->samples + 1;
}

static void no_samples(struct train_state *s)
{
    s->total_samples = 0;
}

static void no_loss(struct train_state *s)
{
    s->loss_sum = (double)NAN;
}

static void late_best(struct train_state *s)
{
    s->best[0].epoch = 3;
}

static void too_good(struct train_state *s)
{
    s->last[0].val_top1 = 101;
}

static void is_complete(struct train_state *s)
{
    s->complete = true;
}

TEST(trainer__a_state_that_cannot_be_is_refused)
{
    static const struct {
        void (*change)(struct train_state *s);
        const char *what;
    } rows[] = {
        {more_updates, "updates"},  {late_epoch, "epoch"},     {odd_position, "position"},
        {many_correct, "samples"},  {no_samples, "samples"},   {no_loss, "sum"},
        {late_best, "score"},       {too_good, "score"},       {is_complete, "complete"},
    };
    struct experiment x;
    struct error err;
    struct network *n = NULL;
    struct train_state read;
    rig_load(&x, NULL);
    const char *directory = stopped(&x, 8), *path = below(directory, "last.state.safetensors");
    CHECK_OK(network_create(&n, &x, NETWORK_TRAIN, 8, 1, &err), err);
    CHECK_OK(state_read(path, n, &read, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct train_state s = read;
        rows[i].change(&s);
        CHECK_OK(state_write(path, n, &s, &err), err);
        test_about("row %d", (int)i);
        check_refused(&x, directory, rows[i].what);
    }
    CHECK_OK(state_write(path, n, &read, &err), err);
    struct rig_run run = {.resume = true};
    CHECK_OK(rig_train(&x, directory, &run, &err), err);
    network_destroy(n);
    experiment_free(&x);
}

TEST(checkpoint_load__refuses_values_that_are_not_finite)
{
    static const char *const classes[] = {"a", "b", "c", "d", "e", "f"};
    struct experiment x, y;
    struct error err;
    struct network *n = NULL;
    const char *path = below(test_directory(), "a.safetensors");
    rig_load(&x, NULL);
    CHECK_OK(network_create(&n, &x, NETWORK_INFER, 8, 1, &err), err);
    params_find(&n->params, "norm.bias")->value[1] = (real)NAN;
    CHECK_OK(checkpoint_write(path, n, n->params.values, classes, 1, &err), err);
    CHECK_INT(checkpoint_load(&n->params, &x.model, path, NULL, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, path);
    CHECK_CONTAINS(err.text, "norm.bias");
    network_destroy(n);

    const char *directory = below(test_directory(), "run");
    struct rig_run run = {.resume = false};
    rig_load(&y, SETTINGS(test_text("train.init_from=%s", path)));
    CHECK_INT(rig_train(&y, directory, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "norm.bias");
    CHECK(!file_exists(directory));
    experiment_free(&x);
    experiment_free(&y);
}

TEST(trainer__config_holds_an_absolute_output)
{
    struct experiment x, y;
    struct error err;
    char here[4096];
    CHECK(getcwd(here, sizeof here) != NULL);
    rig_load(&x, SETTINGS("output=run"));
    CHECK_INT(chdir(test_directory()), 0);
    char there[4096];
    CHECK(getcwd(there, sizeof there) != NULL);
    struct rig_run run = {.stop_after = 1};
    enum status status = rig_train(&x, "run", &run, &err);
    CHECK_INT(chdir(here), 0);
    CHECK_INT(status, ERR_INTERRUPTED);
    const char *directory = below(there, "run"), *config = below(directory, "config.json");
    CHECK_CONTAINS(rig_text(config), test_text("\n  \"output\": \"%s\"", directory));
    CHECK_OK(experiment_load(&y, config, NULL, 0, &err), err);
    CHECK_STR(y.output, directory);
    run = (struct rig_run){.resume = true};
    CHECK_OK(rig_train(&y, directory, &run, &err), err);
    experiment_free(&x);
    experiment_free(&y);
}

TEST(experiment__refuses_more_parameters_than_any_machine_holds)
{
    struct error err;
    CHECK_INT(rig_refused(SETTINGS("model.dim=65536", "model.heads=64", "model.depth=100",
                                   "model.mlp_ratio=4"),
                          &err),
              ERR_INPUT);
    CHECK_CONTAINS(err.text, "model: has ");
    CHECK_CONTAINS(err.text, "2^40");
}

TEST(network_check_memory__keeps_to_the_limit_of_the_address_space)
{
    struct experiment x;
    struct error err;
    struct network *n = NULL;
    struct rlimit before, low;
    rig_load(&x, SETTINGS("model.dim=768", "model.depth=12"));
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, 8, 1, &err), err);
    CHECK_INT(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = (rlim_t)timer_mapped_bytes() + (64 << 20);
    CHECK_INT(setrlimit(RLIMIT_AS, &low), 0);
    enum status status = network_check_memory(n, &err);
    CHECK_INT(setrlimit(RLIMIT_AS, &before), 0);
    CHECK_INT(status, ERR_INPUT);
    CHECK_CONTAINS(err.text, "model: needs ");
    CHECK_CONTAINS(err.text, "GB of memory");
    network_destroy(n);
    experiment_free(&x);
}

/* OpenBLAS waits for ever for a buffer that it cannot map. */
TEST(network_check_memory__leaves_address_space_to_the_library_of_products_and_to_threads)
{
    struct experiment x;
    struct error err;
    struct network *n = NULL;
    struct rlimit before, low;
    rig_load(&x, NULL);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, 8, 1, &err), err);
    CHECK_INT(getrlimit(RLIMIT_AS, &before), 0);
    const double beside[] = {32 << 20, 1 << 30};
    for (int i = 0; i < 2; i++) {
        low = before;
        low.rlim_cur = (rlim_t)((double)timer_mapped_bytes() + network_bytes(n) + beside[i]);
        CHECK_INT(setrlimit(RLIMIT_AS, &low), 0);
        enum status status = network_check_memory(n, &err);
        CHECK_INT(setrlimit(RLIMIT_AS, &before), 0);
        CHECK_INT(status, i ? OK : ERR_INPUT);
    }
    network_destroy(n);
    experiment_free(&x);
}
