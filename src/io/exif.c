/* exif.c - the orientation of a photograph, CIPA DC-008 (Exif 2.32), section 4.6.4. */
#include <stdlib.h>
#include <string.h>

#include "io/decode_format.h"

enum {
    TAG_ORIENTATION = 0x0112,
    TIFF_HEADER = 8,
    TIFF_ENTRY = 12,
    TYPE_BYTE = 1,
    TYPE_SHORT = 3,
    TYPE_LONG = 4,
};

/* `count` bytes as a number, the least significant one first where `little`. */
static uint32_t number_at(const uint8_t *p, int count, bool little)
{
    uint32_t n = 0;
    for (int i = 0; i < count; i++)
        n = n << 8 | p[little ? count - 1 - i : i];
    return n;
}

int exif_orientation(const uint8_t *tiff, size_t size)
{
    if (size < TIFF_HEADER || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M'))
        return 1;
    bool little = tiff[0] == 'I';
    size_t at = number_at(tiff + 4, 4, little);
    if (number_at(tiff + 2, 2, little) != 42 || at > size - 2)
        return 1;
    uint32_t entries = number_at(tiff + at, 2, little);
    for (at += 2; entries > 0 && size >= TIFF_ENTRY && at <= size - TIFF_ENTRY; entries--) {
        const uint8_t *entry = tiff + at;
        at += TIFF_ENTRY;
        if (number_at(entry, 2, little) != TAG_ORIENTATION)
            continue;
        uint32_t type = number_at(entry + 2, 2, little);
        int bytes = type == TYPE_BYTE ? 1 : type == TYPE_SHORT ? 2 : type == TYPE_LONG ? 4 : 0;
        uint32_t value = number_at(entry + 8, bytes, little);
        return number_at(entry + 4, 4, little) == 1 && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Exchanges pixels a and b. */
static void swap_pixels(uint8_t *a, uint8_t *b)
{
    uint8_t kept[3];
    memcpy(kept, a, 3);
    memcpy(a, b, 3);
    memcpy(b, kept, 3);
}

static void mirror_columns(struct image *image)
{
    size_t width = (size_t)image->width;
    for (size_t y = 0; y < (size_t)image->height; y++) {
        uint8_t *row = image->rgb + 3 * width * y;
        for (size_t x = 0; x < width / 2; x++)
            swap_pixels(row + 3 * x, row + 3 * (width - 1 - x));
    }
}

static void mirror_rows(struct image *image)
{
    size_t width = (size_t)image->width, height = (size_t)image->height;
    for (size_t y = 0; y < height / 2; y++)
        for (size_t x = 0; x < width; x++)
            swap_pixels(image->rgb + 3 * (width * y + x),
                        image->rgb + 3 * (width * (height - 1 - y) + x));
}

/* Rows become columns. */
static enum status transpose(struct image *image, struct error *err)
{
    size_t width = (size_t)image->width, height = (size_t)image->height;
    struct image turned = {0};
    enum status status = image_room(&turned, image->height, image->width, err);
    if (status)
        return status;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            memcpy(turned.rgb + 3 * (height * x + y), image->rgb + 3 * (width * y + x), 3);
    image_free(image);
    *image = turned;
    return OK;
}

enum status exif_upright(struct image *image, int orientation, struct error *err)
{
    /* What is done in turn; 6, a quarter turn clockwise, is a transposition and a mirroring. */
    static const struct {
        bool transposed, columns, rows;
    } step[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
        [5] = {true, false, false}, [6] = {true, true, false}, [7] = {true, true, true},
        [8] = {true, false, true},
    };
    enum status status = step[orientation].transposed ? transpose(image, err) : OK;
    if (status)
        return status;
    if (step[orientation].columns)
        mirror_columns(image);
    if (step[orientation].rows)
        mirror_rows(image);
    return OK;
}
