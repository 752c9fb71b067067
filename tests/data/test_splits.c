/* test_splits.c - balanced orders, hold-out, limits. */
#include <stdlib.h>
#include <string.h>

#include "data/splits.h"
#include "data_files.h"
#include "test.h"

static const struct image_shape shape = {1, 1, 1};

/* Opens an IDX set of 1x1 images with counts[c] records of class c, mixed. */
static struct dataset *open_uneven(const int *counts, int classes, struct data_config *config)
{
    const char *folder = test_directory();
    uint8_t labels[1000], pixels[1000] = {0};
    int n = 0, most = 0;
    for (int c = 0; c < classes; c++)
        most = counts[c] > most ? counts[c] : most;
    for (int round = 0; round < most; round++)
        for (int c = 0; c < classes; c++)
            if (round < counts[c])
                labels[n++] = (uint8_t)c;
    put_idx(folder, "train-images-idx3-ubyte", 3, (int[]){n, 1, 1}, pixels, (size_t)n, false);
    put_idx(folder, "train-labels-idx1-ubyte", 1, &n, labels, (size_t)n, false);
    *config = config_of("mnist", folder);
    return open_dataset(config, SPLIT_TRAIN, shape, classes);
}

TEST(balanced_order__every_prefix_is_as_even_as_it_can_be)
{
    static const int counts[] = {30, 3, 0, 17, 30};
    struct data_config config;
    struct dataset *d = open_uneven(counts, 5, &config);
    size_t order[80];
    struct error err;
    CHECK_OK(dataset_balanced_order(d, 5, order, &err), err);
    int taken[5] = {0};
    bool seen[80] = {false};
    for (size_t n = 0; n < 80; n++) {
        CHECK(order[n] < 80 && !seen[order[n]]);
        seen[order[n]] = true;
        taken[dataset_label(d, order[n])]++;
        /* No class is two ahead of another that still has records. */
        for (int a = 0; a < 5; a++)
            for (int b = 0; b < 5; b++)
                CHECK(taken[a] <= taken[b] + 1 || taken[b] == counts[b]);
    }
    dataset_close(d);
}

TEST(balanced_order__is_drawn_from_the_seed)
{
    static const int counts[] = {40, 40};
    struct data_config config;
    struct dataset *d = open_uneven(counts, 2, &config);
    size_t a[80], b[80], c[80];
    struct error err;
    CHECK_OK(dataset_balanced_order(d, 1, a, &err), err);
    CHECK_OK(dataset_balanced_order(d, 1, b, &err), err);
    CHECK_OK(dataset_balanced_order(d, 2, c, &err), err);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(memcmp(a, c, sizeof a) != 0);
    int first = 0; /* which class comes first in a round is drawn too */
    for (int i = 0; i < 80; i += 2)
        first += dataset_label(d, a[i]);
    CHECK(first > 5 && first < 35);
    int falls = 0, last = -1; /* and so is the order within a class */
    for (int i = 0; i < 80; i++) {
        if (dataset_label(d, a[i]) == 0) {
            falls += (int)a[i] < last;
            last = (int)a[i];
        }
    }
    CHECK(falls > 5 && falls < 35);
    dataset_close(d);
}

static struct splits open_splits(const struct data_config *config, unsigned parts)
{
    struct splits s;
    struct error err;
    CHECK_OK(splits_open(&s, config, parts, (struct image_shape){1, 4, 4}, 10, 1, &err), err);
    return s;
}

static const char *splits_error(const struct data_config *config)
{
    static struct error err;
    struct splits s;
    CHECK_INT(splits_open(&s, config, SPLITS_ALL, (struct image_shape){1, 4, 4}, 10, 1, &err),
              ERR_INPUT);
    return err.text;
}

static struct data_config synthetic(void)
{
    struct data_config config = config_of("synthetic", NULL);
    config.train_count = 1000;
    config.test_count = 100;
    return config;
}

TEST(splits__without_validation_all_records_are_used_in_order)
{
    struct data_config config = synthetic();
    struct splits s = open_splits(&config, SPLITS_ALL);
    CHECK_INT(s.train.count, 1000);
    CHECK_INT(s.test.count, 100);
    CHECK(s.val.set == NULL && s.val.count == 0);
    for (size_t i = 0; i < 1000; i++)
        CHECK_INT(s.train.records[i], i);
    CHECK_INT(s.validation, VALIDATION_NONE);
    splits_close(&s);
}

