/* test_gemm.c - products against the plain triple loop in double. */
#include <math.h>

#include "grid.h"
#include "test.h"

static const int sizes[][3] = {
    {1, 1, 1},    {7, 7, 7},      {16, 16, 16},   {17, 33, 1},   {50, 50, 16},   {50, 16, 50},
    {65, 65, 64}, {197, 197, 64}, {33, 1, 197},   {1, 197, 33},  {260, 70, 130}, {65, 96, 200},
    {29, 40, 67}, {66, 40, 33},   {3, 210, 1031}, {2, 35, 1100},
};

static void product(enum type type, size_t gap, int m, int n, int k, int which)
{
    enum trans ta = which & 1 ? TRANSPOSED : PLAIN, tb = which & 2 ? TRANSPOSED : PLAIN;
    int beta = which >> 2 & 1;
    bool with_bias = which & 8;
    size_t M = (size_t)m, N = (size_t)n, K = (size_t)k;
    struct grid a = ta == PLAIN ? grid_random(type, M, K, gap, 1) : grid_random(type, K, M, gap, 1);
    struct grid b = tb == PLAIN ? grid_random(type, K, N, gap, 1) : grid_random(type, N, K, gap, 1);
    struct grid c = grid_output(beta, type, M, N, gap);
    struct epilogue epilogue = {.bias = with_bias ? reals_random(N, 1) : NULL};
    double alpha = 0.75;

    kernel_gemm(c.vec, beta, alpha, ta, a.vec, tb, b.vec, m, n, k, with_bias ? &epilogue : NULL);
    for (size_t i = 0; i < M; i++) {
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t p = 0; p < K; p++)
                sum += a.value[ta == PLAIN ? i * K + p : p * M + i] *
                       b.value[tb == PLAIN ? p * N + j : j * K + p];
            c.value[i * N + j] += alpha * sum + (with_bias ? (double)epilogue.bias[j] : 0);
        }
    }
    grid_check(&c, tolerance_of(2e-7 * (5 + sqrt(k))));
}

static void check_products(enum type type, size_t gap)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        bool large = (double)m * n * k > 5e5;
        for (int which = 0; which < 16; which += large ? 5 : 1)
            product(type, gap, m, n, k, which);
    }
}

TEST(gemm__is_the_plain_loop)
{
    each_level(check_products);
}

static void check_empty(enum type type, size_t gap)
{
    for (int beta = 0; beta <= 1; beta++) {
        struct grid a = grid_random(type, 5, 1, gap, 1), c = grid_output(beta, type, 5, 7, gap);
        struct epilogue epilogue = {.bias = reals_random(7, 1)};
        kernel_gemm(c.vec, beta, 1, PLAIN, a.vec, PLAIN, a.vec, 5, 7, 0, NULL);
        grid_check(&c, 0);
        kernel_gemm(c.vec, beta, 1, PLAIN, a.vec, PLAIN, a.vec, 0, 7, 5, NULL);
        kernel_gemm(c.vec, beta, 1, PLAIN, a.vec, PLAIN, a.vec, 5, 0, 5, NULL);
        grid_check(&c, 0);
        kernel_gemm(c.vec, beta, 1, PLAIN, a.vec, PLAIN, a.vec, 5, 7, 0, &epilogue);
        for (size_t i = 0; i < 35; i++)
            c.value[i] += (double)epilogue.bias[i % 7];
        grid_check(&c, tolerance_of(2e-7));
    }
}

TEST(gemm__takes_sizes_of_zero)
{
    each_level(check_empty);
}

TEST(gemm__takes_mixed_types)
{
    CHECK(kernels_init(NULL) == OK);
    for (int which = 0; which < 8; which++) {
        enum type a = which & 1 ? TYPE_BF16 : TYPE_REAL, b = which & 2 ? TYPE_BF16 : TYPE_REAL;
        struct grid x = grid_random(a, 33, 200, 1, 1), w = grid_random(b, 40, 200, 2, 1);
        struct grid y = grid_output(1, which & 4 ? TYPE_BF16 : TYPE_REAL, 33, 40, 3);
        kernel_gemm(y.vec, 1, 1, PLAIN, x.vec, TRANSPOSED, w.vec, 33, 40, 200, NULL);
        for (size_t i = 0; i < 33; i++)
            for (size_t j = 0; j < 40; j++)
                for (size_t p = 0; p < 200; p++)
                    y.value[i * 40 + j] += x.value[i * 200 + p] * w.value[j * 200 + p];
        grid_check(&y, tolerance_of(1e-5));
    }
}
