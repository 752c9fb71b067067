/* test_folder.c - image folders: what is listed, in which order, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/listing.h"
#include "data/splits.h"
#include "data/survey.h"
#include "data_files.h"
#include "picture.h"
#include "test.h"

static const struct image_shape any = {0, 0, 0}, four = {3, 4, 4};

static struct data_config folder_config(const char *path)
{
    struct data_config config = config_of("folder", path);
    config.resize = RESIZE_AUTO;
    config.crop_pct = 1;
    config.exif = true;
    config.max_pixels = 1 << 20;
    return config;
}

/* train/ with classes a (2 pictures) and b (1), val/ with one each; all of 4 x 4. */
static const char *small_folder(void)
{
    const char *folder = test_directory();
    put_picture(folder, "train/a/1.png", 4, 4, 0x102030);
    put_picture(folder, "train/a/2.png", 4, 4, 0x112131);
    put_picture(folder, "train/b/1.png", 4, 4, 0x405060);
    put_picture(folder, "val/a/1.png", 4, 4, 0x708090);
    put_picture(folder, "val/b/1.png", 4, 4, 0xa0b0c0);
    return folder;
}

static struct listing list(const char *folder, struct arena *memory)
{
    struct listing l;
    struct error err;
    CHECK_OK(listing_read(&l, folder, memory, &err), err);
    return l;
}

TEST(listing__order_is_torchvisions)
{
    const char *folder = test_directory();
    static const char *const names[] = {
        /* in the order wanted: classes by bytes, then folders by their paths, then names */
        "B/x.png", "a/2.JPG", "a/B.jpeg", "a/a.PNG", "a/in/1.png", "a/in/deep/0.png", "a-b/1.png",
        "b/1.jpg", "b/d/1.png", "b/d-e/1.png", "b/d/c/1.png",
    };
    enum { N = sizeof names / sizeof names[0] };
    for (int i = N - 1; i >= 0; i--)
        put_bytes(folder, names[i], "0123456789abc", (size_t)i);
    put_bytes(folder, "stray.png", "x", 1);
    put_bytes(folder, ".hidden/1.png", "x", 1);
    put_bytes(folder, "a/.hidden.png", "x", 1);
    put_bytes(folder, "a/note.txt", "x", 1);
    put_bytes(folder, "a/noextension", "x", 1);
    struct arena memory;
    arena_init(&memory);
    struct listing l = list(folder, &memory);
    CHECK_INT(l.class_count, 4);
    CHECK_STR(l.classes[0], "B");
    CHECK_STR(l.classes[1], "a");
    CHECK_STR(l.classes[2], "a-b");
    CHECK_INT(l.count, N);
    for (size_t i = 0; i < N; i++) {
        CHECK_STR(l.files[i].path, names[i]);
        CHECK_INT(l.files[i].size, i);
    }
    CHECK_INT(l.files[6].label, 2);
    arena_free(&memory);
}

TEST(listing__fingerprint_is_of_paths_and_sizes)
{
    const char *folder = test_directory();
    struct arena memory;
    arena_init(&memory);
    put_bytes(folder, "a/1.png", "xx", 2);
    put_bytes(folder, "b/1.png", "x", 1);
    uint64_t first = list(folder, &memory).fingerprint;
    put_bytes(folder, "a/1.png", "yy", 2);
    CHECK(list(folder, &memory).fingerprint == first);
    put_bytes(folder, "a/1.png", "y", 1);
    CHECK(list(folder, &memory).fingerprint != first);
    arena_free(&memory);
}

