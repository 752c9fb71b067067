/* test_epilogue.c - what kernel_gemm and kernel_gemm_packed do to a product on its way to memory,
 * against plain loops in double. */
#include <math.h>
#include <stdlib.h>

#include "grid.h"
#include "test.h"

enum part {
    BIAS = 1,
    GELU = 2,
    SLOPE = 4,
    FACTOR = 8,
    RESIDUAL = 16,
    ALIAS = 32,
    ORDER = 64,
    ALL = 128,
};

struct problem {
    enum type type;
    size_t gap, m, n, k;
    int beta;
    unsigned parts;
};

/* c = beta c + a b and the parts of the epilogue, by the one function or the other. */
static void check_parts(const struct problem *o, bool is_packed, enum type c_type)
{
    bool moves = o->parts & ORDER && !o->beta;
    size_t m = o->m, n = o->n, k = o->k, period = moves ? m : 3;
    bool alias = o->parts & ALIAS && o->parts & RESIDUAL && !o->beta;
    struct grid a = grid_random(o->type, m, k, o->gap, 1);
    struct grid b = grid_random(is_packed ? TYPE_BF16 : o->type, n, k, o->gap, 1);
    struct grid c = grid_output(o->beta || alias, c_type, m, n, o->gap);
    struct grid slope = grid_poisoned(o->type, m, n, 1);
    struct grid residual = grid_random(c_type, m, n, 2, 1);
    real *bias = reals_random(n, 1), *factor = reals_random(m / period + 1, 2);
    struct epilogue e = {.bias = o->parts & BIAS ? bias : NULL, .gelu = o->parts & GELU};
    if (o->parts & SLOPE && e.gelu)
        e.slope = slope.vec;
    int *at = order_random(m);
    const struct row_order order = {at, m};
    if (moves)
        e.order = &order;
    if (o->parts & FACTOR)
        e.factor = factor;
    e.period = period;
    if (o->parts & RESIDUAL)
        e.residual = alias ? c.vec : residual.vec;

    if (is_packed) {
        void *data = aligned_alloc(64, kernel_packed_bytes((int)k, (int)n) / 64 * 64 + 64);
        CHECK(data);
        kernel_pack(data, TRANSPOSED, b.vec, (int)k, (int)n);
        kernel_gemm_packed(c.vec, o->beta, a.vec, (struct packed){data, (int)k, (int)n}, (int)m,
                           &e);
        free(data);
    } else {
        kernel_gemm(c.vec, o->beta, 1, PLAIN, a.vec, TRANSPOSED, b.vec, (int)m, (int)n, (int)k, &e);
    }

    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            size_t to = (moves ? (size_t)at[i] : i) * n + j;
            double add = alias ? c.value[to] : residual.value[to];
            double x = o->beta ? c.value[to] : 0;
            for (size_t p = 0; p < k; p++)
                x += a.value[i * k + p] * b.value[j * k + p];
            x += e.bias ? (double)bias[j] : 0;
            slope.value[i * n + j] =
                0.5 * erfc(-x * sqrt(0.5)) + x * exp(-0.5 * x * x) * 0.3989422804014327;
            x *= e.gelu ? 0.5 * erfc(-x * sqrt(0.5)) : 1;
            x *= e.factor ? (double)factor[i / period] : 1;
            c.value[to] = x + (o->parts & RESIDUAL ? add : 0);
        }
    }
    bool rounds = is_packed && o->type == TYPE_REAL; /* a */
    double tolerance =
        rounds ? 0x1p-8 * sqrt((double)k) : tolerance_of(4e-7 * (12 + sqrt((double)k)));
    grid_check(&c, tolerance);
    if (e.slope.data)
        grid_check(&slope, tolerance);
}

static void check_all(enum type type, size_t gap)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {7, 18, 5}, {33, 50, 64}, {67, 130, 35}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned step = sizes[i][0] > 60 ? 43 : sizes[i][0] == 7 ? 3 : 17; /* through the parts */
        for (unsigned parts = 0; parts < ALL; parts += step) {
            for (int beta = 0; beta <= 1; beta++) {
                struct problem o = {type, gap, sizes[i][0], sizes[i][1], sizes[i][2], beta, parts};
                check_parts(&o, false, type);
                check_parts(&o, false, TYPE_REAL);
                check_parts(&o, true, type);
                check_parts(&o, true, TYPE_REAL);
            }
        }
    }
}

TEST(epilogue__is_its_parts_in_order)
{
    each_level(check_all);
}

