/* test_mnist.c - IDX files, good and bad. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "test.h"

static const struct image_shape small = {1, 2, 3};

static void check_small_set(const struct data_config *config, enum split split)
{
    struct dataset *d = open_dataset(config, split, small, 4);
    CHECK_INT(dataset_count(d), 6);
    CHECK_INT(dataset_classes(d), 4);
    CHECK_STR(dataset_class_name(d, 3), "3");
    uint8_t pixels[6];
    struct error err;
    for (size_t i = 0; i < 6; i++) {
        CHECK_INT(dataset_label(d, i), i % 4);
        CHECK_OK(dataset_read(d, i, pixels, &err), err);
        for (size_t p = 0; p < 6; p++)
            CHECK_INT(pixels[p], 10 * i + p);
    }
    CHECK(dataset_note(d) == NULL);
    dataset_close(d);
}

/* Writes the small set under other names, as gzip where asked. */
static void put_small(const char *folder, const char *images, const char *labels, bool gzip)
{
    uint8_t pixels[36], label[6];
    for (int i = 0; i < 36; i++)
        pixels[i] = (uint8_t)(10 * (i / 6) + i % 6);
    for (int i = 0; i < 6; i++)
        label[i] = (uint8_t)(i % 4);
    put_idx(folder, images, 3, (int[]){6, 2, 3}, pixels, 36, gzip);
    put_idx(folder, labels, 1, (int[]){6}, label, 6, gzip);
}

TEST(mnist__all_names_are_found_plain_and_gzip)
{
    static const char *const names[][3] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "plain"},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "gzip"},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "gzip"},
        {"train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte", "plain"},
    };
    uint64_t fingerprint = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        test_about("%s, %s", names[i][0], names[i][2]);
        const char *folder = test_directory();
        put_small(folder, names[i][0], names[i][1], strcmp(names[i][2], "gzip") == 0);
        struct data_config config = config_of("mnist", folder);
        check_small_set(&config, SPLIT_TRAIN);
        CHECK_INT(dataset_format_detect(folder), config.format);
        struct dataset *d = open_dataset(&config, SPLIT_TRAIN, small, 4);
        CHECK(fingerprint == 0 || dataset_fingerprint(d) == fingerprint);
        fingerprint = dataset_fingerprint(d);
        dataset_close(d);
    }
    const char *folder = test_directory();
    put_small(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", false);
    struct data_config config = config_of("mnist", folder);
    check_small_set(&config, SPLIT_TEST);

    folder = test_directory();
    put_small(folder, "emnist-x-test-images-idx3-ubyte.gz", "emnist-x-test-labels-idx1-ubyte.gz",
              true);
    config = config_of("mnist", folder);
    config.file_prefix = "emnist-x-";
    check_small_set(&config, SPLIT_TEST);
}

TEST(mnist__the_fingerprint_follows_the_contents)
{
    const char *folder = test_directory();
    put_mnist(folder, 6, 2, 3, 4);
    struct data_config config = config_of("mnist", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, small, 4);
    uint64_t before = dataset_fingerprint(d);
    dataset_close(d);
    uint8_t labels[6] = {0, 1, 2, 3, 0, 2};
    put_idx(folder, "train-labels-idx1-ubyte", 1, (int[]){6}, labels, 6, false);
    d = open_dataset(&config, SPLIT_TRAIN, small, 4);
    CHECK(dataset_fingerprint(d) != before);
    dataset_close(d);
}

TEST(mnist__missing_files_say_what_was_looked_for)
{
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    const char *text = open_error(&config, SPLIT_TRAIN, small, 4);
    CHECK_CONTAINS(text, folder);
    CHECK_CONTAINS(text, "train-images-idx3-ubyte, train-images-idx3-ubyte.gz, ");
    CHECK_CONTAINS(text, "docs/data.md");
    put_mnist(folder, 6, 2, 3, 4);
    CHECK(is_absent(&config, SPLIT_TEST, small, 4)); /* no test set, no error */
    set_validation(&config, "test");
    CHECK_CONTAINS(open_error(&config, SPLIT_TEST, small, 4), "t10k-images-idx3-ubyte");
    config = config_of("mnist", folder);
    put_idx(folder, "t10k-labels-idx1-ubyte", 1, (int[]){1}, "", 1, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TEST, small, 4), "t10k-images-idx3-ubyte");
    CHECK_INT(remove(test_text("%s/train-labels-idx1-ubyte", folder)), 0);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "train-labels-idx1-ubyte");

    config.path = test_text("%s/none", folder);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "none: no such folder");
    config.path = test_text("%s/train-images-idx3-ubyte", folder);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "is a file");
    config.path = NULL;
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "data.path: is missing");
}

TEST(mnist__sizes_that_lie_are_refused)
{
    static const struct bad {
        const char *about;
        int count, height, width;
        size_t bytes;
        bool gzip;
        const char *says;
    } cases[] = {
        {"cut", 100, 2, 3, 240, false,
         "header says 100 images of 2x3, expected 616 bytes, found a file of 256"},
        {"cut before gzip", 100, 2, 3, 240, true, "expected 616 bytes, found only 256"},
        {"long", 6, 2, 3, 40, false, "expected 52 bytes, found a file of 56"},
        {"long before gzip", 6, 2, 3, 40, true, "expected 52 bytes, found at least 53"},
        {"none", 0, 2, 3, 0, false, "header says 0 for dimension 1"},
        {"flat", 6, 0, 3, 0, false, "header says 0 for dimension 2"},
        {"wide", 1, 1, 5000, 5000, false, "header says 5000 for dimension 3, expected 1 to 4096"},
        {"huge", -1, 4096, 4096, 10, true, "at most 4294967296 are read"},
        {"claims a gigabyte", 1000, 1000, 1000, 10, true, "gzip data that can hold at most"},
    };
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    uint8_t data[5000] = {0};
    put_mnist(folder, 6, 2, 3, 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct bad *c = &cases[i];
        test_about("%s", c->about);
        put_idx(folder, "train-images-idx3-ubyte", 3, (int[]){c->count, c->height, c->width}, data,
                c->bytes, c->gzip);
        const char *text = open_error(&config, SPLIT_TRAIN, small, 4);
        CHECK_CONTAINS(text, "train-images-idx3-ubyte: ");
        CHECK_CONTAINS(text, c->says);
    }
}

