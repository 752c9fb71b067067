/* dataset.h - labelled images, read from the formats that a config can name.
 *
 * A dataset is opened once, checked as a whole (headers, counts, label ranges), and then read from
 * any thread. Pixels are 8-bit, planes first: (channels, height, width). */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "config/field.h"
#include "data/augment_options.h"
#include "io/image.h"

enum split { SPLIT_TRAIN, SPLIT_TEST, SPLIT_VAL }; /* parts that a format's own files give */

enum { DATA_MAX_CHANNELS = 16, MAX_CLASSES = 100000 };

/* What becomes of records of another size or channel count than the model's. All but the first
 * repeat grey for three channels; colour is never made grey. */
enum resize_mode {
    RESIZE_ERROR,    /* refused */
    RESIZE_PAD,      /* zeros around the record, which stands in the centre */
    RESIZE_BILINEAR, /* scaled to the model's size with a triangle filter */
    RESIZE_BICUBIC,  /* scaled with a cubic filter */
    RESIZE_AUTO,     /* bicubic for pictures of their own sizes, else refused */
};

/* What a picture that cannot be decoded means. */
enum { ON_ERROR_FAIL, ON_ERROR_SKIP };

/* Where the validation records come from. */
enum validation {
    VALIDATION_NONE,
    VALIDATION_HOLDOUT, /* a class-balanced part of the training set, drawn from the seed */
    VALIDATION_TEST,    /* the official test set */
    VALIDATION_VAL,     /* the format's own validation part */
};

/* Options of {"holdout": n}. */
struct holdout_options {
    struct number_or_name holdout; /* records from 1 on, a share of the training set below it */
};

/* The "data" object of a config. */
struct data_config {
    int format;              /* index into dataset_format_names */
    const char *path;        /* folder; NULL for synthetic */
    const char *train_path, *val_path, *test_path; /* folder: a part that lies elsewhere; or NULL */
    const char *val_labels; /* folder: the labels of a val part without class folders, or NULL */
    const char *file_prefix; /* mnist: stands before the official file names; NULL or "": nothing */
    struct choice validation;                      /* data_validation says which */
    struct number_or_name limit_train, limit_test; /* a number: at most so many records */
    struct normalize {
        struct reals mean, std; /* one a channel, of pixels scaled to 0..1; empty: the format's */
    } normalize;
    struct augment augment;
    int resize;                  /* enum resize_mode */
    double crop_pct;             /* folder: see fit.h */
    bool exif;                   /* folder: pictures are turned as their EXIF orientation says */
    int max_pixels;              /* folder: of one picture */
    int on_error;                /* folder: ON_ERROR_FAIL or ON_ERROR_SKIP */
    int labels;                  /* cifar100: 0 fine, 1 coarse */
    int train_count, test_count; /* synthetic: records */
    int workers;                 /* threads that prepare batches; 0: none beside the caller */
};

/* The field table of struct data_config, for the experiment's config table. */
extern const struct field data_fields[];

/* Names of the formats, NULL-terminated, one sentence about each, and the index of a name or -1. */
extern const char *const dataset_format_names[];
const char *dataset_format_summary(int format);
int dataset_format_find(const char *name);

/* The format whose files lie in the folder `path`, or -1. */
int dataset_format_detect(const char *path);

/* What data.validation says; where it is null, the format's own part if it is known to be there. Its
 * kinds, as the config's field table lists them. */
enum validation data_validation(const struct data_config *config);
const struct kind *data_validation_kind(int i);

/* Whether the data are of a format that can tell without opening them, and have that part. */
bool dataset_has_part(const struct data_config *config, enum split split);

struct dataset; /* one split */

/* What the model needs: filled from the model's config before a dataset is opened. */
struct image_shape {
    int channels, height, width;
};

/* Opens one split as the config says, with every record of the wanted shape (resized or padded as
 * config->resize says, grey repeated to three channels); height 0 leaves the records as they are:
 * those of formats in which each has its own size can then be read by dataset_image alone.
 * Labels outside 0..classes-1 are an error; classes 0 takes as many as the format has. *out is NULL
 * with OK where the format has no such split. ERR_INPUT with path, expected and found for all that
 * is wrong with the files. */
MUST_USE enum status dataset_open(struct dataset **out, const struct data_config *config,
                                  enum split split, struct image_shape shape, int classes,
                                  uint64_t seed, struct error *err);
void dataset_close(struct dataset *d);

/* PNG and JPEG files (borrowed paths, at least one) as a dataset of label 0 alone, each fitted to the
 * shape as those of image folders; a shape of one channel takes grey pictures. */
MUST_USE enum status dataset_open_files(struct dataset **out, const struct data_config *config,
                                        const char *const *paths, size_t count,
                                        struct image_shape shape, int classes, struct error *err);

size_t dataset_count(const struct dataset *d);
int dataset_classes(const struct dataset *d);
const char *dataset_class_name(const struct dataset *d, int label); /* its number where nameless */
struct image_shape dataset_shape(const struct dataset *d);
int dataset_label(const struct dataset *d, size_t i);

/* Pixels of record i into `pixels` (channels * height * width bytes). Thread-safe. ERR_INPUT where
 * a picture cannot be decoded: its path and what is wrong. */
MUST_USE enum status dataset_read(const struct dataset *d, size_t i, uint8_t *pixels,
                                  struct error *err);

/* Record i in colour and at the size that it has by itself, grey repeated: for formats of one or
 * three channels. Thread-safe; fails as dataset_read. */
MUST_USE enum status dataset_image(const struct dataset *d, size_t i, struct image *image,
                                   struct error *err);

/* Whether the records are pictures of any size, each with its own. */
bool dataset_has_own_sizes(const struct dataset *d);

/* A class that has no record although its folder is there, or NULL. */
const char *dataset_empty_class(const struct dataset *d);

/* Hash over the contents of the files behind the dataset (unpacked, names apart), for the log and
 * for resume. */
uint64_t dataset_fingerprint(const struct dataset *d);

/* One line on what is worth saying at the start ("1 of 5 CIFAR-10 batches (...)"), or NULL. */
const char *dataset_note(const struct dataset *d);

/* Indices 0..n-1 of the records of `d` in a class-balanced order drawn from the seed: every prefix
 * has the classes as even as it can. order has dataset_count(d) entries. Used by limit_* and
 * hold-out. */
MUST_USE enum status dataset_balanced_order(const struct dataset *d, uint64_t seed, size_t *order,
                                            struct error *err);

#endif
