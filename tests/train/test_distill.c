/* test_distill.c - training with a teacher: the loss that is taken, what the teacher sees, resuming,
 * and what is refused. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "nn/interpolate.h"
#include "rig.h"
#include "train/step.h"
#include "train/teacher.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { B = 5, K = 6, HEIGHT = 12, WIDTH = 8 };

static const char *names[] = {"0", "1", "2", "3", "4", "5"};

/* Writes a checkpoint of a model with these settings. */
static const char *write_teacher(const char *file, const char *const *settings)
{
    struct experiment x;
    struct network *n;
    struct error err;
    const char *path = test_text("%s/%s.safetensors", test_directory(), file);
    rig_load(&x, settings);
    CHECK_OK(network_create(&n, &x, NETWORK_INFER, B, 1, &err), err);
    for (size_t i = 0; i < n->params.total; i++)
        n->params.values[i] = (real)(0.6 * sin((double)(i * i % 1009)));
    CHECK_OK(checkpoint_write(path, n, n->params.values, names, 1, &err), err);
    network_destroy(n);
    experiment_free(&x);
    return path;
}

static const char *distill(const char *path, const char *more)
{
    return test_text("train.distill={\"teacher\": \"%s\"%s}", path, more);
}

struct fixture {
    struct experiment x;
    struct network *n;
    struct step step;
    real images[B * HEIGHT * WIDTH];
    int labels[B];
    struct batch batch;
};

/* Without what is drawn, so that training and evaluation give the same logits. */
static void make(struct fixture *f, const char *path, const char *more, const char *setting)
{
    struct error err;
    rig_load(&f->x, SETTINGS("model.dropout=0", "model.drop_path=0", "train.label_smoothing=0",
                             distill(path, more), setting));
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_TRAIN, B, 1, &err), err);
    CHECK_OK(step_create(&f->step, f->n, B, &err), err);
    for (int i = 0; i < B * HEIGHT * WIDTH; i++)
        f->images[i] = (real)(2 * sin(0.37 * i));
    for (int i = 0; i < B; i++)
        f->labels[i] = i;
    f->batch = (struct batch){.images = f->images, .labels = f->labels, .count = B, .capacity = B};
}

static void drop(struct fixture *f)
{
    step_free(&f->step);
    network_destroy(f->n);
    experiment_free(&f->x);
}

/* Logits (B, K) of a network in evaluation. */
static void infer(struct network *n, const real *images, const int *labels, real *logits)
{
    real loss[B];
    const struct feed feed = {
        .rows = B,
        .input = {[NETWORK_INPUT_IMAGES] = images, [NETWORK_INPUT_LABELS] = labels},
        .output = {[NETWORK_OUTPUT_LOGITS] = logits, [NETWORK_OUTPUT_LOSS] = loss},
    };
    runner_run(n->infer_run, &feed);
}

/* The same of the teacher's file. */
static void infer_file(const char *path, const char *const *settings, const real *images,
                       const int *labels, real *logits)
{
    struct experiment x;
    struct network *n;
    struct error err;
    rig_load(&x, settings);
    CHECK_OK(network_create(&n, &x, NETWORK_INFER, B, 1, &err), err);
    CHECK_OK(checkpoint_load(&n->params, &x.model, path, NULL, &err), err);
    infer(n, images, labels, logits);
    network_destroy(n);
    experiment_free(&x);
}

static void log_softmax(double *out, const real *x, double T)
{
    double sum = 0;
    for (int k = 0; k < K; k++)
        sum += exp((double)x[k] / T);
    for (int k = 0; k < K; k++)
        out[k] = (double)x[k] / T - log(sum);
}

/* DeiT: (1 - w) cross entropy + w distance, of the sum over the batch. */
static double expected_loss(const real *labelled, const real *taught, const real *teacher, bool soft,
                            double T, double w)
{
    double loss = 0;
    for (int b = 0; b < B; b++) {
        double ours[K], distant[K], theirs[K], distance = 0;
        int best = 0;
        log_softmax(ours, labelled + b * K, 1);
        log_softmax(distant, taught + b * K, soft ? T : 1);
        log_softmax(theirs, teacher + b * K, T);
        for (int k = 0; k < K; k++) {
            best = theirs[k] > theirs[best] ? k : best;
            distance += T * T / K * exp(theirs[k]) * (theirs[k] - distant[k]);
        }
        loss += (1 - w) * -ours[b] + w * (soft ? distance : -distant[best]);
    }
    return loss;
}

