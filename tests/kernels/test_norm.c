/* test_norm.c - layer normalisation and Euclidean norms against plain loops in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static const size_t sizes[][2] = {{1, 1}, {2, 7}, {7, 16}, {5, 17}, {9, 33}, {6, 197}, {5, 1200}};

enum { SIZES = sizeof sizes / sizeof *sizes };

static const double eps = 1e-6;

/* *mean and *rstd of a row. */
static void statistics(const double *x, size_t n, double *mean, double *rstd)
{
    double sum = 0, squares = 0;
    for (size_t c = 0; c < n; c++)
        sum += x[c];
    for (size_t c = 0; c < n; c++)
        squares += (x[c] - sum / (double)n) * (x[c] - sum / (double)n);
    *mean = sum / (double)n;
    *rstd = 1 / sqrt(squares / (double)n + eps);
}

static void check_forward(enum type type, size_t gap)
{
    for (int i = 0; i < SIZES; i++) {
        size_t rows = sizes[i][0], cols = sizes[i][1];
        struct grid x = grid_random(type, rows, cols, gap, 1),
                    y = grid_poisoned(type, rows, cols, gap);
        struct grid mean = grid_poisoned(TYPE_REAL, 1, rows, 1);
        struct grid rstd = grid_poisoned(TYPE_REAL, 1, rows, 1);
        real *weight = reals_random(cols, 1), *bias = reals_random(cols, 1);
        for (size_t j = 0; j < rows * cols; j++) /* a mean that cancels badly in one pass */
            grid_set(&x, j / cols, j % cols, x.value[j] + 100);
        kernel_layer_norm(y.vec, mean.vec.data, rstd.vec.data, x.vec, weight, bias, eps, rows,
                          cols);
        for (size_t r = 0; r < rows; r++) {
            const double *row = x.value + r * cols;
            statistics(row, cols, &mean.value[r], &rstd.value[r]);
            for (size_t c = 0; c < cols; c++)
                y.value[r * cols + c] =
                    (row[c] - mean.value[r]) * rstd.value[r] * (double)weight[c] + (double)bias[c];
        }
        grid_check(&mean, tolerance_of(5e-7));
        if (cols > 1) { /* one column has variance 0: rounding decides */
            grid_check(&rstd, tolerance_of(3e-5));
            grid_check(&y, tolerance_of(1e-4));
        }
    }
}

TEST(layer_norm__is_the_formula)
{
    each_level(check_forward);
}

static void check_grad(enum type type, size_t gap)
{
    for (int i = 0; i < 4 * SIZES; i++) {
        size_t rows = sizes[i / 4][0], cols = sizes[i / 4][1];
        int beta = i & 1;
        bool in_place = i & 2;
        struct grid x = grid_random(type, rows, cols, gap, 2);
        struct grid dy = grid_random(type, rows, cols, in_place ? gap : 0, 1);
        struct grid dx = in_place ? grid_copy(&dy) : grid_output(beta, type, rows, cols, gap);
        struct grid dweight = grid_random(TYPE_REAL, 1, cols, 1, 1);
        struct grid dbias = grid_random(TYPE_REAL, 1, cols, 1, 1);
        real *weight = reals_random(cols, 1), *mean = reals_random(rows, 1),
             *rstd = reals_random(rows, 1);
        for (size_t r = 0; r < rows; r++) {
            const double *row = x.value + r * cols;
            double m, s, sum = 0, dot = 0;
            statistics(row, cols, &m, &s);
            mean[r] = (real)m;
            rstd[r] = (real)s;
            for (size_t c = 0; c < cols; c++) {
                double g = dy.value[r * cols + c],
                       xhat = (row[c] - (double)mean[r]) * (double)rstd[r];
                dweight.value[c] += g * xhat;
                dbias.value[c] += g;
                sum += g * (double)weight[c];
                dot += g * (double)weight[c] * xhat;
            }
            for (size_t c = 0; c < cols; c++) {
                double xhat = (row[c] - (double)mean[r]) * (double)rstd[r];
                double g = dy.value[r * cols + c] * (double)weight[c];
                double grad =
                    (double)rstd[r] * (g - sum / (double)cols - xhat * dot / (double)cols);
                dx.value[r * cols + c] = beta * dx.value[r * cols + c] + grad;
            }
        }
        if (in_place)
            kernel_layer_norm_grad(dx.vec, beta, dweight.vec.data, dbias.vec.data, x.vec, mean,
                                   rstd, weight, dx.vec, rows, cols);
        else
            kernel_layer_norm_grad(dx.vec, beta, dweight.vec.data, dbias.vec.data, x.vec, mean,
                                   rstd, weight, dy.vec, rows, cols);
        if (cols > 2)
            grid_check(&dx, tolerance_of(4e-6));
        grid_check(&dweight, tolerance_of(2e-6));
        grid_check(&dbias, tolerance_of(2e-6));
    }
}

