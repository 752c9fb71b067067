#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "config/config.h"
#include "kernels/kernels.h"
#include "optim/optimizer.h"

enum { ROWS = 130, COLS = 300, BIAS = 77, FROZEN = 50, UPDATES = 4 };

/* Relative error that rounding may leave after a few updates. */
static const double tolerance = sizeof(real) == sizeof(double) ? 1e-14 : 2e-6;

struct holder {
    struct choice optimizer;
};

static const struct field holder_fields[] = {
    FIELD_CHOICE(struct holder, optimizer, optimizer_kinds, "adamw", ""),
    FIELD_END,
};

static struct choice optimizer_of_text(const char *text)
{
    static struct arena memory;
    struct config *c = NULL;
    struct error err;
    struct holder h;
    CHECK_OK(kernels_init(&err), err);
    CHECK_OK(config_parse(&c, test_text("{\"optimizer\": %s}", text), "test", &err), err);
    CHECK_OK(config_read(c, holder_fields, &h, &memory, &err), err);
    config_destroy(c);
    return h.optimizer;
}

/* A weight that decays, longer than one piece, a bias that does not, and a frozen weight between.
 */
static void make_params(struct params *p, const struct choice *o)
{
    struct error err;
    params_init(p);
    params_add(p, "weight", SHAPE(ROWS, COLS), INIT_NORMAL(0.5), PARAM_DECAY);
    params_add(p, "frozen", SHAPE(FROZEN, 2), INIT_NORMAL(0.5), PARAM_DECAY | PARAM_FROZEN);
    params_add(p, "bias", SHAPE(BIAS), INIT_NORMAL(0.5), 0);
    CHECK_OK(params_allocate(p, 7, 1, optimizer_of(o)->moments, true, &err), err);
    CHECK_INT(p->trained, ROWS * COLS + BIAS);
}

static double gradient(long long update, size_t i)
{
    return rng_normal(rng_stream(5, "gradient"), (uint64_t)update, 0, i) * (i % 7 ? 1e-2 : 10);
}

static void set_gradients(struct params *p, long long update)
{
    for (size_t i = 0; i < p->trained; i++)
        p->grads[i] = (real)gradient(update, i);
}

static double rate(long long update)
{
    return 0.01 * (double)update;
}

static const double scale = 0.75; /* of all gradients */

/* What one element becomes after all updates, in double and step by step. */
typedef double reference(double w, size_t i, double decay);

/* The learning rate of element i: that of the bias is halved. */
static double rate_of(long long update, size_t i)
{
    return rate(update) * (i < ROWS * COLS ? 1 : 0.5);
}

static double adamw_reference(double w, size_t i, double decay)
{
    const double beta1 = 0.8, beta2 = 0.95, eps = 1e-6;
    double m = 0, v = 0;
    for (long long t = 1; t <= UPDATES; t++) {
        double g = (double)(real)gradient(t, i) * scale, lr = rate_of(t, i);
        w *= 1 - lr * decay;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        double m_hat = m / (1 - pow(beta1, (double)t)), v_hat = v / (1 - pow(beta2, (double)t));
        w -= lr * m_hat / (sqrt(v_hat) + eps);
    }
    return w;
}

static double sgd_step(double w, size_t i, double decay, bool nesterov)
{
    const double momentum = 0.9;
    double b = 0;
    for (long long t = 1; t <= UPDATES; t++) {
        double g = (double)(real)gradient(t, i) * scale + decay * w;
        b = t == 1 ? g : momentum * b + g;
        w -= rate_of(t, i) * (nesterov ? g + momentum * b : b);
    }
    return w;
}

static double sgd_reference(double w, size_t i, double decay)
{
    return sgd_step(w, i, decay, false);
}

static double nesterov_reference(double w, size_t i, double decay)
{
    return sgd_step(w, i, decay, true);
}

/* The bias learns at half the rate. */
static const double rates[] = {1, 1, 0.5};

