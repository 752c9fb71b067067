/* gemm_parts.c - products cut into parts, which a team of threads takes one by one. */
#include "kernels/gemm.h"
#include "kernels/team.h"

enum {
    ROWS = 16,         /* parts begin at multiples of it, */
    COLS = BF16_PANEL, /* and of this */
    LEAST_MACS =
        1 << 19, /* of a part: some microseconds, several times what handing it out takes */
    FIXED_MACS = 6 << 20, /* of a product that is cut whoever computes it */
    FIXED_SIDE = 192,     /* of its parts, about: BLAS packs the other operand anew for each */
};

/* A product in down x across parts. */
struct parts {
    const struct gemm *g;
    int down, across;
};

/* Where part `part` of `parts` begins in n, in whole units. */
static int begin(int n, int unit, int parts, int part)
{
    long long units = (n + unit - 1) / unit;
    int at = (int)(units * part / parts) * unit;
    return at < n ? at : n;
}

/* The epilogue as seen from (i, j) on; i is 0 where it counts rows. */
static struct epilogue epilogue_at(const struct epilogue *e, int i, int j)
{
    struct epilogue at = *e;
    if (at.bias)
        at.bias += j;
    if (at.slope.data)
        at.slope = vec_at(at.slope, (size_t)i, (size_t)j);
    if (at.residual.data)
        at.residual = vec_at(at.residual, (size_t)i, (size_t)j);
    return at;
}

static void compute_part(const void *job, int part)
{
    const struct parts *o = job;
    struct gemm g = *o->g;
    int down = part % o->down, across = part / o->down;
    int i = begin(g.m, ROWS, o->down, down), j = begin(g.n, COLS, o->across, across);
    struct epilogue epilogue = epilogue_at(g.epilogue, i, j);
    g.m = begin(g.m, ROWS, o->down, down + 1) - i;
    g.n = begin(g.n, COLS, o->across, across + 1) - j;
    if (g.m == 0 || g.n == 0)
        return;
    g.c = vec_at(g.c, (size_t)i, (size_t)j);
    g.a = matrix_at(g.a, i, 0);
    g.b = matrix_at(g.b, 0, j);
    g.epilogue = &epilogue;
    g.compute(&g);
}

static void run(const struct parts *o)
{
    if (o->down * o->across == 1)
        o->g->compute(o->g);
    else
        team_run(compute_part, o, o->down * o->across);
}

static double macs_of(const struct gemm *g)
{
    return (double)g->m * g->n * g->k;
}

/* Across where c is wide enough, so that each thread reads its own part of a weight; two parts for
 * each thread where there is as much work, so that none waits long for another. */
void gemm_by_team(const struct gemm *g)
{
    struct parts o = {g, 1, 1};
    int threads = team_threads();
    double most = macs_of(g) / LEAST_MACS;
    if (threads > 1 && most >= 2) {
        int wanted = most < 2 * threads ? (int)most : 2 * threads;
        int cols = (g->n + COLS - 1) / COLS, rows = (g->m + ROWS - 1) / ROWS;
        bool may_cut_rows = !counts_rows(g->epilogue);
        while (may_cut_rows && cols * o.down < wanted && 2 * o.down <= rows)
            o.down *= 2;
        o.across = (wanted + o.down - 1) / o.down;
        o.across = o.across < cols ? o.across : cols;
    }
    run(&o);
}

void gemm_in_fixed_parts(const struct gemm *g)
{
    struct parts o = {g, 1, 1};
    if (macs_of(g) >= FIXED_MACS) {
        bool wide = g->n >= g->m / 2 || counts_rows(g->epilogue);
        int parts = ((wide ? g->n : g->m) + FIXED_SIDE - 1) / (2 * FIXED_SIDE) * 2;
        parts = parts < 2 ? 2 : parts;
        *(wide ? &o.across : &o.down) = parts;
    }
    run(&o);
}
