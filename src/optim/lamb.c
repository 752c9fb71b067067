/* lamb.c - Adam whose step on each tensor is as long as the tensor. You et al., "Large Batch
 * Optimization for Deep Learning: Training BERT in 76 minutes", arXiv:1904.00962, algorithm 2, with
 * timm's reading of it: tensors without weight decay take Adam's step as it is. */
#include <math.h>

#include "optim/optimizer.h"

#ifdef ATTNBENCH_DOUBLE
#define real_sqrt sqrt
#else
#define real_sqrt sqrtf
#endif

struct lamb_options {
    struct optimizer_base base;
    struct reals betas;
    double eps;
};

static const struct field lamb_fields[] = {
    FIELD_REAL(struct optimizer_base, lr, 4e-3, 0, 1e9, "peak learning rate"),
    FIELD_REAL(struct optimizer_base, weight_decay, 0.05, 0, 1e3,
               "decay of weights of two or more axes, a part of the step"),
    FIELD_REALS(struct lamb_options, betas, "[0.9, 0.999]", 0, 0.999999999,
                "decay of the running means of gradient and squared gradient"),
    FIELD_REAL(struct lamb_options, eps, 1e-6, 1e-30, 1, "added to the root in the denominator"),
    FIELD_END,
};

static enum status lamb_check(const void *options, struct error *err)
{
    const struct lamb_options *o = options;
    if (o->betas.count != 2)
        return error_set(err, ERR_INPUT, "betas: has %d numbers, expected two (as in [0.9, 0.999])",
                         o->betas.count);
    return OK;
}

/* Adam's step from both means, and the decay: r + decay w of algorithm 2. */
struct direction {
    real first, root, eps, decay;
};

static inline real step_of(const struct direction *d, real w, real m, real v)
{
    return d->first * m / (real_sqrt(v) * d->root + d->eps) + d->decay * w;
}

static void take_means(const struct lamb_options *o, real *restrict m, real *restrict v,
                       const real *restrict g, size_t count, double scale)
{
    const real beta1 = (real)o->betas.at[0], rest1 = (real)(1 - o->betas.at[0]);
    const real beta2 = (real)o->betas.at[1], rest2 = (real)(1 - o->betas.at[1]);
    const real factor = (real)scale;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        real grad = factor * g[i];
        m[i] = beta1 * m[i] + rest1 * grad;
        v[i] = beta2 * v[i] + rest2 * grad * grad;
    }
}

/* Length of the tensor over that of its step; 1 where one of them is 0. */
static double trust(const struct direction *d, const real *w, const real *m, const real *v,
                    size_t count)
{
    double weights = 0, steps = 0;
#pragma omp simd reduction(+ : weights, steps)
    for (size_t i = 0; i < count; i++) {
        double step = (double)step_of(d, w[i], m[i], v[i]);
        weights += (double)w[i] * (double)w[i];
        steps += step * step;
    }
    return weights > 0 && steps > 0 ? sqrt(weights / steps) : 1;
}

static void lamb_update(const void *options, struct params *p, size_t at, size_t count, double lr,
                        double decay, double scale, long long update)
{
    const struct lamb_options *o = options;
    real *restrict w = p->values + at, *m = p->moments[0] + at, *v = p->moments[1] + at;
    const struct direction d = {
        .first = (real)(1 / (1 - pow(o->betas.at[0], (double)update))),
        .root = (real)(1 / sqrt(1 - pow(o->betas.at[1], (double)update))),
        .eps = (real)o->eps,
        .decay = (real)decay,
    };
    take_means(o, m, v, p->grads + at, count, scale);
    real rate = (real)(lr * (decay > 0 ? trust(&d, w, m, v, count) : 1));
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        w[i] -= rate * step_of(&d, w[i], m[i], v[i]);
}

static const struct optimizer lamb = {
    .moments = 2,
    .whole = true,
    .check = lamb_check,
    .update = lamb_update,
};

const struct kind lamb_optimizer = {
    .name = "lamb",
    .summary = "Adam with steps as long as the tensors that they move",
    .fields = lamb_fields,
    .size = sizeof(struct lamb_options),
    .impl = &lamb,
};