TEST(mnist__headers_that_are_none_are_refused)
{
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    put_mnist(folder, 6, 2, 3, 4);
    put_file(folder, "train-images-idx3-ubyte", "", 0, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4),
                   "holds 0 bytes, expected an IDX header of 16");
    put_file(folder, "train-images-idx3-ubyte", "\0\0\x08\x03\0\0", 6, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4),
                   "holds 6 bytes, expected an IDX header of 16");
    put_idx(folder, "train-images-idx3-ubyte", 1, (int[]){30}, "123456789012345678901234567890", 30,
            false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4),
                   "starts with 0x00000801, expected 0x00000803 (an IDX file with images)");
    put_file(folder, "train-images-idx3-ubyte", "<!DOCTYPE html>", 15, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "starts with 0x3c21444f");
}

TEST(mnist__cut_and_damaged_gzip_is_refused)
{
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    put_small(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", true);
    const char *path = test_text("%s/train-images-idx3-ubyte", folder);
    uint8_t file[4096];
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    size_t size = fread(file, 1, sizeof file, f);
    fclose(f);
    put_file(folder, "train-images-idx3-ubyte", file, size - 5, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "gzip data is cut off");
    file[size - 6] ^= 4;
    put_file(folder, "train-images-idx3-ubyte", file, size, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, small, 4), "gzip data is damaged");
}

TEST(mnist__counts_and_labels_must_agree)
{
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    put_mnist(folder, 100, 2, 3, 4);
    uint8_t labels[100] = {0};
    put_idx(folder, "train-labels-idx1-ubyte", 1, (int[]){60}, labels, 60, false);
    const char *text = open_error(&config, SPLIT_TRAIN, small, 4);
    CHECK_CONTAINS(text, "train-labels-idx1-ubyte: holds 60 labels");
    CHECK_CONTAINS(text, "train-images-idx3-ubyte holds 100 images");
    labels[37] = 4;
    put_idx(folder, "train-labels-idx1-ubyte", 1, (int[]){100}, labels, 100, false);
    CHECK_CONTAINS(
        open_error(&config, SPLIT_TRAIN, small, 4),
        "train-labels-idx1-ubyte: record 37 has label 4, but the model's labels are 0 to 3");
    dataset_close(open_dataset(&config, SPLIT_TRAIN, small, 5));
}

TEST(mnist__other_shapes_need_a_resize)
{
    const char *folder = test_directory();
    struct data_config config = config_of("mnist", folder);
    put_mnist(folder, 6, 2, 3, 4);
    const char *text = open_error(&config, SPLIT_TRAIN, (struct image_shape){1, 4, 4}, 4);
    CHECK_CONTAINS(text, "images are 2x3 with 1 channel, the model takes 4x4 with 1");
    CHECK_CONTAINS(text, "data.resize");
    open_error(&config, SPLIT_TRAIN, (struct image_shape){3, 2, 3}, 4);

    struct error err;
    config.resize = RESIZE_PAD;
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, (struct image_shape){3, 4, 4}, 4);
    static const uint8_t want[16] = {0, 0, 0, 0, 20, 21, 22, 0, 23, 24, 25, 0, 0, 0, 0, 0};
    uint8_t pixels[48];
    CHECK_OK(dataset_read(d, 2, pixels, &err), err);
    for (int i = 0; i < 48; i++)
        CHECK_INT(pixels[i], want[i % 16]);
    CHECK_INT(dataset_shape(d).channels, 3);
    dataset_close(d);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, (struct image_shape){1, 1, 3}, 4),
                   "cannot be padded");
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, (struct image_shape){2, 2, 3}, 4),
                   "images have 1 channel, the model takes 2");
}

TEST(mnist__without_a_model_the_files_decide)
{
    const char *folder = test_directory();
    put_mnist(folder, 30, 5, 4, 26);
    struct data_config config = config_of("mnist", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, (struct image_shape){0}, 0);
    CHECK_INT(dataset_classes(d), 26);
    CHECK_INT(dataset_shape(d).height, 5);
    CHECK_INT(dataset_shape(d).width, 4);
    dataset_close(d);
    struct error err;
    CHECK_OK(dataset_open(&d, &config, SPLIT_VAL, small, 0, 1, &err), err);
    CHECK(d == NULL);
}

TEST(mnist__the_real_files_have_the_known_counts)
{
    const char *folder = test_data("mnist");
    if (!folder)
        SKIP("no mnist among the sample data");
    static const int want[2][10] = {
        {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949},
        {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009},
    };
    struct data_config config = config_of("mnist", folder);
    for (int split = 0; split < 2; split++) {
        struct dataset *d = open_dataset(&config, split ? SPLIT_TEST : SPLIT_TRAIN,
                                         (struct image_shape){1, 28, 28}, 10);
        int found[10] = {0};
        for (size_t i = 0; i < dataset_count(d); i++)
            found[dataset_label(d, i)]++;
        for (int c = 0; c < 10; c++)
            CHECK_INT(found[c], want[split][c]);
        dataset_close(d);
    }
}
