/* test_tokens.c - softmax and means down the columns, products of a row's elements: against plain
 * loops in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static const size_t sizes[][2] = {{1, 1}, {2, 7}, {9, 16}, {5, 33}, {150, 17}, {7, 600}};

enum { SIZES = sizeof sizes / sizeof *sizes, MOST_ROWS = 150 };

/* Of row r: three groups, which do not lie together. */
static unsigned char number[MOST_ROWS];

/* Groups of `rows` rows; none where `divided` is false. */
static struct token_groups groups_of(size_t rows, bool divided)
{
    int count = rows < 3 ? (int)rows : 3;
    for (size_t r = 0; r < rows; r++)
        number[r] = (unsigned char)(r * r % (size_t)count == 0 ? 0 : r % (size_t)count);
    for (size_t r = 0; r < (size_t)count; r++)
        number[r] = (unsigned char)r; /* each has a row */
    return divided ? (struct token_groups){number, count} : (struct token_groups){NULL, 1};
}

static bool together(const struct token_groups *o, size_t r, size_t s)
{
    return !o->number || o->number[r] == o->number[s];
}

static void check_softmax(enum type type, size_t gap)
{
    for (int i = 0; i < 4 * SIZES; i++) {
        size_t rows = sizes[i / 4][0], cols = sizes[i / 4][1];
        int beta = i & 1;
        struct token_groups groups = groups_of(rows, i & 2);
        struct grid x = grid_random(type, rows, cols, gap, 6);
        struct grid y = grid_poisoned(TYPE_REAL, rows, cols, gap),
                    dy = grid_random(type, rows, cols, 0, 1);
        struct grid dx = grid_output(beta, type, rows, cols, gap);
        for (size_t c = 0; c < cols; c++) {
            for (size_t r = 0; r < rows; r++) {
                double sum = 0, along = 0, at = x.value[r * cols + c];
                for (size_t s = 0; s < rows; s++)
                    sum += together(&groups, r, s) ? exp(x.value[s * cols + c] - at) : 0;
                y.value[r * cols + c] = 1 / sum;
                for (size_t s = 0; s < rows; s++)
                    if (together(&groups, r, s))
                        along += exp(x.value[s * cols + c] - at) / sum * dy.value[s * cols + c];
                dx.value[r * cols + c] += (dy.value[r * cols + c] - along) / sum;
            }
        }
        kernel_token_softmax(y.vec, x.vec, &groups, rows, cols);
        grid_check(&y, tolerance_of(2e-6));
        kernel_token_softmax_grad(dx.vec, beta, y.vec, dy.vec, &groups, rows, cols);
        grid_check(&dx, tolerance_of(5e-6));
    }
}

TEST(token_softmax__is_the_formula)
{
    each_level(check_softmax);
}

static void check_mean(enum type type, size_t gap)
{
    for (int i = 0; i < 4 * SIZES; i++) {
        size_t rows = sizes[i / 4][0], cols = sizes[i / 4][1];
        int beta = i & 1;
        struct token_groups groups = groups_of(rows, i & 2);
        struct grid x = grid_random(type, rows, cols, gap, 2);
        struct grid y = grid_output(beta, type, rows, cols, 0);
        for (size_t r = 0; r < rows; r++) {
            for (size_t c = 0; c < cols; c++) {
                double sum = 0, count = 0;
                for (size_t s = 0; s < rows; s++) {
                    sum += together(&groups, r, s) ? x.value[s * cols + c] : 0;
                    count += together(&groups, r, s);
                }
                y.value[r * cols + c] += 0.5 * x.value[r * cols + c] - 2 * sum / count;
            }
        }
        kernel_token_mean(y.vec, beta, 0.5, -2, x.vec, &groups, rows, cols);
        grid_check(&y, tolerance_of(2e-6));
    }
}

TEST(token_mean__is_the_formula)
{
    each_level(check_mean);
}

TEST(token_softmax__of_large_numbers_is_finite)
{
    CHECK(kernels_init(NULL) == OK);
    real x[3] = {(real)1e4, (real)-1e4, (real)1e4}, y[3];
    struct vec vx = {x, TYPE_REAL, 1}, vy = {y, TYPE_REAL, 1};
    kernel_token_softmax(vy, vx, &(struct token_groups){NULL, 1}, 3, 1);
    CHECK_NEAR(y[0], 0.5, 0);
    CHECK_NEAR(y[1], 0, 0);
    CHECK_NEAR(y[2], 0.5, 0);
}

/* Feature f of a part of n elements: factor a[i] a[j]. */
static double feature(size_t f, size_t n, bool symmetric, size_t *i, size_t *j)
{
    if (!symmetric || f < n) {
        *i = symmetric ? f : f / n;
        *j = symmetric ? f : f % n;
        return 1;
    }
    f -= n;
    for (*i = 0; f >= n - *i - 1; (*i)++)
        f -= n - *i - 1;
    *j = *i + 1 + f;
    return sqrt(2.0);
}

static void check_outer(enum type type, size_t gap)
{
    static const size_t widths[] = {1, 2, 5, 16, 33};
    for (int k = 0; k < 20; k++) {
        size_t n = widths[k / 4], rows = 3, cols = 2 * n;
        int beta = k & 1;
        bool symmetric = k & 2;
        size_t features = symmetric ? n * (n + 1) / 2 : n * n;
        struct grid x = grid_random(type, rows, cols, gap, 2),
                    dx = grid_output(beta, type, rows, cols, gap);
        struct grid y = grid_poisoned(TYPE_REAL, rows, 2 * features, gap);
        struct grid dy = grid_random(TYPE_REAL, rows, 2 * features, gap, 1);
        for (size_t at = 0; at < rows * 2 * features; at++) {
            size_t i, j, part = at / features;
            double factor = feature(at % features, n, symmetric, &i, &j);
            const double *a = x.value + part * n;
            y.value[at] = factor * a[i] * a[j];
            dx.value[part * n + i] += factor * a[j] * dy.value[at];
            dx.value[part * n + j] += factor * a[i] * dy.value[at];
        }
        kernel_outer(y.vec, x.vec, symmetric, 2, rows, cols);
        kernel_outer_grad(dx.vec, beta, x.vec, dy.vec, symmetric, 2, rows, cols);
        grid_check(&y, tolerance_of(1e-6));
        grid_check(&dx, tolerance_of(1e-5));
    }
}

TEST(outer__multiplies_all_pairs)
{
    each_level(check_outer);
}
