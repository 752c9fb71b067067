/* test_elementwise.c - the element by element kernels against plain loops in double. */
#include <math.h>

#include "base/rng.h"
#include "grid.h"
#include "test.h"

static const size_t sizes[][2] = {{1, 1}, {1, 7}, {7, 16}, {5, 17}, {33, 33}, {3, 197}, {4, 1200}};

enum { SIZES = sizeof sizes / sizeof *sizes };

static double cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static void check_sums(enum type type, size_t gap)
{
    for (int size = 0; size < SIZES; size++) {
        size_t rows = sizes[size][0], cols = sizes[size][1];
        struct grid a = grid_random(type, rows, cols, gap, 2),
                    b = grid_random(type, rows, cols, 0, 2);
        struct grid sum = grid_poisoned(type, rows, cols, gap);
        kernel_add(sum.vec, a.vec, b.vec, rows, cols);
        for (size_t i = 0; i < rows * cols; i++)
            sum.value[i] = a.value[i] + b.value[i];
        grid_check(&sum, tolerance_of(1e-7));
        for (int beta = 0; beta <= 1; beta++) {
            struct grid y = grid_output(beta, type, rows, cols, gap), z = grid_copy(&a);
            struct grid product = grid_output(beta, type, rows, cols, gap);
            kernel_accumulate(y.vec, beta, a.vec, -0.7, rows, cols);
            kernel_multiply(product.vec, beta, a.vec, b.vec, rows, cols);
            kernel_accumulate(z.vec, beta, z.vec, 3, rows, cols); /* in place */
            for (size_t i = 0; i < rows * cols; i++) {
                y.value[i] -= 0.7 * a.value[i];
                product.value[i] += a.value[i] * b.value[i];
                z.value[i] *= beta + 3;
            }
            grid_check(&y, tolerance_of(2e-7));
            grid_check(&product, tolerance_of(2e-7));
            grid_check(&z, tolerance_of(2e-7));
        }
        kernel_add(a.vec, a.vec, b.vec, rows, cols); /* in place */
        for (size_t i = 0; i < rows * cols; i++)
            a.value[i] = sum.value[i];
        grid_check(&a, tolerance_of(1e-7));
    }
}

TEST(elementwise__sums_and_products)
{
    each_level(check_sums);
}

static void check_rows_and_cols(enum type type, size_t gap)
{
    for (int size = 0; size < SIZES; size++) {
        size_t rows = sizes[size][0], cols = sizes[size][1];
        size_t period = rows / 2 + 1;
        struct grid x = grid_random(type, rows, cols, gap, 2);
        struct grid y = grid_poisoned(type, rows, cols, gap);
        real *p = reals_random(period * cols, 1), *factor = reals_random(2, 1);
        kernel_add_rows(y.vec, x.vec, p, rows, cols, period);
        for (size_t i = 0; i < rows * cols; i++)
            y.value[i] = x.value[i] + (double)p[i % (period * cols)];
        grid_check(&y, tolerance_of(1e-7));
        for (int beta = 0; beta <= 1; beta++) {
            struct grid by_row = grid_output(beta, type, rows, cols, gap);
            struct grid by_col = grid_output(beta, type, rows, cols, gap);
            kernel_scale_rows(by_row.vec, beta, x.vec, factor, rows, cols, period);
            kernel_scale_cols(by_col.vec, beta, x.vec, p, rows, cols);
            for (size_t i = 0; i < rows * cols; i++) {
                by_row.value[i] += (double)factor[i / cols / period] * x.value[i];
                by_col.value[i] += (double)p[i % cols] * x.value[i];
            }
            grid_check(&by_row, tolerance_of(2e-7));
            grid_check(&by_col, tolerance_of(2e-7));
        }
    }
}

TEST(elementwise__rows_and_columns)
{
    each_level(check_rows_and_cols);
}

static void check_gelu(enum type type, size_t gap)
{
    for (int size = 0; size < SIZES; size++) {
        size_t rows = sizes[size][0], cols = sizes[size][1];
        struct grid x = grid_random(type, rows, cols, gap, 6),
                    y = grid_poisoned(type, rows, cols, gap);
        struct grid dy = grid_random(type, rows, cols, gap, 2);
        kernel_gelu(y.vec, x.vec, rows, cols);
        for (size_t i = 0; i < rows * cols; i++)
            y.value[i] = x.value[i] * cdf(x.value[i]);
        grid_check(&y, tolerance_of(2e-7));
        for (int beta = 0; beta <= 1; beta++) {
            struct grid dx = grid_output(beta, type, rows, cols, gap), same = grid_copy(&dy);
            kernel_gelu_grad(dx.vec, beta, x.vec, dy.vec, rows, cols);
            kernel_gelu_grad(same.vec, beta, x.vec, same.vec, rows, cols);
            for (size_t i = 0; i < rows * cols; i++) {
                double at = x.value[i];
                double slope = cdf(at) + at * exp(-at * at / 2) / sqrt(2 * acos(-1.0));
                dx.value[i] += dy.value[i] * slope;
                same.value[i] = beta * dy.value[i] + dy.value[i] * slope;
            }
            grid_check(&dx, tolerance_of(6e-7));
            grid_check(&same, tolerance_of(6e-7));
        }
        kernel_gelu(x.vec, x.vec, rows, cols); /* in place */
        for (size_t i = 0; i < rows * cols; i++)
            CHECK_NEAR(grid_get(&x, i / cols, i % cols), grid_get(&y, i / cols, i % cols), 0);
    }
}