static void check_loss(const char *more, const char *setting, bool soft, double T, double w)
{
    static const char *const teacher_settings[] = {"model.dim=12", "model.attention=super", NULL};
    const char *path = write_teacher("teacher", teacher_settings);
    real teacher[B * K], mean[B * K], taught[B * K];
    struct fixture f;
    struct error err;
    make(&f, path, more, setting);
    infer_file(path, teacher_settings, f.images, f.labels, teacher);
    infer(f.n, f.images, f.labels, mean);
    CHECK_OK(step_batch(&f.step, &f.batch, B, 0, &err), err);
    for (int i = 0; i < B * K; i++) /* evaluation takes the mean of both heads */
        taught[i] = 2 * mean[i] - f.step.logits[i];
    const double tolerance = sizeof(real) == sizeof(double) ? 1e-11 : 1e-4;
    CHECK_NEAR(f.step.loss_sum, expected_loss(f.step.logits, taught, teacher, soft, T, w), tolerance);
    drop(&f);
}

TEST(distill__takes_the_losses_of_deit)
{
    for (int token = 0; token < 2; token++) {
        const char *setting = token ? "model.distilled=true" : "seed=3";
        test_about("%s", setting);
        check_loss("", setting, false, 1, 0.5);
        check_loss(", \"weight\": 0.3", setting, false, 1, 0.3);
        check_loss(", \"kind\": \"soft\", \"temperature\": 3, \"weight\": 0.1", setting, true, 3, 0.1);
    }
}

/* With a token for it, the teacher shapes the second head and the labels the first one alone. */
TEST(distill__each_head_learns_from_its_own)
{
    static const char *const heads[] = {"head.weight", "head_dist.weight"};
    const char *path = write_teacher("teacher", NULL);
    for (int weight = 0; weight < 2; weight++) {
        struct fixture f;
        struct error err;
        make(&f, path, test_text(", \"weight\": %d", weight), "model.distilled=true");
        CHECK_OK(step_batch(&f.step, &f.batch, B, 0, &err), err);
        graph_reduce(&f.n->params, 1);
        for (int head = 0; head < 2; head++) {
            const struct param *p = params_find(&f.n->params, heads[head]);
            double sum = 0;
            for (size_t i = 0; i < p->count; i++)
                sum += fabs((double)param_grad(&f.n->params, p)[i]);
            test_about("%s, weight %d", heads[head], weight);
            CHECK(head == weight ? sum > 1e-3 : sum == 0);
        }
        drop(&f);
    }
}

/* Another size, colour, mean and std. */
TEST(teacher__sees_images_as_it_was_trained_on_them)
{
    static const char *const settings[] = {
        "model.image_size=[8, 16]", "model.channels=3", "data.normalize={\"mean\": [0.1, 0.2, 0.3], "
        "\"std\": [0.5, 0.25, 0.125]}", NULL,
    };
    static const double mean[] = {0.1, 0.2, 0.3}, std[] = {0.5, 0.25, 0.125};
    static const int from[] = {HEIGHT, WIDTH}, to[] = {8, 16};
    const char *path = write_teacher("teacher", settings);
    real *images = malloc(sizeof *images * B * 3 * 8 * 16), plane[HEIGHT * WIDTH], got[B * K], want[B * K];
    struct fixture f;
    struct error err;
    CHECK(images != NULL);
    make(&f, path, "", "data.normalize={\"mean\": [0.4], \"std\": [0.2]}");
    for (int b = 0; b < B; b++)
        for (int c = 0; c < 3; c++) {
            for (int i = 0; i < HEIGHT * WIDTH; i++) /* pixels in 0..1, then the teacher's numbers */
                plane[i] = (real)(((double)f.images[b * HEIGHT * WIDTH + i] * 0.2 + 0.4 - mean[c]) / std[c]);
            CHECK_OK(nn_interpolate(images + (b * 3 + c) * 8 * 16, to, plane, from, 1,
                                    INTERPOLATE_ANTIALIAS, &err),
                     err);
        }
    infer_file(path, settings, images, f.labels, want);
    teacher_logits(f.n->teacher, &f.batch, got);
    double largest = 0;
    for (int i = 0; i < B * K; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int i = 0; i < B * K; i++)
        CHECK_NEAR(got[i], want[i], (sizeof(real) == sizeof(double) ? 1e-12 : 1e-5) * largest);
    free(images);
    drop(&f);
}

TEST(teacher__is_part_of_the_memory_that_is_asked_for)
{
    const char *path = write_teacher("teacher", NULL);
    struct experiment x, plain;
    struct network *n, *without;
    struct error err;
    rig_load(&x, SETTINGS(distill(path, "")));
    rig_load(&plain, NULL);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, B, 1, &err), err);
    CHECK_OK(network_plan(&without, &plain, NETWORK_TRAIN, B, 1, &err), err);
    CHECK(network_bytes(n) >= network_bytes(without) + teacher_bytes(n->teacher));
    CHECK(teacher_bytes(n->teacher) > (double)params_counted(&without->params) * sizeof(real));
    network_destroy(n);
    network_destroy(without);
    experiment_free(&x);
    experiment_free(&plain);
}

