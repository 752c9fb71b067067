/* test_team.c - one call on several threads: each part once, and the bits of one thread. */
#include "kernels/team.h"

#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "test.h"

enum { MOST_THREADS = 4, PARTS = 100 };

static void count(const void *job, int part, int member)
{
    (void)member;
    int *const *counts = job;
    __atomic_add_fetch(*counts + part, 1, __ATOMIC_RELAXED);
}

TEST(team_run__runs_each_part_once)
{
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        int counts[PARTS] = {0}, *job = counts;
        kernels_team(threads);
        CHECK_INT(team_threads(), threads);
        for (int parts = 1; parts <= PARTS; parts++)
            team_run(count, &job, parts);
        kernels_team(1);
        for (int part = 0; part < PARTS; part++)
            CHECK_INT(counts[part], PARTS - part);
    }
}

static void note_threads(const void *job, int part, int member)
{
    int *const *threads = job;
    (*threads)[part] = 10 * team_threads() + member;
}

TEST(team__has_one_thread_inside_of_a_part_and_elsewhere)
{
    int threads[PARTS] = {0}, *job = threads, other = 0;
    kernels_team(3);
    team_run(note_threads, &job, PARTS);
#pragma omp parallel num_threads(2)
#pragma omp critical
    other += team_threads();
    kernels_team(0);
    for (int part = 0; part < PARTS; part++)
        CHECK(threads[part] >= 10 && threads[part] <= 12);
    CHECK_INT(other, 2);
    CHECK_INT(team_threads(), 1);
}

TEST(team_rows__cover_all_rows_in_order)
{
    static const size_t sizes[][2] = {{0, 5}, {1, 9}, {1, 100000}, {197, 192}, {5000, 777}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t rows = sizes[i][0], next = 0;
        int parts = team_row_parts(rows, sizes[i][1]);
        CHECK(parts >= 1);
        for (int part = 0; part < parts; part++) {
            struct team_rows r = team_rows_of(rows, parts, part);
            CHECK_INT(r.first, next);
            CHECK(r.count > 0 || rows == 0);
            next += r.count;
        }
        CHECK_INT(next, rows);
    }
    CHECK(team_row_parts(197, 192) >= 8);
    CHECK_INT(team_row_parts(10, 10), 1);
}

/* --- products ----------------------------------------------------------------------------------
 */

static bool same_bits(const struct grid *a, const struct grid *b)
{
    size_t bytes = ((a->rows - 1) * (a->cols + a->gap) + a->cols) * type_size(a->vec.type);
    return memcmp(a->vec.data, b->vec.data, bytes) == 0;
}

struct product {
    enum trans ta, tb;
    int m, n, k, beta;
    struct grid a, b;
    struct epilogue epilogue;
    const void *panels; /* NULL: b as it is */
};

/* c += a b on one thread and on more. */
static void check_product(const struct product *o, const struct grid *c)
{
    struct grid first = {0};
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        struct grid to = grid_copy(c);
        kernels_team(threads);
        if (o->panels)
            kernel_gemm_packed(to.vec, o->beta, o->a.vec, (struct packed){o->panels, o->k, o->n},
                               o->m, &o->epilogue);
        else
            kernel_gemm(to.vec, o->beta, 1, o->ta, o->a.vec, o->tb, o->b.vec, o->m, o->n, o->k,
                        &o->epilogue);
        kernels_team(1);
        if (threads == 1)
            first = to;
        test_about("%d threads, %d x %d x %d%s", threads, o->m, o->n, o->k,
                   o->panels ? ", packed" : "");
        CHECK(same_bits(&to, &first));
    }
}

static void check_products(enum type type, size_t gap)
{
    static const int sizes[][3] = {
        {197, 192, 192}, {197, 70, 200}, {66, 1300, 192}, {900, 40, 130}, {5, 400, 1100},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        size_t M = (size_t)m, N = (size_t)n, K = (size_t)k;
        struct product o = {.m = m, .n = n, .k = k, .beta = (int)(i % 2)};
        o.ta = i % 3 == 1 ? TRANSPOSED : PLAIN;
        o.tb = i % 3 == 2 ? PLAIN : TRANSPOSED;
        o.a = o.ta == PLAIN ? grid_random(type, M, K, gap, 1) : grid_random(type, K, M, gap, 1);
        o.b = o.tb == PLAIN ? grid_random(type, K, N, gap, 1) : grid_random(type, N, K, gap, 1);
        struct grid residual = grid_random(type, M, N, 2, 1);
        o.epilogue = (struct epilogue){.bias = reals_random(N, 1), .residual = residual.vec};
        if (i % 2) {
            o.epilogue.factor = reals_random(M, 1);
            o.epilogue.period = 1;
        }
        const struct row_order order = {order_random(M), M};
        if (i == 2 || i == 4) {
            o.epilogue.order = &order;
            o.epilogue.period = M;
        }
        struct grid c = grid_output(o.beta, type, M, N, gap);
        check_product(&o, &c);
        if (o.ta == TRANSPOSED)
            continue;
        void *panels = aligned_alloc(64, kernel_packed_bytes(k, n) / 64 * 64 + 64);
        CHECK(panels);
        kernel_pack(panels, o.tb, o.b.vec, k, n);
        o.panels = panels;
        check_product(&o, &c);
        free(panels);
    }
}

TEST(gemm__gives_the_same_bits_whatever_the_team)
{
    each_level(check_products);
}

/* --- rows --------------------------------------------------------------------------------------
 */

enum { RESULTS = 8 };

/* Row kernels one after another on copies of the same numbers; the results lie in y. */
static void run_rows(struct grid y[RESULTS], const struct grid *x, const struct grid *dy)
{
    enum { ROWS = 197, COLS = 192 };
    static int *at;
    at = at ? at : order_random(ROWS);
    const struct row_order order = {at, ROWS};
    static const real *weight, *bias;
    real mean[ROWS], rstd[ROWS];
    weight = weight ? weight : reals_random(COLS, 1);
    bias = bias ? bias : reals_random(COLS, 1);
    for (int i = 0; i < RESULTS; i++)
        y[i] = grid_copy(dy);
    kernel_accumulate(y[0].vec, 1, x->vec, 0.3, ROWS, COLS);
    kernel_gelu(y[1].vec, x->vec, ROWS, COLS);
    kernel_gelu_grad(y[2].vec, 1, x->vec, dy->vec, ROWS, COLS);
    kernel_layer_norm(y[3].vec, mean, rstd, x->vec, weight, bias, 1e-6, ROWS, COLS);
    kernel_layer_norm_to(y[4].vec, &order, mean, rstd, x->vec, weight, bias, 1e-6, ROWS, COLS);
    kernel_gather_rows(y[5].vec, 0, x->vec, &order, NULL, 0, ROWS, COLS);
    kernel_scatter_rows(y[6].vec, 1, x->vec, &order, 0, ROWS, COLS);
    kernel_add(y[7].vec, y[7].vec, x->vec, ROWS, COLS);
}

static void check_rows(enum type type, size_t gap)
{
    struct grid x = grid_random(type, 197, 192, gap, 2), dy = grid_random(type, 197, 192, gap, 2);
    struct grid one[RESULTS], more[RESULTS];
    run_rows(one, &x, &dy);
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        kernels_team(threads);
        run_rows(more, &x, &dy);
        kernels_team(1);
        for (int i = 0; i < RESULTS; i++) {
            test_about("%d threads, kernel %d", threads, i);
            CHECK(same_bits(&more[i], &one[i]));
        }
    }
}

TEST(rows__give_the_same_bits_whatever_the_team)
{
    each_level(check_rows);
}
