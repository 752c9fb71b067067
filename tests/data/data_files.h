/* data_files.h - small data files and configs for the tests of src/data. */
#ifndef DATA_FILES_H
#define DATA_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

/* Writes FOLDER/NAME, as gzip where `gzip`. */
void put_file(const char *folder, const char *name, const void *data, size_t size, bool gzip);

/* Writes an IDX file whose header says `sizes` (rank of them), followed by `size` bytes of data. */
void put_idx(const char *folder, const char *name, int rank, const int *sizes, const void *data,
             size_t size, bool gzip);

/* Images of height x width whose pixel p of image i is 10 i + p, and labels i % classes, under the
 * official names of the training files, plain. */
void put_mnist(const char *folder, int count, int height, int width, int classes);

/* A CIFAR file of `count` records with `label_bytes` label bytes of i % classes; pixel p is
 * (i + p) mod 256. */
void put_cifar(const char *folder, const char *name, int count, int label_bytes, int classes);

/* The defaults of data_fields for a format, by hand. */
struct data_config config_of(const char *format, const char *path);

/* {"holdout": number}, written with a fraction or without; the options live until the exit. */
void set_holdout(struct data_config *config, double number, bool is_fraction);
void set_validation(struct data_config *config, const char *name);

/* Opens a dataset, or ends the test with the message. */
struct dataset *open_dataset(const struct data_config *config, enum split split,
                             struct image_shape shape, int classes);

/* Whether opening succeeds and finds no such part. */
bool is_absent(const struct data_config *config, enum split split, struct image_shape shape,
               int classes);

/* The message of opening that must fail with ERR_INPUT; valid until the next call. */
const char *open_error(const struct data_config *config, enum split split, struct image_shape shape,
                       int classes);

#endif