TEST(layer_norm__gradient_is_the_formula)
{
    each_level(check_grad);
}

TEST(layer_norm__leaves_out_gradients_that_are_not_wanted)
{
    CHECK(kernels_init(NULL) == OK);
    size_t rows = 6, cols = 40;
    struct grid x = grid_random(TYPE_REAL, rows, cols, 0, 1),
                dy = grid_random(TYPE_REAL, rows, cols, 0, 1);
    real *weight = reals_random(cols, 1), *mean = reals_random(rows, 1),
         *rstd = reals_random(rows, 1);
    struct grid want_x = grid_poisoned(TYPE_REAL, rows, cols, 0),
                want_w = grid_poisoned(TYPE_REAL, 1, cols, 0);
    struct grid want_b = grid_poisoned(TYPE_REAL, 1, cols, 0);
    for (size_t c = 0; c < cols; c++) {
        grid_set(&want_w, 0, c, 0);
        grid_set(&want_b, 0, c, 0);
    }
    kernel_layer_norm_grad(want_x.vec, 0, want_w.vec.data, want_b.vec.data, x.vec, mean, rstd,
                           weight, dy.vec, rows, cols);
    for (int out = 0; out < 8; out++) {
        struct grid dx = grid_poisoned(TYPE_REAL, rows, cols, 0), dw = grid_copy(&want_w),
                    db = grid_copy(&want_b);
        struct vec none = {.data = NULL};
        for (size_t c = 0; c < cols; c++) {
            grid_set(&dw, 0, c, 0);
            grid_set(&db, 0, c, 0);
        }
        kernel_layer_norm_grad(out & 1 ? none : dx.vec, 0, out & 2 ? NULL : dw.vec.data,
                               out & 4 ? NULL : db.vec.data, x.vec, mean, rstd, weight, dy.vec,
                               rows, cols);
        for (size_t i = 0; i < rows * cols; i++) {
            double got = grid_get(&dx, i / cols, i % cols);
            if (out & 1)
                CHECK(isnan(got));
            else
                CHECK_NEAR(got, grid_get(&want_x, i / cols, i % cols), tolerance_of(1e-6));
        }
        for (size_t c = 0; c < cols; c++) {
            CHECK_NEAR(grid_get(&dw, 0, c), out & 2 ? 0 : grid_get(&want_w, 0, c),
                       tolerance_of(1e-6));
            CHECK_NEAR(grid_get(&db, 0, c), out & 4 ? 0 : grid_get(&want_b, 0, c),
                       tolerance_of(1e-6));
        }
    }
}

/* --- Euclidean norms ----------------------------------------------------------------------------
 */

/* Rows in three parts, the second of which is 0 in the first row and short in the last one. */
static struct grid vectors(enum type type, size_t rows, size_t width, size_t gap)
{
    struct grid x = grid_random(type, rows, 3 * width, gap, 2);
    for (size_t c = width; c < 2 * width; c++) {
        grid_set(&x, 0, c, 0);
        if (rows > 1)
            grid_set(&x, rows - 1, c, c % 2 ? 0x1p-12 : -0x1p-13);
    }
    return x;
}

static void check_normalize(enum type type, size_t gap)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        size_t rows = sizes[i / 2][0], width = sizes[i / 2][1], cols = 3 * width;
        int beta = i & 1;
        const double least = 0.1;
        struct grid x = vectors(type, rows, width, gap), dy = grid_random(type, rows, cols, gap, 1);
        struct grid y = grid_poisoned(TYPE_REAL, rows, cols, 0),
                    norm = grid_poisoned(TYPE_REAL, 1, 3 * rows, 0);
        struct grid dx = grid_output(beta, type, rows, cols, gap);
        kernel_normalize(y.vec, norm.vec.data, x.vec, 3, least, rows, cols);
        for (size_t k = 0; k < 3 * rows; k++) {
            const double *part = x.value + k * width, *dpart = dy.value + k * width;
            double squares = 0, along = 0;
            for (size_t c = 0; c < width; c++)
                squares += part[c] * part[c];
            double size = sqrt(squares), scale = size > 0 ? 1 / fmax(size, least) : 0;
            for (size_t c = 0; c < width; c++)
                along += size > least ? part[c] * dpart[c] * scale * scale : 0;
            norm.value[k] = size;
            for (size_t c = 0; c < width; c++) {
                y.value[k * width + c] = part[c] * scale;
                dx.value[k * width + c] += scale * (dpart[c] - along * part[c]);
            }
        }
        grid_check(&norm, tolerance_of(1e-6));
        grid_check(&y, tolerance_of(1e-6));
        kernel_normalize_grad(dx.vec, beta, y.vec, norm.vec.data, dy.vec, 3, least, rows, cols);
        grid_check(&dx, tolerance_of(1e-5));
    }
}

TEST(normalize__divides_each_part_by_its_norm)
{
    each_level(check_normalize);
}
