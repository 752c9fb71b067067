/* fit.c - scaling and cutting in one step: only the pixels of the cut are computed. */
#include "data/fit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_MODEL = 32, /* pixels a side */
    LONG_PICTURE = 8, /* scaled, as many times the pixels of the model */
};

void fit_scratch_free(struct fit_scratch *s)
{
    image_free(&s->record);
    image_free(&s->part);
    resampler_free(&s->resampler);
}

/* --- the view -----------------------------------------------------------------------------------
 */

/* Half of a whole number, 0.5 rounded to even. */
static int half(int n)
{
    return n / 2 + (n % 2 && n / 2 % 2);
}

/* The size of the whole picture, scaled, of which the model's size is cut out. */
static void scaled_size(const struct fit_options *o, int width, int height, double *to_width,
                        double *to_height)
{
    bool small = o->shape.width <= SMALL_MODEL && o->shape.height <= SMALL_MODEL;
    double crop_pct = small ? 1 : o->crop_pct;
    double wide = floor(o->shape.width / crop_pct), high = floor(o->shape.height / crop_pct);
    if (o->shape.width != o->shape.height) {
        double ratio = fmin(height / high, width / wide);
        *to_width = rint(width / ratio);
        *to_height = rint(height / ratio);
    } else if (width <= height) {
        *to_width = wide;
        *to_height = floor(wide * height / width);
    } else {
        *to_height = wide;
        *to_width = floor(wide * width / height);
    }
}

/* The whole picture is scaled and the middle taken, to the bit as Pillow does it. Of a very long one
 * the middle alone is scaled: then the stretch, which is held in float, may turn a pixel by 1. */
static enum status fit_scale(struct fit_scratch *s, const struct fit_options *o, struct error *err)
{
    double width, height;
    const struct image *in = &s->record;
    struct image *part = &s->part;
    scaled_size(o, in->width, in->height, &width, &height);
    s->left = half((int)width - o->shape.width);
    s->top = half((int)height - o->shape.height);
    if (width * height <= (double)LONG_PICTURE * o->shape.width * o->shape.height) {
        part->width = (int)width;
        part->height = (int)height;
        return resample_image(&s->resampler, in, 0, 0, in->width, in->height, o->mode, part, err);
    }
    double left = s->left * in->width / width, right = left + o->shape.width * in->width / width;
    double top = s->top * in->height / height;
    double bottom = top + o->shape.height * in->height / height;
    part->width = o->shape.width;
    part->height = o->shape.height;
    s->left = s->top = 0;
    return resample_image(&s->resampler, in, left, top, fmin(right, in->width),
                          fmin(bottom, in->height), o->mode, part, err);
}

static enum status fit_pad(struct fit_scratch *s, const struct fit_options *o, struct error *err)
{
    int width = o->shape.width, height = o->shape.height;
    const struct image *in = &s->record;
    bool same = in->width == width && in->height == height;
    if ((o->mode == RESIZE_ERROR && !same) || in->width > width || in->height > height)
        return error_set(err, ERR_INPUT,
                         "is %d x %d pixels, the model takes %d x %d (set data.resize to "
                         "\"bicubic\" or \"bilinear\")",
                         in->width, in->height, width, height);
    enum status status = image_room(&s->part, width, height, err);
    if (status)
        return status;
    size_t left = (size_t)(width - in->width) / 2, top = (size_t)(height - in->height) / 2;
    s->left = s->top = 0;
    memset(s->part.rgb, 0, 3 * (size_t)width * (size_t)height);
    for (size_t y = 0; y < (size_t)in->height; y++)
        memcpy(s->part.rgb + 3 * ((top + y) * (size_t)width + left),
               in->rgb + 3 * y * (size_t)in->width, 3 * (size_t)in->width);
    return OK;
}

static bool is_grey(const struct image *image)
{
    size_t pixels = (size_t)image->width * (size_t)image->height;
    for (const uint8_t *p = image->rgb; pixels > 0; pixels--, p += 3)
        if (p[0] != p[1] || p[0] != p[2])
            return false;
    return true;
}

enum status fit_view(struct fit_scratch *s, const struct fit_options *o, uint8_t *planes,
                     struct error *err)
{
    if (o->shape.channels == 1 && !is_grey(&s->record))
        return error_set(err, ERR_INPUT,
                         "is a colour picture, the model takes one channel (colour is never made "
                         "grey)");
    bool scales = o->mode == RESIZE_BILINEAR || o->mode == RESIZE_BICUBIC;
    enum status status = scales ? fit_scale(s, o, err) : fit_pad(s, o, err);
    if (status)
        return status;
    size_t width = (size_t)o->shape.width, height = (size_t)o->shape.height;
    for (size_t c = 0; c < (size_t)o->shape.channels; c++) {
        for (size_t y = 0; y < height; y++, planes += width) {
            size_t at = ((size_t)s->top + y) * (size_t)s->part.width + (size_t)s->left;
            for (size_t x = 0; x < width; x++)
                planes[x] = s->part.rgb[3 * (at + x) + c];
        }
    }
    return OK;
}

/* --- scratch memory -----------------------------------------------------------------------------
 */

struct fit_pool {
    pthread_mutex_t mutex;
    struct fit_scratch *idle;
};

enum status fit_pool_create(struct fit_pool **out, struct error *err)
{
    struct fit_pool *p = calloc(1, sizeof *p);
    if (!p)
        return error_memory(err, sizeof *p);
    pthread_mutex_init(&p->mutex, NULL);
    *out = p;
    return OK;
}

void fit_pool_destroy(struct fit_pool *p)
{
    if (!p)
        return;
    while (p->idle) {
        struct fit_scratch *s = p->idle;
        p->idle = s->next;
        fit_scratch_free(s);
        free(s);
    }
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

enum status fit_pool_take(struct fit_pool *p, struct fit_scratch **out, struct error *err)
{
    pthread_mutex_lock(&p->mutex);
    *out = p->idle;
    if (*out)
        p->idle = (*out)->next;
    pthread_mutex_unlock(&p->mutex);
    if (!*out)
        *out = calloc(1, sizeof **out);
    return *out ? OK : error_memory(err, sizeof **out);
}

void fit_pool_give(struct fit_pool *p, struct fit_scratch *s)
{
    pthread_mutex_lock(&p->mutex);
    s->next = p->idle;
    p->idle = s;
    pthread_mutex_unlock(&p->mutex);
}