TEST(gelu__is_the_error_function_form)
{
    each_level(check_gelu);
}

/* Dense points: the error of gelu relative to |x|, of its gradient absolute; special values. */
static void check_gelu_exactly(enum type type, size_t gap)
{
    if (type == TYPE_BF16 || gap)
        return;
    enum { POINTS = 200001 };
    static real x[POINTS], y[POINTS], one[POINTS], dx[POINTS];
    struct vec vx = {x, TYPE_REAL, POINTS}, vy = {y, TYPE_REAL, POINTS};
    struct vec v1 = {one, TYPE_REAL, POINTS}, vdx = {dx, TYPE_REAL, POINTS};
    for (int i = 0; i < POINTS; i++) {
        x[i] = (real)((i - 100000) * 1.5e-4);
        one[i] = 1;
    }
    kernel_gelu(vy, vx, 1, POINTS);
    kernel_gelu_grad(vdx, 0, vx, v1, 1, POINTS);
    for (int i = 0; i < POINTS; i++) {
        double at = (double)x[i];
        double density = exp(-at * at / 2) / sqrt(2 * acos(-1.0));
        CHECK_NEAR(y[i], at * cdf(at), tolerance_of(3e-7) * fabs(at));
        CHECK_NEAR(dx[i], cdf(at) + at * density, tolerance_of(4e-7));
    }
    x[0] = (real)INFINITY;
    x[1] = (real)NAN;
    x[2] = (real)-1e30;
    x[3] = 0;
    kernel_gelu(vy, vx, 1, 4);
    CHECK_NEAR(y[0], INFINITY, 0);
    CHECK(isnan((double)y[1]));
    CHECK_NEAR(y[2], 0, 0);
    CHECK_NEAR(y[3], 0, 0);
}

TEST(gelu__errs_by_rounding_only)
{
    each_level(check_gelu_exactly);
}

static void check_dropout(enum type type, size_t gap)
{
    size_t rows = 7, cols = 533, period = 3;
    for (int beta = 0; beta <= 1; beta++) {
        struct grid x = grid_random(type, rows, cols, gap, 1);
        struct grid y = grid_output(beta, type, rows, cols, gap);
        kernel_dropout(y.vec, beta, x.vec, rows, cols, period, 0.25, 9, 4, 1000);
        for (size_t i = 0; i < rows * cols; i++) {
            uint32_t word[4];
            size_t element = i % (period * cols);
            rng_block(word, 9, 4, 1000 + i / (period * cols), element / 4);
            if (word[element % 4] >= 0x40000000u)
                y.value[i] += x.value[i] / 0.75;
        }
        grid_check(&y, tolerance_of(2e-7));
    }
}

TEST(dropout__draws_by_sample_and_element)
{
    each_level(check_dropout);
}

TEST(dropout__keeps_the_share_asked_for)
{
    CHECK(kernels_init(NULL) == OK);
    size_t n = 100000, kept = 0;
    struct grid x = grid_random(TYPE_REAL, 1, n, 0, 1), y = grid_poisoned(TYPE_REAL, 1, n, 0);
    kernel_dropout(y.vec, 0, x.vec, 1, n, 1, 0.1, 5, 0, 0);
    for (size_t i = 0; i < n; i++)
        kept += grid_get(&y, 0, i) != 0;
    CHECK_NEAR((double)kept / (double)n, 0.9, 4 * sqrt(0.09 / (double)n));
}

TEST(bf16__rounds_to_nearest_even)
{
    static const struct {
        double from, to;
    } cases[] = {
        {1, 1},
        {1 + 0x1p-8, 1},              /* a tie, down to even */
        {1 + 3 * 0x1p-8, 1 + 0x1p-6}, /* a tie, up to even */
        {1 + 0x1.01p-8, 1 + 0x1p-7},  /* just above a tie */
        {-1 - 0x1.01p-8, -1 - 0x1p-7},
        {3.39e38, 0x1.fep127}, /* stays finite */
        {0x1.ffffp127, (double)INFINITY},
        {(double)-INFINITY, (double)-INFINITY},
        {0, 0},
    };
    CHECK(kernels_init(NULL) == OK);
    enum { CASES = sizeof cases / sizeof *cases };
    real x[CASES + 1];
    struct grid y = grid_poisoned(TYPE_BF16, 1, CASES + 1, 1);
    for (int i = 0; i < CASES; i++)
        x[i] = (real)cases[i].from;
    x[CASES] = (real)NAN;
    kernel_accumulate(y.vec, 0, (struct vec){x, TYPE_REAL, CASES + 1}, 1, 1, CASES + 1);
    for (int i = 0; i < CASES; i++) {
        test_about("%a", cases[i].from);
        CHECK_NEAR(grid_get(&y, 0, (size_t)i), cases[i].to, 0);
    }
    CHECK(isnan(grid_get(&y, 0, CASES)));
}
