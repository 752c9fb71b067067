#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "updates.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Largest difference relative to the largest value. */
static double difference(const real *a, const real *b, size_t n)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)a[i]));
    }
    return most / size;
}

TEST(step__accumulated_batches_equal_one_large_batch)
{
    /* Noise too: a sample draws by its place in the window. 22 = 8 + 8 + 6 samples. SGD: Adam turns
     * rounding noise into full steps. */
    const char *const *settings = SETTINGS("train.optimizer=sgd");
    struct updates parts, whole;
    updates_begin(&parts, settings, 8, 2);
    updates_begin(&whole, settings, 22, 2);
    double tolerance = sizeof(real) == sizeof(double) ? 1e-12 : 1e-5;
    for (int update = 0; update < 3; update++) {
        updates_run(&parts, 0, 22, 8, 1e-3, update);
        updates_run(&whole, 0, 22, 22, 1e-3, update);
        CHECK_NEAR(parts.step.loss_sum, whole.step.loss_sum, tolerance * whole.step.loss_sum);
        CHECK_NEAR(parts.step.grad_norm, whole.step.grad_norm, tolerance * whole.step.grad_norm);
        CHECK_INT(parts.step.correct, whole.step.correct);
    }
    CHECK_NEAR(difference(parts.n->params.values, whole.n->params.values, whole.n->params.total), 0,
               tolerance);
    updates_end(&parts);
    updates_end(&whole);
}

TEST(step__bits_do_not_depend_on_threads)
{
    struct updates one, more;
    updates_begin(&one, NULL, 8, 1);
    for (int update = 0; update < 3; update++)
        updates_run(&one, 0, 22, 8, 1e-3, update);
    for (int threads = 2; threads <= 3; threads++) {
        updates_begin(&more, NULL, 8, threads);
        for (int update = 0; update < 3; update++)
            updates_run(&more, 0, 22, 8, 1e-3, update);
        size_t bytes = one.n->params.total * sizeof(real);
        CHECK(memcmp(one.n->params.values, more.n->params.values, bytes) == 0);
        CHECK(memcmp(one.n->params.average, more.n->params.average, bytes) == 0);
        CHECK(one.step.loss_sum == more.step.loss_sum);
        updates_end(&more);
    }
    updates_end(&one);
}

static const real *omega_of(const struct updates *f)
{
    const struct param *omega = params_find(&f->n->params, "blocks.0.attn.omega");
    CHECK(omega != NULL);
    return omega->value;
}

TEST(step__draws_again_before_a_window_and_evaluation_never)
{
    struct updates f;
    updates_begin(&f, SETTINGS("model.attention={\"name\": \"performer\", \"m\": 8, \"redraw\": 2}"),
                  8, 2);
    real first[4], logits[8 * CLASSES], loss[8];
    memcpy(first, omega_of(&f), sizeof first);
    for (int update = 0; update < 6; update++) {
        struct batch b = updates_batch(0, 8);
        struct feed feed = {.rows = 8, .step = (uint64_t)update};
        updates_run(&f, 0, 22, 8, 1e-3, update);
        CHECK((memcmp(first, omega_of(&f), sizeof first) != 0) == (update == 2 || update == 4));
        memcpy(first, omega_of(&f), sizeof first);
        feed.input[NETWORK_INPUT_IMAGES] = b.images;
        feed.input[NETWORK_INPUT_LABELS] = b.labels;
        feed.output[NETWORK_OUTPUT_LOGITS] = logits;
        feed.output[NETWORK_OUTPUT_LOSS] = loss;
        for (feed.step = 0; feed.step < 5; feed.step++)
            runner_run(f.n->infer_run, &feed);
        CHECK(memcmp(first, omega_of(&f), sizeof first) == 0);
        CHECK(memcmp(f.n->params.average + (omega_of(&f) - f.n->params.values), omega_of(&f),
                     sizeof first) == 0);
    }
    updates_end(&f);
}

TEST(step__clips_by_the_global_norm)
{
    /* One SGD step without momentum's past moves the weights by lr times the clipped gradient. */
    struct updates f, start;
    const char *const *settings =
        SETTINGS("train.optimizer=sgd", "train.clip_norm=0.01", "train.optimizer.weight_decay=0");
    updates_begin(&f, settings, 8, 1);
    updates_begin(&start, settings, 8, 1);
    updates_run(&f, 0, 8, 8, 1e-3, 0);
    double sum = 0;
    for (size_t i = 0; i < f.n->params.trained; i++)
        sum += pow((double)f.n->params.moments[0][i], 2);
    double norm = f.step.grad_norm;
    CHECK(norm > 0.1);
    CHECK_NEAR(sqrt(sum), norm * 0.01 / (norm + 1e-6), 1e-7);
    updates_end(&f);
    updates_end(&start);
}

TEST(step__average_follows_with_a_decay_that_rises)
{
    struct updates f;
    updates_begin(&f, NULL, 8, 1);
    const struct params *p = &f.n->params;
    double want = (double)p->values[10];
    for (int t = 0; t < 4; t++) {
        updates_run(&f, 0, 8, 8, 1e-3, t);
        double decay = 0.9 * (1 - exp(-t / 5.0));
        want = decay * want + (1 - decay) * (double)p->values[10];
        CHECK_NEAR(p->average[10], want, 1e-7);
    }
    CHECK(fabs(want - (double)p->values[10]) > 1e-5);
    updates_end(&f);
}

