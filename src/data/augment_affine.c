/* augment_affine.c - colour images moved by affine maps. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "data/augment_ops.h"

/* The neighbours of a point along one axis: places before..before + 3 (of them the middle two for
 * bilinear), those beyond the edges pulled in, and how far the point lies behind the second. */
struct taps {
    int at[4];
    double behind;
};

static struct taps taps_at(double point, int size)
{
    struct taps t;
    point -= 0.5;
    int second = (int)floor(point);
    t.behind = point - second;
    for (int k = 0; k < 4; k++) {
        int at = second - 1 + k;
        t.at[k] = at < 0 ? 0 : at >= size ? size - 1 : at;
    }
    return t;
}

static double linear(double a, double b, double d)
{
    return a + (b - a) * d;
}

static double cubic(const double v[4], double d) /* Keys' cubic convolution, a = -1 */
{
    double slope = -v[0] + v[2];
    double second = 2 * (v[0] - v[1]) + v[2] - v[3];
    double third = -v[0] + v[1] - v[2] + v[3];
    return v[1] + d * (slope + d * (second + d * third));
}

/* Cut off, not rounded: as Pillow does. */
static uint8_t cut(double v)
{
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

static void take_linear(const struct image *from, const struct taps *x, const struct taps *y,
                        uint8_t *to)
{
    size_t row = 3 * (size_t)from->width;
    const uint8_t *upper = from->rgb + (size_t)y->at[1] * row;
    const uint8_t *lower = from->rgb + (size_t)y->at[2] * row;
    size_t left = 3 * (size_t)x->at[1], right = 3 * (size_t)x->at[2];
    for (size_t c = 0; c < 3; c++) {
        double a = linear(upper[left + c], upper[right + c], x->behind);
        double b = linear(lower[left + c], lower[right + c], x->behind);
        to[c] = cut(linear(a, b, y->behind));
    }
}

static void take_cubic(const struct image *from, const struct taps *x, const struct taps *y,
                       uint8_t *to)
{
    size_t row = 3 * (size_t)from->width;
    for (size_t c = 0; c < 3; c++) {
        double column[4], line[4];
        for (int k = 0; k < 4; k++) {
            const uint8_t *p = from->rgb + (size_t)y->at[k] * row + c;
            for (int j = 0; j < 4; j++)
                line[j] = p[3 * (size_t)x->at[j]];
            column[k] = cubic(line, x->behind);
        }
        to[c] = cut(cubic(column, y->behind));
    }
}

void augment_affine(struct image *image, const double m[6], const struct augment_move *move,
                    struct image *spare)
{
    int width = image->width, height = image->height;
    size_t size = 3 * (size_t)width * (size_t)height;
    assert(spare->rgb != image->rgb && spare->room >= size);
    memcpy(spare->rgb, image->rgb, size);
    const struct image from = {.width = width, .height = height, .rgb = spare->rgb};
    uint8_t *to = image->rgb;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++, to += 3) {
            double px = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2];
            double py = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
            if (!(px >= 0 && px < width && py >= 0 && py < height)) {
                memcpy(to, move->fill, 3);
                continue;
            }
            struct taps across = taps_at(px, width), down = taps_at(py, height);
            if (move->filter == RESIZE_BICUBIC)
                take_cubic(&from, &across, &down, to);
            else
                take_linear(&from, &across, &down, to);
        }
    }
}

/* Pillow takes 15 digits, so that turns by nothing are nothing. */
static double of_15_digits(double v)
{
    return round(v * 1e15) / 1e15;
}

void augment_rotate(struct image *image, double degrees, const struct augment_move *move,
                    struct image *spare)
{
    const double pi = 3.14159265358979323846;
    double angle = -degrees * pi / 180, x = image->width / 2.0, y = image->height / 2.0;
    double c = of_15_digits(cos(angle)), s = of_15_digits(sin(angle));
    const double matrix[6] = {c, s, c * -x + s * -y + x, -s, c, -s * -x + c * -y + y};
    augment_affine(image, matrix, move, spare);
}
