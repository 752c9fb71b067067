/* augment_ops.c - tables, blends and blurs of colour images. */
#include "data/augment_ops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LEVELS = 256 };

static size_t bytes_of(const struct image *image)
{
    return 3 * (size_t)image->width * (size_t)image->height;
}

static void check_spare(const struct image *image, const struct image *spare)
{
    assert(spare->rgb != image->rgb && spare->room >= bytes_of(image));
    (void)image, (void)spare;
}

/* --- tables ---------------------------------------------------------------------------------- */

/* Pixels of channel c through table[c]. */
static void apply_tables(struct image *image, uint8_t table[3][LEVELS])
{
    uint8_t *p = image->rgb;
    for (const uint8_t *end = p + bytes_of(image); p < end; p += 3) {
        p[0] = table[0][p[0]];
        p[1] = table[1][p[1]];
        p[2] = table[2][p[2]];
    }
}

static void apply_table(struct image *image, const uint8_t table[LEVELS])
{
    uint8_t *p = image->rgb;
    for (const uint8_t *end = p + bytes_of(image); p < end; p++)
        *p = table[*p];
}

static void count_levels(const struct image *image, long long count[3][LEVELS])
{
    memset(count, 0, 3 * sizeof *count);
    const uint8_t *p = image->rgb;
    for (const uint8_t *end = p + bytes_of(image); p < end; p += 3) {
        count[0][p[0]]++;
        count[1][p[1]]++;
        count[2][p[2]]++;
    }
}