/* --- runs --------------------------------------------------------------------------------------- */

static const char *const student[] = {"model.distilled=true", "train.epochs=2",
                                      "data.augment={\"mixup\": 0.8, \"hflip\": 0.5}"};

static void load_student(struct experiment *x, const char *teacher)
{
    rig_load(x, SETTINGS(student[0], student[1], student[2],
                         distill(teacher, ", \"kind\": \"soft\", \"temperature\": 2")));
}

TEST(distill__a_resumed_run_ends_with_the_same_bits)
{
    const char *path = write_teacher("teacher", SETTINGS("model.image_size=[16, 12]"));
    const char *whole = test_text("%s/whole", test_directory());
    struct experiment x;
    struct rig_run run = {.threads = 1};
    struct error err;
    load_student(&x, path);
    CHECK_OK(rig_train(&x, whole, &run, &err), err);
    for (int stop = 2; stop <= 8; stop += 3) {
        const char *parts = test_text("%s/parts%d", test_directory(), stop);
        run = (struct rig_run){.threads = 2, .stop_after = stop};
        CHECK_INT(rig_train(&x, parts, &run, &err), ERR_INTERRUPTED);
        run = (struct rig_run){.threads = 1, .resume = true};
        CHECK_OK(rig_train(&x, parts, &run, &err), err);
        CHECK_STR(rig_metrics(parts), rig_metrics(whole));
        static const char *const files[] = {"last.safetensors", "last.ema.safetensors"};
        for (int i = 0; i < 2; i++)
            CHECK(rig_same_file(test_text("%s/%s", parts, files[i]), test_text("%s/%s", whole, files[i])));
    }
    /* The checkpoint names no teacher, and can be read without. */
    char *text = NULL;
    struct experiment trained;
    CHECK_OK(checkpoint_config(&text, test_text("%s/last.safetensors", whole), &err), err);
    CHECK(!strstr(text, path));
    CHECK_OK(experiment_parse(&trained, text, "checkpoint", &err), err);
    CHECK(trained.train.distill && !trained.train.distill->teacher);
    experiment_free(&trained);
    free(text);
    experiment_free(&x);
}

TEST(distill__another_teacher_cannot_go_on_with_a_run)
{
    const char *path = write_teacher("teacher", NULL), *run_path = test_text("%s/run", test_directory());
    struct experiment x;
    struct rig_run run = {.threads = 1, .stop_after = 3};
    struct error err;
    load_student(&x, path);
    CHECK_INT(rig_train(&x, run_path, &run, &err), ERR_INTERRUPTED);
    CHECK_INT(rename(write_teacher("other", SETTINGS("model.dim=12")), path), 0);
    run = (struct rig_run){.threads = 1, .resume = true};
    CHECK_INT(rig_train(&x, run_path, &run, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.distill.teacher has other weights");
    experiment_free(&x);
}

TEST(distill__refuses_teachers_that_cannot_teach)
{
    static const struct {
        const char *settings[2];
        const char *what;
    } rows[] = {
        {{"model.classes=4", NULL}, "has 4 classes, the model 6"},
        {{"seed=2", NULL}, "is missing, expected a checkpoint"},
        {{"seed=3", NULL}, "No such file"},
        {{"seed=4", NULL}, "class 2 is \"two\", in the data it is \"2\""},
    };
    for (int i = 0; i < 4; i++) {
        struct experiment x;
        struct rig_run run = {.threads = 1};
        struct error err;
        names[2] = i == 3 ? "two" : "2";
        const char *path = write_teacher("teacher", rows[i].settings);
        names[2] = "2";
        const char *setting = i == 1 ? "train.distill={}" : distill(i == 2 ? "/none.safetensors" : path, "");
        rig_load(&x, SETTINGS(setting));
        test_about("%s", rows[i].what);
        CHECK_INT(rig_train(&x, test_text("%s/run%d", test_directory(), i), &run, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, "train.distill.teacher: ");
        CHECK_CONTAINS(err.text, rows[i].what);
        experiment_free(&x);
    }
}

TEST(distill__colour_is_not_made_grey_and_options_have_effect)
{
    const char *path = write_teacher("teacher", NULL);
    struct experiment x;
    struct network *n;
    struct error err;
    rig_load(&x, SETTINGS(distill(path, ""), "model.channels=3"));
    CHECK_INT(network_plan(&n, &x, NETWORK_TRAIN, B, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.distill.teacher: reads 1 channels, the model 3");
    experiment_free(&x);
    CHECK_INT(rig_refused(SETTINGS(distill(path, ", \"temperature\": 2")), &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.distill.temperature: has no effect");
    CHECK_INT(rig_refused(SETTINGS(distill(path, ", \"weight\": 2")), &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.distill.weight: ");
}
