/* test_linear_attention.c - linear attention against the formula in double, weight by weight. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "test.h"

static const int shapes[][5] = {
    /* B, H, N = M, d, e */
    {1, 1, 1, 1, 1}, {4, 3, 7, 5, 6}, {3, 2, 50, 16, 16}, {1, 1, 197, 24, 17}, {2, 1, 300, 8, 33},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* A problem; features, values and their gradients lie by tokens: (B N, H d), (B N, H e). */
struct problem {
    struct linear_attention o;
    struct grid a, f, v, y, dy, da, df, dv;
    real *state, *n, *scratch;
    int beta;
};

/* Tokens in windows of one region, and of three that interleave. */
static void make_regions(struct linear_attention *o)
{
    static int at[2 * 300], length[2 * 300];
    int N = o->N, count = 0;
    for (int i = 0; i < N; i++)
        at[i] = i;
    for (int r = 0; r < 3; r++) {
        int first = count;
        for (int i = 0; i < N; i++)
            if (i * 7 % 5 % 3 == r)
                at[N + count++] = i;
        length[N + first] = count - first;
    }
    length[0] = N;
    o->windows = 2;
    o->at = at;
    o->length = length;
}

/* Which case this is, out of many: den, order, basis, regions, beta. */
static struct problem make(const int *shape, enum type type, size_t gap, int which)
{
    static const enum linear_den dens[] = {DEN_ADD, DEN_CLAMP, DEN_NONE, DEN_CONST};
    struct problem p = {.beta = which / 8 % 2};
    p.o = (struct linear_attention){
        .B = shape[0],
        .H = shape[1],
        .N = shape[2],
        .M = shape[2],
        .d = shape[3],
        .e = shape[4],
        .den = dens[which / 2 % 4],
        .eps =
            0.36 * shape[3] * (which % 3 ? shape[2] : 1), /* about the sum of a query's weights */
        .per_key = which % 3 == 0,
        .quadratic = which % 2,
        .basis = which % 5 == 4 ? BASIS_SYM : BASIS_NONE,
        .c = {0.5, 0.2, 0.1},
        .team = 3,
    };
    p.o.D = kernel_linear_features(p.o.d, p.o.basis, p.o.c);
    if (which % 7 > 3 && shape[2] > 3)
        make_regions(&p.o);
    size_t rows = (size_t)(p.o.B * p.o.N), features = (size_t)(p.o.H * p.o.d);
    size_t values = (size_t)(p.o.H * p.o.e);
    p.a = grid_random(TYPE_REAL, rows, features, gap, 1);
    p.f = grid_random(TYPE_REAL, rows, features, gap, 1);
    for (size_t i = 0; i < rows * features; i++) { /* above 0: no denominator is near it */
        grid_set(&p.a, i / features, i % features, 0.1 + fabs(p.a.value[i]));
        grid_set(&p.f, i / features, i % features, 0.1 + fabs(p.f.value[i]));
    }
    p.v = grid_random(type, rows, values, gap, 1);
    p.dy = grid_random(type, rows, values, gap, 1);
    p.y = grid_poisoned(type, rows, values, gap);
    p.da = grid_output(p.beta, TYPE_REAL, rows, features, gap);
    p.df = grid_output(p.beta, TYPE_REAL, rows, features, gap);
    p.dv = grid_output(p.beta, type, rows, values, gap);
    p.state = reals_random(kernel_linear_attention_state(&p.o), 1);
    p.n = reals_random((size_t)(p.o.B * p.o.H * p.o.N), 1);
    size_t scratch = kernel_linear_attention_scratch(&p.o);
    p.scratch = reals_random(scratch, 0);
    memset(p.scratch, 0xff, scratch * sizeof *p.scratch); /* NaN */
    return p;
}

static struct heads view(const struct grid *g, int N, int width)
{
    return (struct heads){g->vec.data, g->vec.type, N * g->vec.stride, width, g->vec.stride};
}

static void run(struct problem *p)
{
    const struct linear_attention *o = &p->o;
    struct heads a = view(&p->a, o->N, o->d), f = view(&p->f, o->N, o->d);
    struct heads v = view(&p->v, o->N, o->e), y = view(&p->y, o->N, o->e);
    kernel_linear_attention(y, p->state, p->n, a, f, v, o, p->scratch);
    kernel_linear_attention_grad(view(&p->da, o->N, o->d), p->beta, view(&p->df, o->N, o->d),
                                 p->beta, view(&p->dv, o->N, o->e), p->beta, a, f, v,
                                 view(&p->dy, o->N, o->e), p->state, p->n, o, p->scratch);
}

/* Whether tokens of an image see each other. */
static bool meets(const struct linear_attention *o, int b, int i, int j)
{
    return !o->length || b % 2 == 0 || i * 7 % 5 % 3 == j * 7 % 5 % 3;
}

static double *row(const struct grid *g, const struct linear_attention *o, int b, int h, int i,
                   int width)
{
    return g->value + (size_t)(b * o->N + i) * g->cols + (size_t)(h * width);
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += x[c] * y[c];
    return sum;
}

