/* test_synthetic.c - patterns drawn from the seed. */
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "test.h"

static const struct image_shape shape = {1, 12, 10};

enum { PIXELS = 120, CLASSES = 5 };

static void read_pixels(const struct dataset *d, size_t i, uint8_t *pixels)
{
    struct error err;
    CHECK_OK(dataset_read(d, i, pixels, &err), err);
}

TEST(synthetic__sizes_and_labels_follow_the_config)
{
    struct data_config config = config_of("synthetic", NULL);
    config.train_count = 23;
    config.test_count = 7;
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, shape, CLASSES);
    CHECK_INT(dataset_count(d), 23);
    CHECK_INT(dataset_classes(d), CLASSES);
    CHECK_INT(dataset_label(d, 0), 0);
    CHECK_INT(dataset_label(d, 6), 1);
    dataset_close(d);
    d = open_dataset(&config, SPLIT_TEST, shape, CLASSES);
    CHECK_INT(dataset_count(d), 7);
    dataset_close(d);
    d = open_dataset(&config, SPLIT_TEST, (struct image_shape){0}, 0);
    CHECK_INT(dataset_shape(d).channels, 3);
    CHECK_INT(dataset_classes(d), 10);
    dataset_close(d);
    config.test_count = 0;
    CHECK_CONTAINS(open_error(&config, SPLIT_TEST, shape, CLASSES), "data.test_count: 0");
}

TEST(synthetic__a_seed_gives_the_same_records_and_another_seed_others)
{
    struct data_config config = config_of("synthetic", NULL);
    struct dataset *a = open_dataset(&config, SPLIT_TRAIN, shape, CLASSES);
    struct dataset *b = open_dataset(&config, SPLIT_TRAIN, shape, CLASSES);
    struct dataset *test = open_dataset(&config, SPLIT_TEST, shape, CLASSES), *other;
    struct error err;
    CHECK_OK(dataset_open(&other, &config, SPLIT_TRAIN, shape, CLASSES, 2, &err), err);
    uint8_t x[PIXELS], y[PIXELS];
    read_pixels(a, 17, x);
    read_pixels(b, 17, y);
    CHECK(memcmp(x, y, PIXELS) == 0);
    read_pixels(a, 18, y);
    CHECK(memcmp(x, y, PIXELS) != 0);
    read_pixels(test, 17, y);
    CHECK(memcmp(x, y, PIXELS) != 0);
    read_pixels(other, 17, y);
    CHECK(memcmp(x, y, PIXELS) != 0);
    CHECK(dataset_fingerprint(a) == dataset_fingerprint(b));
    CHECK(dataset_fingerprint(a) != dataset_fingerprint(test));
    CHECK(dataset_fingerprint(a) != dataset_fingerprint(other));
    dataset_close(a);
    dataset_close(b);
    dataset_close(test);
    dataset_close(other);
}

/* The class whose mean over the training set is nearest. */
static int nearest(double mean[CLASSES][PIXELS], const uint8_t *pixels)
{
    int best = 0;
    double least = 1e30;
    for (int c = 0; c < CLASSES; c++) {
        double distance = 0;
        for (int p = 0; p < PIXELS; p++)
            distance += (pixels[p] - mean[c][p]) * (pixels[p] - mean[c][p]);
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    return best;
}

TEST(synthetic__test_records_are_told_apart_by_what_train_records_show)
{
    struct data_config config = config_of("synthetic", NULL);
    struct dataset *train = open_dataset(&config, SPLIT_TRAIN, shape, CLASSES);
    struct dataset *test = open_dataset(&config, SPLIT_TEST, shape, CLASSES);
    static double mean[CLASSES][PIXELS];
    int seen[CLASSES] = {0};
    uint8_t pixels[PIXELS];
    for (size_t i = 0; i < dataset_count(train); i++) {
        read_pixels(train, i, pixels);
        int label = dataset_label(train, i);
        seen[label]++;
        for (int p = 0; p < PIXELS; p++)
            mean[label][p] += (pixels[p] - mean[label][p]) / seen[label];
    }
    int right = 0, n = (int)dataset_count(test);
    for (int i = 0; i < n; i++) {
        read_pixels(test, (size_t)i, pixels);
        right += nearest(mean, pixels) == dataset_label(test, (size_t)i);
    }
    CHECK(right > n * 9 / 10);
    dataset_close(train);
    dataset_close(test);
}
