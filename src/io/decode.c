/* decode.c - which decoder, and what all of them check. */
#include "io/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "io/decode_format.h"

enum { MAX_FILE_BYTES = 1 << 30 };

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

const char *decode_format(const uint8_t *bytes, size_t size)
{
    if (size >= sizeof png_signature && memcmp(bytes, png_signature, sizeof png_signature) == 0)
        return "PNG";
    if (size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff)
        return "JPEG";
    return NULL;
}

void decode_warn(struct decode *d, const char *text)
{
    if (!d->facts->warning[0])
        snprintf(d->facts->warning, sizeof d->facts->warning, "%s", text);
}

enum status decode_check_size(const struct decode *d, double width, double height, double most)
{
    if (width * height > d->options->max_pixels)
        return error_set(d->err, ERR_INPUT,
                         "%s: is %.0f x %.0f, %.0f pixels, more than the %.0f that are allowed "
                         "(data.max_pixels)",
                         d->where, width, height, width * height, d->options->max_pixels);
    if (width * height > most)
        return error_set(d->err, ERR_INPUT,
                         "%s: claims %.0f x %.0f pixels, more than its %zu bytes can hold (cut off "
                         "or damaged)",
                         d->where, width, height, d->size);
    return OK;
}

/* What is often found under the name of a picture. */
static const struct {
    const char *start, *what;
} others[] = {
    {"GIF8", "a GIF file"},
    {"II*", "a TIFF file"},
    {"MM", "a TIFF file"},
    {"RIFF", "a WebP file"},
    {"BM", "a BMP file"},
    {"version https://git-lfs", "a Git LFS pointer (git lfs pull fetches the picture)"},
    {"<!doctype", "a web page"},
    {"<html", "a web page"},
    {"<?xml", "an XML or SVG file"},
    {"<svg", "an SVG file"},
    {"\x89PNG", "a PNG file whose signature is damaged, as by a transfer as text"},
    {"\tPNG", "a PNG file whose signature is damaged, as by a transfer as text"},
};

static enum status decode_refuse(const struct decode *d)
{
    if (d->size == 0)
        return error_set(d->err, ERR_INPUT, "%s: is empty, expected a PNG or JPEG picture",
                         d->where);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t length = strlen(others[i].start);
        if (d->size >= length &&
            strncasecmp((const char *)d->bytes, others[i].start, length) == 0)
            return error_set(d->err, ERR_INPUT, "%s: is neither PNG nor JPEG, but %s", d->where,
                             others[i].what);
    }
    return error_set(d->err, ERR_INPUT, "%s: is neither a PNG nor a JPEG picture", d->where);
}

enum status image_decode(struct image *out, const uint8_t *bytes, size_t size, const char *where,
                         const struct decode_options *options, struct decode_facts *facts,
                         struct error *err)
{
    struct decode_facts unread;
    struct decode d = {
        .bytes = bytes,
        .size = size,
        .where = where,
        .options = options,
        .out = out,
        .facts = facts ? facts : &unread,
        .orientation = 1,
        .err = err,
    };
    *d.facts = (struct decode_facts){.format = decode_format(bytes, size)};
    if (!d.facts->format)
        return decode_refuse(&d);
    enum status status = d.facts->format[0] == 'P' ? png_decode(&d) : jpeg_decode(&d);
    if (!status && d.orientation >= 5) {
        int width = d.facts->width;
        d.facts->width = d.facts->height;
        d.facts->height = width;
    }
    return status ? status : exif_upright(out, d.orientation, err);
}

enum status image_decode_file(struct image *out, const char *path,
                              const struct decode_options *options, struct decode_facts *facts,
                              struct error *err)
{
    char *bytes;
    size_t size;
    enum status status = file_read(&bytes, &size, path, MAX_FILE_BYTES, err);
    if (status)
        return status;
    status = image_decode(out, (const uint8_t *)bytes, size, path, options, facts, err);
    free(bytes);
    return status;
}
