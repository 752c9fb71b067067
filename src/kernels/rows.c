/* rows.c - rows that change their places. Rows that follow each other before and after are moved as
 * one, and where no number changes they are copied as they are stored. */
#include <string.h>

#include "kernels/kernels.h"

/* Rows from t on that come one after the other. */
static size_t run_length(const int *from, size_t t, size_t period)
{
    size_t end = t + 1;
    while (end < period && from[end] == from[end - 1] + 1)
        end++;
    return end - t;
}

static void copy_rows(struct vec y, struct vec x, size_t rows, size_t cols)
{
    size_t bytes = cols * type_size(x.type);
    if (x.stride == (ptrdiff_t)cols && y.stride == (ptrdiff_t)cols) {
        memcpy(y.data, x.data, rows * bytes);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        memcpy(vec_at(y, r, 0).data, vec_at(x, r, 0).data, bytes);
}

void kernel_gather_rows(struct vec y, int beta, struct vec x, const int *from, const real *factor,
                        size_t rows, size_t cols, size_t period)
{
    bool plain = !beta && !factor && x.type == y.type;
    for (size_t r = 0; r < rows; r += period) {
        double scale = factor ? (double)factor[r / period] : 1;
        for (size_t t = 0, count = 0; t < period; t += count) {
            count = run_length(from, t, period);
            struct vec to = vec_at(y, r + t, 0), first = vec_at(x, r + (size_t)from[t], 0);
            if (plain)
                copy_rows(to, first, count, cols);
            else
                kernel_accumulate(to, beta, first, scale, count, cols);
        }
    }
}
