/* image.h - 8-bit colour images in memory. */
#ifndef IO_IMAGE_H
#define IO_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* All zero: an image without pixels. */
struct image {
    int width, height;
    uint8_t *rgb; /* (height, width, 3), interleaved; malloc'd */
    size_t room;  /* bytes at rgb: kept for the next, smaller image */
};

/* Makes room for width * height pixels and sets the size; what the pixels were is lost. */
MUST_USE enum status image_room(struct image *image, int width, int height, struct error *err);

void image_free(struct image *image);

#endif
