/* resample.c - weights, and the two passes over interleaved pixels. */
#include "data/resample.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* At least `count` elements at *at, whose contents are lost where it grows. */
static enum status grow(void *at, size_t *room, size_t count, size_t size, struct error *err)
{
    void *block, *old;
    if (count <= *room)
        return OK;
    memcpy(&old, at, sizeof old);
    free(old);
    block = count > SIZE_MAX / size ? NULL : malloc(count * size);
    memcpy(at, &block, sizeof block);
    *room = block ? count : 0;
    return block ? OK : error_memory(err, (unsigned long long)count * size);
}

static enum status axis_room(struct resample_axis *a, int to, int width, struct error *err)
{
    size_t targets = (size_t)to, room = a->targets_room;
    enum status status = grow(&a->start, &room, targets, sizeof *a->start, err);
    if (!status)
        status = grow(&a->taps, &a->targets_room, targets, sizeof *a->taps, err);
    if (!status)
        status =
            grow(&a->weight, &a->weights_room, targets * (size_t)width, sizeof *a->weight, err);
    if (!status)
        status = grow(&a->exact, &a->exact_room, (size_t)width, sizeof *a->exact, err);
    return status;
}

enum status resample_axis_set(struct resample_axis *a, enum resize_mode filter, int from,
                              double low, double high, int to, struct error *err)
{
    assert(filter == RESIZE_BILINEAR || filter == RESIZE_BICUBIC);
    if (a->size == to && a->filter == (int)filter && a->from == from && !(a->low < low) &&
        !(a->low > low) && !(a->high < high) && !(a->high > high))
        return OK;
    double (*value)(double) = filter == RESIZE_BICUBIC ? filter_cubic : filter_triangle;
    double scale = (double)((float)high - (float)low) / to; /* Pillow holds boxes in float */
    double stretch = scale > 1 ? scale : 1;
    double support = (filter == RESIZE_BICUBIC ? 2 : 1) * stretch;
    a->size = 0;
    a->width = 2 * (int)ceil(support) + 1;
    enum status status = axis_room(a, to, a->width, err);
    if (status)
        return status;
    for (int i = 0; i < to; i++) {
        double centre = low + (i + 0.5) * scale, sum = 0;
        int start = (int)(centre - support + 0.5);
        int end = (int)(centre + support + 0.5);
        start = start < 0 ? 0 : start;
        end = end > from ? from : end;
        for (int t = 0; t < end - start; t++)
            sum += a->exact[t] = value((t + start - centre + 0.5) * (1 / stretch));
        a->start[i] = start;
        a->taps[i] = end - start;
        for (int t = 0; t < end - start; t++) {
            double weight = sum < 0 || sum > 0 ? a->exact[t] / sum : a->exact[t];
            a->weight[(size_t)i * (size_t)a->width + (size_t)t] =
                (int)(weight * (1 << RESAMPLE_BITS) + (weight < 0 ? -0.5 : 0.5));
        }
    }
    a->size = to;
    a->filter = (int)filter;
    a->from = from;
    a->low = low;
    a->high = high;
    return OK;
}

void resample_axis_free(struct resample_axis *a)
{
    free(a->start);
    free(a->taps);
    free(a->weight);
    free(a->exact);
    *a = (struct resample_axis){0};
}

void resampler_free(struct resampler *r)
{
    resample_axis_free(&r->across);
    resample_axis_free(&r->down);
    free(r->rows);
    free(r->sums);
    *r = (struct resampler){0};
}

/* Pixels of a part of an image. */
struct pixels {
    const uint8_t *rgb;
    size_t row; /* bytes from one row to the next */
    int width, height;
};

/* One row: the sums of the three colours side by side. */
static void row_across(const struct resample_axis *a, const uint8_t *from, uint8_t *to)
{
    const int half = 1 << (RESAMPLE_BITS - 1);
    for (int i = 0; i < a->size; i++, to += 3) {
        const int *weight = a->weight + (size_t)i * (size_t)a->width;
        const uint8_t *p = from + 3 * (size_t)a->start[i];
        int red = half, green = half, blue = half;
        for (int t = 0; t < a->taps[i]; t++, p += 3) {
            red += weight[t] * p[0];
            green += weight[t] * p[1];
            blue += weight[t] * p[2];
        }
        to[0] = resample_pixel(red);
        to[1] = resample_pixel(green);
        to[2] = resample_pixel(blue);
    }
}

