/* test_mixed.c - training on mixed images: soft targets, and runs that repeat. */
#include <math.h>
#include <string.h>

#include "rig.h"
#include "test.h"
#include "train/step.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { BATCH = 7, PIXELS = 12 * 8, CLASSES = 6 };

static real images[BATCH * PIXELS], share[BATCH], rest[BATCH];
static int labels[BATCH], partners[BATCH];
static size_t record[BATCH];

static struct batch make_batch(double own)
{
    for (int i = 0; i < BATCH * PIXELS; i++)
        images[i] = (real)sin(i);
    for (int i = 0; i < BATCH; i++) {
        labels[i] = i % CLASSES;
        partners[i] = (BATCH - 1 - i) % CLASSES;
        share[i] = (real)own;
        rest[i] = 1 - share[i];
    }
    return (struct batch){
        .count = BATCH, .capacity = BATCH, .images = images, .labels = labels, .index = record};
}

static struct batch mix_batch(double own)
{
    struct batch b = make_batch(own);
    b.partners = partners;
    b.share = share;
    b.rest = rest;
    return b;
}

struct fixture {
    struct experiment x;
    struct network *n;
    struct step step;
};

static void make(struct fixture *f, const char *const *settings)
{
    struct error err;
    rig_load(&f->x, settings);
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_TRAIN, BATCH, 2, &err), err);
    CHECK_OK(step_create(&f->step, f->n, BATCH, &err), err);
}

static void drop(struct fixture *f)
{
    step_free(&f->step);
    network_destroy(f->n);
    experiment_free(&f->x);
}

static void update(struct fixture *f, const struct batch *b)
{
    struct error err;
    CHECK_OK(step_batch(&f->step, b, BATCH, 0, &err), err);
    CHECK_OK(step_update(&f->step, b, 1e-2, 0, &err), err);
}

TEST(mixed__the_loss_is_that_of_the_soft_target_with_smoothing_inside)
{
    struct fixture f;
    make(&f, SETTINGS("data.augment.mixup=0.8"));
    struct batch b = mix_batch(0.3);
    update(&f, &b);
    for (int i = 0; i < BATCH; i++) {
        const real *logits = f.step.logits + i * CLASSES;
        double sum = 0, loss = 0, smoothing = 0.1;
        for (int k = 0; k < CLASSES; k++)
            sum += exp((double)logits[k]);
        for (int k = 0; k < CLASSES; k++) {
            double target = smoothing / CLASSES;
            target += (1 - smoothing) * (0.3 * (k == labels[i]) + 0.7 * (k == partners[i]));
            loss -= target * ((double)logits[k] - log(sum));
        }
        CHECK_NEAR(f.step.loss[i], loss, 1e-5);
    }
    drop(&f);
}

static double distance(const struct params *a, const struct params *b)
{
    double most = 0;
    for (size_t i = 0; i < a->total; i++)
        most = fmax(most, fabs((double)a->values[i] - (double)b->values[i]));
    return most;
}

/* Plain descent, so that updates add up as gradients do. */
#define DESCENT                                                                                    \
    "train.optimizer={\"name\": \"sgd\", \"momentum\": 0, \"weight_decay\": 0}",                   \
        "train.clip_norm=null"

TEST(mixed__gradients_are_mixed_like_the_labels)
{
    static int own[BATCH];
    struct fixture mixed, first, second, start;
    make(&mixed, SETTINGS("data.augment.cutmix=1", DESCENT));
    make(&first, SETTINGS(DESCENT));
    make(&second, SETTINGS(DESCENT));
    make(&start, SETTINGS(DESCENT));
    struct batch b = mix_batch(0.25);
    update(&mixed, &b);
    b = make_batch(1);
    update(&first, &b);
    memcpy(own, labels, sizeof own);
    memcpy(labels, partners, sizeof own);
    update(&second, &b);
    double moved = distance(&mixed.n->params, &start.n->params);
    CHECK(moved > 1e-5);
    for (size_t i = 0; i < mixed.n->params.total; i++) {
        double a = (double)first.n->params.values[i], c = (double)second.n->params.values[i];
        CHECK_NEAR(mixed.n->params.values[i], 0.25 * a + 0.75 * c, 1e-3 * moved + 1e-7);
    }
    drop(&mixed);
    drop(&first);
    drop(&second);
    drop(&start);
}

TEST(mixed__padded_rows_and_bf16_are_fine)
{
    struct fixture f;
    make(&f, SETTINGS("data.augment.cutmix=1", "train.precision=bf16"));
    struct batch b = mix_batch(0.5);
    b.count = 5;
    for (int i = 5; i < BATCH; i++)
        labels[i] = partners[i] = -1, share[i] = rest[i] = 0;
    struct error err;
    CHECK_OK(step_batch(&f.step, &b, 5, 0, &err), err);
    CHECK_OK(step_update(&f.step, &b, 1e-2, 0, &err), err);
    CHECK(step_values_finite(f.n));
    drop(&f);
}

/* Everything at once; colours need three channels. */
#define ALL                                                                                        \
    "model.channels=3", "data.workers=2", "data.augment.random_crop_padding=0",                    \
        "data.augment.random_resized_crop={\"scale\": [0.3, 1]}",                                  \
        "data.augment.auto_augment=rand-m9-mstd0.5-inc1", "data.augment.random_erasing={}",        \
        "data.augment.mixup=0.8", "data.augment.cutmix=1", "data.augment.repeated=3"

TEST(mixed__runs_resume_in_the_middle_of_an_epoch_with_the_same_bits)
{
    static const int stops[] = {2, 8};
    struct experiment x;
    struct rig_run run = {.threads = 1};
    struct error err;
    rig_load(&x, SETTINGS(ALL));
    const char *whole = test_directory();
    CHECK_OK(rig_train(&x, whole, &run, &err), err);
    CHECK_CONTAINS(rig_metrics(whole), "\"train_top1\":null");
    for (int i = 0; i < 2; i++) {
        const char *directory = test_directory();
        test_about("stopped after %d", stops[i]);
        run = (struct rig_run){.stop_after = stops[i], .threads = 2};
        CHECK_INT(rig_train(&x, directory, &run, &err), ERR_INTERRUPTED);
        run = (struct rig_run){.resume = true};
        CHECK_OK(rig_train(&x, directory, &run, &err), err);
        CHECK_STR(rig_metrics(directory), rig_metrics(whole));
        CHECK(rig_same_file(test_text("%s/last.safetensors", directory),
                            test_text("%s/last.safetensors", whole)));
    }
    experiment_free(&x);
}

TEST(mixed__what_cannot_be_mixed_is_refused)
{
    struct error err;
    CHECK_INT(rig_refused(SETTINGS("data.augment.mixup=0.8", "train.batch_size=1"), &err),
              ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.augment: mixes images of a batch, and train.batch_size is 1");
    CHECK_INT(
        rig_refused(SETTINGS("data.augment.auto_augment=rand-m9-q1", "model.channels=3"), &err),
        ERR_INPUT);
    CHECK_CONTAINS(err.text, "--set: data.augment.auto_augment: \"q1\" in");
    CHECK_INT(rig_refused(SETTINGS("data.augment.auto_augment=3a"), &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "--set: data.augment.auto_augment: changes colours");
}
