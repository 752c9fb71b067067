/* fit.h - a picture of any size at the size of the model, as an evaluation sees it.
 *
 * The arithmetic is that of timm's evaluation transform. The model's sides over crop_pct, rounded
 * down, give a size; where the model is square, the shorter side of the picture becomes that size
 * and the longer one keeps the proportion, rounded down; where not, the picture is scaled so far
 * that it just covers the size, rounded to the nearest. Then the middle is cut out, half a pixel
 * rounded to even. Models of at most 32 x 32 pixels see the picture scaled to their own size, as if
 * crop_pct were 1. */
#ifndef DATA_FIT_H
#define DATA_FIT_H

#include "data/dataset.h"
#include "data/resample.h"
#include "io/image.h"

struct fit_options {
    enum resize_mode mode; /* RESIZE_ERROR and RESIZE_PAD: not scaled, see dataset.h */
    struct image_shape shape;
    double crop_pct;
};

/* Memory of one thread. All zero at first; it grows as it must, and is kept. */
struct fit_scratch {
    struct image record, part;
    int left, top; /* of the view in `part` */
    struct resampler resampler;
    struct fit_scratch *next; /* in a pool */
};

void fit_scratch_free(struct fit_scratch *s);

/* planes (channels, height, width) = the view of s->record. A model of one channel takes grey
 * pictures alone: colour is never made grey. ERR_INPUT "WHAT (HINT)" for that and for sizes that
 * the mode refuses. */
MUST_USE enum status fit_view(struct fit_scratch *s, const struct fit_options *o, uint8_t *planes,
                              struct error *err);

/* Scratch memory for as many threads as come, each used by one at a time. */
struct fit_pool;

MUST_USE enum status fit_pool_create(struct fit_pool **out, struct error *err);
void fit_pool_destroy(struct fit_pool *p);
MUST_USE enum status fit_pool_take(struct fit_pool *p, struct fit_scratch **out, struct error *err);
void fit_pool_give(struct fit_pool *p, struct fit_scratch *s);

#endif
