/* picture.c - writing PNG by hand and JPEG through its library. */
#include "picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <jpeglib.h> /* wants size_t and FILE */

#include "base/file.h"
#include "test.h"

void bytes_add(struct bytes *b, const void *data, size_t size)
{
    uint8_t *grown = realloc(b->data, b->size + size + 1);
    CHECK(grown != NULL);
    b->data = grown;
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

/* --- PNG ----------------------------------------------------------------------------------------
 */

static void add_number(struct bytes *b, uint32_t n)
{
    uint8_t four[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    bytes_add(b, four, 4);
}

void png_signature(struct bytes *b)
{
    bytes_add(b, "\x89PNG\r\n\x1a\n", 8);
}

void png_chunk(struct bytes *b, const char *name, const void *data, size_t size)
{
    add_number(b, (uint32_t)size);
    size_t start = b->size;
    bytes_add(b, name, 4);
    bytes_add(b, data, size);
    add_number(b, (uint32_t)crc32(0, b->data + start, (uInt)(b->size - start)));
}

void png_header(struct bytes *b, int width, int height, int depth, int type)
{
    struct bytes header = {0};
    add_number(&header, (uint32_t)width);
    add_number(&header, (uint32_t)height);
    uint8_t rest[5] = {(uint8_t)depth, (uint8_t)type, 0, 0, 0};
    bytes_add(&header, rest, sizeof rest);
    png_chunk(b, "IHDR", header.data, header.size);
    bytes_free(&header);
}

void png_data(struct bytes *b, const void *rows, size_t size)
{
    uLongf packed = compressBound((uLong)size);
    uint8_t *data = malloc(packed);
    CHECK(data != NULL);
    CHECK_INT(compress(data, &packed, rows, (uLong)size), Z_OK);
    png_chunk(b, "IDAT", data, packed);
    free(data);
}

void png_end(struct bytes *b)
{
    png_chunk(b, "IEND", NULL, 0);
}

struct bytes png_picture(const uint8_t *pixels, int width, int height, int channels)
{
    struct bytes b = {0}, rows = {0};
    size_t row = (size_t)width * (size_t)channels;
    for (int y = 0; y < height; y++) {
        bytes_add(&rows, "\0", 1);
        bytes_add(&rows, pixels + (size_t)y * row, row);
    }
    png_signature(&b);
    png_header(&b, width, height, 8, channels == 1 ? PNG_GREY : PNG_RGB);
    png_data(&b, rows.data, rows.size);
    png_end(&b);
    bytes_free(&rows);
    return b;
}

/* --- JPEG ---------------------------------------------------------------------------------------
 */

struct bytes jpeg_picture(const uint8_t *pixels, int width, int height, int channels,
                          struct jpeg_how how)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, &size);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = channels;
    c.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, how.quality, TRUE);
    if (how.progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    if (how.orientation) { /* big-endian TIFF, one entry: 0x0112, SHORT, 1 value */
        uint8_t exif[] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
        exif[25] = (uint8_t)how.orientation;
        jpeg_write_marker(&c, JPEG_APP0 + 1, exif, sizeof exif - 1);
    }
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)c.next_scanline * (size_t)width *
                                                          (size_t)channels);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    struct bytes b = {0};
    bytes_add(&b, data, size);
    free(data);
    return b;
}

/* --- files --------------------------------------------------------------------------------------
 */

void put_bytes(const char *folder, const char *name, const void *data, size_t size)
{
    const char *path = test_text("%s/%s", folder, name);
    struct error err;
    char *above = file_directory(path);
    CHECK_OK(file_make_directory(above, &err), err);
    free(above);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_INT(fwrite(data, 1, size, f), size);
    CHECK_INT(fclose(f), 0);
}

void put_picture(const char *folder, const char *name, int width, int height, unsigned colour)
{
    struct bytes pixels = {0};
    const uint8_t one[3] = {(uint8_t)(colour >> 16), (uint8_t)(colour >> 8), (uint8_t)colour};
    for (int i = 0; i < width * height; i++)
        bytes_add(&pixels, one, 3);
    struct bytes png = png_picture(pixels.data, width, height, 3);
    put_bytes(folder, name, png.data, png.size);
    bytes_free(&pixels);
    bytes_free(&png);
}