/* y and the gradients of one query, in the values of the grids. */
static void plain_query(struct problem *p, int b, int h, int i)
{
    const struct linear_attention *o = &p->o;
    const double *a = row(&p->a, o, b, h, i, o->d), *dy = row(&p->dy, o, b, h, i, o->e);
    double *y = row(&p->y, o, b, h, i, o->e), *da = row(&p->da, o, b, h, i, o->d);
    double n = 0, keys = 0, den, slope;
    for (int j = 0; j < o->N; j++)
        if (meets(o, b, i, j)) {
            double s = dot(a, row(&p->f, o, b, h, j, o->d), o->d);
            double t = o->basis ? o->c[0] + s * (o->c[1] + s * o->c[2]) : s;
            for (int c = 0; c < o->e; c++)
                y[c] += t * row(&p->v, o, b, h, j, o->e)[c];
            n += t;
            keys++;
        }
    double eps = o->per_key ? o->eps * keys : o->eps;
    den = o->den == DEN_ADD     ? n + eps
          : o->den == DEN_CLAMP ? fmax(n, eps)
          : o->den == DEN_NONE  ? 1
                                : eps;
    slope = o->den == DEN_ADD || (o->den == DEN_CLAMP && n > eps);
    for (int c = 0; c < o->e; c++)
        y[c] /= den;
    for (int j = 0; j < o->N; j++)
        if (meets(o, b, i, j)) {
            const double *f = row(&p->f, o, b, h, j, o->d), *v = row(&p->v, o, b, h, j, o->e);
            double s = dot(a, f, o->d), dt = (dot(dy, v, o->e) - slope * dot(dy, y, o->e)) / den;
            double t = o->basis ? o->c[0] + s * (o->c[1] + s * o->c[2]) : s;
            double ds = o->basis ? dt * (o->c[1] + 2 * s * o->c[2]) : dt;
            for (int c = 0; c < o->d; c++) {
                da[c] += ds * f[c];
                row(&p->df, o, b, h, j, o->d)[c] += ds * a[c];
            }
            for (int c = 0; c < o->e; c++)
                row(&p->dv, o, b, h, j, o->e)[c] += t * dy[c] / den;
        }
}

static void check_formula(enum type type, size_t gap)
{
    for (int i = 0; i < SHAPES; i++)
        for (int which = i; which < 64; which += i < 3 ? 1 : 7) {
            struct problem p = make(shapes[i], type, gap, which);
            run(&p);
            for (int b = 0; b < p.o.B; b++)
                for (int h = 0; h < p.o.H; h++)
                    for (int t = 0; t < p.o.N; t++)
                        plain_query(&p, b, h, t);
            test_about("shape %d, case %d", i, which);
            double sum = 4e-7 * (8 + p.o.N + p.o.d);
            grid_check(&p.y, tolerance_of(sum));
            grid_check(&p.da, tolerance_of(4 * sum));
            grid_check(&p.df, tolerance_of(4 * sum));
            grid_check(&p.dv, tolerance_of(4 * sum));
        }
}

TEST(linear_attention__is_the_formula)
{
    each_level(check_formula);
}

static size_t bytes_of(const struct grid *g)
{
    return ((g->rows - 1) * (g->cols + g->gap) + g->cols) * type_size(g->vec.type);
}

/* For three threads there is scratch, not for four. */
static void check_team(enum type type, size_t gap)
{
    for (int which = 0; which < 10; which++) {
        struct problem p = make(shapes[2], type, gap, which);
        p.beta = 0;
        run(&p);
        struct problem one = p;
        p.y = grid_poisoned(type, p.y.rows, p.y.cols, gap);
        p.da = grid_poisoned(TYPE_REAL, p.da.rows, p.da.cols, gap);
        p.df = grid_poisoned(TYPE_REAL, p.df.rows, p.df.cols, gap);
        p.dv = grid_poisoned(type, p.dv.rows, p.dv.cols, gap);
        for (int threads = 2; threads <= 4; threads++) {
            test_about("case %d, %d threads", which, threads);
            kernels_team(threads);
            run(&p);
            kernels_team(1);
            CHECK(memcmp(p.y.vec.data, one.y.vec.data, bytes_of(&p.y)) == 0);
            CHECK(memcmp(p.da.vec.data, one.da.vec.data, bytes_of(&p.da)) == 0);
            CHECK(memcmp(p.df.vec.data, one.df.vec.data, bytes_of(&p.df)) == 0);
            CHECK(memcmp(p.dv.vec.data, one.dv.vec.data, bytes_of(&p.dv)) == 0);
        }
    }
}

TEST(linear_attention__gives_the_same_bits_whatever_the_team)
{
    each_level(check_team);
}

TEST(linear_attention__needs_memory_that_grows_with_tokens_only)
{
    for (int quadratic = 0; quadratic < 2; quadratic++) {
        struct linear_attention o = {.B = 1,
                                     .H = 1,
                                     .N = 4000,
                                     .M = 4000,
                                     .d = 64,
                                     .e = 64,
                                     .D = 64,
                                     .quadratic = quadratic};
        size_t small = kernel_linear_attention_scratch(&o),
               state = kernel_linear_attention_state(&o);
        CHECK_INT(state, quadratic ? 0 : 64 * 65);
        o.N = o.M = 16000;
        CHECK(kernel_linear_attention_scratch(&o) < 5 * small);
        CHECK(kernel_linear_attention_scratch(&o) < 1000u * 16000u);
        CHECK_INT(kernel_linear_attention_state(&o), state);
        size_t one = kernel_linear_attention_scratch(&o);
        o.B = o.H = 8;
        CHECK_INT(kernel_linear_attention_scratch(&o), one);
        o.team = 5;
        CHECK_INT(kernel_linear_attention_scratch(&o), 5 * one);
        CHECK_INT(kernel_linear_attention_state(&o), 64 * state);
    }
}
