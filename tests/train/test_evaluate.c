#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/splits.h"
#include "rig.h"
#include "train/evaluate.h"
#include "train/metrics.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

struct fixture {
    struct experiment x;
    struct splits splits;
    struct network *n;
    struct loader *loader;
};

static void make(struct fixture *f, const char *const *settings, int batch, int threads)
{
    struct error err;
    rig_load(&f->x, settings);
    struct model_shape s = model_of(&f->x.model)->shape(f->x.model.options);
    const struct image_shape images = {s.channels, s.height, s.width};
    CHECK_OK(splits_open(&f->splits, &f->x.data, SPLITS_TEST, images, s.classes, f->x.seed, &err),
             err);
    CHECK_OK(network_create(&f->n, &f->x, NETWORK_INFER, batch, threads, &err), err);
    const struct loader_options options = {.batch_size = batch, .ahead = 1, .workers = 0};
    CHECK_OK(loader_create(&f->loader, f->splits.test.set, &f->x.data, f->splits.test.records,
                           f->splits.test.count, &options, &err),
             err);
    /* Logits that differ more than the initial ones, so that rounding flips no prediction. */
    struct param *head = params_find(&f->n->params, "head.weight");
    for (size_t i = 0; i < head->count; i++)
        head->value[i] *= 50;
}

static void drop(struct fixture *f)
{
    loader_destroy(f->loader);
    network_destroy(f->n);
    splits_close(&f->splits);
    experiment_free(&f->x);
}

/* What visit saw. */
struct seen {
    long long n, hits, confusion[6][6];
    double loss;
};

static void visit(void *context, size_t record, int label, const double *p)
{
    struct seen *s = context;
    int best = 0;
    double sum = 0;
    (void)record;
    for (int c = 0; c < 6; c++) {
        sum += p[c];
        if (p[c] > p[best])
            best = c;
    }
    CHECK_NEAR(sum, 1, 1e-12);
    s->n++;
    s->hits += best == label;
    s->loss -= log(p[label]);
    s->confusion[label][best]++;
}

/* Weights are packed for bf16 products once an evaluation, of the values that are asked for. */
TEST(evaluate__takes_the_values_that_are_given_in_bf16_too)
{
    struct fixture f;
    struct evaluation own, zeros, again;
    struct error err;
    make(&f, SETTINGS("train.precision=bf16"), 16, 2);
    real *values = calloc(f.n->params.total, sizeof *values);
    CHECK_OK(evaluate(&own, f.n, f.loader, NULL, NULL, NULL, &err), err);
    CHECK_OK(evaluate(&zeros, f.n, f.loader, values, NULL, NULL, &err), err);
    CHECK_OK(evaluate(&again, f.n, f.loader, NULL, NULL, NULL, &err), err);
    free(values);
    CHECK_NEAR(zeros.loss, log(6), 1e-6);
    CHECK(fabs(own.loss - log(6)) > 1e-3);
    CHECK(again.loss == own.loss);
    evaluation_free(&own);
    evaluation_free(&zeros);
    evaluation_free(&again);
    drop(&f);
}

TEST(evaluate__does_not_depend_on_batch_size_or_threads)
{
    static const int batches[] = {1, 7, 16, 50, 64};
    struct evaluation first = {0};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct fixture f;
        struct evaluation e;
        struct error err;
        test_about("batch %d", batches[i]);
        make(&f, NULL, batches[i], 1 + (int)(i % 3));
        CHECK_OK(evaluate(&e, f.n, f.loader, NULL, NULL, NULL, &err), err);
        CHECK_INT(e.n, 50);
        if (i == 0)
            first = e;
        CHECK_NEAR(e.loss, first.loss, 1e-5 * first.loss);
        CHECK_INT(e.correct, first.correct);
        CHECK_INT(e.correct5, first.correct5);
        CHECK_NEAR(e.ece, first.ece, 1e-5);
        if (i > 0)
            evaluation_free(&e);
        drop(&f);
    }
    evaluation_free(&first);
}

TEST(evaluate__counts_agree_with_what_visit_sees)
{
    struct fixture f;
    struct evaluation e;
    struct error err;
    struct seen seen = {0};
    make(&f, NULL, 16, 2);
    CHECK_OK(evaluate(&e, f.n, f.loader, NULL, visit, &seen, &err), err);
    CHECK_INT(e.n, seen.n);
    CHECK_INT(e.correct, seen.hits);
    CHECK_NEAR(e.top1, 100.0 * (double)seen.hits / 50, 1e-12);
    CHECK_NEAR(e.top5, 100.0 * (double)e.correct5 / 50, 1e-12);
    CHECK_NEAR(e.loss, seen.loss / 50, 1e-5);
    long long in_classes = 0, right = 0;
    for (int label = 0; label < 6; label++) {
        in_classes += e.class_n[label];
        right += e.class_correct[label];
        for (int c = 0; c < 6; c++)
            CHECK_INT(e.confusion[label * 6 + c], seen.confusion[label][c]);
    }
    CHECK_INT(in_classes, 50);
    CHECK_INT(right, e.correct);
    evaluation_free(&e);
    drop(&f);
}

TEST(evaluate__uses_the_values_it_is_given)
{
    struct fixture f;
    struct evaluation e;
    struct error err;
    make(&f, NULL, 16, 1);
    real *zeros = calloc(f.n->params.total, sizeof *zeros);
    CHECK(zeros != NULL);
    CHECK_OK(evaluate(&e, f.n, f.loader, zeros, NULL, NULL, &err), err);
    CHECK_NEAR(e.loss, log(6), 1e-6); /* all logits are equal: class 0 by the tie rule */
    CHECK_INT(e.correct, e.class_n[0]);
    CHECK_INT(e.correct5, 50 - e.class_n[5]);
    evaluation_free(&e);
    free(zeros);
    drop(&f);
}

TEST(evaluate__top5_needs_more_than_five_classes)
{
    struct fixture f;
    struct evaluation e;
    struct error err;
    static const char *const classes[] = {"model.classes=3", "model.classes=5", "model.classes=6"};
    for (int i = 0; i < 3; i++) {
        make(&f, SETTINGS(classes[i]), 16, 1);
        CHECK_OK(evaluate(&e, f.n, f.loader, NULL, NULL, NULL, &err), err);
        CHECK_INT(isnan(e.top5) != 0, i < 2);
        evaluation_free(&e);
        drop(&f);
    }
}

TEST(evaluate__gives_up_when_it_is_told_to_stop)
{
    struct fixture f;
    struct evaluation e;
    struct error err;
    static volatile sig_atomic_t stop = 1;
    make(&f, NULL, 16, 1);
    f.n->stop = &stop;
    CHECK_INT(evaluate(&e, f.n, f.loader, NULL, NULL, NULL, &err), ERR_INTERRUPTED);
    drop(&f);
}
