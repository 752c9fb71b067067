/* test_softmax.c - softmax and cross entropy against plain loops in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static const size_t sizes[][2] = {{1, 1}, {2, 7}, {3, 16}, {5, 17}, {4, 33}, {3, 197}, {2, 1200}};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* y = softmax(x), a row. Returns log of the sum of exp x. */
static double plain_softmax(double *y, const double *x, size_t n)
{
    double sum = 0, max = (double)-INFINITY;
    for (size_t c = 0; c < n; c++)
        max = fmax(max, x[c]);
    for (size_t c = 0; c < n; c++)
        sum += y[c] = exp(x[c] - max);
    for (size_t c = 0; c < n; c++)
        y[c] /= sum;
    return max + log(sum);
}

static void check_softmax(enum type type, size_t gap)
{
    for (int i = 0; i < SIZES; i++) {
        size_t rows = sizes[i][0], cols = sizes[i][1];
        struct grid x = grid_random(type, rows, cols, gap, 20),
                    y = grid_poisoned(type, rows, cols, gap);
        for (size_t r = 0; r < rows && cols > 1; r++)
            grid_set(&x, r, r % (cols - 1), (double)-INFINITY);
        kernel_softmax(y.vec, x.vec, rows, cols);
        for (size_t r = 0; r < rows; r++)
            plain_softmax(y.value + r * cols, x.value + r * cols, cols);
        grid_check(&y, tolerance_of(3e-7));
        for (size_t r = 0; r < rows && cols > 1; r++)
            CHECK_NEAR(grid_get(&y, r, r % (cols - 1)), 0, 0);
        kernel_softmax(x.vec, x.vec, rows, cols); /* in place */
        for (size_t j = 0; j < rows * cols; j++)
            CHECK_NEAR(grid_get(&x, j / cols, j % cols), grid_get(&y, j / cols, j % cols), 0);

        for (int beta = 0; beta <= 1; beta++) {
            struct grid dx = grid_output(beta, type, rows, cols, gap);
            struct grid dy = grid_random(type, rows, cols, gap, 2);
            kernel_softmax_grad(dx.vec, beta, y.vec, dy.vec, rows, cols);
            for (size_t r = 0; r < rows; r++) {
                double sum = 0;
                for (size_t c = 0; c < cols; c++)
                    sum += grid_get(&y, r, c) * dy.value[r * cols + c];
                for (size_t c = 0; c < cols; c++)
                    dx.value[r * cols + c] += grid_get(&y, r, c) * (dy.value[r * cols + c] - sum);
            }
            grid_check(&dx, tolerance_of(4e-7));
        }
    }
}

TEST(softmax__is_the_formula)
{
    each_level(check_softmax);
}

static void check_special(enum type type, size_t gap)
{
    for (size_t cols = 1; cols < 40; cols += 6) {
        struct grid x = grid_random(type, 3, cols, gap, 1), y = grid_poisoned(type, 3, cols, gap);
        grid_set(&x, 1, cols - 1, (double)NAN);
        grid_set(&x, 2, cols - 1, 3e38); /* all others are 0 beside it */
        kernel_softmax(y.vec, x.vec, 3, cols);
        for (size_t c = 0; c < cols; c++) {
            CHECK(!isnan(grid_get(&y, 0, c)));
            CHECK(isnan(grid_get(&y, 1, c)));
            CHECK_NEAR(grid_get(&y, 2, c), c == cols - 1, 0);
        }
    }
}

TEST(softmax__passes_nan_on_and_takes_any_size_of_number)
{
    each_level(check_special);
}

static void check_cross_entropy(enum type type, size_t gap)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        size_t rows = sizes[i / 2][0], cols = sizes[i / 2][1];
        double smoothing = i % 2 * 0.1;
        struct grid x = grid_random(type, rows, cols, gap, 10);
        struct grid p = grid_poisoned(TYPE_REAL, rows, cols, 0),
                    loss = grid_poisoned(TYPE_REAL, 1, rows, 1);
        real *dloss = reals_random(rows, 1);
        int label[8];
        for (size_t r = 0; r < rows; r++)
            label[r] = rows > 1 && r == 1 ? -1 : (int)((r * 31 + cols / 2) % cols);
        kernel_cross_entropy(loss.vec.data, p.vec.data, x.vec, label, smoothing, rows, cols);
        for (int beta = 0; beta <= 1; beta++) {
            struct grid dx = grid_output(beta, type, rows, cols, gap);
            kernel_cross_entropy_grad(dx.vec, beta, p.vec.data, dloss, label, smoothing, rows,
                                      cols);
            for (size_t r = 0; r < rows; r++) {
                const double *row = x.value + r * cols;
                double lse = plain_softmax(p.value + r * cols, row, cols);
                loss.value[r] = 0;
                for (size_t c = 0; c < cols && label[r] >= 0; c++) {
                    double target =
                        smoothing / (double)cols + ((int)c == label[r]) * (1 - smoothing);
                    loss.value[r] += target * (lse - row[c]);
                    dx.value[r * cols + c] += (double)dloss[r] * (p.value[r * cols + c] - target);
                }
            }
            grid_check(&dx, tolerance_of(3e-7));
        }
        grid_check(&p, tolerance_of(3e-7));
        grid_check(&loss, tolerance_of(3e-7));
    }
}

TEST(cross_entropy__is_the_formula)
{
    each_level(check_cross_entropy);
}

TEST(cross_entropy__without_smoothing_ignores_impossible_classes)
{
    real x[] = {1, (real)-INFINITY, 2}, p[3], loss;
    int label = 2;
    CHECK(kernels_init(NULL) == OK);
    kernel_cross_entropy(&loss, p, (struct vec){x, TYPE_REAL, 3}, &label, 0, 1, 3);
    CHECK_NEAR(loss, log1p(exp(-1.0)), tolerance_of(2e-7));
    CHECK_NEAR(p[1], 0, 0);
}
