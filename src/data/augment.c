/* augment.c - random crops, mirroring, colour jitter and erasing. */
#include "data/augment.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "data/augment_ops.h"

enum { TRIES = 10 };

struct augment_draw augment_draw(const struct augment *options, uint64_t stream, uint64_t epoch,
                                 uint64_t position)
{
    int padding = options->random_crop_padding;
    uint64_t moves = 2 * (uint64_t)padding + 1;
    return (struct augment_draw){
        .down = (int)rng_below(stream, epoch, position, 0, moves) - padding,
        .right = (int)rng_below(stream, epoch, position, 1, moves) - padding,
        .flip = rng_uniform(stream, epoch, position, 2) < options->hflip,
        .vflip = rng_uniform(stream, epoch, position, 3) < options->vflip,
    };
}

/* Where a row or column of the result comes from; outside 0..size-1: from nowhere. */
static int source_of(int at, int size, int move, bool mirrored)
{
    return (mirrored ? size - 1 - at : at) + move;
}

/* One row: to[x] = from[x + right], or mirrored to[width - 1 - x]; NULL is a black row. */
static void shift_row(const struct augment_draw *draw, int width, size_t bytes, const uint8_t *from,
                      uint8_t *to)
{
    size_t row = (size_t)width * bytes;
    if (!from) {
        memset(to, 0, row);
    } else if (!draw->flip && draw->right == 0) {
        memcpy(to, from, row);
    } else {
        for (int x = 0; x < width; x++, to += bytes) {
            int at = source_of(x, width, draw->right, draw->flip);
            bool inside = at >= 0 && at < width;
            for (size_t k = 0; k < bytes; k++)
                to[k] = inside ? from[(size_t)at * bytes + k] : 0;
        }
    }
}

void augment_shift(const struct augment_draw *draw, int height, int width, size_t bytes,
                   const uint8_t *from, uint8_t *to)
{
    size_t row = (size_t)width * bytes;
    for (int y = 0; y < height; y++) {
        int at = source_of(y, height, draw->down, draw->vflip);
        bool inside = at >= 0 && at < height;
        shift_row(draw, width, bytes, inside ? from + (size_t)at * row : NULL,
                  to + (size_t)y * row);
    }
}

/* One row through the table; `source` NULL is a black row. */
static void apply_row(const struct augment_draw *draw, int width, const uint8_t *source,
                      const real *table, real *out)
{
    for (int x = 0; x < width; x++) {
        int from = source_of(x, width, draw->right, draw->flip);
        bool inside = source && from >= 0 && from < width;
        out[x] = table[inside ? source[from] : 0];
    }
}

void augment_apply(const struct augment_draw *draw, struct image_shape shape, const uint8_t *pixels,
                   const real *table, real *out)
{
    for (int c = 0; c < shape.channels; c++) {
        for (int y = 0; y < shape.height; y++) {
            int from = source_of(y, shape.height, draw->down, draw->vflip);
            bool inside = from >= 0 && from < shape.height;
            apply_row(draw, shape.width,
                      inside ? pixels + (size_t)from * (size_t)shape.width : NULL, table, out);
            out += shape.width;
        }
        pixels += (size_t)shape.height * (size_t)shape.width;
        table += 256;
    }
}

/* --- crops of another size -------------------------------------------------------------------- */

/* Uniform in low..high. */
static double between(double low, double high, double u)
{
    return low + (high - low) * u;
}

static struct augment_box middle(const struct resized_crop *o, int width, int height)
{
    struct augment_box box = {.width = width, .height = height};
    double ratio = (double)width / height;
    if (ratio < o->ratio.at[0])
        box.height = (int)rint(width / o->ratio.at[0]);
    else if (ratio > o->ratio.at[1])
        box.width = (int)rint(height * o->ratio.at[1]);
    box.height = box.height < 1 ? 1 : box.height > height ? height : box.height;
    box.width = box.width < 1 ? 1 : box.width > width ? width : box.width;
    box.left = (width - box.width) / 2;
    box.top = (height - box.height) / 2;
    return box;
}

