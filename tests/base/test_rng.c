/* test_rng.c - the generator against published vectors, and the distributions made from it. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "test.h"

/* Random123, kat_vectors: philox4x32 with 10 rounds, four words of counter, two of key. */
static const struct vector {
    uint32_t counter[4], key[2], want[4];
} vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(rng_block__is_philox4x32_10)
{
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        uint64_t low = v->counter[0] | (uint64_t)v->counter[1] << 32;
        uint64_t high = v->counter[2] | (uint64_t)v->counter[3] << 32;
        uint64_t index = low & 0xffffffffffffu;                /* 48 bits */
        uint64_t sample = low >> 48 | (high & 0xffffff) << 16; /* 40 bits */
        uint64_t step = high >> 24;                            /* 40 bits */
        uint32_t got[4];
        test_about("vector %zu", i);
        rng_block(got, v->key[0] | (uint64_t)v->key[1] << 32, step, sample, index);
        for (int k = 0; k < 4; k++)
            CHECK_INT(got[k], v->want[k]);
    }
}

TEST(rng_bits__depend_on_every_argument)
{
    uint64_t bits = rng_bits(3, 5, 7, 9);
    CHECK(bits == rng_bits(3, 5, 7, 9));
    CHECK(bits != rng_bits(4, 5, 7, 9));
    CHECK(bits != rng_bits(3, 6, 7, 9));
    CHECK(bits != rng_bits(3, 5, 8, 9));
    CHECK(bits != rng_bits(3, 5, 7, 10));
}

TEST(rng_stream__depends_on_seed_and_name)
{
    CHECK(rng_stream(1, "init:a") == rng_stream(1, "init:a"));
    CHECK(rng_stream(1, "init:a") != rng_stream(2, "init:a"));
    CHECK(rng_stream(1, "init:a") != rng_stream((uint64_t)1 << 40, "init:a"));
    CHECK(rng_stream(1, "init:a") != rng_stream(1, "init:b"));
    CHECK(rng_stream(1, "") != rng_stream(2, ""));
}

/* Bounds are four standard errors or more; the numbers never change. */
TEST(rng_uniform__fills_the_open_interval_evenly)
{
    enum { N = 100000, BINS = 10 };
    int bin[BINS] = {0};
    double sum = 0, squares = 0, product = 0, last = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(11, 0, 0, (uint64_t)i);
        CHECK(u > 0 && u < 1);
        bin[(int)(u * BINS)]++;
        sum += u;
        squares += u * u;
        product += (u - 0.5) * (last - 0.5);
        last = u;
    }
    CHECK_NEAR(sum / N, 0.5, 4 * 0.2887 / sqrt(N));
    CHECK_NEAR(squares / N, 1.0 / 3, 4 * 0.298 / sqrt(N));
    CHECK_NEAR(product / N, 0, 4.0 / 12 / sqrt(N));
    for (int i = 0; i < BINS; i++)
        CHECK_NEAR(bin[i], N / BINS, 4 * sqrt(N * 0.1 * 0.9));
}

TEST(rng_normal__has_the_moments_and_tails_of_the_normal_distribution)
{
    enum { N = 200000 };
    double sum = 0, squares = 0, cubes = 0, fourth = 0;
    int beyond2 = 0, beyond3 = 0;
    for (int i = 0; i < N; i++) {
        double z = rng_normal(12, 1, 2, (uint64_t)i);
        CHECK(isfinite(z));
        sum += z;
        squares += z * z;
        cubes += z * z * z;
        fourth += z * z * z * z;
        beyond2 += fabs(z) > 2;
        beyond3 += fabs(z) > 3;
    }
    CHECK_NEAR(sum / N, 0, 4 / sqrt(N));
    CHECK_NEAR(squares / N, 1, 4 * sqrt(2.0 / N));
    CHECK_NEAR(cubes / N, 0, 4 * sqrt(15.0 / N));
    CHECK_NEAR(fourth / N, 3, 4 * sqrt(96.0 / N));
    CHECK_NEAR(beyond2, N * 0.0455003, 4 * sqrt(N * 0.0455));
    CHECK_NEAR(beyond3, N * 0.0026998, 4 * sqrt(N * 0.0027));
}

TEST(rng_normal__is_the_quantile_of_the_uniform_number)
{
    for (uint64_t i = 0; i < 2000; i++) {
        double u = rng_uniform(13, 0, 0, i), z = rng_normal(13, 0, 0, i);
        CHECK_NEAR(erfc(-z / sqrt(2)) / 2, u, 1e-14);
    }
}

TEST(rng_below__reaches_all_numbers_and_no_more)
{
    int seen[7] = {0};
    for (uint64_t i = 0; i < 7000; i++) {
        uint64_t n = rng_below(14, 0, 0, i, 7);
        CHECK(n < 7);
        seen[n]++;
    }
    for (int i = 0; i < 7; i++)
        CHECK_NEAR(seen[i], 1000, 4 * sqrt(7000.0 * 6 / 49));
    CHECK_INT(rng_below(14, 0, 0, 0, 1), 0);
}

TEST(rng_permutation__has_every_number_once_and_changes_with_the_step)
{
    enum { N = 257 };
    size_t a[N], b[N], again[N];
    bool seen[N] = {false};
    rng_permutation(a, N, 15, 1);
    rng_permutation(b, N, 15, 2);
    rng_permutation(again, N, 15, 1);
    int fixed = 0, same = 0;
    for (size_t i = 0; i < N; i++) {
        CHECK(a[i] < N && !seen[a[i]]);
        seen[a[i]] = true;
        fixed += a[i] == i;
        same += a[i] == b[i];
    }
    CHECK(memcmp(a, again, sizeof a) == 0);
    CHECK(fixed < 8 && same < 8);
    rng_permutation(a, 1, 15, 1);
    CHECK_INT(a[0], 0);
    rng_permutation(a, 0, 15, 1);
}
