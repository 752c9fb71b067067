/* team_rows.c - kernels whose rows do not depend on each other, shared by the team. */
#include "kernels/level.h"
#include "kernels/rows.h"
#include "kernels/team.h"

/* One call; x, y, .. as in kernels.h. */
struct call {
    size_t rows, cols;
    int parts;
    struct vec y, x, b, dy;
    const struct row_order *order; /* of y; NULL: none */
    const struct kernels_map *map;
    int beta;
    double scale; /* or eps */
    real *mean, *rstd;
    const real *weight, *bias;
};

static void share(team_part *part, struct call *o)
{
    o->parts = team_row_parts(o->rows, o->cols);
    team_run(part, o, o->parts);
}

static struct vec from(struct vec x, struct team_rows r)
{
    return vec_at(x, r.first, 0);
}

static void accumulate(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows r = team_rows_of(o->rows, o->parts, part);
    kernels_level()->elementwise->accumulate(from(o->y, r), o->beta, from(o->x, r), o->scale,
                                             r.count, o->cols);
}

void kernel_accumulate(struct vec y, int beta, struct vec x, double scale, size_t rows, size_t cols)
{
    struct call o = {.y = y, .beta = beta, .x = x, .scale = scale, .rows = rows, .cols = cols};
    share(accumulate, &o);
}

static void add(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows r = team_rows_of(o->rows, o->parts, part);
    kernels_level()->elementwise->add(from(o->y, r), from(o->x, r), from(o->b, r), r.count,
                                      o->cols);
}

void kernel_add(struct vec y, struct vec a, struct vec b, size_t rows, size_t cols)
{
    struct call o = {.y = y, .x = a, .b = b, .rows = rows, .cols = cols};
    share(add, &o);
}

static void map(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows r = team_rows_of(o->rows, o->parts, part);
    o->map->map(from(o->y, r), from(o->x, r), r.count, o->cols);
}

static void share_map(struct vec y, const struct kernels_map *f, struct vec x, size_t rows,
                      size_t cols)
{
    struct call o = {.y = y, .map = f, .x = x, .rows = rows, .cols = cols};
    share(map, &o);
}

void kernel_map(struct vec y, enum map f, struct vec x, size_t rows, size_t cols)
{
    share_map(y, &kernels_level()->map[f], x, rows, cols);
}

void kernel_gelu(struct vec y, struct vec x, size_t rows, size_t cols)
{
    share_map(y, kernels_level()->gelu, x, rows, cols);
}

static void map_grad(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows r = team_rows_of(o->rows, o->parts, part);
    o->map->map_grad(from(o->y, r), o->beta, from(o->x, r), from(o->dy, r), r.count, o->cols);
}

static void share_map_grad(struct vec dx, int beta, const struct kernels_map *f, struct vec x,
                           struct vec dy, size_t rows, size_t cols)
{
    struct call o = {
        .y = dx, .beta = beta, .map = f, .x = x, .dy = dy, .rows = rows, .cols = cols,
    };
    share(map_grad, &o);
}

void kernel_map_grad(struct vec dx, int beta, enum map f, struct vec x, struct vec dy, size_t rows,
                     size_t cols)
{
    share_map_grad(dx, beta, &kernels_level()->map[f], x, dy, rows, cols);
}

void kernel_gelu_grad(struct vec dx, int beta, struct vec x, struct vec dy, size_t rows,
                      size_t cols)
{
    share_map_grad(dx, beta, kernels_level()->gelu, x, dy, rows, cols);
}

static void layer_norm(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    struct team_rows rows = team_rows_of(o->rows, o->parts, part);
    size_t end = rows.first + rows.count;
    struct row_run run = {rows.first, rows.first, rows.count, 0, 0};
    if (o->order)
        run = row_run_first(o->order, rows.first, end);
    do {
        size_t r = run.here;
        kernels_level()->norm->layer_norm(vec_at(o->y, run.there, 0), o->mean + r, o->rstd + r,
                                          vec_at(o->x, r, 0), o->weight, o->bias, o->scale,
                                          run.count, o->cols);
    } while (o->order && row_run_next(&run, o->order, end));
}

void kernel_layer_norm_to(struct vec y, const struct row_order *order, real *mean, real *rstd,
                          struct vec x, const real *weight, const real *bias, double eps,
                          size_t rows, size_t cols)
{
    struct call o = {
        .y = y,
        .order = order,
        .x = x,
        .mean = mean,
        .rstd = rstd,
        .weight = weight,
        .bias = bias,
        .scale = eps,
        .rows = rows,
        .cols = cols,
    };
    share(layer_norm, &o);
}

void kernel_layer_norm(struct vec y, real *mean, real *rstd, struct vec x, const real *weight,
                       const real *bias, double eps, size_t rows, size_t cols)
{
    kernel_layer_norm_to(y, NULL, mean, rstd, x, weight, bias, eps, rows, cols);
}
