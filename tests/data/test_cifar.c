/* test_cifar.c - CIFAR-10 and CIFAR-100 in the binary version, good and bad. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/splits.h"
#include "data_files.h"
#include "test.h"

static const struct image_shape colour = {3, 32, 32};

TEST(cifar10__planes_are_red_green_blue_in_raster_order)
{
    const char *folder = test_directory();
    uint8_t record[3073] = {7};
    memset(record + 1, 10, 1024);
    memset(record + 1025, 20, 1024);
    memset(record + 2049, 30, 1024);
    record[1 + 5] = 11;                   /* red, row 0, column 5 */
    record[1 + 1024 + 3 * 32] = 21;       /* green, row 3, column 0 */
    record[1 + 2048 + 31 * 32 + 31] = 31; /* blue, the last pixel */
    put_file(folder, "data_batch_1.bin", record, sizeof record, false);
    struct data_config config = config_of("cifar10", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, colour, 10);
    uint8_t pixels[3][32][32];
    struct error err;
    CHECK_OK(dataset_read(d, 0, &pixels[0][0][0], &err), err);
    CHECK_INT(dataset_label(d, 0), 7);
    CHECK_INT(pixels[0][0][5], 11);
    CHECK_INT(pixels[0][5][0], 10);
    CHECK_INT(pixels[1][3][0], 21);
    CHECK_INT(pixels[1][0][3], 20);
    CHECK_INT(pixels[2][31][31], 31);
    CHECK_INT(pixels[2][31][30], 30);
    dataset_close(d);
}

TEST(cifar10__every_batch_that_is_there_is_read)
{
    const char *folder = test_directory();
    put_cifar(folder, "data_batch_2.bin", 3, 1, 10);
    put_cifar(folder, "data_batch_5.bin", 4, 1, 10);
    put_cifar(folder, "test_batch.bin", 2, 1, 10);
    struct data_config config = config_of("cifar10", folder);
    CHECK_INT(dataset_format_detect(folder), config.format);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, colour, 10);
    CHECK_INT(dataset_count(d), 7);
    CHECK_STR(dataset_note(d), "2 of 5 CIFAR-10 batches (data_batch_2.bin, data_batch_5.bin)");
    CHECK_INT(dataset_label(d, 3), 0);
    CHECK_INT(dataset_label(d, 6), 3);
    CHECK_STR(dataset_class_name(d, 9), "9");
    uint8_t pixels[3072];
    struct error err;
    CHECK_OK(dataset_read(d, 6, pixels, &err), err);
    CHECK_INT(pixels[100], 103);
    dataset_close(d);
    d = open_dataset(&config, SPLIT_TEST, colour, 10);
    CHECK_INT(dataset_count(d), 2);
    CHECK(dataset_note(d) == NULL);
    dataset_close(d);

    for (int i = 1; i <= 5; i++)
        put_cifar(folder, test_text("data_batch_%d.bin", i), 1, 1, 10);
    d = open_dataset(&config, SPLIT_TRAIN, colour, 10);
    CHECK_INT(dataset_count(d), 5);
    CHECK(dataset_note(d) == NULL);
    dataset_close(d);
}

TEST(cifar10__missing_files_say_what_was_looked_for)
{
    const char *folder = test_directory();
    struct data_config config = config_of("cifar10", folder);
    const char *text = open_error(&config, SPLIT_TRAIN, colour, 10);
    CHECK_CONTAINS(text, folder);
    CHECK_CONTAINS(text, "data_batch_4.bin and data_batch_5.bin");
    CHECK(is_absent(&config, SPLIT_TEST, colour, 10)); /* no test set, no error */
    set_validation(&config, "test");
    CHECK_CONTAINS(open_error(&config, SPLIT_TEST, colour, 10), "test_batch.bin");
    config = config_of("cifar100", folder);
    CHECK(is_absent(&config, SPLIT_TEST, colour, 100));
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 100), "train.bin");
}

TEST(cifar10__a_file_of_no_whole_records_is_refused)
{
    enum { BYTES = 30729000 };
    const char *folder = test_directory();
    uint8_t *file = calloc(1, BYTES);
    CHECK(file != NULL);
    put_file(folder, "data_batch_1.bin", file, BYTES, false);
    struct data_config config = config_of("cifar10", folder);
    const char *text = open_error(&config, SPLIT_TRAIN, colour, 10);
    CHECK_CONTAINS(text, "data_batch_1.bin: record 3073 bytes, file holds 9999 whole records and a "
                         "remainder of 2073 bytes");
    put_file(folder, "data_batch_1.bin", file, 0, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 10),
                   "is empty, expected records of 3073 bytes");
    put_file(folder, "train.bin", file, 3073, false);
    free(file);
    config = config_of("cifar100", folder);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 100),
                   "record 3074 bytes, file holds 0 whole records and a remainder of 3073 bytes");
}

TEST(cifar10__labels_out_of_range_are_refused)
{
    const char *folder = test_directory();
    put_cifar(folder, "data_batch_1.bin", 12, 1, 10);
    put_cifar(folder, "data_batch_2.bin", 12, 1, 11);
    struct data_config config = config_of("cifar10", folder);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 100),
                   "data_batch_2.bin: record 10 has label 10, but the format's labels are 0 to 9");
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 8),
                   "data_batch_1.bin: record 8 has label 8, but the model's labels are 0 to 7");
}

