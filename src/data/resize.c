/* resize.c - padding and filtering of 8-bit planes. */
#include "data/resize.h"

#include <stdlib.h>
#include <string.h>

#include "data/resample.h"

struct resize {
    enum resize_mode mode;
    int from_height, from_width;
    struct resample_axis rows, columns;
};

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
        enum status status =
            resample_axis_set(&r->rows, mode, from_height, 0, from_height, to_height, err);
        if (!status)
            status = resample_axis_set(&r->columns, mode, from_width, 0, from_width, to_width, err);
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
    resample_axis_free(&r->rows);
    resample_axis_free(&r->columns);
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
static uint8_t axis_sum(const struct resample_axis *a, int i, const uint8_t *source)
{
    const int *weight = a->weight + (size_t)i * (size_t)a->width;
    const uint8_t *p = source + a->start[i];
    int sum = 1 << (RESAMPLE_BITS - 1);
    for (int t = 0; t < a->taps[i]; t++)
        sum += weight[t] * p[t];
    return resample_pixel(sum);
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
