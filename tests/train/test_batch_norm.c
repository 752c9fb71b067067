/* test_batch_norm.c - models with batch normalisation (the shortcut of qt): each batch is one slice,
 * running statistics follow training and nothing else. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "updates.h"

#define SETTINGS(...) ((const char *const[]){"model.attention=qt", __VA_ARGS__, NULL})
#define WITHOUT_NOISE "model.dropout=0", "model.drop_path=0"

static const char running_mean[] = "blocks.0.attn.shortcut.norm.running_mean";
static const char running_var[] = "blocks.1.attn.shortcut.norm.running_var";

static const struct param *find(const struct updates *f, const char *name)
{
    const struct param *p = params_find(&f->n->params, name);
    CHECK(p != NULL);
    return p;
}

static bool same_bits(const struct updates *a, const struct updates *b, const char *name)
{
    const struct param *p = find(a, name), *q = find(b, name);
    return memcmp(p->value, q->value, p->count * sizeof(real)) == 0;
}

static bool same_values(const struct updates *a, const struct updates *b)
{
    size_t bytes = a->n->params.total * sizeof(real);
    return memcmp(a->n->params.values, b->n->params.values, bytes) == 0 &&
           memcmp(a->n->params.average, b->n->params.average, bytes) == 0;
}

/* --- one slice ---------------------------------------------------------------------------------- */

TEST(network__trains_a_whole_batch_at_once_where_an_op_needs_it)
{
    struct updates with, without;
    updates_begin(&with, SETTINGS("model.patch_size=1"), 22, 3);
    updates_begin(&without, SETTINGS("model.patch_size=1", "model.attention.shortcut=false"), 22,
                  3);
    CHECK(with.n->train->whole_batch && !with.n->infer->whole_batch);
    CHECK_INT(with.n->train->options.batch, 22);
    CHECK_INT(with.n->lanes, 1);
    CHECK_INT(with.n->train_workers, 1);
    CHECK_INT(with.n->train->options.team, 3);
    CHECK(!without.n->train->whole_batch);
    CHECK(without.n->train->options.batch < 22);
    CHECK_INT(with.n->infer->options.batch, without.n->infer->options.batch);
    CHECK(network_bytes(with.n) > 1.5 * network_bytes(without.n));
    updates_end(&with);
    updates_end(&without);
}

TEST(network__refuses_a_whole_batch_that_does_not_fit)
{
    struct experiment x;
    struct network *n = NULL;
    struct error err;
    const int all = 1 << 20;
    rig_load(&x, SETTINGS("train.batch_size=1048576", "model.patch_size=1"));
    CHECK_INT(network_create(&n, &x, NETWORK_TRAIN, all, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.batch_size: batches of 1048576 need ");
    const char *what = "the largest batch that fits is ", *at = strstr(err.text, what);
    CHECK(at != NULL);
    long fits = strtol(at + strlen(what), NULL, 10);
    CHECK(fits >= 1 && fits < all);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, (int)fits / 2 + 1, 1, &err), err);
    CHECK_INT(n->train->options.batch, (int)fits / 2 + 1);
    CHECK_OK(network_check_memory(n, &err), err);
    network_destroy(n);
    experiment_free(&x);
}

TEST(step__bits_of_a_whole_batch_do_not_depend_on_threads)
{
    struct updates one, more;
    updates_begin(&one, SETTINGS("train.accumulate=1"), 8, 1);
    for (int update = 0; update < 3; update++)
        updates_run(&one, 0, 22, 8, 1e-3, update); /* the last batch has 6 */
    for (int threads = 2; threads <= 3; threads++) {
        updates_begin(&more, SETTINGS("train.accumulate=1"), 8, threads);
        for (int update = 0; update < 3; update++)
            updates_run(&more, 0, 22, 8, 1e-3, update);
        CHECK(same_values(&one, &more));
        CHECK(one.step.loss_sum == more.step.loss_sum);
        updates_end(&more);
    }
    updates_end(&one);
}

/* A batch of 6 in a graph for 8 is what it is in a graph for 6. */
TEST(step__statistics_are_those_of_the_samples_that_are_there)
{
    struct updates full, part;
    double tolerance = sizeof(real) == sizeof(double) ? 1e-12 : 2e-5;
    updates_begin(&full, SETTINGS("train.optimizer=sgd"), 6, 1);
    updates_begin(&part, SETTINGS("train.optimizer=sgd"), 8, 2);
    for (int update = 0; update < 3; update++) {
        updates_run(&full, 3, 6, 6, 1e-3, update);
        updates_run(&part, 3, 6, 6, 1e-3, update);
        CHECK_NEAR(part.step.loss_sum, full.step.loss_sum, tolerance * full.step.loss_sum);
        CHECK_NEAR(part.step.grad_norm, full.step.grad_norm, tolerance * full.step.grad_norm);
    }
    for (size_t i = 0; i < full.n->params.total; i++)
        CHECK_NEAR(part.n->params.values[i], full.n->params.values[i], tolerance);
    updates_end(&full);
    updates_end(&part);
}

/* --- running statistics ------------------------------------------------------------------------- */