static uint8_t clip(double v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

void augment_auto_contrast(struct image *image)
{
    long long count[3][LEVELS];
    uint8_t table[3][LEVELS];
    count_levels(image, count);
    for (int c = 0; c < 3; c++) {
        int low = 0, high = LEVELS - 1;
        while (low < LEVELS - 1 && !count[c][low])
            low++;
        while (high > 0 && !count[c][high])
            high--;
        double scale = high > low ? 255.0 / (high - low) : 1;
        double offset = high > low ? -low * scale : 0;
        for (int v = 0; v < LEVELS; v++)
            table[c][v] = clip(v * scale + offset);
    }
    apply_tables(image, table);
}

void augment_equalize(struct image *image)
{
    long long count[3][LEVELS];
    uint8_t table[3][LEVELS];
    count_levels(image, count);
    for (int c = 0; c < 3; c++) {
        long long all = 0, last = 0, below;
        for (int v = 0; v < LEVELS; v++) {
            all += count[c][v];
            last = count[c][v] ? count[c][v] : last;
        }
        long long step = (all - last) / 255;
        below = step / 2;
        for (int v = 0; v < LEVELS; v++) {
            long long level = step ? below / step : v;
            table[c][v] = (uint8_t)(level > 255 ? 255 : level);
            below += count[c][v];
        }
    }
    apply_tables(image, table);
}

void augment_invert(struct image *image)
{
    augment_solarize(image, 0);
}

void augment_posterize(struct image *image, int bits)
{
    uint8_t table[LEVELS];
    for (int v = 0; v < LEVELS; v++)
        table[v] = (uint8_t)(v & ~((1 << (8 - bits)) - 1));
    apply_table(image, table);
}

void augment_solarize(struct image *image, int threshold)
{
    uint8_t table[LEVELS];
    for (int v = 0; v < LEVELS; v++)
        table[v] = (uint8_t)(v < threshold ? v : 255 - v);
    apply_table(image, table);
}

void augment_solarize_add(struct image *image, int amount)
{
    uint8_t table[LEVELS];
    for (int v = 0; v < LEVELS; v++)
        table[v] = (uint8_t)(v >= 128 ? v : v + amount > 255 ? 255 : v + amount);
    apply_table(image, table);
}

/* --- blends ---------------------------------------------------------------------------------- */

/* From `plain` to `pixel` and beyond, in float and cut off as Pillow does. */
static uint8_t blend(int plain, int pixel, float factor)
{
    float v = (float)plain + factor * (float)(pixel - plain);
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

static void blend_with_level(struct image *image, int level, double factor)
{
    uint8_t table[LEVELS];
    for (int v = 0; v < LEVELS; v++)
        table[v] = blend(level, v, (float)factor);
    apply_table(image, table);
}

static int grey_of(const uint8_t *p) /* ITU-R 601-2 luma, of 16 bits */
{
    return (19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 0x8000) >> 16;
}

void augment_brightness(struct image *image, double factor)
{
    blend_with_level(image, 0, factor);
}

void augment_contrast(struct image *image, double factor)
{
    uint64_t sum = 0;
    size_t size = bytes_of(image);
    for (size_t i = 0; i < size; i += 3)
        sum += (uint64_t)grey_of(image->rgb + i);
    blend_with_level(image, (int)((double)sum / ((double)size / 3) + 0.5), factor);
}

void augment_color(struct image *image, double factor)
{
    uint8_t *p = image->rgb;
    for (const uint8_t *end = p + bytes_of(image); p < end; p += 3) {
        int grey = grey_of(p);
        for (int c = 0; c < 3; c++)
            p[c] = blend(grey, p[c], (float)factor);
    }
}

/* A 3 x 3 kernel of ones with 5 in its middle, over 13, which never lies half way between levels;
 * the edges stay as they are. */
void augment_sharpness(struct image *image, double factor, struct image *spare)
{
    check_spare(image, spare);
    ptrdiff_t row = 3 * (ptrdiff_t)image->width;
    memcpy(spare->rgb, image->rgb, bytes_of(image));
    for (int y = 1; y < image->height - 1; y++) {
        const uint8_t *from = spare->rgb + y * row;
        uint8_t *to = image->rgb + y * row;
        for (ptrdiff_t i = 3; i < row - 3; i++) {
            int sum = 4 * from[i];
            for (ptrdiff_t at = i - row; at <= i + row; at += row)
                sum += from[at - 3] + from[at] + from[at + 3];
            to[i] = blend((2 * sum + 13) / 26, from[i], (float)factor);
        }
    }
}

/* --- blur ------------------------------------------------------------------------------------ */

enum { BOXES = 3 };

/* Radius of boxes that together have the deviation of the Gaussian: Gwosdek et al., "Theoretical
 * Foundations of Gaussian Convolution by Extended Box Filtering", 2011. In float, as Pillow's. */
static float box_radius(float radius)
{
    float variance = radius * radius / BOXES;
    float length = (float)sqrt(12.0 * (double)variance + 1.0);
    float whole = (float)floor(((double)length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
    part /= 6 * (variance - (whole + 1) * (whole + 1));
    return whole + part;
}

/* n pixels of one channel by a box: `whole` pixels on each side, and a share of the next two. */
static void box_line(const uint8_t *from, uint8_t *to, int n, int whole, uint32_t weight,
                     uint32_t share)
{
    uint32_t sum = (uint32_t)(whole + 1) * from[0];
    for (int i = 0; i < whole; i++)
        sum += from[i < n ? i : n - 1];
    for (int i = 0; i < n; i++) {
        int right = i + whole, left = i - whole - 1, next = right + 1;
        right = right < n ? right : n - 1;
        next = next < n ? next : n - 1;
        left = left > 0 ? left : 0;
        sum += from[right];
        sum -= from[left];
        uint32_t ends = (uint32_t)(from[left] + from[next]);
        to[i] = (uint8_t)((sum * weight + ends * share + (1u << 23)) >> 24);
    }
}

/* All boxes along a line of n pixels that are `step` bytes apart; `buffer` has 2 n bytes. */
static void blur_line(uint8_t *line, ptrdiff_t step, int n, float radius, uint8_t *buffer)
{
    int whole = (int)radius;
    uint32_t weight = (uint32_t)((1 << 24) / (radius * 2 + 1));
    uint32_t share = ((1u << 24) - (uint32_t)(2 * whole + 1) * weight) / 2;
    uint8_t *from = buffer, *to = buffer + n;
    for (int i = 0; i < n; i++)
        from[i] = line[i * step];
    for (int k = 0; k < BOXES; k++) {
        box_line(from, to, n, whole, weight, share);
        uint8_t *done = to;
        to = from;
        from = done;
    }
    for (int i = 0; i < n; i++)
        line[i * step] = from[i];
}

void augment_blur(struct image *image, double radius, struct image *spare)
{
    check_spare(image, spare);
    float box = box_radius((float)radius);
    ptrdiff_t row = 3 * (ptrdiff_t)image->width;
    for (int y = 0; y < image->height; y++)
        for (int c = 0; c < 3; c++)
            blur_line(image->rgb + y * row + c, 3, image->width, box, spare->rgb);
    for (ptrdiff_t i = 0; i < row; i++)
        blur_line(image->rgb + i, row, image->height, box, spare->rgb);
}
