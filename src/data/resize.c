/* resize.c - padding and filtering of 8-bit planes. */
#include "data/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHT_BITS = 22 }; /* 8 bits of pixel, 22 of weight and 2 spare fit into 32 */

/* Along one axis target i is the sum over t < taps[i] of
 * weight[i * width + t] * source[start[i] + t]. */
struct resize_axis {
    int size, width;
    int *start, *taps, *weight;
};

struct resize {
    enum resize_mode mode;
    int from_height, from_width;
    struct resize_axis rows, columns;
};

static double filter_triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double filter_cubic(double x) /* Keys' cubic convolution, a = -1/2 */
{
    x = fabs(x);
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static enum status axis_init(struct resize_axis *a, enum resize_mode mode, int from, int to,
                             struct error *err)
{
    double (*filter)(double) = mode == RESIZE_BICUBIC ? filter_cubic : filter_triangle;
    double scale = (double)from / to;
    double stretch = scale > 1 ? scale : 1;
    double support = (mode == RESIZE_BICUBIC ? 2 : 1) * stretch;
    a->size = to;
    a->width = 2 * (int)ceil(support) + 1;
    a->start = calloc((size_t)to, sizeof *a->start);
    a->taps = calloc((size_t)to, sizeof *a->taps);
    a->weight = calloc((size_t)to * (size_t)a->width, sizeof *a->weight);
    double *weight = calloc((size_t)a->width, sizeof *weight);
    if (!a->start || !a->taps || !a->weight || !weight) {
        free(weight);
        return error_memory(err, ((size_t)a->width + 2) * (size_t)to * sizeof(int));
    }
    for (int i = 0; i < to; i++) {
        double centre = (i + 0.5) * scale;
        int start = (int)(centre - support + 0.5);
        int end = (int)(centre + support + 0.5);
        start = start < 0 ? 0 : start;
        end = end > from ? from : end;
        double sum = 0;
        for (int t = 0; t < end - start; t++)
            sum += weight[t] = filter((t + start - centre + 0.5) / stretch);
        a->start[i] = start;
        a->taps[i] = end - start;
        for (int t = 0; t < end - start; t++)
            a->weight[(size_t)i * (size_t)a->width + (size_t)t] =
                (int)lround(weight[t] / sum * (1 << WEIGHT_BITS));
    }
    free(weight);
    return OK;
}

static void axis_free(struct resize_axis *a)
{
    free(a->start);
    free(a->taps);
    free(a->weight);
}

enum status resize_create(struct resize **out, enum resize_mode mode, int from_height,
                          int from_width, int to_height, int to_width, struct error *err)
{
    if (mode == RESIZE_PAD && (from_height > to_height || from_width > to_width))
        return error_set(err, ERR_INPUT,
                         "images of %dx%d cannot be padded to %dx%d (set data.resize to "
                         "\"bilinear\" or \"bicubic\")",
                         from_height, from_width, to_height, to_width);
    struct resize *r = calloc(1, sizeof *r);
    if (!r)
        return error_memory(err, sizeof *r);
    r->mode = mode;
    r->from_height = from_height;
    r->from_width = from_width;
    r->rows.size = to_height;
    r->columns.size = to_width;
    if (mode != RESIZE_PAD) {
        enum status status = axis_init(&r->rows, mode, from_height, to_height, err);
        if (!status)
            status = axis_init(&r->columns, mode, from_width, to_width, err);
        if (status) {
            resize_destroy(r);
            return status;
        }
    }
    *out = r;
    return OK;
}

void resize_destroy(struct resize *r)
{
    if (!r)
        return;
    axis_free(&r->rows);
    axis_free(&r->columns);
    free(r);
}

static void resize_pad(const struct resize *r, const uint8_t *from, uint8_t *to)
{
    int top = (r->rows.size - r->from_height) / 2, left = (r->columns.size - r->from_width) / 2;
    memset(to, 0, (size_t)r->rows.size * (size_t)r->columns.size);
    for (int y = 0; y < r->from_height; y++)
        memcpy(to + (size_t)(y + top) * (size_t)r->columns.size + left,
               from + (size_t)y * (size_t)r->from_width, (size_t)r->from_width);
}

/* The weighted sum of target i over the elements of `source`. */
static uint8_t axis_sum(const struct resize_axis *a, int i, const uint8_t *source)
{
    const int *weight = a->weight + (size_t)i * (size_t)a->width;
    const uint8_t *p = source + a->start[i];
    int sum = 1 << (WEIGHT_BITS - 1);
    for (int t = 0; t < a->taps[i]; t++)
        sum += weight[t] * p[t];
    if (sum <= 0)
        return 0;
    sum >>= WEIGHT_BITS;
    return sum > 255 ? 255 : (uint8_t)sum;
}

/* One target column at a time, so that what lies between the two passes fits on the stack. */
void resize_plane(const struct resize *r, const uint8_t *from, uint8_t *to)
{
    if (r->mode == RESIZE_PAD) {
        resize_pad(r, from, to);
        return;
    }
    uint8_t column[RESIZE_MAX_SIDE];
    for (int x = 0; x < r->columns.size; x++) {
        for (int y = 0; y < r->from_height; y++)
            column[y] = axis_sum(&r->columns, x, from + (size_t)y * (size_t)r->from_width);
        for (int y = 0; y < r->rows.size; y++)
            to[(size_t)y * (size_t)r->columns.size + (size_t)x] = axis_sum(&r->rows, y, column);
    }
}
