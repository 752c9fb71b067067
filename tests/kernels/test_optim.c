/* test_optim.c - updates of parameters against plain loops in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

enum { N = 197 };

static struct grid numbers(double scale)
{
    return grid_random(TYPE_REAL, 1, N, 3, scale);
}

static void check_updates(enum type type, size_t gap)
{
    if (type == TYPE_BF16 || gap)
        return;
    struct grid w = numbers(1), m = numbers(0.1), v = numbers(0.01), g = numbers(3), y = numbers(1);
    for (size_t i = 0; i < N; i++)
        grid_set(&v, 0, i, fabs(v.value[i]));
    struct adamw o = {.lr = 0.01,
                      .decay = 0.05,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .correction1 = 1 - pow(0.9, 7),
                      .correction2 = 1 - pow(0.999, 7),
                      .scale = 0.3};
    kernel_adamw(w.vec.data, m.vec.data, v.vec.data, g.vec.data, N, &o);
    for (size_t i = 0; i < N; i++) {
        double grad = o.scale * g.value[i];
        w.value[i] *= 1 - o.lr * o.decay;
        m.value[i] = 0.9 * m.value[i] + 0.1 * grad;
        v.value[i] = 0.999 * v.value[i] + 0.001 * grad * grad;
        w.value[i] -=
            o.lr / o.correction1 * m.value[i] / (sqrt(v.value[i]) / sqrt(o.correction2) + o.eps);
    }
    grid_check(&w, tolerance_of(4e-7));
    grid_check(&m, tolerance_of(2e-7));
    grid_check(&v, tolerance_of(2e-7));

    for (int nesterov = 0; nesterov <= 1; nesterov++) {
        struct sgd s = {
            .lr = 0.1, .decay = 0.05, .momentum = 0.9, .scale = 0.5, .nesterov = nesterov};
        struct grid a = grid_copy(&w), b = grid_copy(&m);
        kernel_sgd(a.vec.data, b.vec.data, g.vec.data, N, &s);
        for (size_t i = 0; i < N; i++) {
            double grad = s.scale * g.value[i] + s.decay * a.value[i];
            b.value[i] = s.momentum * b.value[i] + grad;
            a.value[i] -= s.lr * (nesterov ? grad + s.momentum * b.value[i] : b.value[i]);
        }
        grid_check(&a, tolerance_of(4e-7));
        grid_check(&b, tolerance_of(4e-7));
    }

    kernel_average(y.vec.data, g.vec.data, N, 0.99);
    double squares = 0;
    for (size_t i = 0; i < N; i++) {
        y.value[i] = 0.99 * y.value[i] + 0.01 * g.value[i];
        squares += g.value[i] * g.value[i];
    }
    grid_check(&y, tolerance_of(2e-7));
    CHECK_NEAR(kernel_sum_squares(g.vec.data, N), squares, 1e-12 * squares);
    kernel_sum_into(y.vec.data, g.vec.data, N);
    for (size_t i = 0; i < N; i++)
        y.value[i] += g.value[i];
    grid_check(&y, tolerance_of(3e-7));
}

TEST(optim__updates_are_the_formulas)
{
    each_level(check_updates);
}
