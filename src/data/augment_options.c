/* augment_options.c - the field table of data.augment, and what does not go together. */
#include "data/augment_options.h"

#include "data/policy.h"

static const char *const interpolation_names[] = {"bilinear", "bicubic", "random", NULL};
static const char *const erase_names[] = {"pixel", "const", "rand", NULL};

static const struct field resized_crop_fields[] = {
    FIELD_REALS(struct resized_crop, scale, "[0.08, 1]", 1e-6, 1,
                "least and most share of the image's area"),
    FIELD_REALS(struct resized_crop, ratio, "[0.75, 1.3333333333333333]", 1e-3, 1e3,
                "least and most ratio of width to height"),
    FIELD_END,
};

static const struct field erasing_fields[] = {
    FIELD_REAL(struct erasing, probability, 0.25, 0, 1, "of an image to lose rectangles"),
    FIELD_ENUM(struct erasing, mode, ERASE_PIXEL, erase_names,
               "what stands there instead: normal noise in every value, zero (the mean colour), or "
               "one random value for each channel"),
    FIELD_INT(struct erasing, count, 1, 1, 100, "rectangles at most, which share the area"),
    FIELD_END,
};

const struct field augment_fields[] = {
    FIELD_INT(struct augment, random_crop_padding, 0, 0, 1024,
              "black pixels put around an image before a crop of its size is drawn"),
    FIELD_REAL(struct augment, hflip, 0, 0, 1, "probability of mirroring left and right"),
    FIELD_REAL(struct augment, vflip, 0, 0, 1, "probability of mirroring top and bottom"),
    FIELD_MAYBE(struct augment, random_resized_crop, struct resized_crop, resized_crop_fields, NULL,
                "a random part of the image, scaled to the model's size; null: the whole image"),
    FIELD_ENUM(struct augment, interpolation, INTERPOLATE_BICUBIC, interpolation_names,
               "of random_resized_crop and auto_augment; random: one of the two each time"),
    FIELD_REAL(struct augment, color_jitter, 0, 0, 1,
               "brightness, contrast and saturation change by factors 1 -+ this, in random order; "
               "idle beside a rand- policy"),
    FIELD_STRING(struct augment, auto_augment, NULL,
                 "\"rand-m9-mstd0.5-inc1\" (RandAugment in timm's notation) or \"3a\" (3-Augment)"),
    FIELD_MAYBE(struct augment, random_erasing, struct erasing, erasing_fields, NULL,
                "rectangles wiped out after normalisation; null: none"),
    FIELD_REAL(struct augment, mixup, 0, 0, 100,
               "images of a batch are blended, shares by Beta(this, this); 0: never"),
    FIELD_REAL(struct augment, cutmix, 0, 0, 100,
               "rectangles are exchanged between images, areas by Beta(this, this); 0: never"),
    FIELD_REAL(struct augment, mix_probability, 1, 0, 1, "of a batch to be mixed at all"),
    FIELD_REAL(struct augment, mix_switch, 0.5, 0, 1, "of cutmix where there is mixup too"),
    FIELD_INT(struct augment, repeated, 1, 1, 100,
              "times that an image comes, changed anew, in an epoch that has it: an epoch then has "
              "so many times fewer images, in as many batches"),
    FIELD_END,
};

bool augment_mixes(const struct augment *options)
{
    return (options->mixup > 0 || options->cutmix > 0) && options->mix_probability > 0;
}

static enum status check_range(const struct reals *list, const char *name, struct error *err)
{
    if (list->count == 2 && list->at[0] <= list->at[1])
        return OK;
    return error_set(err, ERR_INPUT,
                     "data.augment.random_resized_crop.%s: expected the least and the most, as in "
                     "[0.5, 1]",
                     name);
}

enum status augment_check(const struct augment *o, int channels, struct error *err)
{
    const struct resized_crop *crop = o->random_resized_crop;
    struct policy policy;
    enum status status = policy_parse(&policy, o->auto_augment, err);
    if (!status && crop)
        status = check_range(&crop->scale, "scale", err);
    if (!status && crop)
        status = check_range(&crop->ratio, "ratio", err);
    if (status)
        return status;
    if (crop && o->random_crop_padding > 0)
        return error_set(err, ERR_INPUT,
                         "data.augment.random_crop_padding: %d beside random_resized_crop, and one "
                         "crop is enough (set one of them to 0 or null)",
                         o->random_crop_padding);
    if (crop && channels != 1 && channels != 3)
        return error_set(
            err, ERR_INPUT,
            "data.augment.random_resized_crop: takes images of 1 or 3 channels, not of "
            "%d (use null)",
            channels);
    if (o->auto_augment && channels != 3)
        return error_set(
            err, ERR_INPUT,
            "data.augment.auto_augment: changes colours, and the model takes images of "
            "%d channel%s (use null)",
            channels, channels == 1 ? "" : "s");
    if (o->color_jitter > 0 && channels != 3)
        return error_set(
            err, ERR_INPUT,
            "data.augment.color_jitter: changes colours, and the model takes images of "
            "%d channel%s (use 0)",
            channels, channels == 1 ? "" : "s");
    return OK;
}
