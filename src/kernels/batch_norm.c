/* batch_norm.c - batch normalisation: rows of all samples and heads, cut into parts for the team by their
 * number alone. Each part has sums of its own, which are joined in the order of the parts. */
#include "kernels/batch_norm.h"

#include <math.h>
#include <string.h>

#include "kernels/level.h"
#include "kernels/team.h"

enum { MOST_PARTS = 64 }; /* of team_row_parts */

/* One call; y, x, .. as in kernels.h. The rows of the call are numbered through samples, heads and
 * tokens. */
struct call {
    const struct batch_rows *batch;
    size_t rows;
    int parts, beta;
    struct heads y, x, dy; /* y: or dx */
    const real *mean, *scale, *bias, *offset, *slope;
    real *sums; /* (parts, 2, cols) */
};

/* Rows of one head that belong to a part. */
struct piece {
    size_t next, end; /* of the part's rows: where the next piece begins, and where the last one ends */
    int sample, head;
    size_t token, count;
};

static struct piece pieces_of(const struct call *o, int part)
{
    struct team_rows r = team_rows_of(o->rows, o->parts, part);
    return (struct piece){.next = r.first, .end = r.first + r.count};
}

static bool piece_next(struct piece *p, const struct batch_rows *b)
{
    if (p->next == p->end)
        return false;
    size_t tokens = (size_t)b->tokens, matrix = p->next / tokens;
    p->token = p->next % tokens;
    p->count = p->end - p->next < tokens - p->token ? p->end - p->next : tokens - p->token;
    p->sample = (int)(matrix / (size_t)b->heads);
    p->head = (int)(matrix % (size_t)b->heads);
    p->next += p->count;
    return true;
}

static struct vec piece_of(struct heads x, const struct piece *p)
{
    return vec_at(heads_at(x, p->sample, p->head), p->token, 0);
}

static size_t cols_of(const struct call *o)
{
    return (size_t)o->batch->cols;
}

static real *sums_of(const struct call *o, int part)
{
    return o->sums + (size_t)part * 2 * cols_of(o);
}

/* Rows of the first `samples` samples, shared by the team. */
static void share(team_part *part, struct call *o, int samples)
{
    o->rows = (size_t)samples * (size_t)o->batch->heads * (size_t)o->batch->tokens;
    o->parts = team_row_parts(o->rows, cols_of(o));
    team_run(part, o, o->parts);
}

/* sums: two lists for each part, and three lists for all. */
size_t kernel_batch_norm_scratch(int cols)
{
    return (2 * MOST_PARTS + 3) * (size_t)cols;
}

static void moments(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    real *mean = sums_of(o, part), *squares = mean + cols_of(o);
    size_t seen = 0;
    for (struct piece p = pieces_of(o, part); piece_next(&p, o->batch); seen += p.count)
        kernels_level()->batch_norm->moments(mean, squares, seen, piece_of(o->x, &p), p.count,
                                             cols_of(o));
}

void kernel_batch_moments(real *mean, real *variance, struct heads x, const struct batch_rows *b,
                          real *scratch)
{
    struct call o = {.batch = b, .x = x, .sums = scratch};
    share(moments, &o, b->present);
    for (size_t c = 0; c < cols_of(&o); c++) {
        double all = 0, m = 0, squares = 0;
        for (int part = 0; part < o.parts; part++) {
            double count = (double)team_rows_of(o.rows, o.parts, part).count;
            double delta = (double)sums_of(&o, part)[c] - m;
            m += delta * count / (all + count);
            squares += (double)sums_of(&o, part)[cols_of(&o) + c] +
                       delta * delta * all * count / (all + count);
            all += count;
        }
        mean[c] = (real)m;
        variance[c] = (real)(squares / all);
    }
}

static void normalize(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    for (struct piece p = pieces_of(o, part); piece_next(&p, o->batch);)
        kernels_level()->batch_norm->normalize(piece_of(o->y, &p), piece_of(o->x, &p), o->mean,
                                               o->scale, o->bias, p.count, cols_of(o));
}

static double rstd_of(real variance, double eps)
{
    return 1 / sqrt((double)variance + eps);
}

void kernel_batch_norm(struct heads y, struct heads x, const real *mean, const real *variance,
                       const real *weight, const real *bias, double eps, const struct batch_rows *b,
                       real *scratch)
{
    struct call o = {.batch = b, .y = y, .x = x, .mean = mean, .scale = scratch, .bias = bias};
    for (int c = 0; c < b->cols; c++)
        scratch[c] = (real)((double)weight[c] * rstd_of(variance[c], eps));
    share(normalize, &o, b->samples);
}

static void sums(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    real *sum = sums_of(o, part), *along = sum + cols_of(o);
    memset(sum, 0, 2 * cols_of(o) * sizeof *sum);
    for (struct piece p = pieces_of(o, part); piece_next(&p, o->batch);)
        kernels_level()->batch_norm->sums(sum, along, piece_of(o->dy, &p), piece_of(o->x, &p),
                                          o->mean, p.count, cols_of(o));
}

/* Writes the gradient, zeros for samples that are not there. */
static void grad(const void *job, int part, int member)
{
    (void)member;
    const struct call *o = job;
    for (struct piece p = pieces_of(o, part); piece_next(&p, o->batch);) {
        struct vec dx = piece_of(o->y, &p);
        if (p.sample < o->batch->present)
            kernels_level()->batch_norm->grad(dx, o->beta, piece_of(o->dy, &p), piece_of(o->x, &p),
                                              o->mean, o->scale, o->offset, o->slope, p.count,
                                              cols_of(o));
        for (size_t r = 0; p.sample >= o->batch->present && !o->beta && r < p.count; r++)
            memset(vec_at(dx, r, 0).data, 0, cols_of(o) * type_size(dx.type));
    }
}

void kernel_batch_norm_grad(struct heads dx, int beta, real *dweight, real *dbias, struct heads x,
                            const real *mean, const real *variance, bool own, const real *weight,
                            double eps, struct heads dy, const struct batch_rows *b, real *scratch)
{
    size_t cols = (size_t)b->cols;
    real *scale = scratch, *offset = scale + cols, *slope = offset + cols;
    struct call o = {
        .batch = b, .beta = beta, .y = dx, .x = x, .dy = dy, .mean = mean, .scale = scale,
        .offset = offset, .slope = slope, .sums = slope + cols,
    };
    share(sums, &o, b->present);
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, along = 0, rstd = rstd_of(variance[c], eps), count = (double)o.rows;
        for (int part = 0; part < o.parts; part++) {
            sum += (double)sums_of(&o, part)[c];
            along += (double)sums_of(&o, part)[cols + c];
        }
        if (dweight)
            dweight[c] += (real)(along * rstd);
        if (dbias)
            dbias[c] += (real)sum;
        scale[c] = (real)((double)weight[c] * rstd);
        offset[c] = own ? (real)(sum / count) : 0;
        slope[c] = own ? (real)(rstd * rstd * along / count) : 0;
    }
    if (dx.data)
        share(grad, &o, b->samples);
}
