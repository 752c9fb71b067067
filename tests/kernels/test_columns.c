/* test_columns.c - sums down the columns against plain loops in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static const size_t sizes[][2] = {{1, 1},    {2, 7},    {7, 16},   {66, 17},
                                  {130, 33}, {197, 10}, {69, 1200}};

enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_sums(enum type type, size_t gap)
{
    for (int i = 0; i < SIZES; i++) {
        size_t rows = sizes[i][0], cols = sizes[i][1], period = rows / 3 + 1;
        struct grid x = grid_random(type, rows, cols, gap, 1),
                    dy = grid_random(type, rows, cols, 1, 1);
        struct grid sums = grid_random(TYPE_REAL, 1, cols, 2, 1);
        struct grid dgamma = grid_random(TYPE_REAL, 1, cols, 2, 1);
        struct grid dp = grid_random(TYPE_REAL, 1, period * cols, 2, 1);
        kernel_column_sums(sums.vec.data, x.vec, rows, cols);
        kernel_scale_cols_grad(dgamma.vec.data, x.vec, dy.vec, rows, cols);
        kernel_add_rows_grad(dp.vec.data, x.vec, rows, cols, period);
        for (size_t j = 0; j < rows * cols; j++) {
            sums.value[j % cols] += x.value[j];
            dgamma.value[j % cols] += x.value[j] * dy.value[j];
            dp.value[j % (period * cols)] += x.value[j];
        }
        double tolerance = tolerance_of(2e-7 * (2 + sqrt((double)rows)));
        grid_check(&sums, tolerance);
        grid_check(&dgamma, tolerance);
        grid_check(&dp, tolerance);
    }
}

TEST(columns__sums_are_added_to_what_is_there)
{
    each_level(check_sums);
}
