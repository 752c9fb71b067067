/* isa_optim.c - passes over parameters, gradients and moments. */
#include "kernels/isa.h"

#ifdef ATTNBENCH_DOUBLE
#define real_sqrt sqrt
#else
#define real_sqrt sqrtf
#endif

static void sum_into(real *sum, const real *x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static double sum_squares(const real *x, size_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static void adamw(real *w, real *m, real *v, const real *g, size_t n, const struct adamw *o)
{
    real scale = (real)o->scale, keep = (real)(1 - o->lr * o->decay);
    real beta1 = (real)o->beta1, rest1 = (real)(1 - o->beta1);
    real beta2 = (real)o->beta2, rest2 = (real)(1 - o->beta2);
    real step = (real)(o->lr / o->correction1), root = (real)(1 / sqrt(o->correction2));
    real eps = (real)o->eps;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        real grad = scale * g[i];
        real first = beta1 * m[i] + rest1 * grad;
        real second = beta2 * v[i] + rest2 * grad * grad;
        m[i] = first;
        v[i] = second;
        w[i] = w[i] * keep - step * first / (real_sqrt(second) * root + eps);
    }
}

static void sgd(real *w, real *m, const real *g, size_t n, const struct sgd *o)
{
    real scale = (real)o->scale, decay = (real)o->decay, momentum = (real)o->momentum;
    real lr = (real)o->lr;
    real look_ahead = o->nesterov ? momentum : 1, plain = o->nesterov ? 1 : 0;
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        real grad = scale * g[i] + decay * w[i];
        real first = momentum * m[i] + grad;
        m[i] = first;
        w[i] -= lr * (plain * grad + look_ahead * first);
    }
}

static void average(real *y, const real *x, size_t n, double decay)
{
    real keep = (real)decay, rest = (real)(1 - decay);
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = keep * y[i] + rest * x[i];
}

const struct kernels_optim KERNELS_NAME(optim) = {
    .sum_into = sum_into,
    .sum_squares = sum_squares,
    .adamw = adamw,
    .sgd = sgd,
    .average = average,
};
