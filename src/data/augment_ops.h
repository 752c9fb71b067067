/* augment_ops.h - changes of whole colour images that augmentation is made of, as Pillow 9.4
 * computes them: those by tables and blends to the bit, those by affine maps and blurs within one
 * grey level. Images are changed in place. */
#ifndef DATA_AUGMENT_OPS_H
#define DATA_AUGMENT_OPS_H

#include "data/dataset.h"
#include "io/image.h"

/* Each channel by itself: */
void augment_auto_contrast(struct image *image); /* stretched to 0..255 */
void augment_equalize(struct image *image);      /* all levels as frequent as may be */
void augment_invert(struct image *image);
void augment_posterize(struct image *image, int bits);      /* 0..8 bits are kept */
void augment_solarize(struct image *image, int threshold);  /* inverts from there on */
void augment_solarize_add(struct image *image, int amount); /* to pixels below 128, 255 at most */

/* Blends with what has none of the quality (black; the grey of the mean; the grey image; the
 * smoothed one) to `factor` >= 0 of it: 1 changes nothing, above 1 the quality grows. */
void augment_brightness(struct image *image, double factor);
void augment_contrast(struct image *image, double factor);
void augment_color(struct image *image, double factor);

/* The rest needs `spare`, an image that has room for as many bytes; what was in it is lost. */
void augment_sharpness(struct image *image, double factor, struct image *spare);

/* Gaussian of standard deviation `radius` >= 0, from three boxes each way. */
void augment_blur(struct image *image, double radius, struct image *spare);

/* How images are moved: RESIZE_BILINEAR or RESIZE_BICUBIC, and the colour of what comes from beyond
 * the edges. */
struct augment_move {
    enum resize_mode filter;
    uint8_t fill[3];
};

/* Pixel (x, y), from its centre, is taken from (m0 x + m1 y + m2, m3 x + m4 y + m5). */
void augment_affine(struct image *image, const double matrix[6], const struct augment_move *move,
                    struct image *spare);

/* About the centre, counter-clockwise. */
void augment_rotate(struct image *image, double degrees, const struct augment_move *move,
                    struct image *spare);

#endif
