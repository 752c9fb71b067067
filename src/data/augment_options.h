/* augment_options.h - the "data.augment" object of a config. */
#ifndef DATA_AUGMENT_OPTIONS_H
#define DATA_AUGMENT_OPTIONS_H

#include "base/status.h"
#include "config/field.h"

enum interpolation { INTERPOLATE_BILINEAR, INTERPOLATE_BICUBIC, INTERPOLATE_RANDOM };

/* A part of the image, scaled to the model's size. Both are [least, most]. */
struct resized_crop {
    struct reals scale; /* share of the image's area */
    struct reals ratio; /* width to height */
};

enum erase_mode { ERASE_PIXEL, ERASE_CONST, ERASE_RAND };

/* Rectangles wiped out of the normalised image. */
struct erasing {
    double probability;
    int mode;  /* enum erase_mode: N(0, 1) for every value; 0; one N(0, 1) for each channel */
    int count; /* rectangles at most: 1 to count of them, each count times smaller */
};

struct augment {
    int random_crop_padding;                  /* pixels on each side; 0: none */
    double hflip, vflip;                      /* probabilities */
    struct resized_crop *random_resized_crop; /* NULL: none */
    int interpolation;                        /* enum interpolation */
    double color_jitter;      /* brightness, contrast, saturation by factors 1 -+ this; 0: none */
    const char *auto_augment; /* see policy.h; NULL: none */
    struct erasing *random_erasing; /* NULL: none */
    double mixup, cutmix;           /* alpha of Beta(alpha, alpha); 0: none */
    double mix_probability;         /* that a batch is mixed */
    double mix_switch;              /* that it is by cutmix, where there are both */
    int repeated;                   /* times that an image comes in an epoch that has it; 0: once */
};

extern const struct field augment_fields[];

/* ERR_INPUT "data.augment.KEY: WHAT (HINT)" for values that contradict each other, or cannot be had
 * for images of so many channels. */
MUST_USE enum status augment_check(const struct augment *options, int channels, struct error *err);

/* Whether images of a batch are mixed with each other, so that a sample has two labels. */
bool augment_mixes(const struct augment *options);

#endif