TEST(listing__links_are_followed_and_loops_end)
{
    const char *folder = test_directory();
    put_bytes(folder, "a/1.png", "x", 1);
    put_bytes(folder, "a/in/2.png", "x", 1);
    CHECK_INT(symlink("..", test_text("%s/a/in/up", folder)), 0);
    CHECK_INT(symlink(".", test_text("%s/a/self", folder)), 0);
    CHECK_INT(symlink("a", test_text("%s/b", folder)), 0);
    CHECK_INT(symlink("nowhere", test_text("%s/a/gone.png", folder)), 0);
    CHECK_INT(mkfifo(test_text("%s/a/pipe.png", folder), 0600), 0);
    struct arena memory;
    arena_init(&memory);
    struct listing l = list(folder, &memory);
    CHECK_INT(l.class_count, 2);
    CHECK_INT(l.count, 6);
    CHECK_STR(l.files[1].path, "a/gone.png");
    CHECK_INT(l.files[1].size, -1);
    CHECK_STR(l.files[5].path, "b/in/2.png");
    arena_free(&memory);
}

TEST(listing__unreadable_folders_are_named)
{
    const char *folder = test_directory();
    struct arena memory;
    struct listing l;
    struct error err;
    arena_init(&memory);
    CHECK_INT(listing_read(&l, test_text("%s/none", folder), &memory, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "/none: the folder cannot be read");
    if (geteuid() != 0) { /* root may read everything */
        put_bytes(folder, "a/in/1.png", "x", 1);
        CHECK_INT(chmod(test_text("%s/a/in", folder), 0), 0);
        CHECK_INT(listing_read(&l, folder, &memory, &err), ERR_INPUT);
        CHECK_CONTAINS(err.text, "a/in: the folder cannot be read");
        CHECK_INT(chmod(test_text("%s/a/in", folder), 0700), 0);
    }
    arena_free(&memory);
}

TEST(listing__names_of_any_bytes_have_a_text)
{
    struct arena memory;
    arena_init(&memory);
    CHECK_STR(listing_text("caf\xc3\xa9", &memory), "caf\xc3\xa9");
    CHECK_STR(listing_text("caf\xe9\n", &memory), "caf\\xe9\\x0a");
    arena_free(&memory);
}

TEST(folder__records_are_read_at_the_models_size)
{
    const char *folder = small_folder();
    put_picture(folder, "train/b/0.png", 9, 5, 0x010203);
    struct data_config config = folder_config(folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, four, 2);
    uint8_t pixels[48];
    struct error err;
    struct image image = {0};
    CHECK_INT(dataset_count(d), 4);
    CHECK_INT(dataset_label(d, 2), 1);
    CHECK_STR(dataset_class_name(d, 1), "b");
    CHECK(dataset_has_own_sizes(d));
    CHECK_OK(dataset_read(d, 2, pixels, &err), err);
    CHECK_INT(pixels[0], 1);
    CHECK_INT(pixels[16], 2);
    CHECK_INT(pixels[47], 3);
    CHECK_OK(dataset_image(d, 2, &image, &err), err);
    CHECK_INT(image.width, 9);
    CHECK_INT(image.height, 5);
    image_free(&image);
    dataset_close(d);
}

TEST(folder__validation_is_val_where_it_is_there)
{
    const char *folder = small_folder();
    struct data_config config = folder_config(folder);
    struct splits s;
    struct error err;
    CHECK_OK(splits_open(&s, &config, SPLITS_ALL, four, 2, 1, &err), err);
    CHECK_INT(s.validation, VALIDATION_VAL);
    CHECK_INT(s.train.count, 3);
    CHECK_INT(s.val.count, 2);
    CHECK(s.test.set == NULL);
    splits_close(&s);
    struct data_config without = config;
    set_validation(&without, "none");
    CHECK_OK(splits_open(&s, &without, SPLITS_ALL, four, 2, 1, &err), err);
    CHECK_INT(s.validation, VALIDATION_NONE);
    CHECK(s.val.set == NULL);
    splits_close(&s);

    const char *other = test_directory();
    put_picture(other, "a/1.png", 4, 4, 0);
    put_picture(other, "b/1.png", 4, 4, 0);
    config.path = NULL;
    config.train_path = other;
    CHECK_OK(splits_open(&s, &config, SPLITS_ALL, four, 2, 1, &err), err);
    CHECK_INT(s.validation, VALIDATION_NONE);
    CHECK_INT(s.train.count, 2);
    splits_close(&s);
    set_validation(&config, "val");
    CHECK_INT(splits_open(&s, &config, SPLITS_ALL, four, 2, 1, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, "data.val_path");
}

TEST(folder__what_does_not_fit_is_refused_by_name)
{
    const char *folder = small_folder();
    struct data_config config = folder_config(folder);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, four, 5), "set model.classes to 2");
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, (struct image_shape){1, 4, 4}, 2),
                   "set model.channels to 3");
    put_picture(folder, "val/c/1.png", 4, 4, 0);
    CHECK_INT(rename(test_text("%s/val/b", folder), test_text("%s/val/d", folder)), 0);
    const char *text = open_error(&config, SPLIT_VAL, four, 2);
    CHECK_CONTAINS(text, "missing: b; unknown: c, d");
    CHECK(is_absent(&config, SPLIT_TEST, four, 2));

    const char *one = test_directory();
    put_picture(one, "train/a/1.png", 4, 4, 0);
    config = folder_config(one);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, four, 1), "one class folder alone");
    config = folder_config(test_directory());
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, four, 2), "/train: no such folder");
    config = folder_config(NULL);
    CHECK_CONTAINS(open_error(&config, SPLIT_TRAIN, four, 2), "data.path: is missing");
}

