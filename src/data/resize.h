/* resize.h - fits 8-bit images to another size by padding or by filtering.
 *
 * Filters are those of resample.h, plane by plane. */
#ifndef DATA_RESIZE_H
#define DATA_RESIZE_H

#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum { RESIZE_MAX_SIDE = 4096 }; /* of the source, in pixels */

struct resize; /* tables for one pair of sizes; read-only, shared by threads */

/* mode: RESIZE_PAD (ERR_INPUT where the source is larger), RESIZE_BILINEAR or RESIZE_BICUBIC.
 * Sides are at least 1, those of the source at most RESIZE_MAX_SIDE. */
MUST_USE enum status resize_create(struct resize **out, enum resize_mode mode, int from_height,
                                   int from_width, int to_height, int to_width, struct error *err);
void resize_destroy(struct resize *r);

/* One plane: from (from_height, from_width) to (to_height, to_width). */
void resize_plane(const struct resize *r, const uint8_t *from, uint8_t *to);

#endif
