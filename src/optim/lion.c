/* lion.c - steps of one size along the signs of a momentum. Chen et al., "Symbolic Discovery of
 * Optimization Algorithms", arXiv:2302.06675, algorithm 2. */
#include "optim/optimizer.h"

struct lion_options {
    struct optimizer_base base;
    struct reals betas;
};

static const struct field lion_fields[] = {
    FIELD_REAL(struct optimizer_base, lr, 1e-4, 0, 1e9, "peak learning rate"),
    FIELD_REAL(struct optimizer_base, weight_decay, 0.05, 0, 1e3,
               "decay of weights of two or more axes, times the learning rate"),
    FIELD_REALS(struct lion_options, betas, "[0.9, 0.99]", 0, 0.999999999,
                "part of the momentum in the step, and in the next momentum"),
    FIELD_END,
};

static enum status lion_check(const void *options, struct error *err)
{
    const struct lion_options *o = options;
    if (o->betas.count != 2)
        return error_set(err, ERR_INPUT, "betas: has %d numbers, expected two (as in [0.9, 0.99])",
                         o->betas.count);
    return OK;
}

static void lion_update(const void *options, struct params *p, size_t at, size_t count, double lr,
                        double decay, double scale, long long update)
{
    (void)update;
    const struct lion_options *o = options;
    real *restrict w = p->values + at, *restrict m = p->moments[0] + at;
    const real *restrict g = p->grads + at;
    const real beta1 = (real)o->betas.at[0], rest1 = (real)(1 - o->betas.at[0]);
    const real beta2 = (real)o->betas.at[1], rest2 = (real)(1 - o->betas.at[1]);
    const real keep = (real)(1 - lr * decay), step = (real)lr, factor = (real)scale;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real grad = factor * g[i];
        real way = beta1 * m[i] + rest1 * grad;
        w[i] = w[i] * keep - (way > 0 ? step : way < 0 ? -step : 0);
        m[i] = beta2 * m[i] + rest2 * grad;
    }
}

static const struct optimizer lion = {
    .moments = 1,
    .check = lion_check,
    .update = lion_update,
};

const struct kind lion_optimizer = {
    .name = "lion",
    .summary = "signs of a momentum, with decoupled weight decay",
    .fields = lion_fields,
    .size = sizeof(struct lion_options),
    .impl = &lion,
};