TEST(splits__a_holdout_is_balanced_and_apart_from_train)
{
    static const struct {
        double number;
        bool is_fraction;
        size_t records;
    } cases[] = {
        {50, false, 50}, {0.05, true, 50}, {1, false, 1}, {999, false, 999}, {0.0015, true, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        test_about("holdout %g", cases[k].number);
        struct data_config config = synthetic();
        set_holdout(&config, cases[k].number, cases[k].is_fraction);
        struct splits s = open_splits(&config, SPLITS_ALL);
        CHECK_INT(s.val.count, cases[k].records);
        CHECK_INT(s.train.count, 1000 - cases[k].records);
        CHECK(s.val.set == s.train.set);
        bool used[1000] = {false};
        int of_class[10] = {0};
        for (size_t i = 0; i < s.val.count; i++) {
            used[s.val.records[i]] = true;
            of_class[dataset_label(s.val.set, s.val.records[i])]++;
        }
        for (int c = 0; c < 10; c++)
            CHECK(abs(10 * of_class[c] - (int)s.val.count) < 10);
        for (size_t i = 0; i < s.train.count; i++)
            CHECK(!used[s.train.records[i]]);
        splits_close(&s);
    }
}

TEST(splits__limits_never_change_the_holdout)
{
    struct data_config config = synthetic();
    set_holdout(&config, 100, false);
    struct splits all = open_splits(&config, SPLITS_ALL);
    config.limit_train = (struct number_or_name){-1, 30, false};
    config.limit_test = (struct number_or_name){-1, 20, false};
    struct splits some = open_splits(&config, SPLITS_ALL);
    CHECK_INT(some.train.count, 30);
    CHECK_INT(some.test.count, 20);
    CHECK_INT(some.val.count, 100);
    CHECK(memcmp(all.val.records, some.val.records, 100 * sizeof(size_t)) == 0);
    int of_class[10] = {0};
    for (size_t i = 0; i < 30; i++)
        of_class[dataset_label(some.train.set, some.train.records[i])]++;
    for (int c = 0; c < 10; c++)
        CHECK_INT(of_class[c], 3);
    splits_close(&all);
    splits_close(&some);
    config.limit_train.number = 5000;
    some = open_splits(&config, SPLITS_TRAIN);
    CHECK_INT(some.train.count, 900);
    CHECK(some.val.set == NULL && some.test.set == NULL);
    splits_close(&some);
}

TEST(splits__validation_test_is_the_test_part)
{
    struct data_config config = synthetic();
    set_validation(&config, "test");
    config.limit_test = (struct number_or_name){-1, 20, false};
    struct splits s = open_splits(&config, SPLITS_ALL);
    CHECK_INT(s.validation, VALIDATION_TEST);
    CHECK(s.val.set == s.test.set);
    CHECK_INT(s.val.count, 20);
    CHECK(memcmp(s.val.records, s.test.records, 20 * sizeof(size_t)) == 0);
    splits_close(&s);
    s = open_splits(&config, SPLITS_VAL);
    CHECK_INT(s.val.count, 20);
    CHECK(s.train.set == NULL && s.test.set == NULL);
    splits_close(&s);
}

TEST(splits__what_cannot_be_is_refused)
{
    struct data_config config = synthetic();
    set_validation(&config, "val");
    CHECK_CONTAINS(splits_error(&config), "data.validation: the synthetic format has no val part");
    set_holdout(&config, 1000, false);
    CHECK_CONTAINS(splits_error(&config), "1000 of 1000 training records would be held out");
    set_holdout(&config, 1, true);
    CHECK_CONTAINS(splits_error(&config), "1000 of 1000 training records would be held out");
    set_holdout(&config, 0.0001, true);
    CHECK_CONTAINS(splits_error(&config), "0 of 1000 training records would be held out");
    set_holdout(&config, 10.5, true);
    CHECK_CONTAINS(splits_error(&config), "10.5 is neither a share");
    config = synthetic();
    config.limit_train = (struct number_or_name){-1, 1.5, true};
    CHECK_CONTAINS(splits_error(&config), "data.limit_train: 1.5 is no whole number");
    double two[2] = {0.5, 0.5};
    config = synthetic();
    config.normalize.mean = (struct reals){2, two};
    CHECK_CONTAINS(splits_error(&config), "data.normalize.mean");
}

TEST(splits__the_fingerprint_covers_what_was_opened)
{
    struct data_config config = synthetic();
    struct splits a = open_splits(&config, SPLITS_ALL), b = open_splits(&config, SPLITS_ALL);
    CHECK(a.fingerprint == b.fingerprint && a.fingerprint != 0);
    splits_close(&b);
    config.test_count = 99;
    b = open_splits(&config, SPLITS_ALL);
    CHECK(a.fingerprint != b.fingerprint);
    splits_close(&a);
    splits_close(&b);
}

TEST(splits__the_real_holdout_has_500_of_each_class)
{
    const char *folder = test_data("mnist");
    if (!folder)
        SKIP("no mnist among the sample data");
    struct data_config config = config_of("mnist", folder);
    set_holdout(&config, 5000, false);
    struct splits s;
    struct error err;
    CHECK_OK(splits_open(&s, &config, SPLITS_TRAIN + SPLITS_VAL, (struct image_shape){1, 28, 28},
                         10, 1, &err),
             err);
    int of_class[10] = {0};
    for (size_t i = 0; i < s.val.count; i++)
        of_class[dataset_label(s.val.set, s.val.records[i])]++;
    for (int c = 0; c < 10; c++)
        CHECK_INT(of_class[c], 500);
    CHECK_INT(s.train.count, 55000);
    splits_close(&s);
}
