/* resample.h - scales 8-bit images by Pillow's filters, to the bit.
 *
 * Half-pixel centres; a filter as wide as the scale where an image shrinks, so that it is smoothed,
 * not sampled; columns then rows, each pass rounded to 8 bits; weights of 22 bits. */
#ifndef DATA_RESAMPLE_H
#define DATA_RESAMPLE_H

#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"
#include "io/image.h"

enum { RESAMPLE_BITS = 22 }; /* of a weight's fraction: with 8 of pixel and 2 spare fits into 32 */

/* Weights along one axis: target i is the sum over t < taps[i] of
 * weight[i * width + t] * source[start[i] + t], in units of 2^-RESAMPLE_BITS. All zero at first;
 * what it allocates is kept for the next call of resample_axis_set. */
struct resample_axis {
    int size, width;
    int *start, *taps, *weight;
    double *exact; /* (width), the weights of one target */
    size_t targets_room, weights_room, exact_room;
    int filter, from; /* what the weights are for: */
    double low, high;
};

/* The weights from the stretch low..high of `from` pixels to `to` of them: filter is
 * RESIZE_BILINEAR or RESIZE_BICUBIC, and reads beyond the stretch as far as there are pixels. */
MUST_USE enum status resample_axis_set(struct resample_axis *a, enum resize_mode filter, int from,
                                       double low, double high, int to, struct error *err);
void resample_axis_free(struct resample_axis *a);

/* A sum in units of 2^-RESAMPLE_BITS, half of one added before, as a pixel. */
static inline uint8_t resample_pixel(int sum)
{
    if (sum <= 0)
        return 0;
    sum >>= RESAMPLE_BITS;
    return sum > 255 ? 255 : (uint8_t)sum;
}

/* Tables and buffers of one thread. All zero at first; they grow as they must, and are kept. */
struct resampler {
    struct resample_axis across, down;
    uint8_t *rows; /* between the passes */
    int *sums;     /* of one row */
    size_t rows_room, sums_room;
};

void resampler_free(struct resampler *r);

/* `out`, whose width and height say the size (its room is made), = the box from (left, top) to
 * (right, bottom) of `in`, in its pixels: inside it, and of positive size. As Pillow's
 * resize(size, filter, box), pixels around the box take part where the filter reaches them. */
MUST_USE enum status resample_image(struct resampler *r, const struct image *in, double left,
                                    double top, double right, double bottom,
                                    enum resize_mode filter, struct image *out, struct error *err);

/* The same from width x height pixels at (left, top) cut out first, as Pillow's crop and then
 * resize: what lies around them takes no part. */
MUST_USE enum status resample_crop(struct resampler *r, const struct image *in, int left, int top,
                                   int width, int height, enum resize_mode filter,
                                   struct image *out, struct error *err);

#endif
