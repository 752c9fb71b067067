/* picture.h - small PNG and JPEG files for tests, made without the code under test. */
#ifndef TEST_PICTURE_H
#define TEST_PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes being put together; data is malloc'd. All zero: none. */
struct bytes {
    uint8_t *data;
    size_t size;
};

void bytes_add(struct bytes *b, const void *data, size_t size);
void bytes_free(struct bytes *b);

enum { PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4, PNG_RGB_ALPHA = 6 };

/* The signature, a chunk, and the usual three: IHDR (not interlaced), IDAT and IEND. */
void png_signature(struct bytes *b);
void png_chunk(struct bytes *b, const char *name, const void *data, size_t size);
void png_header(struct bytes *b, int width, int height, int depth, int type);
void png_data(struct bytes *b, const void *rows, size_t size); /* each row with its filter byte */
void png_end(struct bytes *b);

/* A whole PNG or JPEG of rgb (height, width, 3), or where channels is 1 of grey (height, width).
 * For JPEG: quality 1 to 100; progressive; EXIF orientation, 0 for none. */
struct bytes png_picture(const uint8_t *pixels, int width, int height, int channels);
struct jpeg_how {
    int quality, orientation;
    _Bool progressive;
};
struct bytes jpeg_picture(const uint8_t *pixels, int width, int height, int channels,
                          struct jpeg_how how);

/* A PNG of one colour, 0xRRGGBB, as the file FOLDER/NAME; folders on the way are made. */
void put_picture(const char *folder, const char *name, int width, int height, unsigned colour);

/* Any bytes as the file FOLDER/NAME; folders on the way are made. */
void put_bytes(const char *folder, const char *name, const void *data, size_t size);

#endif