TEST(step__frozen_parameters_stay)
{
    struct updates f, start;
    const char *const *settings =
        SETTINGS("train.freeze=[\"patch_embed.*\", \"blocks.0.attn.qkv.*\"]");
    updates_begin(&f, settings, 8, 2);
    updates_begin(&start, settings, 8, 2);
    CHECK(f.n->params.trained < f.n->params.total);
    updates_run(&f, 0, 8, 8, 1e-3, 0);
    for (int i = 0; i < f.n->params.count; i++) {
        const struct param *a = f.n->params.list[i], *b = start.n->params.list[i];
        bool frozen = strncmp(a->name, "patch_embed.", 12) == 0 ||
                      strncmp(a->name, "blocks.0.attn.qkv.", 18) == 0;
        bool same = memcmp(a->value, b->value, a->count * sizeof(real)) == 0;
        test_about("%s", a->name);
        CHECK_INT(same, frozen);
        CHECK_INT((a->flags & PARAM_FROZEN) != 0, frozen);
    }
    updates_end(&f);
    updates_end(&start);
}

TEST(network__freeze_must_match_and_leave_something)
{
    struct experiment x;
    struct network *n = NULL;
    struct error err;
    rig_load(&x, SETTINGS("train.freeze=[\"patch_embd.*\"]"));
    CHECK_INT(network_create(&n, &x, NETWORK_TRAIN, 8, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "train.freeze: \"patch_embd.*\" matches no parameter");
    experiment_free(&x);
    rig_load(&x, SETTINGS("train.freeze=[\"*\"]"));
    CHECK_INT(network_create(&n, &x, NETWORK_TRAIN, 8, 1, &err), ERR_INPUT);
    experiment_free(&x);
}

TEST(network__more_memory_than_the_machine_has_is_refused)
{
    struct experiment x;
    struct network *n = NULL;
    struct error err;
    rig_load(&x, SETTINGS("model.dim=60000", "model.depth=12", "model.attention=efficient"));
    CHECK_INT(network_create(&n, &x, NETWORK_TRAIN, 8, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "GB of memory");
    experiment_free(&x);
}

TEST(network__a_batch_that_cannot_fit_names_the_largest_that_does)
{
    struct experiment x;
    struct network *n = NULL;
    struct error err;
    const int all = 1 << 20;
    rig_load(&x, SETTINGS("model.image_size=1024", "model.patch_size=512",
                          "train.batch_size=1048576"));
    CHECK_INT(network_create(&n, &x, NETWORK_TRAIN, all, 1, &err), ERR_INPUT);
    CHECK(n == NULL);
    CHECK_CONTAINS(err.text, "--set: train.batch_size: batches of 1048576 need ");
    const char *what = "the largest batch that fits is ", *at = strstr(err.text, what);
    CHECK(at != NULL);
    long fits = strtol(at + strlen(what), NULL, 10);
    CHECK(fits >= 1 && fits < all);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, (int)fits / 2 + 1, 1, &err), err);
    CHECK_OK(network_check_memory(n, &err), err);
    CHECK(n->params.values == NULL);
    network_destroy(n);
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, (int)fits * 2, 1, &err), err);
    CHECK_INT(network_check_memory(n, &err), ERR_INPUT);
    network_destroy(n);
    experiment_free(&x);
}

TEST(network__threads_are_at_most_as_many_as_can_be_of_use)
{
    struct experiment x;
    struct network *n = NULL;
    struct error err;
    rig_load(&x, SETTINGS("train.batch_size=4096"));
    CHECK_OK(network_plan(&n, &x, NETWORK_TRAIN, 4096, 1024, &err), err);
    int most = cpu_cores() > 8 ? cpu_cores() : 8;
    CHECK(n->threads <= most && n->infer_workers <= most);
    CHECK(n->train_workers <= n->lanes);
    CHECK(n->lanes >= 1);
    network_destroy(n);
    CHECK_OK(network_plan(&n, &x, NETWORK_INFER, 8, 3, &err), err);
    CHECK_INT(n->threads, 3);
    CHECK_INT(n->lanes, 0);
    network_destroy(n);
    experiment_free(&x);
}

/* The packed weights of bf16 products stay over a window and change with the update. */
TEST(step__an_update_is_felt_by_the_next_batch_in_bf16_too)
{
    struct updates f;
    struct error err;
    updates_begin(&f, SETTINGS("train.precision=bf16", "model.dropout=0", "model.drop_path=0"), 8,
                  2);
    struct batch b = updates_batch(0, 8);
    double loss[3];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(step_batch(&f.step, &b, 16, 0, &err), err);
        loss[i] = f.step.loss_sum;
    }
    CHECK_NEAR(loss[1], 2 * loss[0], 1e-12);
    CHECK_OK(step_update(&f.step, &b, 1e-3, 0, &err), err);
    CHECK_OK(step_batch(&f.step, &b, 8, 1, &err), err);
    loss[2] = f.step.loss_sum;
    CHECK(loss[2] < loss[0] - 1e-3);
    updates_end(&f);
}

TEST(step__not_finite_stops_and_names_the_place)
{
    struct updates f;
    struct error err;
    updates_begin(&f, NULL, 8, 2);
    params_find(&f.n->params, "blocks.1.mlp.fc1.bias")->value[2] = (real)NAN;
    struct batch b = updates_batch(0, 8);
    CHECK_INT(step_batch(&f.step, &b, 8, 0, &err), ERR_NUMERIC);
    CHECK_CONTAINS(err.text, "loss is not finite");
    CHECK_CONTAINS(f.step.bad, "blocks.1.mlp.fc1");
    CHECK(!step_values_finite(f.n));
    updates_end(&f);
}