static double lion_reference(double w, size_t i, double decay)
{
    const double beta1 = 0.8, beta2 = 0.95;
    double m = 0;
    for (long long t = 1; t <= UPDATES; t++) {
        double g = (double)(real)gradient(t, i) * scale, lr = rate_of(t, i);
        double c = beta1 * m + (1 - beta1) * g;
        w = w * (1 - lr * decay) - lr * ((c > 0) - (c < 0));
        m = beta2 * m + (1 - beta2) * g;
    }
    return w;
}

static void run_updates(struct params *p, const struct choice *o, int threads)
{
    for (long long t = 1; t <= UPDATES; t++) {
        set_gradients(p, t);
        optimizer_step(o, p, rates, rate(t), scale, t, threads);
    }
}

static void check_against(const char *text, reference *expected, double decay)
{
    struct choice o = optimizer_of_text(text);
    struct params p, start;
    make_params(&p, &o);
    make_params(&start, &o);
    run_updates(&p, &o, 2);
    const struct param *bias = params_find(&p, "bias"), *frozen = params_find(&p, "frozen");
    for (size_t i = 0; i < p.trained; i++) {
        double w = (double)start.values[i];
        double want = expected(w, i, i >= bias->at ? 0 : decay);
        test_about("element %zu of %zu", i, p.trained);
        CHECK_NEAR(p.values[i], want, tolerance * (1 + fabs(want)));
        CHECK(i >= bias->at || fabs(want - w) > 0);
    }
    CHECK(memcmp(frozen->value, start.values + frozen->at, frozen->count * sizeof(real)) == 0);
    params_free(&p);
    params_free(&start);
}

TEST(adamw__follows_the_formula_with_decay_on_weights_alone)
{
    check_against("{\"name\": \"adamw\", \"weight_decay\": 0.3, \"betas\": [0.8, 0.95],"
                  " \"eps\": 1e-6}",
                  adamw_reference, 0.3);
}

TEST(sgd__follows_the_formula_with_momentum)
{
    check_against("{\"name\": \"sgd\", \"weight_decay\": 0.3}", sgd_reference, 0.3);
}

TEST(sgd__follows_the_formula_with_nesterov)
{
    check_against("{\"name\": \"sgd\", \"weight_decay\": 0.3, \"nesterov\": true}",
                  nesterov_reference, 0.3);
}

TEST(lion__follows_the_formula)
{
    check_against("{\"name\": \"lion\", \"weight_decay\": 0.3, \"betas\": [0.8, 0.95]}",
                  lion_reference, 0.3);
}

/* All elements of one tensor, for the length of its step depends on all of them. */
static void lamb_reference(double *w, size_t first, size_t count, double decay)
{
    const double beta1 = 0.8, beta2 = 0.95, eps = 1e-6;
    double *m = calloc(count, sizeof *m), *v = calloc(count, sizeof *v), *u = calloc(count, sizeof *u);
    CHECK(m && v && u);
    for (long long t = 1; t <= UPDATES; t++) {
        double lengths[2] = {0, 0};
        for (size_t i = 0; i < count; i++) {
            double g = (double)(real)gradient(t, first + i) * scale;
            m[i] = beta1 * m[i] + (1 - beta1) * g;
            v[i] = beta2 * v[i] + (1 - beta2) * g * g;
            double m_hat = m[i] / (1 - pow(beta1, (double)t));
            double v_hat = v[i] / (1 - pow(beta2, (double)t));
            u[i] = m_hat / (sqrt(v_hat) + eps) + decay * w[i];
            lengths[0] += w[i] * w[i];
            lengths[1] += u[i] * u[i];
        }
        double trust = decay > 0 ? sqrt(lengths[0] / lengths[1]) : 1;
        for (size_t i = 0; i < count; i++)
            w[i] -= rate_of(t, first) * trust * u[i];
    }
    free(m);
    free(v);
    free(u);
}

