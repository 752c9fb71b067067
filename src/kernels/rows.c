/* rows.c - rows that change their places. Those that lie one after the other before and after are moved
 * as one, and where no number changes they are copied as they are stored. */
#include "kernels/rows.h"

#include <string.h>

#include "kernels/level.h"
#include "kernels/team.h"

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

/* One call; y, x, .. as in kernels.h. */
struct call {
    struct vec y, x;
    int beta;
    const struct row_order *order;
    const real *factor;
    bool scatter;
    size_t first, rows, cols;
    int parts;
};

static void move(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows rows = team_rows_of(o->rows, o->parts, part);
    size_t first = o->first + rows.first, end = first + rows.count;
    if (rows.count == 0)
        return;
    struct row_run run = row_run_first(o->order, first, end);
    do {
        size_t here = run.here - o->first;
        struct vec y = vec_at(o->y, o->scatter ? run.there : here, 0);
        struct vec x = vec_at(o->x, o->scatter ? here : run.there, 0);
        double scale = o->factor ? (double)o->factor[run.sample] : 1;
        if (o->beta || o->factor || x.type != y.type)
            kernels_level()->elementwise->accumulate(y, o->beta, x, scale, run.count, o->cols);
        else
            copy_rows(y, x, run.count, o->cols);
    } while (row_run_next(&run, o->order, end));
}

static void share(struct call *o)
{
    o->parts = team_row_parts(o->rows, o->cols);
    team_run(move, o, o->parts);
}

void kernel_gather_rows(struct vec y, int beta, struct vec x, const struct row_order *order,
                        const real *factor, size_t first, size_t rows, size_t cols)
{
    struct call o = {
        .y = y,
        .x = x,
        .beta = beta,
        .order = order,
        .factor = factor,
        .first = first,
        .rows = rows,
        .cols = cols,
    };
    share(&o);
}

void kernel_scatter_rows(struct vec y, int beta, struct vec x, const struct row_order *order,
                         size_t first, size_t rows, size_t cols)
{
    struct call o = {
        .y = y,
        .x = x,
        .beta = beta,
        .order = order,
        .scatter = true,
        .first = first,
        .rows = rows,
        .cols = cols,
    };
    share(&o);
}

void kernel_layer_norm_grad_from(struct vec dx, int beta, real *dweight, real *dbias, struct vec x,
                                 const real *mean, const real *rstd, const real *weight,
                                 struct vec dy, const struct row_order *order, size_t rows,
                                 size_t cols)
{
    if (!order) {
        kernel_layer_norm_grad(dx, beta, dweight, dbias, x, mean, rstd, weight, dy, rows, cols);
        return;
    }
    struct row_run run = row_run_first(order, 0, rows);
    do {
        size_t r = run.here;
        struct vec to = dx.data ? vec_at(dx, r, 0) : dx;
        kernel_layer_norm_grad(to, beta, dweight, dbias, vec_at(x, r, 0), mean + r, rstd + r,
                               weight, vec_at(dy, run.there, 0), run.count, cols);
    } while (row_run_next(&run, order, rows));
}
