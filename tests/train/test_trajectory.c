/* Ten updates beside PyTorch's, from formula weights and formula batches: tests/golden/README.md,
 * kind "trajectory". */
#include "test.h"

#include <stdlib.h>

#include "golden.h"
#include "kernels/kernels.h"
#include "rig.h"
#include "train/step.h"

enum { MOST_LABELS = 16 };

struct golden {
    struct json_value *root;
    struct experiment x;
    struct network *n;
    struct step step;
    int batch;
};

static double number(const struct json_value *v, const char *key)
{
    return json_to_number(golden_member(v, key));
}

static void golden_open(struct golden *c, const char *path)
{
    struct error err;
    CHECK_OK(kernels_init(&err), err);
    c->root = golden_load(path);
    CHECK_OK(experiment_parse(&c->x, golden_config(c->root), path, &err), err);
    c->batch = c->x.train.batch_size;
    CHECK_OK(network_create(&c->n, &c->x, NETWORK_TRAIN, c->batch, 2, &err), err);
    CHECK_OK(step_create(&c->step, c->n, c->batch, &err), err);
    for (int i = 0; i < c->n->params.count; i++) {
        const struct param *p = c->n->params.list[i];
        golden_fill(p->value, p->name, &p->shape);
    }
}

static void golden_close(struct golden *c)
{
    step_free(&c->step);
    network_destroy(c->n);
    experiment_free(&c->x);
    json_free(c->root);
}

static void run_step(struct golden *c, const struct json_value *want, long long t, double tolerance)
{
    const struct train_config *train = &c->x.train;
    long long updates = (long long)number(c->root, "updates");
    const struct shape shape =
        golden_shape(golden_member(golden_member(c->root, "input"), "shape"));
    real *images = malloc(shape_count(&shape) * sizeof *images);
    int labels[MOST_LABELS];
    size_t index[MOST_LABELS] = {0};
    CHECK(images && c->batch <= MOST_LABELS);
    golden_fill(images, json_to_string(golden_member(want, "x")), &shape);
    const struct json_value *label = json_first(golden_member(want, "labels"));
    for (int i = 0; i < c->batch; i++, label = json_next(label))
        labels[i] = (int)json_to_number(label);

    const struct batch b = {.count = c->batch,
                            .capacity = c->batch,
                            .images = images,
                            .labels = labels,
                            .index = index};
    struct error err;
    double lr = schedule_lr(&train->schedule, optimizer_base_of(&train->optimizer)->lr, t, updates, 1,
                            NULL);
    CHECK_NEAR(lr, number(want, "lr"), 1e-15);
    CHECK_OK(step_batch(&c->step, &b, c->batch, t, &err), err);
    CHECK_OK(step_update(&c->step, &b, lr, t, &err), err);
    double loss = number(want, "loss"), norm = number(want, "grad_norm");
    CHECK_NEAR(c->step.loss_sum / c->batch, loss, tolerance * loss);
    CHECK_NEAR(c->step.grad_norm, norm, 10 * tolerance * norm);
    free(images);
}

static void check_param(const struct golden *c, const struct json_value *want, double tolerance)
{
    const struct param *p = params_find(&c->n->params, json_key(want));
    test_about("%s", json_key(want));
    CHECK(p != NULL);
    golden_check_values(want, p->value, p->count, tolerance * number(want, "norm"));
}

static void follow(const char *path)
{
    const bool is_double = sizeof(real) == sizeof(double);
    struct golden c = {.root = NULL};
    golden_open(&c, path);
    const struct json_value *want = json_first(golden_member(c.root, "steps"));
    long long t = 0;
    for (; want; want = json_next(want), t++) {
        test_about("%s, update %lld", path, t);
        run_step(&c, want, t, is_double ? 1e-9 : 1e-4);
    }
    CHECK_INT(t, (long long)number(c.root, "updates"));
    int tensors = 0;
    want = json_first(golden_member(c.root, "tensors"));
    for (; want; want = json_next(want), tensors++)
        if (is_double) /* in fp32 Adam turns the rounding noise of zero gradients into full steps */
            check_param(&c, want, 1e-6);
    CHECK_INT(tensors, c.n->params.count);
    golden_close(&c);
}

TEST(trajectory__follows_pytorch_in_every_case)
{
    const char *const *path = golden_cases("trajectory");
    int cases = 0;
    for (; path[cases]; cases++)
        follow(path[cases]);
    CHECK(cases >= 6);
}