struct augment_box augment_crop_draw(const struct resized_crop *o, int width, int height,
                                     uint64_t stream, uint64_t epoch, uint64_t position)
{
    double low = log(o->ratio.at[0]), high = log(o->ratio.at[1]);
    for (uint64_t k = 0; k < 4 * TRIES; k += 4) {
        double share =
            between(o->scale.at[0], o->scale.at[1], rng_uniform(stream, epoch, position, k));
        double ratio = exp(between(low, high, rng_uniform(stream, epoch, position, k + 1)));
        double area = share * width * height;
        double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio));
        if (!(w >= 1 && w <= width && h >= 1 && h <= height))
            continue;
        struct augment_box box = {.width = (int)w, .height = (int)h};
        box.left =
            (int)rng_below(stream, epoch, position, k + 2, (uint64_t)(width - box.width) + 1);
        box.top =
            (int)rng_below(stream, epoch, position, k + 3, (uint64_t)(height - box.height) + 1);
        return box;
    }
    return middle(o, width, height);
}

/* --- colours ---------------------------------------------------------------------------------- */

void augment_jitter(struct image *image, double strength, uint64_t stream, uint64_t epoch,
                    uint64_t position)
{
    static void (*const change[3])(struct image *, double) = {augment_brightness, augment_contrast,
                                                              augment_color};
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int *order = orders[rng_below(stream, epoch, position, 0, 6)];
    for (int i = 0; i < 3; i++) {
        int k = order[i];
        double u = rng_uniform(stream, epoch, position, (uint64_t)k + 1);
        change[k](image, between(fmax(0, 1 - strength), 1 + strength, u));
    }
}

/* --- erasing ---------------------------------------------------------------------------------- */

/* Numbers of one try; the values of the rectangle come behind those of all tries. */
enum { ERASE_AREA, ERASE_RATIO, ERASE_TOP, ERASE_LEFT, ERASE_DRAWS };

static void wipe(const struct erasing *o, struct image_shape shape, const struct augment_box *box,
                 real *image, uint64_t stream, uint64_t epoch, uint64_t position, uint64_t *index)
{
    for (int c = 0; c < shape.channels; c++) {
        real *plane = image + (size_t)c * (size_t)shape.height * (size_t)shape.width;
        real value = 0;
        if (o->mode == ERASE_RAND)
            value = (real)rng_normal(stream, epoch, position, (*index)++);
        for (int y = box->top; y < box->top + box->height; y++) {
            real *row = plane + (size_t)y * (size_t)shape.width + box->left;
            for (int x = 0; x < box->width; x++)
                row[x] = o->mode == ERASE_PIXEL
                             ? (real)rng_normal(stream, epoch, position, (*index)++)
                             : value;
        }
    }
}

void augment_erase(const struct erasing *o, struct image_shape shape, real *image, uint64_t stream,
                   uint64_t epoch, uint64_t position)
{
    const double least = 0.02, most = 1 / 3.0, ratio = 0.3;
    if (rng_uniform(stream, epoch, position, 0) >= o->probability)
        return;
    int count = 1 + (int)rng_below(stream, epoch, position, 1, (uint64_t)o->count);
    double area = (double)shape.height * shape.width / count;
    uint64_t k = 2, values = k + (uint64_t)ERASE_DRAWS * TRIES * (uint64_t)o->count;
    for (int i = 0; i < count; i++) {
        for (int try = 0; try < TRIES; try++, k += ERASE_DRAWS) {
            double part =
                area * between(least, most, rng_uniform(stream, epoch, position, k + ERASE_AREA));
            double tall = exp(between(log(ratio), -log(ratio),
                                      rng_uniform(stream, epoch, position, k + ERASE_RATIO)));
            struct augment_box box = {.width = (int)rint(sqrt(part / tall)),
                                      .height = (int)rint(sqrt(part * tall))};
            if (box.width >= shape.width || box.height >= shape.height)
                continue;
            box.top = (int)rng_below(stream, epoch, position, k + ERASE_TOP,
                                     (uint64_t)(shape.height - box.height) + 1);
            box.left = (int)rng_below(stream, epoch, position, k + ERASE_LEFT,
                                      (uint64_t)(shape.width - box.width) + 1);
            wipe(o, shape, &box, image, stream, epoch, position, &values);
            k += ERASE_DRAWS;
            break;
        }
    }
}
