/* test_rows.c - rows that change their places, against plain loops. */
#include "grid.h"
#include "test.h"

enum { SAMPLES = 3, TOKENS = 14, ROWS = SAMPLES * TOKENS, COLS = 37 };

/* The place of row r. */
static size_t place(const int *at, size_t r)
{
    return r / TOKENS * TOKENS + (size_t)at[r % TOKENS];
}

static void check_moves(enum type type, size_t gap)
{
    const struct row_order order = {order_random(TOKENS), TOKENS};
    const real *factor = reals_random(SAMPLES, 2);
    for (int kind = 0; kind < 8; kind++) {
        int beta = kind & 1, scaled = kind & 2, all = kind & 4;
        size_t first = all ? 0 : 9, rows = all ? ROWS : 23;
        struct grid x = grid_random(type, ROWS, COLS, gap, 1);
        struct grid near = grid_output(beta, type, rows, COLS, gap + 1);
        struct grid far = grid_random(type, ROWS, COLS, gap + 1, 1); /* written in part */
        kernel_gather_rows(near.vec, beta, x.vec, &order, scaled ? factor : NULL, first, rows,
                           COLS);
        kernel_scatter_rows(far.vec, beta, x.vec, &order, first, rows, COLS);
        for (size_t r = 0; r < rows; r++) {
            size_t there = place(order.at, first + r);
            for (size_t c = 0; c < COLS; c++) {
                double scale = scaled ? (double)factor[(first + r) / TOKENS] : 1;
                double *to = &near.value[r * COLS + c], *back = &far.value[there * COLS + c];
                *to = beta * *to + scale * x.value[there * COLS + c];
                *back = beta * *back + x.value[r * COLS + c];
            }
        }
        test_about("beta %d, %s, rows from %d on", beta, scaled ? "scaled" : "plain", (int)first);
        grid_check(&near, tolerance_of(1e-6));
        grid_check(&far, tolerance_of(1e-6));
    }
}

TEST(rows__go_to_their_places_and_come_back)
{
    each_level(check_moves);
}

static void check_norm(enum type type, size_t gap)
{
    const struct row_order order = {order_random(TOKENS), TOKENS};
    const real *weight = reals_random(COLS, 1), *bias = reals_random(COLS, 1);
    struct grid x = grid_random(type, ROWS, COLS, gap, 1);
    struct grid dy = grid_random(type, ROWS, COLS, gap, 1);
    struct grid y = grid_poisoned(type, ROWS, COLS, gap), want = grid_poisoned(type, ROWS, COLS, 0);
    struct grid moved = grid_poisoned(type, ROWS, COLS, 0);
    real mean[2][ROWS], rstd[2][ROWS];
    kernel_layer_norm_to(y.vec, &order, mean[0], rstd[0], x.vec, weight, bias, 1e-5, ROWS, COLS);
    kernel_layer_norm(want.vec, mean[1], rstd[1], x.vec, weight, bias, 1e-5, ROWS, COLS);
    for (size_t r = 0; r < ROWS; r++) {
        CHECK(mean[0][r] == mean[1][r] && rstd[0][r] == rstd[1][r]);
        for (size_t c = 0; c < COLS; c++)
            y.value[place(order.at, r) * COLS + c] = grid_get(&want, r, c);
    }
    grid_check(&y, 0);

    kernel_gather_rows(moved.vec, 0, dy.vec, &order, NULL, 0, ROWS, COLS);
    for (int beta = 0; beta <= 1; beta++) {
        struct grid dx = grid_output(beta, type, ROWS, COLS, gap), dx_want = grid_copy(&dx);
        struct grid dw[2], db[2];
        for (int i = 0; i < 2; i++) {
            dw[i] = i ? grid_copy(&dw[0]) : grid_random(TYPE_REAL, 1, COLS, 1, 1);
            db[i] = i ? grid_copy(&db[0]) : grid_random(TYPE_REAL, 1, COLS, 1, 1);
        }
        kernel_layer_norm_grad_from(dx.vec, beta, dw[0].vec.data, db[0].vec.data, x.vec, mean[0],
                                    rstd[0], weight, dy.vec, &order, ROWS, COLS);
        kernel_layer_norm_grad(dx_want.vec, beta, dw[1].vec.data, db[1].vec.data, x.vec, mean[0],
                               rstd[0], weight, moved.vec, ROWS, COLS);
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
            dx.value[i] = grid_get(&dx_want, i / COLS, i % COLS);
        for (size_t c = 0; c < COLS; c++) {
            dw[0].value[c] = grid_get(&dw[1], 0, c);
            db[0].value[c] = grid_get(&db[1], 0, c);
        }
        grid_check(&dx, tolerance_of(1e-5));
        grid_check(&dw[0], tolerance_of(1e-5));
        grid_check(&db[0], tolerance_of(1e-5));
    }
}

TEST(layer_norm__puts_rows_at_their_places_and_reads_gradients_there)
{
    each_level(check_norm);
}