/* One target row of n bytes from rows that are `row` bytes apart. */
static void row_down(const int *weight, int taps, const uint8_t *from, size_t row, size_t n,
                     int *sums, uint8_t *to)
{
    for (size_t i = 0; i < n; i++)
        sums[i] = 1 << (RESAMPLE_BITS - 1);
    for (int t = 0; t < taps; t++, from += row) {
        int w = weight[t];
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            sums[i] += w * from[i];
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        int sum = sums[i] < 0 ? 0 : sums[i] >> RESAMPLE_BITS;
        to[i] = (uint8_t)(sum > 255 ? 255 : sum);
    }
}

/* Pillow leaves a pass out where it would change nothing. */
static bool is_whole(double low, double high, int from, int to)
{
    return from == to && !(low > 0) && !(low < 0) && !(high < from) && !(high > from);
}

/* Rows of `from` with their target width, as far as the rows of `out` need them; *view is then what
 * the second pass reads, and *above the rows left out before it. */
static enum status pass_across(struct resampler *r, const struct pixels *from, int width,
                               struct pixels *view, int *above, struct error *err)
{
    const struct resample_axis *down = &r->down;
    int first = down->start[0], last = down->size - 1;
    int rows = down->start[last] + down->taps[last] - first;
    size_t row = 3 * (size_t)width;
    enum status status = grow(&r->rows, &r->rows_room, (size_t)rows * row, 1, err);
    if (status)
        return status;
    for (int y = 0; y < rows; y++)
        row_across(&r->across, from->rgb + (size_t)(first + y) * from->row,
                   r->rows + (size_t)y * row);
    *view = (struct pixels){r->rows, row, width, rows};
    *above = first;
    return OK;
}

static enum status resample(struct resampler *r, const struct pixels *from, const double box[4],
                            enum resize_mode filter, struct image *out, struct error *err)
{
    int width = out->width, height = out->height, above = 0;
    size_t row = 3 * (size_t)width;
    struct pixels view = *from;
    enum status status = image_room(out, width, height, err);
    if (!status)
        status = resample_axis_set(&r->across, filter, from->width, box[0], box[2], width, err);
    if (!status)
        status = resample_axis_set(&r->down, filter, from->height, box[1], box[3], height, err);
    if (!status && !is_whole(box[0], box[2], from->width, width))
        status = pass_across(r, from, width, &view, &above, err);
    if (!status)
        status = grow(&r->sums, &r->sums_room, row, sizeof *r->sums, err);
    if (status)
        return status;
    bool whole = is_whole(box[1], box[3], from->height, height);
    for (int y = 0; y < height; y++) {
        uint8_t *to = out->rgb + (size_t)y * row;
        const int *weight = r->down.weight + (size_t)y * (size_t)r->down.width;
        if (whole)
            memcpy(to, view.rgb + (size_t)(y - above) * view.row, row);
        else
            row_down(weight, r->down.taps[y],
                     view.rgb + (size_t)(r->down.start[y] - above) * view.row, view.row, row,
                     r->sums, to);
    }
    return OK;
}

enum status resample_image(struct resampler *r, const struct image *in, double left, double top,
                           double right, double bottom, enum resize_mode filter, struct image *out,
                           struct error *err)
{
    const struct pixels from = {in->rgb, 3 * (size_t)in->width, in->width, in->height};
    const double box[4] = {(double)(float)left, (double)(float)top, (double)(float)right,
                           (double)(float)bottom};
    return resample(r, &from, box, filter, out, err);
}

enum status resample_crop(struct resampler *r, const struct image *in, int left, int top, int width,
                          int height, enum resize_mode filter, struct image *out, struct error *err)
{
    const struct pixels from = {
        in->rgb + 3 * ((size_t)top * (size_t)in->width + (size_t)left),
        3 * (size_t)in->width,
        width,
        height,
    };
    const double box[4] = {0, 0, width, height};
    return resample(r, &from, box, filter, out, err);
}
