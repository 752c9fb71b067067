/* data_files.c - see data_files.h. */
#include "data_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "test.h"

void put_file(const char *folder, const char *name, const void *data, size_t size, bool gzip)
{
    const char *path = test_text("%s/%s", folder, name);
    if (gzip) {
        gzFile f = gzopen(path, "wb6");
        CHECK(f != NULL);
        CHECK_INT(gzwrite(f, data, (unsigned)size), size);
        CHECK_INT(gzclose(f), Z_OK);
        return;
    }
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_INT(fwrite(data, 1, size, f), size);
    CHECK_INT(fclose(f), 0);
}

void put_idx(const char *folder, const char *name, int rank, const int *sizes, const void *data,
             size_t size, bool gzip)
{
    size_t head = 4 + 4 * (size_t)rank;
    uint8_t *file = calloc(1, head + size);
    CHECK(file != NULL);
    file[2] = 8;
    file[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        for (int k = 0; k < 4; k++)
            file[4 + 4 * i + k] = (uint8_t)((unsigned)sizes[i] >> (24 - 8 * k));
    memcpy(file + head, data, size);
    put_file(folder, name, file, head + size, gzip);
    free(file);
}

void put_mnist(const char *folder, int count, int height, int width, int classes)
{
    size_t plane = (size_t)height * (size_t)width, size = (size_t)count * plane;
    uint8_t *pixels = malloc(size), *labels = malloc((size_t)count);
    CHECK(pixels && labels);
    for (int i = 0; i < count; i++) {
        labels[i] = (uint8_t)(i % classes);
        for (size_t p = 0; p < plane; p++)
            pixels[(size_t)i * plane + p] = (uint8_t)(10 * (size_t)i + p);
    }
    put_idx(folder, "train-images-idx3-ubyte", 3, (int[]){count, height, width}, pixels, size,
            false);
    put_idx(folder, "train-labels-idx1-ubyte", 1, &count, labels, (size_t)count, false);
    free(pixels);
    free(labels);
}

void put_cifar(const char *folder, const char *name, int count, int label_bytes, int classes)
{
    size_t bytes = (size_t)label_bytes + 3072;
    uint8_t *file = malloc((size_t)count * bytes);
    CHECK(file != NULL);
    for (int i = 0; i < count; i++) {
        uint8_t *record = file + (size_t)i * bytes;
        memset(record, i % classes, (size_t)label_bytes);
        for (size_t p = 0; p < 3072; p++)
            record[(size_t)label_bytes + p] = (uint8_t)((size_t)i + p);
    }
    put_file(folder, name, file, (size_t)count * bytes, false);
    free(file);
}

struct data_config config_of(const char *format, const char *path)
{
    return (struct data_config){
        .format = dataset_format_find(format),
        .path = path,
        .limit_train = {.name = -2},
        .limit_test = {.name = -2},
        .train_count = 2048,
        .test_count = 512,
    };
}

void set_validation(struct data_config *config, const char *name)
{
    for (int i = 0; data_validation_kind(i); i++)
        if (strcmp(data_validation_kind(i)->name, name) == 0)
            config->validation.kind = data_validation_kind(i);
    CHECK(config->validation.kind != NULL);
    config->validation.name = name;
}

void set_holdout(struct data_config *config, double number, bool is_fraction)
{
    static struct holdout_options options;
    options.holdout = (struct number_or_name){-1, number, is_fraction};
    set_validation(config, "holdout");
    config->validation.options = &options;
}

struct dataset *open_dataset(const struct data_config *config, enum split split,
                             struct image_shape shape, int classes)
{
    struct dataset *d = NULL;
    struct error err;
    CHECK_OK(dataset_open(&d, config, split, shape, classes, 1, &err), err);
    CHECK(d != NULL);
    return d;
}

bool is_absent(const struct data_config *config, enum split split, struct image_shape shape,
               int classes)
{
    struct dataset *d = NULL;
    struct error err;
    CHECK_OK(dataset_open(&d, config, split, shape, classes, 1, &err), err);
    return d == NULL;
}

const char *open_error(const struct data_config *config, enum split split, struct image_shape shape,
                       int classes)
{
    static struct error err;
    struct dataset *d = NULL;
    CHECK_INT(dataset_open(&d, config, split, shape, classes, 1, &err), ERR_INPUT);
    CHECK(d == NULL);
    return err.text;
}
