/* mix.h - images of a batch mixed in pairs: mixup and cutmix. */
#ifndef DATA_MIX_H
#define DATA_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"
#include "data/dataset.h"

/* How a batch is mixed, one way for all of it. */
struct mix {
    double share; /* of an image in its mixture; 1: as it was */
    bool cutmix;  /* the rectangle below comes from the partner; else images are blended */
    int top, bottom, left, right;
};

/* Draws by (epoch, batch number): share from Beta(alpha, alpha); under cutmix a rectangle of 1 -
 * share of the area, whose centre is uniform, cut at the edges, and share is then what it leaves.
 * Zhang et al., arXiv:1710.09412; Yun et al., arXiv:1905.04899. */
struct mix mix_draw(const struct augment *options, struct image_shape shape, uint64_t stream,
                    uint64_t epoch, uint64_t batch);

/* Image i of `count` is mixed with image count - 1 - i, and the middle one of an odd number with
 * itself. images: (count, channels, height, width). */
void mix_apply(const struct mix *mix, struct image_shape shape, real *images, int count);

#endif
