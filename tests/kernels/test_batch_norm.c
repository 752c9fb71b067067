/* test_batch_norm.c - batch normalisation against plain loops in double. */
#include "kernels/batch_norm.h"

#include <math.h>
#include <string.h>

#include "grid.h"
#include "test.h"

static const struct batch_rows shapes[] = {
    {1, 1, 1, 2, 1}, {3, 3, 2, 5, 7}, {5, 3, 1, 1, 16}, {2, 1, 3, 70, 17}, {4, 4, 2, 300, 33},
    {3, 2, 1, 130, 600},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static const double eps = 1e-5;

/* A matrix whose rows are samples, tokens, heads, as heads lie side by side. */
static struct heads as_heads(const struct grid *x, const struct batch_rows *b)
{
    ptrdiff_t row = x->vec.stride;
    return (struct heads){x->vec.data, x->vec.type, b->tokens * b->heads * row, row,
                          b->heads * row};
}

static size_t rows_of(const struct batch_rows *b, int samples)
{
    return (size_t)samples * (size_t)b->heads * (size_t)b->tokens;
}

/* Mean and variance of a column over the rows that are there. */
static void statistics(const struct grid *x, size_t rows, size_t c, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (size_t r = 0; r < rows; r++)
        sum += x->value[r * x->cols + c];
    *mean = sum / (double)rows;
    for (size_t r = 0; r < rows; r++)
        squares += pow(x->value[r * x->cols + c] - *mean, 2);
    *variance = squares / (double)rows;
}

static void check_forward(enum type type, size_t gap)
{
    for (int i = 0; i < SHAPES; i++) {
        const struct batch_rows *b = &shapes[i];
        size_t rows = rows_of(b, b->samples), cols = (size_t)b->cols;
        struct grid x = grid_random(type, rows, cols, gap, 1);
        struct grid y = grid_poisoned(type, rows, cols, gap);
        struct grid mean = grid_poisoned(TYPE_REAL, 1, cols, 1);
        struct grid variance = grid_poisoned(TYPE_REAL, 1, cols, 1);
        real *weight = reals_random(cols, 1), *bias = reals_random(cols, 1);
        real *scratch = reals_random(kernel_batch_norm_scratch(b->cols), 1);
        for (size_t j = 0; j < rows * cols; j++) /* a mean that cancels badly in one pass */
            grid_set(&x, j / cols, j % cols, x.value[j] + 50);
        kernel_batch_moments(mean.vec.data, variance.vec.data, as_heads(&x, b), b, scratch);
        kernel_batch_norm(as_heads(&y, b), as_heads(&x, b), mean.vec.data, variance.vec.data,
                          weight, bias, eps, b, scratch);
        for (size_t c = 0; c < cols; c++) {
            statistics(&x, rows_of(b, b->present), c, &mean.value[c], &variance.value[c]);
            for (size_t r = 0; r < rows; r++)
                y.value[r * cols + c] = (x.value[r * cols + c] - mean.value[c]) /
                                            sqrt(variance.value[c] + eps) * (double)weight[c] +
                                        (double)bias[c];
        }
        grid_check(&mean, tolerance_of(5e-7));
        grid_check(&variance, tolerance_of(1e-5));
        grid_check(&y, tolerance_of(1e-4));
    }
}

TEST(batch_norm__is_the_formula)
{
    each_level(check_forward);
}

static void check_grad(enum type type, size_t gap)
{
    for (int i = 0; i < 4 * SHAPES; i++) {
        const struct batch_rows *b = &shapes[i / 4];
        int beta = i & 1;
        bool own = i & 2;
        size_t rows = rows_of(b, b->samples), there = rows_of(b, b->present);
        size_t cols = (size_t)b->cols;
        struct grid x = grid_random(type, rows, cols, gap, 2);
        struct grid dy = grid_random(type, rows, cols, 0, 1);
        struct grid dx = grid_output(beta, type, rows, cols, gap);
        struct grid dweight = grid_random(TYPE_REAL, 1, cols, 1, 1);
        struct grid dbias = grid_random(TYPE_REAL, 1, cols, 1, 1);
        real *weight = reals_random(cols, 1), *scratch = reals_random(
            kernel_batch_norm_scratch(b->cols), 1);
        real *mean = reals_random(cols, 1), *variance = reals_random(cols, 1);
        for (size_t c = 0; c < cols; c++) {
            double m, v, sum = 0, along = 0;
            statistics(&x, there, c, &m, &v);
            mean[c] = own ? (real)m : mean[c];
            variance[c] = own ? (real)v : variance[c] + 2;
            double rstd = 1 / sqrt((double)variance[c] + eps);
            for (size_t r = 0; r < there; r++) {
                double g = dy.value[r * cols + c];
                sum += g;
                along += g * (x.value[r * cols + c] - (double)mean[c]) * rstd;
            }
            dweight.value[c] += along;
            dbias.value[c] += sum;
            for (size_t r = 0; r < rows; r++) {
                double xhat = (x.value[r * cols + c] - (double)mean[c]) * rstd;
                double g = dy.value[r * cols + c];
                if (own)
                    g -= (sum + xhat * along) / (double)there;
                double grad = r < there ? (double)weight[c] * rstd * g : 0;
                dx.value[r * cols + c] = beta * dx.value[r * cols + c] + grad;
            }
        }
        kernel_batch_norm_grad(as_heads(&dx, b), beta, dweight.vec.data, dbias.vec.data,
                               as_heads(&x, b), mean, variance, own, weight, eps,
                               as_heads(&dy, b), b, scratch);
        /* Two rows decide their variance by their difference, which rounding may change. */
        double tolerance = there > 2 ? 2e-5 : 1e-3;
        grid_check(&dx, tolerance_of(tolerance));
        grid_check(&dweight, tolerance_of(tolerance));
        grid_check(&dbias, tolerance_of(tolerance));
    }
}

TEST(batch_norm_grad__is_the_derivative)
{
    each_level(check_grad);
}

TEST(batch_norm_grad__leaves_out_what_is_not_wanted)
{
    const struct batch_rows *b = &shapes[1];
    size_t rows = rows_of(b, b->samples), cols = (size_t)b->cols;
    struct grid x = grid_random(TYPE_REAL, rows, cols, 0, 1);
    struct grid dbias = grid_random(TYPE_REAL, 1, cols, 0, 1);
    real *one = reals_random(3 * cols, 1), *scratch = reals_random(
        kernel_batch_norm_scratch(b->cols), 1);
    for (size_t c = 0; c < cols; c++) {
        one[cols + c] = 1;
        for (size_t r = 0; r < rows; r++)
            dbias.value[c] += x.value[r * cols + c];
    }
    kernel_batch_norm_grad((struct heads){.data = NULL}, 0, NULL, dbias.vec.data, as_heads(&x, b),
                           one, one + cols, true, one + 2 * cols, eps, as_heads(&x, b), b, scratch);
    grid_check(&dbias, tolerance_of(1e-6));
}

/* The bits of the rows that are there do not depend on the padding, nor on the team. */
TEST(batch_norm__padding_and_threads_change_no_bit)
{
    const struct batch_rows all = {5, 5, 3, 197, 64}, padded = {8, 5, 3, 197, 64};
    size_t rows = rows_of(&padded, 8), there = rows_of(&all, 5), cols = 64;
    struct grid x = grid_random(TYPE_REAL, rows, cols, 0, 1);
    struct grid dy = grid_random(TYPE_REAL, rows, cols, 0, 1);
    real *weight = reals_random(cols, 1), *bias = reals_random(cols, 1);
    real *scratch = reals_random(kernel_batch_norm_scratch(64), 1);
    struct grid results[3][4];
    for (int i = 0; i < 3; i++) {
        const struct batch_rows *b = i == 1 ? &padded : &all;
        struct grid *y = &results[i][0], *dx = &results[i][1];
        struct grid *list = &results[i][2], *sums = &results[i][3];
        *y = grid_poisoned(TYPE_REAL, rows, cols, 0);
        *dx = grid_poisoned(TYPE_REAL, rows, cols, 0);
        *list = grid_poisoned(TYPE_REAL, 2, cols, 0);
        *sums = grid_poisoned(TYPE_REAL, 2, cols, 0);
        real *mean = list->vec.data, *dweight = sums->vec.data;
        memset(dweight, 0, 2 * cols * sizeof *dweight);
        kernels_team(i == 2 ? 3 : 1);
        kernel_batch_moments(mean, mean + cols, as_heads(&x, b), b, scratch);
        kernel_batch_norm(as_heads(y, b), as_heads(&x, b), mean, mean + cols, weight, bias, eps, b,
                          scratch);
        kernel_batch_norm_grad(as_heads(dx, b), 0, dweight, dweight + cols, as_heads(&x, b), mean,
                               mean + cols, true, weight, eps, as_heads(&dy, b), b, scratch);
        kernels_team(1);
        for (int k = 0; k < 4; k++)
            CHECK(memcmp(results[i][k].vec.data, results[0][k].vec.data,
                         (k < 2 ? there : 2) * cols * sizeof(real)) == 0);
    }
    for (size_t r = there; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            CHECK(grid_get(&results[1][1], r, c) == 0 && !isnan(grid_get(&results[1][0], r, c)));
}
