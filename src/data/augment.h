/* augment.h - random changes of training images, drawn by (seed, epoch, position in the epoch). */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "data/dataset.h"

/* One image's change: a crop of the image's size, moved by (down, right) pixels, black beyond the
 * edges; then mirrored left and right where `flip`, top and bottom where `vflip`. All zero: no
 * change. */
struct augment_draw {
    int down, right;
    bool flip, vflip;
};

/* Draws from the stream "augment" of the run: down and right uniform in -padding..padding, the
 * flips with their probabilities. */
struct augment_draw augment_draw(const struct augment *options, uint64_t stream, uint64_t epoch,
                                 uint64_t position);

/* `to` = the changed image of height x width pixels of `bytes` bytes each. */
void augment_shift(const struct augment_draw *draw, int height, int width, size_t bytes,
                   const uint8_t *from, uint8_t *to);

/* out, (channels, height, width), = the changed image through `table` (see normalization_table):
 * what lies outside is pixel 0 before normalisation. pixels: (channels, height, width). */
void augment_apply(const struct augment_draw *draw, struct image_shape shape, const uint8_t *pixels,
                   const real *table, real *out);

/* A part of an image, in its pixels. */
struct augment_box {
    int left, top, width, height;
};

/* The part that random_resized_crop takes: area and ratio (its logarithm) are uniform in their
 * ranges; of ten tries the first that fits, else the middle with the nearest ratio. */
struct augment_box augment_crop_draw(const struct resized_crop *options, int width, int height,
                                     uint64_t stream, uint64_t epoch, uint64_t position);

/* Brightness, contrast and saturation change in random order, by factors uniform in 1 - strength ..
 * 1 + strength. */
void augment_jitter(struct image *image, double strength, uint64_t stream, uint64_t epoch,
                    uint64_t position);

/* Wipes rectangles out of a normalised image (channels, height, width): each has 2 % to a third of
 * the area over their number, a ratio of 0.3 to 1 / 0.3 (its logarithm uniform), and ten tries to
 * fit. Zhong et al., "Random Erasing Data Augmentation", arXiv:1708.04896. */
void augment_erase(const struct erasing *options, struct image_shape shape, real *image,
                   uint64_t stream, uint64_t epoch, uint64_t position);

#endif
