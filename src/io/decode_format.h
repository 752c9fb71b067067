/* decode_format.h - what decode.c asks of the decoder of one format. Only the files of this room
 * include it.
 *
 * The libraries report failures by longjmp. Each decoder has one function with a setjmp, whose only
 * local is the pointer to this struct: nothing that lies there or behind it can be clobbered. */
#ifndef IO_DECODE_FORMAT_H
#define IO_DECODE_FORMAT_H

#include "io/decode.h"

struct decode {
    const uint8_t *bytes;
    size_t size;
    const char *where;
    const struct decode_options *options;
    struct image *out;
    struct decode_facts *facts; /* never NULL */
    int orientation;            /* EXIF, 1 to 8; 1 where it is to be ignored */
    struct error *err;
};

/* Fill d->out with the stored picture, upright or not, and set d->orientation. */
MUST_USE enum status png_decode(struct decode *d);
MUST_USE enum status jpeg_decode(struct decode *d);

/* Notes the first warning. */
void decode_warn(struct decode *d, const char *text);

/* ERR_INPUT where width x height is more than the options allow, or than `most`, the pixels
 * that so many bytes can hold at best. */
MUST_USE enum status decode_check_size(const struct decode *d, double width, double height,
                                       double most);

/* The orientation, 1 to 8, in a TIFF block as EXIF has it; 1 where none can be read. */
int exif_orientation(const uint8_t *tiff, size_t size);

/* Turns and mirrors the picture so that it stands as the orientation says. */
MUST_USE enum status exif_upright(struct image *image, int orientation, struct error *err);

#endif