TEST(folder__empty_classes_are_told)
{
    const char *folder = small_folder();
    struct data_config config = folder_config(folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, four, 2);
    CHECK_STR(dataset_empty_class(d), NULL);
    dataset_close(d);
    CHECK_INT(mkdir(test_text("%s/train/c", folder), 0700), 0);
    d = open_dataset(&config, SPLIT_TRAIN, four, 3);
    CHECK_STR(dataset_empty_class(d), "c");
    CHECK_INT(dataset_classes(d), 3);
    dataset_close(d);
}

TEST(folder__bad_pictures_end_the_reading_or_are_left_out)
{
    const char *folder = small_folder();
    put_bytes(folder, "train/a/0.png", "GIF89a", 6);
    put_bytes(folder, "train/b/9.jpg", "", 0);
    struct data_config config = folder_config(folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, four, 2);
    uint8_t pixels[48];
    struct error err;
    CHECK_INT(dataset_count(d), 5);
    CHECK_INT(dataset_read(d, 0, pixels, &err), ERR_INPUT);
    CHECK_CONTAINS(err.text, test_text("%s/train/a/0.png: ", folder));
    CHECK_CONTAINS(err.text, "a GIF file");

    for (int threads = 1; threads <= 3; threads++) {
        struct survey s;
        CHECK_OK(survey_take(&s, d, NULL, 5, threads, &err), err);
        CHECK_INT(s.count, 3);
        CHECK_INT(s.bad_count, 2);
        CHECK_INT(s.bad[0].record, 0);
        CHECK_INT(s.bad[1].record, 4);
        CHECK_CONTAINS(s.bad[1].what, "train/b/9.jpg: is empty");
        CHECK_INT(s.most_width, 4);
        CHECK_NEAR(s.mean[0], (0x10 + 0x11 + 0x40) / 3.0 / 255, 1e-12);
        survey_free(&s);
    }
    uint64_t fingerprint = dataset_fingerprint(d);
    dataset_close(d);

    config.on_error = ON_ERROR_SKIP;
    d = open_dataset(&config, SPLIT_TRAIN, four, 2);
    CHECK_INT(dataset_count(d), 3);
    CHECK_INT(dataset_label(d, 2), 1);
    CHECK_OK(dataset_read(d, 0, pixels, &err), err);
    CHECK_INT(pixels[0], 0x10);
    CHECK_CONTAINS(dataset_note(d), "2 of 5 pictures are left out");
    CHECK_CONTAINS(dataset_note(d), "a/0.png: ");
    CHECK(dataset_fingerprint(d) == fingerprint);
    dataset_close(d);
}