TEST(lamb__steps_are_as_long_as_the_tensors_that_decay)
{
    struct choice o = optimizer_of_text("{\"name\": \"lamb\", \"weight_decay\": 0.3, "
                                        "\"betas\": [0.8, 0.95], \"eps\": 1e-6}");
    struct params p;
    make_params(&p, &o);
    double *want = malloc(p.trained * sizeof *want);
    CHECK(want != NULL);
    for (size_t i = 0; i < p.trained; i++)
        want[i] = (double)p.values[i];
    run_updates(&p, &o, 2);
    lamb_reference(want, 0, ROWS * COLS, 0.3);
    lamb_reference(want + ROWS * COLS, ROWS * COLS, BIAS, 0);
    for (size_t i = 0; i < p.trained; i++) {
        test_about("element %zu of %zu", i, p.trained);
        CHECK_NEAR(p.values[i], want[i], 2 * tolerance * (1 + fabs(want[i])));
    }
    free(want);
    params_free(&p);
}

static void check_threads(const char *text)
{
    struct choice o = optimizer_of_text(text);
    struct params one, more;
    make_params(&one, &o);
    run_updates(&one, &o, 1);
    double norm = optimizer_grad_norm(&one, 1);
    optimizer_average(&one, 0.7, 1);
    for (int threads = 2; threads <= 3; threads++) {
        make_params(&more, &o);
        run_updates(&more, &o, threads);
        CHECK(optimizer_grad_norm(&more, threads) == norm);
        optimizer_average(&more, 0.7, threads);
        CHECK(memcmp(one.values, more.values, one.total * sizeof(real)) == 0);
        CHECK(memcmp(one.average, more.average, one.total * sizeof(real)) == 0);
        params_free(&more);
    }
    params_free(&one);
}

TEST(optimizer__bits_do_not_depend_on_threads)
{
    for (int i = 0; optimizer_kinds(i); i++)
        check_threads(test_text("{\"name\": \"%s\"}", optimizer_kinds(i)->name));
}

TEST(optimizer_grad_norm__is_the_root_of_all_squares)
{
    struct choice o = optimizer_of_text("{\"name\": \"sgd\"}");
    struct params p;
    make_params(&p, &o);
    set_gradients(&p, 1);
    double sum = 0;
    for (size_t i = 0; i < p.trained; i++)
        sum += (double)p.grads[i] * (double)p.grads[i];
    CHECK_NEAR(optimizer_grad_norm(&p, 2), sqrt(sum), 1e-12 * sqrt(sum));
    params_free(&p);
}

TEST(optimizer_average__mixes_trained_values_and_copies_the_others)
{
    struct choice o = optimizer_of_text("{\"name\": \"sgd\"}");
    struct params p;
    make_params(&p, &o);
    for (size_t i = 0; i < p.total; i++)
        p.values[i] = p.average[i] + 1;
    real *before = p.moments[0]; /* spare memory of the right size */
    memcpy(before, p.average, p.trained * sizeof(real));
    optimizer_average(&p, 0.75, 2);
    for (size_t i = 0; i < p.trained; i++)
        CHECK_NEAR(p.average[i], (double)before[i] + 0.25, 1e-6);
    for (size_t i = p.trained; i < p.total; i++)
        CHECK(p.average[i] == p.values[i]);
    params_free(&p);
}

TEST(optimizer_check__refuses_what_does_not_fit_together)
{
    struct error err;
    struct choice betas = optimizer_of_text("{\"name\": \"adamw\", \"betas\": [0.9]}");
    CHECK_INT(optimizer_check(&betas, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "betas: has 1");
    static const char *const pairs[] = {"lamb", "lion"};
    for (int i = 0; i < 2; i++) {
        struct choice three =
            optimizer_of_text(test_text("{\"name\": \"%s\", \"betas\": [0, 0, 0]}", pairs[i]));
        CHECK_INT(optimizer_check(&three, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, "betas: has 3");
    }
    struct choice flat =
        optimizer_of_text("{\"name\": \"sgd\", \"momentum\": 0, \"nesterov\": true}");
    CHECK_INT(optimizer_check(&flat, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "nesterov: ");
}
