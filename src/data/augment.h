/* augment.h - random changes of training images, drawn by (seed, epoch, position in the epoch). */
#ifndef DATA_AUGMENT_H
#define DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "data/dataset.h"

/* One image's change: a crop of the image's size, moved by (down, right) pixels, black beyond the
 * edges; then mirrored left and right where `flip`. All zero: no change. */
struct augment_draw {
    int down, right;
    bool flip;
};

/* Draws from the stream "augment" of the run: down and right uniform in -padding..padding, flip
 * with probability hflip. */
struct augment_draw augment_draw(const struct augment *options, uint64_t stream, uint64_t epoch,
                                 uint64_t position);

/* out, (channels, height, width), = the changed image through `table` (see normalization_table):
 * what lies outside is pixel 0 before normalisation. pixels: (channels, height, width). */
void augment_apply(const struct augment_draw *draw, struct image_shape shape, const uint8_t *pixels,
                   const real *table, real *out);

#endif
