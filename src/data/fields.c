/* fields.c - the "data" object of a config as a field table. */
#include <limits.h>
#include <string.h>

#include "data/dataset.h"
#include "io/decode.h"

enum { DATA_MAX_RECORDS = 100000000 };

static const struct field holdout_fields[] = {
    FIELD_RANGE(struct holdout_options, holdout, "0.1", NULL, 1e-9, DATA_MAX_RECORDS,
                "records taken off the training set, or the share of it where below 1"),
    FIELD_END,
};

static const enum validation from_none = VALIDATION_NONE;
static const enum validation from_holdout = VALIDATION_HOLDOUT;
static const enum validation from_test = VALIDATION_TEST;
static const enum validation from_val = VALIDATION_VAL;

static const struct kind validation_kinds[] = {
    {.name = "none", .summary = "no validation", .impl = &from_none},
    {
        .name = "holdout",
        .summary = "a class-balanced part of the training set, drawn from the seed",
        .fields = holdout_fields,
        .size = sizeof(struct holdout_options),
        .impl = &from_holdout,
    },
    {.name = "test", .summary = "the official test set", .impl = &from_test},
    {.name = "val", .summary = "the format's own validation part", .impl = &from_val},
};

const struct kind *data_validation_kind(int i)
{
    int count = (int)(sizeof validation_kinds / sizeof validation_kinds[0]);
    return i >= 0 && i < count ? &validation_kinds[i] : NULL;
}

enum validation data_validation(const struct data_config *config)
{
    const struct kind *kind = config->validation.kind;
    if (kind)
        return *(const enum validation *)kind->impl;
    return dataset_has_part(config, SPLIT_VAL) ? VALIDATION_VAL : VALIDATION_NONE;
}

static const char *const resize_names[] = {"error", "pad", "bilinear", "bicubic", "auto", NULL};
static const char *const on_error_names[] = {"fail", "skip", NULL};
static const char *const label_names[] = {"fine", "coarse", NULL};

static const struct field normalize_fields[] = {
    FIELD_REALS(struct normalize, mean, "[]", 0, 1,
                "mean of each channel, pixels scaled to 0..1; empty: the format's usual values"),
    FIELD_REALS(struct normalize, std, "[]", 1e-6, 10,
                "standard deviation of each channel; empty: the format's usual values"),
    FIELD_END,
};

const struct field data_fields[] = {
    FIELD_ENUM(struct data_config, format, 0, dataset_format_names,
               "how the records are stored: see attnbench list datasets"),
    FIELD_PATH(struct data_config, path, NULL, "folder with the data files"),
    FIELD_PATH(struct data_config, train_path, NULL,
               "folder: the training pictures; null: train/ below path"),
    FIELD_PATH(struct data_config, val_path, NULL,
               "folder: the validation pictures; null: val/ below path"),
    FIELD_PATH(struct data_config, test_path, NULL,
               "folder: the test pictures; null: test/ below path"),
    FIELD_PATH(struct data_config, val_labels, NULL,
               "folder: text file with the labels of validation pictures that lie in one folder, one "
               "a line in the order of their names, or NAME LABEL"),
    FIELD_STRING(struct data_config, file_prefix, NULL,
                 "mnist: what stands before the official file names, as in emnist-balanced-"),
    FIELD_CHOICE(struct data_config, validation, data_validation_kind, NULL,
                 "{\"holdout\": N} or {\"holdout\": SHARE} off the training set, \"test\" for the "
                 "official test set, \"val\" for the format's own part, \"none\"; null: val/ of an "
                 "image folder that has it, else none"),
    FIELD_RANGE(struct data_config, limit_train, NULL, NULL, 1, DATA_MAX_RECORDS,
                "most training records to use, class-balanced and drawn from the seed, the "
                "hold-out apart; null: all"),
    FIELD_RANGE(struct data_config, limit_test, NULL, NULL, 1, DATA_MAX_RECORDS,
                "most test records to use, class-balanced and drawn from the seed; null: all"),
    FIELD_OBJECT(struct data_config, normalize, normalize_fields,
                 "what pixels are shifted and scaled by"),
    FIELD_OBJECT(struct data_config, augment, augment_fields, "random changes of training images"),
    FIELD_ENUM(struct data_config, resize, RESIZE_AUTO, resize_names,
               "records of another size or channel count than the model's: refused, padded with "
               "zeros, or scaled; grey is repeated for three channels; auto: bicubic for folder, "
               "else error"),
    FIELD_REAL(struct data_config, crop_pct, 0.875, 0.01, 1,
               "folder: pictures are evaluated at model size / crop_pct, of which the middle is "
               "cut out; models of at most 32 pixels: 1"),
    FIELD_BOOL(struct data_config, exif, true,
               "folder: pictures are turned upright as their EXIF orientation says"),
    FIELD_INT(struct data_config, max_pixels, DECODE_MAX_PIXELS, 1, INT_MAX,
              "folder: pictures with more pixels are refused"),
    FIELD_ENUM(struct data_config, on_error, ON_ERROR_FAIL, on_error_names,
               "folder: pictures that cannot be decoded end the run, or are left out and reported "
               "(all are decoded once at the start)"),
    FIELD_ENUM(struct data_config, labels, 0, label_names,
               "cifar100: the 100 fine or the 20 coarse labels"),
    FIELD_INT(struct data_config, train_count, 2048, 1, DATA_MAX_RECORDS,
              "synthetic: training records"),
    FIELD_INT(struct data_config, test_count, 512, 1, DATA_MAX_RECORDS, "synthetic: test records"),
    FIELD_INT(struct data_config, workers, 1, 0, 64,
              "threads that prepare batches ahead of the step; 0: the step prepares its own"),
    FIELD_END,
};