TEST(folder__sizes_are_free_without_a_model)
{
    struct data_config config = folder_config(small_folder());
    struct dataset *d = open_dataset(&config, SPLIT_VAL, any, 0);
    CHECK_INT(dataset_classes(d), 2);
    CHECK_INT(dataset_shape(d).height, 0);
    dataset_close(d);
}

TEST(folder__many_files_in_one_folder)
{
    const char *folder = test_directory();
    enum { N = 3000 };
    for (int i = 0; i < N; i++)
        put_bytes(folder, test_text("train/%c/%07d.jpg", 'a' + i % 2, N - i), "", 0);
    struct data_config config = folder_config(folder);
    struct dataset *d = open_dataset(&config, SPLIT_TRAIN, four, 2);
    CHECK_INT(dataset_count(d), N);
    CHECK_INT(dataset_label(d, N / 2 - 1), 0);
    CHECK_INT(dataset_label(d, N / 2), 1);
    dataset_close(d);
}

/* Three pictures in val/ itself, of classes a and b. */
static struct data_config flat_config(const char *folder, const char *labels)
{
    static const char *const names[] = {"n2.JPEG", "n10.JPEG", "n3.png"};
    put_picture(folder, "train/a/1.png", 4, 4, 0);
    put_picture(folder, "train/b/1.png", 4, 4, 0);
    for (int i = 0; i < 3; i++)
        put_picture(folder, test_text("val/%s", names[i]), 4, 4, (unsigned)i);
    put_bytes(folder, "labels.txt", labels, strlen(labels));
    struct data_config config = folder_config(folder);
    config.val_labels = test_text("%s/labels.txt", folder);
    return config;
}

TEST(folder__labels_of_a_flat_part_come_from_a_file)
{
    /* The order of names is n10, n2, n3; all of these say b a b. */
    static const char *const texts[] = {
        "b\na\nb\n",
        "1\n0\n1",
        "n2.JPEG\ta\t0\t0\t9\t9\r\nn3.png\tb\t1\r\nn10.JPEG\tb\r\n",
        "ImageId,PredictionString\nn3,b 1 2 3\nn2,a 4 5\n\nn10,b 1\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        test_about("text %zu", i);
        struct data_config config = flat_config(test_directory(), texts[i]);
        struct dataset *d = open_dataset(&config, SPLIT_VAL, four, 2);
        CHECK_INT(dataset_count(d), 3);
        CHECK_INT(dataset_label(d, 0), 1);
        CHECK_INT(dataset_label(d, 1), 0);
        CHECK_INT(dataset_label(d, 2), 1);
        CHECK_STR(dataset_class_name(d, 1), "b");
        dataset_close(d);
    }
}

TEST(folder__label_files_that_do_not_fit_are_refused_by_line)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"b\na\n", "has 2 labels for 3 pictures; the first without is n3.png"},
        {"b\na\nb\na\n", "line 4: more labels than the 3 pictures"},
        {"b\na\nc\n", "line 3: no class is called \"c\""},
        {"b\n2\nb\n", "line 2: no class is called \"2\""},
        {"n2 a\nn4 b\n", "line 2: there is no picture \"n4\""},
        {"n2 a\nn2.JPEG b\n", "line 2: a second label for \"n2.JPEG\""},
        {"n2 a\nb\n", "line 2: some lines have the name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_about("case %zu", i);
        struct data_config config = flat_config(test_directory(), cases[i].text);
        const char *text = open_error(&config, SPLIT_VAL, four, 2);
        CHECK_CONTAINS(text, "/labels.txt: ");
        CHECK_CONTAINS(text, cases[i].part);
    }
}
