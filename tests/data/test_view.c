/* test_view.c - crops, jitter and erasing as drawn, and the order of the steps to a model's input.
 */
#include "data/view.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "data/augment.h"
#include "data_files.h"
#include "test.h"

enum { IMAGES = 4, SIDE = 32, VALUES = 3 * SIDE * SIDE };

static struct dataset *open_images(struct data_config *config)
{
    const char *folder = test_directory();
    put_cifar(folder, "data_batch_1.bin", IMAGES, 1, 2);
    *config = config_of("cifar10", folder);
    return open_dataset(config, SPLIT_TRAIN, (struct image_shape){3, SIDE, SIDE}, 10);
}

static void make(const struct dataset *d, const struct data_config *config, uint64_t position,
                 real *out)
{
    struct view v;
    struct view_scratch s;
    struct error err;
    CHECK_OK(view_init(&v, d, config, true, 1, &err), err);
    CHECK_OK(view_scratch_init(&s, &v, &err), err);
    CHECK_OK(view_make(&v, &s, 0, 0, position, out, &err), err);
    view_scratch_free(&s);
    view_free(&v);
}

static int differing(const real *a, const real *b)
{
    int n = 0;
    for (int i = 0; i < VALUES; i++)
        n += a[i] < b[i] || a[i] > b[i];
    return n;
}

TEST(view__without_options_both_ways_give_the_plain_image)
{
    struct data_config config;
    static real plain[VALUES], whole[VALUES];
    struct dataset *d = open_images(&config);
    make(d, &config, 0, plain);
    config.augment.auto_augment = "rand-p0";
    make(d, &config, 0, whole);
    CHECK_INT(differing(plain, whole), 0);
    double range[2] = {1, 1};
    struct resized_crop all = {{2, range}, {2, range}};
    config.augment.auto_augment = NULL;
    config.augment.random_resized_crop = &all;
    make(d, &config, 0, whole);
    CHECK_INT(differing(plain, whole), 0);
    dataset_close(d);
}

TEST(view__shifts_and_flips_are_the_same_in_colour_and_in_planes)
{
    struct data_config config;
    static real plain[VALUES], whole[VALUES];
    struct dataset *d = open_images(&config);
    config.augment.random_crop_padding = 5;
    config.augment.hflip = config.augment.vflip = 0.5;
    for (uint64_t position = 0; position < 20; position++) {
        config.augment.auto_augment = NULL;
        make(d, &config, position, plain);
        config.augment.auto_augment = "rand-p0";
        make(d, &config, position, whole);
        CHECK_INT(differing(plain, whole), 0);
    }
    dataset_close(d);
}

TEST(view__erasing_comes_after_normalisation)
{
    struct data_config config;
    static real plain[VALUES], erased[VALUES];
    struct dataset *d = open_images(&config);
    struct erasing o = {.probability = 1, .mode = ERASE_CONST, .count = 1};
    make(d, &config, 0, plain);
    config.augment.random_erasing = &o;
    make(d, &config, 0, erased);
    int zeros = 0;
    for (int i = 0; i < VALUES; i++) {
        bool zero = !(erased[i] < 0 || erased[i] > 0);
        CHECK(zero || !(erased[i] < plain[i] || erased[i] > plain[i]));
        zeros += zero;
    }
    CHECK(zeros >= (int)(0.015 * VALUES) && zeros <= (int)(0.36 * VALUES));
    dataset_close(d);
}

TEST(view__a_record_of_grey_is_cropped_in_one_channel)
{
    struct data_config config;
    const char *folder = test_directory();
    put_mnist(folder, 3, 12, 10, 3);
    config = config_of("mnist", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, (struct image_shape){1, 12, 10}, 3);
    double scale[2] = {0.2, 0.5}, ratio[2] = {0.75, 1.25};
    struct resized_crop crop = {{2, scale}, {2, ratio}};
    static real out[2][VALUES];
    make(d, &config, 0, out[0]);
    config.augment.random_resized_crop = &crop;
    make(d, &config, 0, out[1]);
    double range[2][2];
    for (int k = 0; k < 2; k++) {
        range[k][0] = range[k][1] = (double)out[k][0];
        for (int i = 0; i < 120; i++) {
            range[k][0] = fmin(range[k][0], (double)out[k][i]);
            range[k][1] = fmax(range[k][1], (double)out[k][i]);
        }
    }
    /* Pixel p has the value p: a part has a smaller range. */
    CHECK(range[1][1] - range[1][0] < 0.9 * (range[0][1] - range[0][0]));
    dataset_close(d);
}

TEST(view__images_in_colour_are_a_function_of_seed_and_position)
{
    struct data_config config;
    static real first[VALUES], again[VALUES], other[VALUES];
    double scale[2] = {0.08, 1}, ratio[2] = {0.75, 4 / 3.0};
    struct resized_crop crop = {{2, scale}, {2, ratio}};
    struct erasing o = {.probability = 1, .mode = ERASE_PIXEL, .count = 2};
    struct dataset *d = open_images(&config);
    config.augment = (struct augment){.hflip = 0.5,
                                      .random_resized_crop = &crop,
                                      .interpolation = INTERPOLATE_RANDOM,
                                      .color_jitter = 0.3,
                                      .auto_augment = "3a",
                                      .random_erasing = &o};
    make(d, &config, 7, first);
    make(d, &config, 7, again);
    make(d, &config, 8, other);
    CHECK_INT(differing(first, again), 0);
    CHECK(differing(first, other) > VALUES / 2);
    dataset_close(d);
}

