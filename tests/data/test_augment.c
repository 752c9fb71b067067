/* test_augment.c - crops, mirroring and normalisation, value by value. */
#include <stdlib.h>

#include "base/rng.h"
#include "data/augment.h"
#include "data/normalize.h"
#include "data_files.h"
#include "test.h"

static const struct image_shape shape = {2, 2, 3};
static const uint8_t image[12] = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};

/* Applies the change with table[c * 256 + p] = p + 100 c + 0.5, so that black shows. */
static void apply(struct augment_draw draw, real *out)
{
    real table[512];
    for (int i = 0; i < 512; i++)
        table[i] = (real)(i % 256 + 100 * (i / 256) + 0.5);
    augment_apply(&draw, shape, image, table, out);
}

static void check_apply(struct augment_draw draw, const int *want)
{
    real out[12];
    apply(draw, out);
    for (int i = 0; i < 12; i++)
        CHECK_NEAR(out[i], want[i] + 0.5, 0);
}

TEST(augment__no_change_normalises_alone)
{
    static const int want[12] = {1, 2, 3, 4, 5, 6, 111, 112, 113, 114, 115, 116};
    check_apply((struct augment_draw){0}, want);
}

TEST(augment__a_flip_mirrors_left_and_right)
{
    static const int want[12] = {3, 2, 1, 6, 5, 4, 113, 112, 111, 116, 115, 114};
    check_apply((struct augment_draw){.flip = true}, want);
}

TEST(augment__a_crop_shows_black_beyond_the_edges)
{
    static const int down_right[12] = {5, 6, 0, 0, 0, 0, 115, 116, 100, 100, 100, 100};
    check_apply((struct augment_draw){.down = 1, .right = 1}, down_right);
    static const int up_left[12] = {0, 0, 0, 0, 0, 1, 100, 100, 100, 100, 100, 111};
    check_apply((struct augment_draw){.down = -1, .right = -2}, up_left);
    static const int outside[12] = {0, 0, 0, 0, 0, 0, 100, 100, 100, 100, 100, 100};
    check_apply((struct augment_draw){.down = 5, .right = -7}, outside);
}

TEST(augment__the_crop_comes_before_the_flip)
{
    static const int want[12] = {0, 3, 2, 0, 6, 5, 100, 113, 112, 100, 116, 115};
    check_apply((struct augment_draw){.right = 1, .flip = true}, want);
}

TEST(augment__draws_cover_the_range_evenly)
{
    enum { N = 20000 };
    const struct augment options = {.random_crop_padding = 2, .hflip = 0.25};
    uint64_t stream = rng_stream(1, "augment");
    int down[5] = {0}, right[5] = {0}, flips = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct augment_draw draw = augment_draw(&options, stream, 3, i);
        CHECK(abs(draw.down) <= 2 && abs(draw.right) <= 2);
        down[draw.down + 2]++;
        right[draw.right + 2]++;
        flips += draw.flip;
    }
    for (int k = 0; k < 5; k++) { /* within five standard deviations */
        CHECK_NEAR(down[k], N / 5, 283);
        CHECK_NEAR(right[k], N / 5, 283);
    }
    CHECK_NEAR(flips, N / 4, 307);
}

TEST(augment__probabilities_0_and_1_are_certain)
{
    uint64_t stream = rng_stream(1, "augment");
    for (uint64_t i = 0; i < 1000; i++) {
        struct augment_draw never = augment_draw(&(struct augment){.hflip = 0}, stream, 0, i);
        CHECK(!never.flip && never.down == 0 && never.right == 0);
        CHECK(augment_draw(&(struct augment){.hflip = 1}, stream, 0, i).flip);
    }
}

TEST(normalize__tables_hold_the_formula)
{
    struct normalization n = {.channels = 2, .mean = {0.25, 0.5}, .std = {0.5, 0.125}};
    real table[512];
    normalization_table(&n, table);
    CHECK_NEAR(table[0], -0.5, 1e-6);
    CHECK_NEAR(table[255], 1.5, 1e-6);
    CHECK_NEAR(table[256], -4, 1e-6);
    CHECK_NEAR(table[256 + 51], (0.2 - 0.5) / 0.125, 1e-6);
}

TEST(normalize__defaults_are_those_of_the_format)
{
    struct data_config config = config_of("cifar10", "x");
    struct normalization n;
    struct error err;
    CHECK_OK(normalization_resolve(&n, &config, 3, &err), err);
    CHECK_NEAR(n.mean[2], 0.4465, 0);
    CHECK_NEAR(n.std[1], 0.2435, 0);
    CHECK_INT(normalization_resolve(&n, &config, 1, &err), ERR_INPUT);
    config = config_of("mnist", "x");
    CHECK_OK(normalization_resolve(&n, &config, 3, &err), err);
    CHECK_NEAR(n.mean[2], 0.1307, 0);
    config = config_of("synthetic", NULL);
    CHECK_OK(normalization_resolve(&n, &config, 5, &err), err);
    CHECK_NEAR(n.std[4], 0.5, 0);
}

TEST(normalize__lists_need_an_entry_a_channel_and_a_positive_std)
{
    struct data_config config = config_of("mnist", "x");
    struct normalization n;
    struct error err;
    double values[3] = {0.1, 0.2, 0.3};
    config.normalize.mean = (struct reals){3, values};
    CHECK_INT(normalization_resolve(&n, &config, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text,
                   "data.normalize.mean: holds 3 numbers, expected one for each of 1 channel");
    CHECK_OK(normalization_resolve(&n, &config, 3, &err), err);
    CHECK_NEAR(n.mean[1], 0.2, 0);
    CHECK_NEAR(n.std[1], 0.3081, 0);
    values[1] = 0;
    config.normalize.std = (struct reals){3, values};
    CHECK_INT(normalization_resolve(&n, &config, 3, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.normalize.std[1]: 0 is not above 0");
    CHECK_INT(normalization_resolve(&n, &config, 99, &err), ERR_INPUT);
}
