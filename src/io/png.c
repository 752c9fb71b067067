/* png.c - PNG through libpng, row by row into the picture. https://www.w3.org/TR/png/ */
#include <png.h>
#include <stdio.h>
#include <string.h>

#include "io/decode_format.h"

enum {
    SIGNATURE = 8,
    CHUNK_HEADER = 8, /* length and name */
    CHUNK_CHECKSUM = 4,
    DEFLATE_BEST_RATIO = 1032, /* 258 bytes from 2 bits: https://zlib.net/zlib_tech.html */
};

/* Chunks that change no pixel here: skipped unread, so that none can be inflated without limit, or
 * be wrong. Alpha is dropped, and so is tRNS. */
static const png_byte skipped[] =
    "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0"
    "sTER\0tEXt\0tIME\0tRNS\0zTXt";

struct png_source {
    struct decode *d;
    size_t at; /* bytes read */
    png_structp png;
    png_infop info;
    enum status status;
};

static void png_take(png_structp png, png_bytep data, size_t count)
{
    struct png_source *s = png_get_io_ptr(png);
    if (count > s->d->size - s->at)
        png_error(png, "the file is cut off");
    memcpy(data, s->d->bytes + s->at, count);
    s->at += count;
}

static void png_fail(png_structp png, png_const_charp text)
{
    struct png_source *s = png_get_error_ptr(png);
    const char *hint = strstr(text, "CgBI") ? "Apple's own variant of PNG, which is not supported"
                                            : "the file is damaged, cut off or not supported";
    s->status = error_set(s->d->err, ERR_INPUT, "%s: PNG cannot be decoded: %s (%s)", s->d->where,
                          text, hint);
    png_longjmp(png, 1);
}

static void png_warn(png_structp png, png_const_charp text)
{
    struct png_source *s = png_get_error_ptr(png);
    decode_warn(s->d, text);
}

/* The orientation of the eXIf chunk, wherever it stands. */
static int png_orientation(const struct decode *d)
{
    size_t at = SIGNATURE;
    while (d->size - at >= CHUNK_HEADER) {
        const uint8_t *chunk = d->bytes + at;
        size_t length = png_get_uint_32(chunk);
        at += CHUNK_HEADER;
        if (length > d->size - at)
            break;
        if (memcmp(chunk + 4, "eXIf", 4) == 0)
            return exif_orientation(chunk + CHUNK_HEADER, length);
        at += length;
        if (d->size - at < CHUNK_CHECKSUM)
            break;
        at += CHUNK_CHECKSUM;
    }
    return 1;
}

/* Header, size, and what becomes of every kind of pixel: 8-bit RGB. */
static enum status png_begin(struct png_source *s)
{
    struct decode *d = s->d;
    png_structp png = s->png;
    png_set_read_fn(png, s, png_take);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, skipped, (int)sizeof skipped / 5);
    png_read_info(png, s->info);

    png_uint_32 width = png_get_image_width(png, s->info);
    png_uint_32 height = png_get_image_height(png, s->info);
    int bits = png_get_bit_depth(png, s->info) * png_get_channels(png, s->info);
    enum status status =
        decode_check_size(d, width, height, (double)d->size * DEFLATE_BEST_RATIO * 8 / bits);
    if (!status)
        status = image_room(d->out, (int)width, (int)height, d->err);
    if (status)
        return status;
    d->facts->width = (int)width;
    d->facts->height = (int)height;

    int type = png_get_color_type(png, s->info);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (!(type & PNG_COLOR_MASK_COLOR)) {
        png_set_expand_gray_1_2_4_to_8(png);
        png_set_gray_to_rgb(png);
    }
    png_set_scale_16(png);
    png_set_strip_alpha(png);
    return OK;
}

/* The only function that libpng's errors return to. */
static void png_run(struct png_source *s)
{
    if (setjmp(png_jmpbuf(s->png)))
        return;
    s->status = png_begin(s);
    if (s->status)
        return;
    struct image *out = s->d->out;
    int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    if (png_get_rowbytes(s->png, s->info) != 3 * (size_t)out->width)
        png_error(s->png, "rows are not as long as expected");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < out->height; y++)
            png_read_row(s->png, out->rgb + 3 * (size_t)out->width * (size_t)y, NULL);
    /* The end is not read: with the last row every pixel is there and checked. */
}

enum status png_decode(struct decode *d)
{
    struct png_source s = {.d = d};
    s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, png_fail, png_warn);
    s.info = s.png ? png_create_info_struct(s.png) : NULL;
    if (s.info) {
        png_set_benign_errors(s.png, 1);
        png_run(&s);
    } else {
        s.status = error_memory(d->err, sizeof s);
    }
    png_destroy_read_struct(&s.png, &s.info, NULL);
    if (!s.status && d->options->exif)
        d->orientation = png_orientation(d);
    return s.status;
}
