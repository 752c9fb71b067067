/* gemm_parts.c - products cut into parts, which a team of threads takes one by one. */
#include "kernels/gemm.h"
#include "kernels/team.h"

enum {
    ROWS = 16,            /* parts begin at multiples of it, */
    COLS = BF16_PANEL,    /* and of this */
    LEAST_MACS = 1 << 19, /* of a part: several times what handing it out takes */
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

static void compute_part(const void *job, int part, int member)
{
    (void)member;
    const struct parts *o = job;
    struct gemm g = *o->g;
    int across = part % o->across, down = part / o->across;
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

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Two parts for each thread, so that none waits long for another. Where b is packed c is cut into
 * rows, as other kernels do: a thread then finds in its cache what it wrote. Else each part would
 * pack b again, and columns come first. */
void gemm_by_team(const struct gemm *g)
{
    struct parts o = {g, 1, 1};
    double most = macs_of(g) / LEAST_MACS;
    int wanted = team_threads() > 1 ? least(2 * team_threads(), most < 1 ? 1 : (int)most) : 1;
    int rows = counts_rows(g->epilogue) ? 1 : (g->m + ROWS - 1) / ROWS;
    int cols = (g->n + COLS - 1) / COLS;
    int *first = g->b_is_packed ? &o.down : &o.across;
    int *second = g->b_is_packed ? &o.across : &o.down;
    *first = least(wanted, g->b_is_packed ? rows : cols);
    *second = least((wanted + *first - 1) / *first, g->b_is_packed ? cols : rows);
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