/* As many updates without a step in between: batches of a window count one by one. */
TEST(step__running_statistics_follow_each_batch_of_a_window)
{
    struct updates window, batches;
    updates_begin(&window, SETTINGS(WITHOUT_NOISE), 8, 2);
    updates_begin(&batches, SETTINGS(WITHOUT_NOISE), 8, 2);
    updates_run(&window, 0, 24, 8, 0, 0);
    for (int i = 0; i < 3; i++)
        updates_run(&batches, 8 * i, 8, 8, 0, i);
    CHECK(same_bits(&window, &batches, running_mean));
    CHECK(same_bits(&window, &batches, running_var));
    CHECK(find(&window, running_var)->value[0] != 1);
    updates_end(&window);
    updates_end(&batches);
}

TEST(step__recomputation_changes_no_bit)
{
    struct updates kept, again;
    updates_begin(&kept, SETTINGS("train.recompute=false"), 8, 2);
    updates_begin(&again, SETTINGS("train.recompute=true"), 8, 1);
    CHECK(again.n->train->block_bytes < kept.n->train->block_bytes);
    for (int update = 0; update < 3; update++) {
        updates_run(&kept, 0, 22, 8, 1e-3, update);
        updates_run(&again, 0, 22, 8, 1e-3, update);
    }
    CHECK(same_values(&kept, &again));
    updates_end(&kept);
    updates_end(&again);
}

TEST(evaluation__uses_running_statistics_and_leaves_them)
{
    struct updates f;
    real logits[SAMPLES * CLASSES], alone[CLASSES], loss[SAMPLES];
    updates_begin(&f, SETTINGS(WITHOUT_NOISE), 8, 2);
    updates_run(&f, 0, 8, 8, 1e-3, 0);
    real before = find(&f, running_var)->value[1];
    struct batch b = updates_batch(0, 8);
    struct feed feed = {.rows = 8, .input = {b.images, b.labels}, .output = {logits, loss}};
    runner_run(f.n->infer_run, &feed);
    struct batch last = updates_batch(7, 1); /* an image is what it is, whatever comes with it */
    feed = (struct feed){.rows = 1, .input = {last.images, last.labels}, .output = {alone, loss}};
    runner_run(f.n->infer_run, &feed);
    for (int c = 0; c < CLASSES; c++)
        CHECK_NEAR(alone[c], logits[7 * CLASSES + c], 1e-5);
    CHECK(find(&f, running_var)->value[1] == before);
    updates_end(&f);
}

TEST(step__frozen_norms_still_follow)
{
    struct updates f, start;
    updates_begin(&f, SETTINGS("train.freeze=[\"*.shortcut.norm.*\"]"), 8, 2);
    updates_begin(&start, SETTINGS("train.freeze=[\"*.shortcut.norm.*\"]"), 8, 2);
    updates_run(&f, 0, 8, 8, 1e-3, 0);
    CHECK(same_bits(&f, &start, "blocks.0.attn.shortcut.norm.weight"));
    CHECK(!same_bits(&f, &start, running_mean));
    updates_end(&f);
    updates_end(&start);
}

/* The average of the weights goes with the running statistics as they are. */
TEST(step__average_has_the_running_statistics)
{
    struct updates f;
    updates_begin(&f, SETTINGS(WITHOUT_NOISE), 8, 2);
    updates_run(&f, 0, 8, 8, 1e-3, 0);
    updates_run(&f, 8, 8, 8, 1e-3, 1);
    const struct param *p = find(&f, running_var);
    CHECK(memcmp(f.n->params.average + p->at, p->value, p->count * sizeof(real)) == 0);
    CHECK(p->flags & PARAM_BUFFER);
    CHECK(!(find(&f, "blocks.0.attn.shortcut.norm.weight")->flags & PARAM_DECAY));
    updates_end(&f);
}

/* --- whole runs --------------------------------------------------------------------------------- */

static void check_run(const char *const *settings)
{
    struct experiment x;
    struct error err;
    rig_load(&x, settings);
    struct rig_run whole = {.threads = 1};
    const char *a = test_text("%s/run", test_directory());
    const char *b = test_text("%s/run", test_directory());
    CHECK_OK(rig_train(&x, a, &whole, &err), err);
    struct rig_run cut = {.threads = 3, .stop_after = 4};
    CHECK_INT(rig_train(&x, b, &cut, &err), ERR_INTERRUPTED);
    cut = (struct rig_run){.resume = true, .threads = 2, .stop_after = 3};
    CHECK_INT(rig_train(&x, b, &cut, &err), ERR_INTERRUPTED);
    cut = (struct rig_run){.resume = true, .threads = 1};
    CHECK_OK(rig_train(&x, b, &cut, &err), err);
    static const char *const files[] = {"last", "best", "last.ema", "best.ema"};
    for (int i = 0; i < 4; i++)
        CHECK(rig_same_file(test_text("%s/%s.safetensors", a, files[i]),
                            test_text("%s/%s.safetensors", b, files[i])));
    CHECK_STR(rig_metrics(a), rig_metrics(b));
    CHECK_CONTAINS(rig_text(test_text("%s/metrics.jsonl", a)), "\"slice\":8");
    experiment_free(&x);
}

TEST(run__resumes_to_the_same_bits)
{
    check_run(SETTINGS("train.epochs=2"));
    check_run(SETTINGS("train.epochs=2", "train.recompute=true", "model.pool=mean"));
}

TEST(run__resumes_to_the_same_bits_in_bf16)
{
    if (sizeof(real) == sizeof(double))
        SKIP("bf16 is not in the double build");
    check_run(SETTINGS("train.epochs=2", "train.precision=bf16"));
}