/* A sum so long that it is made in pieces; columns in whole panels and a part of one. */
static void check_long(enum type type, size_t gap)
{
    for (unsigned parts = 0; parts < ALL; parts += ALL - 1) {
        struct problem o = {type, gap, 5, 300, 1100, parts == 0, parts};
        check_parts(&o, false, type);
        check_parts(&o, true, TYPE_REAL);
    }
}

TEST(epilogue__comes_after_the_whole_sum)
{
    each_level(check_long);
}

/* c = I b: every number of b as the level stores it. */
static void check_rounding(enum type type, size_t gap)
{
    static const double from[] = {1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1.01p-8, -1 - 0x1p-8, 0x1.fffp3,
                                  1.5,        0x1.01p-30, 0x1.03p-30,    -0x1.ffp90,  0};
    static const double want[] = {1,   1 + 0x1p-6, 1 + 0x1p-7, -1,      0x1p4,
                                  1.5, 0x1p-30,    0x1.04p-30, -0x1p91, 0};
    enum { N = sizeof want / sizeof *want };
    struct grid one = grid_random(type, N, N, gap, 0), x = grid_random(TYPE_REAL, N, N, gap, 0);
    struct grid c = grid_poisoned(TYPE_BF16, N, N, gap), d = grid_poisoned(TYPE_REAL, N, N, gap);
    for (size_t i = 0; i < N; i++) {
        grid_set(&one, i, i, 1);
        for (size_t j = 0; j < N; j++)
            grid_set(&x, i, j, from[(i + j) % N]);
    }
    void *data = aligned_alloc(64, kernel_packed_bytes(N, N) / 64 * 64 + 64);
    CHECK(data);
    for (int trans = 0; trans < 2; trans++) {
        kernel_pack(data, trans ? TRANSPOSED : PLAIN, x.vec, N, N);
        kernel_gemm_packed(d.vec, 0, one.vec, (struct packed){data, N, N}, N, NULL);
        kernel_gemm_packed(c.vec, 0, x.vec, (struct packed){data, N, N}, 0, NULL);
        for (size_t i = 0; i < (size_t)N * N; i++)
            CHECK_NEAR(grid_get(&d, i / N, i % N), want[(i / N + i % N) % N], 0);
    }
    kernel_pack(data, PLAIN, one.vec, N, N);
    kernel_gemm_packed(c.vec, 0, x.vec, (struct packed){data, N, N}, N, NULL);
    for (size_t i = 0; i < (size_t)N * N; i++)
        CHECK_NEAR(grid_get(&c, i / N, i % N), want[(i / N + i % N) % N], 0);
    kernel_gemm(c.vec, 0, 1, PLAIN, one.vec, PLAIN, x.vec, N, N, N, NULL);
    for (size_t i = 0; i < (size_t)N * N; i++)
        CHECK_NEAR(grid_get(&c, i / N, i % N), want[(i / N + i % N) % N], 0);
    free(data);
}

TEST(packed__rounds_to_nearest_and_ties_to_even)
{
    each_level(check_rounding);
}

/* Operands rounded to bf16 against those that were not. */
static void check_accuracy(enum type type, size_t gap)
{
    enum { M = 40, N = 70, K = 192 };
    struct grid a = grid_random(TYPE_REAL, M, K, gap, 1), b = grid_random(TYPE_REAL, K, N, gap, 1);
    struct grid c = grid_poisoned(type, M, N, gap);
    void *data = aligned_alloc(64, kernel_packed_bytes(K, N) / 64 * 64 + 64);
    CHECK(data);
    kernel_pack(data, PLAIN, b.vec, K, N);
    kernel_gemm_packed(c.vec, 0, a.vec, (struct packed){data, K, N}, M, NULL);
    free(data);
    double error = 0, all = 0;
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t p = 0; p < K; p++)
                sum += a.value[i * K + p] * b.value[p * N + j];
            error += pow(grid_get(&c, i, j) - sum, 2);
            all += sum * sum;
        }
    }
    CHECK_NEAR(sqrt(error / all), 0, 1e-2);
    CHECK(sqrt(error / all) > 1e-4);
}

TEST(packed__products_are_as_exact_as_bf16)
{
    each_level(check_accuracy);
}

TEST(packed__takes_the_memory_that_was_promised)
{
    for (int k = 0; k < 70; k += 23)
        for (int n = 0; n < 70; n += 17)
            CHECK(kernel_packed_bytes(k, n) <= 2 * ((size_t)k + 31) * ((size_t)n + 15));
}
