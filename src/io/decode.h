/* decode.h - PNG and JPEG from bytes in memory to 8-bit colour.
 *
 * What comes out is what Pillow's convert("RGB") gives: grey is repeated, palettes are expanded,
 * alpha and tRNS are dropped (the colour under a transparent pixel counts), CMYK and YCCK count as
 * inverted as Adobe writes them; gamma, ICC profiles and backgrounds are ignored, of an APNG the
 * default picture counts. Two things differ: 16 bits become 8 by rounding (Pillow clips grey), and
 * the EXIF orientation is applied unless the options say otherwise. */
#ifndef IO_DECODE_H
#define IO_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/image.h"

enum { DECODE_MAX_PIXELS = 178956970 }; /* the usual limit, as Pillow's */

struct decode_options {
    bool exif;         /* turn and mirror as the EXIF orientation says */
    double max_pixels; /* more is refused before anything of that size is allocated */

    /* JPEG may come out at 1/2, 1/4 or 1/8 of its size, the smallest that has at least this width
     * and height (after orientation); 0: full size. */
    int least_width, least_height;
};

/* What is known of an image beside its pixels. */
struct decode_facts {
    const char *format; /* "PNG" or "JPEG" */
    int width, height;  /* at full size, after orientation */
    char warning[160];  /* the first thing that the decoder found odd but bearable, or "" */
};

/* "PNG" or "JPEG" by the first bytes, or NULL. */
const char *decode_format(const uint8_t *bytes, size_t size);

/* *out = the image; its room is reused. The content decides on the format, `where` (a path) stands
 * in front of messages. facts may be NULL.
 * ERR_INPUT for anything else than PNG and JPEG, for more pixels than allowed or than the bytes can
 * hold, and for data that is cut off or damaged, even where a part of the picture could be shown;
 * what lies behind the picture's end is ignored, and so is damage that touches no pixel. */
MUST_USE enum status image_decode(struct image *out, const uint8_t *bytes, size_t size,
                                  const char *where, const struct decode_options *options,
                                  struct decode_facts *facts, struct error *err);

/* The same from a file, read as a whole. */
MUST_USE enum status image_decode_file(struct image *out, const char *path,
                                       const struct decode_options *options,
                                       struct decode_facts *facts, struct error *err);

#endif
