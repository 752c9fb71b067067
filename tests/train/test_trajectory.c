/* Ten updates beside PyTorch's, from formula weights and formula batches: tests/golden/README.md,
 * kind "trajectory". */
#include "test.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/json.h"
#include "kernels/kernels.h"
#include "rig.h"
#include "train/step.h"

enum { MOST_LABELS = 16 };

/* --- the formula --------------------------------------------------------------------------------
 */

static double golden_unit(const char *name, uint32_t j)
{
    uint32_t h = 0x811C9DC5u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x01000193u;
    h += j * 0x9E3779B9u;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    h ^= h >> 16;
    return ((double)((h >> 8) & 0xFFFFu) - 32767.5) / 65536.0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Offset and scale of a parameter, by its name and shape. */
static void golden_range(const struct param *p, double *offset, double *scale)
{
    *offset = 0;
    *scale = 1;
    if (ends_with(p->name, "bias")) {
        *scale = 0.5;
    } else if (ends_with(p->name, "weight") && p->shape.rank == 1) {
        *offset = 1;
        *scale = 0.5;
    } else if (ends_with(p->name, "weight")) {
        double fan = (double)p->count / p->shape.dim[0];
        if (ends_with(p->name, "align.weight"))
            fan = p->shape.dim[p->shape.rank - 1];
        int k = 0;
        while (pow(4, k + 1) <= fan)
            k++;
        *scale = pow(2, 1 - k);
    }
}

static void fill_params(struct params *params)
{
    for (int i = 0; i < params->count; i++) {
        const struct param *p = params->list[i];
        double offset, scale;
        golden_range(p, &offset, &scale);
        for (size_t j = 0; j < p->count; j++)
            p->value[j] = (real)(offset + scale * golden_unit(p->name, (uint32_t)j));
    }
}

/* --- a case -------------------------------------------------------------------------------------
 */

struct golden {
    struct json_value *root;
    struct experiment x;
    struct network *n;
    struct step step;
    int batch;
    size_t pixels; /* in one image */
};

static const struct json_value *member(const struct json_value *v, const char *key)
{
    const struct json_value *found = json_member(v, key);
    test_check(__FILE__, __LINE__, key, found != NULL);
    return found;
}

static double number(const struct json_value *v, const char *key)
{
    return json_to_number(member(v, key));
}

/* The case's config as JSON text, taken from between its keys in the file. */
static void read_config(struct golden *c, const char *text, const char *path)
{
    struct error err;
    const char *start = strstr(text, "\"config\": "), *end = strstr(text, "\"input\": ");
    CHECK(start && end && end > start);
    start += strlen("\"config\": ");
    while (*end != ',')
        end--;
    CHECK_OK(experiment_parse(&c->x, test_text("%.*s", (int)(end - start), start), path, &err),
             err);
}

static void golden_open(struct golden *c, const char *name)
{
    struct error err;
    const char *path = test_text("tests/golden/cases/%s.json", name);
    const char *text = rig_text(path);
    test_about("%s", name);
    if (!text)
        SKIP("tests/golden/cases is not here");
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(json_parse(&c->root, text, strlen(text), &err), err);
    read_config(c, text, path);
    c->batch = c->x.train.batch_size;
    CHECK_OK(network_create(&c->n, &c->x, NETWORK_TRAIN, c->batch, 2, &err), err);
    CHECK_OK(step_create(&c->step, c->n, c->batch, &err), err);
    c->pixels =
        (size_t)c->n->shape.channels * (size_t)c->n->shape.height * (size_t)c->n->shape.width;
    fill_params(&c->n->params);
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
    size_t size = (size_t)c->batch * c->pixels;
    real *images = malloc(size * sizeof *images);
    int labels[MOST_LABELS];
    size_t index[MOST_LABELS] = {0};
    CHECK(images && c->batch <= MOST_LABELS);
    const char *x = json_to_string(member(want, "x"));
    for (size_t j = 0; j < size; j++)
        images[j] = (real)(4 * golden_unit(x, (uint32_t)j));
    const struct json_value *label = json_first(member(want, "labels"));
    for (int i = 0; i < c->batch; i++, label = json_next(label))
        labels[i] = (int)json_to_number(label);

    const struct batch b = {c->batch, c->batch, images, labels, index};
    struct error err;
    double lr =
        schedule_lr(&train->schedule, optimizer_base_of(&train->optimizer)->lr, t, updates, 1);
    CHECK_NEAR(lr, number(want, "lr"), 1e-15);
    CHECK_OK(step_batch(&c->step, &b, c->batch, t, &err), err);
    CHECK_OK(step_update(&c->step, &b, lr, t, &err), err);
    double loss = number(want, "loss"), norm = number(want, "grad_norm");
    CHECK_NEAR(c->step.loss_sum / c->batch, loss, tolerance * loss);
    CHECK_NEAR(c->step.grad_norm, norm, 10 * tolerance * norm);
    free(images);
}

/* Relative error of a parameter by the norms of two random projections of it (README.md). */
static void check_param(const struct golden *c, const struct json_value *want, double tolerance)
{
    const char *name = json_key(want);
    const struct param *p = params_find(&c->n->params, name);
    test_about("%s", name);
    CHECK(p != NULL);
    double square = 0, error = 0;
    const struct json_value *proj = json_first(member(want, "proj"));
    for (size_t j = 0; j < p->count; j++)
        square += (double)p->value[j] * (double)p->value[j];
    for (int w = 1; w <= 2; w++, proj = json_next(proj)) {
        const char *stream = test_text("%s#%d", name, w);
        double sum = 0;
        for (size_t j = 0; j < p->count; j++)
            sum += 4 * golden_unit(stream, (uint32_t)j) * (double)p->value[j];
        error += 3.0 / 8 * pow(sum - json_to_number(proj), 2);
    }
    double norm = number(want, "norm");
    CHECK_NEAR(sqrt(square), norm, tolerance * norm);
    CHECK_NEAR(sqrt(error), 0, tolerance * norm);
    const struct json_value *at = json_first(member(want, "at"));
    const struct json_value *value = json_first(member(want, "values"));
    for (; at; at = json_next(at), value = json_next(value))
        CHECK_NEAR(p->value[(size_t)json_to_number(at)], json_to_number(value), tolerance * norm);
}

static void follow(const char *name)
{
    const bool is_double = sizeof(real) == sizeof(double);
    struct golden c = {.root = NULL};
    golden_open(&c, name);
    const struct json_value *want = json_first(member(c.root, "steps"));
    long long t = 0;
    for (; want; want = json_next(want), t++) {
        test_about("%s, update %lld", name, t);
        run_step(&c, want, t, is_double ? 1e-9 : 1e-4);
    }
    CHECK_INT(t, (long long)number(c.root, "updates"));
    int tensors = 0;
    for (want = json_first(member(c.root, "tensors")); want; want = json_next(want), tensors++)
        if (is_double) /* in fp32 Adam turns the rounding noise of zero gradients into full steps */
            check_param(&c, want, 1e-6);
    CHECK_INT(tensors, c.n->params.count);
    golden_close(&c);
}

TEST(trajectory__adamw_standard_follows_pytorch)
{
    follow("trajectory_adamw_standard");
}

TEST(trajectory__adamw_super_follows_pytorch)
{
    follow("trajectory_adamw_super");
}

TEST(trajectory__sgd_standard_follows_pytorch)
{
    follow("trajectory_sgd_standard");
}

TEST(trajectory__sgd_efficient_follows_pytorch)
{
    follow("trajectory_sgd_efficient");
}