TEST(cifar10__names_come_from_the_file_beside)
{
    const char *folder = test_directory();
    put_cifar(folder, "data_batch_1.bin", 10, 1, 10);
    static const char names[] = "a\nb\r\n c \nd\ne\nf\ng\nh\ni\nlast\n\n";
    put_file(folder, "batches.meta.txt", names, strlen(names), false);
    struct data_config config = config_of("cifar10", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, colour, 12);
    CHECK_STR(dataset_class_name(d, 1), "b");
    CHECK_STR(dataset_class_name(d, 2), "c");
    CHECK_STR(dataset_class_name(d, 9), "last");
    CHECK_STR(dataset_class_name(d, 11), "11");
    dataset_close(d);
    put_file(folder, "batches.meta.txt", "a\nb\n", 4, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 10),
                   "batches.meta.txt: holds 2 class names, expected 10");
}

TEST(cifar10__colour_is_never_made_grey)
{
    const char *folder = test_directory();
    put_cifar(folder, "data_batch_1.bin", 1, 1, 10);
    struct data_config config = config_of("cifar10", folder);
    config.resize = RESIZE_BILINEAR;
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, (struct image_shape){1, 32, 32}, 10),
                   "images have 3 channels, the model takes 1");
    struct splits s;
    struct error err = {0};
    CHECK_INT(splits_open(&s, &config, SPLITS_TRAIN, (struct image_shape){1, 32, 32}, 10, 1, &err),
              ERR_INPUT);
    CHECK_CONTAINS(err.text, "colour cannot become one channel");
}

TEST(cifar100__fine_and_coarse_labels)
{
    const char *folder = test_directory();
    uint8_t file[2 * 3074] = {0};
    file[0] = 19;
    file[1] = 99;
    file[3074] = 3;
    file[3075] = 42;
    file[3074 + 2] = 200;
    put_file(folder, "train.bin", file, sizeof file, false);
    struct data_config config = config_of("cifar100", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, colour, 100);
    uint8_t pixels[3072];
    struct error err;
    CHECK_INT(dataset_label(d, 0), 99);
    CHECK_INT(dataset_label(d, 1), 42);
    CHECK_OK(dataset_read(d, 1, pixels, &err), err);
    CHECK_INT(pixels[0], 200);
    dataset_close(d);
    config.labels = 1;
    d = open_dataset(&config, SPLIT_TRAIN, colour, 20);
    CHECK_INT(dataset_label(d, 0), 19);
    CHECK_INT(dataset_label(d, 1), 3);
    dataset_close(d);
    file[1] = 100;
    put_file(folder, "train.bin", file, sizeof file, false);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, colour, 20), "record 0 has label 100");
}

static void check_counts(const char *format, const char *folder, enum split split, int classes,
                         const int *want)
{
    struct data_config config = config_of(format, folder);
    struct dataset *d = open_dataset(&config, split, colour, classes);
    int *found = calloc((size_t)classes, sizeof *found);
    CHECK(found != NULL);
    for (size_t i = 0; i < dataset_count(d); i++)
        found[dataset_label(d, i)]++;
    for (int c = 0; c < classes; c++)
        CHECK_INT(found[c], want[classes == 10 ? c : 0]);
    free(found);
    dataset_close(d);
}

TEST(cifar10__the_real_files_have_the_known_counts)
{
    const char *folder = test_data("cifar-10-batches-bin");
    if (!folder)
        SKIP("no cifar-10-batches-bin among the sample data");
    static const int train[] = {1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981};
    static const int test[] = {200, 200, 200, 200, 200, 200, 200, 200, 200, 200};
    check_counts("cifar10", folder, SPLIT_TRAIN, 10, train);
    check_counts("cifar10", folder, SPLIT_TEST, 10, test);
    struct data_config config = config_of("cifar10", folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, colour, 10);
    CHECK_STR(dataset_note(d), "1 of 5 CIFAR-10 batches (data_batch_1.bin)");
    CHECK_STR(dataset_class_name(d, 3), "cat");
    dataset_close(d);
}

TEST(cifar100__the_real_files_have_the_known_counts)
{
    const char *folder = test_data("cifar-100-binary");
    if (!folder)
        SKIP("no cifar-100-binary among the sample data");
    check_counts("cifar100", folder, SPLIT_TRAIN, 100, (const int[]){100});
    check_counts("cifar100", folder, SPLIT_TEST, 100, (const int[]){20});
    struct data_config config = config_of("cifar100", folder);
    config.labels = 1;
    struct dataset *d = open_dataset(&config, SPLIT_TEST, colour, 20);
    int found[20] = {0};
    for (size_t i = 0; i < dataset_count(d); i++)
        found[dataset_label(d, i)]++;
    for (int c = 0; c < 20; c++)
        CHECK_INT(found[c], 100);
    CHECK_STR(dataset_class_name(d, 0), "aquatic_mammals");
    dataset_close(d);
}