TEST(view__contradictions_are_refused)
{
    struct error err;
    double range[2] = {1, 0.5}, fine[2] = {0.5, 1};
    struct resized_crop crop = {{2, fine}, {2, range}};
    struct augment o = {.random_resized_crop = &crop};
    CHECK_INT(augment_check(&o, 3, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.augment.random_resized_crop.ratio: expected the least and");
    crop.ratio.at = fine;
    CHECK_INT(augment_check(&o, 3, &err), OK);
    CHECK_INT(augment_check(&o, 1, &err), OK);
    CHECK_INT(augment_check(&o, 2, &err), ERR_INPUT);
    o.random_crop_padding = 4;
    CHECK_INT(augment_check(&o, 3, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.augment.random_crop_padding: 4 beside random_resized_crop");
    o = (struct augment){.auto_augment = "3a"};
    CHECK_INT(augment_check(&o, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text,
                   "data.augment.auto_augment: changes colours, and the model takes images "
                   "of 1 channel");
    o = (struct augment){.color_jitter = 0.3};
    CHECK_INT(augment_check(&o, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.augment.color_jitter: ");
}

TEST(augment__crops_have_the_areas_and_ratios_asked_for)
{
    enum { N = 4000 };
    double scale[2] = {0.08, 1}, ratio[2] = {0.75, 4 / 3.0};
    const struct resized_crop o = {{2, scale}, {2, ratio}};
    double shares = 0, logs = 0;
    int whole = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct augment_box b = augment_crop_draw(&o, 400, 300, rng_stream(1, "x"), 0, i);
        CHECK(b.left >= 0 && b.top >= 0 && b.left + b.width <= 400 && b.top + b.height <= 300);
        double share = b.width * b.height / 120000.0, r = (double)b.width / b.height;
        CHECK(share > 0.079 && r > 0.74 && r < 1.35);
        shares += share;
        logs += log(r);
        whole += share > 0.9;
    }
    /* Large squares do not fit into 4:3, and are drawn again. */
    CHECK(shares / N > 0.42 && shares / N < 0.5);
    CHECK(logs / N > 0 && logs / N < 0.1);
    CHECK(whole > 0);
}

TEST(augment__what_fits_no_crop_gives_its_middle)
{
    double scale[2] = {1, 1}, ratio[2] = {0.75, 4 / 3.0};
    const struct resized_crop o = {{2, scale}, {2, ratio}};
    struct augment_box b = augment_crop_draw(&o, 90, 30, 1, 0, 0);
    CHECK(b.width == 40 && b.height == 30 && b.left == 25 && b.top == 0);
    b = augment_crop_draw(&o, 1, 5000, 1, 0, 0);
    CHECK(b.width == 1 && b.height == 1 && b.left == 0 && b.top == 2499);
}

TEST(augment__jitter_changes_within_its_factors)
{
    uint8_t pixels[3], least = 255, most = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        struct image image = {1, 1, pixels, 3};
        memset(pixels, 100, 3);
        augment_jitter(&image, 0.4, rng_stream(1, "x"), 0, i);
        CHECK(pixels[0] == pixels[1] && pixels[1] == pixels[2]); /* grey stays grey */
        least = pixels[0] < least ? pixels[0] : least;
        most = pixels[0] > most ? pixels[0] : most;
    }
    CHECK(least >= 59 && least <= 61 && most >= 139 && most <= 140);
}

TEST(augment__erased_rectangles_hold_what_the_mode_says)
{
    enum { H = 20, W = 30, N = 3 * H * W };
    static real image[N];
    struct erasing o = {.probability = 1, .mode = ERASE_PIXEL, .count = 1};
    double sum = 0, squares = 0;
    int count = 0;
    for (uint64_t k = 0; k < 200; k++) {
        for (int i = 0; i < N; i++)
            image[i] = 100;
        augment_erase(&o, (struct image_shape){3, H, W}, image, 9, 0, k);
        for (int i = 0; i < N; i++) {
            if ((double)image[i] > 50)
                continue;
            sum += (double)image[i];
            squares += (double)image[i] * (double)image[i];
            count++;
        }
    }
    CHECK_NEAR(count / 200.0 / N, (0.02 + 1 / 3.0) / 2, 0.03);
    CHECK_NEAR(sum / count, 0, 0.03);
    CHECK_NEAR(squares / count, 1, 0.03);
    o.mode = ERASE_RAND;
    for (int i = 0; i < N; i++)
        image[i] = 100;
    augment_erase(&o, (struct image_shape){3, H, W}, image, 9, 0, 0);
    for (int c = 0; c < 3; c++) {
        real value = 100;
        for (int i = c * H * W; i < (c + 1) * H * W; i++) {
            if ((double)image[i] > 50)
                continue;
            CHECK((double)value > 50 || !(value < image[i] || value > image[i]));
            value = image[i];
        }
        CHECK((double)value < 50);
    }
    o.probability = 0;
    for (int i = 0; i < N; i++)
        image[i] = 100;
    augment_erase(&o, (struct image_shape){3, H, W}, image, 9, 0, 0);
    for (int i = 0; i < N; i++)
        CHECK((double)image[i] > 50);
}
