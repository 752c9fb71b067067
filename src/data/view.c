/* view.c - the steps from a record to a row of a batch. */
#include "data/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/augment.h"

static void set_fill(uint8_t fill[3], const struct normalization *n)
{
    for (int c = 0; c < 3; c++)
        fill[c] = (uint8_t)fmin(255, rint(255 * n->mean[n->channels == 3 ? c : 0]));
}

static void set_streams(struct view *v, uint64_t seed)
{
    v->stream = rng_stream(seed, "augment");
    v->crop_stream = rng_stream(seed, "augment:crop");
    v->policy_stream = rng_stream(seed, "augment:policy");
    v->jitter_stream = rng_stream(seed, "augment:jitter");
    v->erase_stream = rng_stream(seed, "augment:erase");
}

enum status view_init(struct view *v, const struct dataset *d, const struct data_config *config,
                      bool augmented, uint64_t seed, struct error *err)
{
    *v = (struct view){.dataset = d, .augmented = augmented, .shape = dataset_shape(d)};
    const struct augment *o = &v->augment;
    v->augment = config->augment;
    struct normalization n;
    enum status status = normalization_resolve(&n, config, v->shape.channels, err);
    if (!status && augmented) {
        status = augment_check(o, v->shape.channels, err);
        if (!status)
            status = policy_parse(&v->policy, o->auto_augment, err);
        set_fill(v->move.fill, &n);
        v->move.filter = o->interpolation == INTERPOLATE_BILINEAR  ? RESIZE_BILINEAR
                         : o->interpolation == INTERPOLATE_BICUBIC ? RESIZE_BICUBIC
                                                                   : RESIZE_ERROR;
        v->whole = o->random_resized_crop || o->auto_augment || o->color_jitter > 0;
        set_streams(v, seed);
    }
    if (status)
        return status;
    size_t entries = 256 * (size_t)v->shape.channels;
    v->table = malloc(entries * sizeof *v->table);
    if (!v->table)
        return error_memory(err, entries * sizeof *v->table);
    normalization_table(&n, v->table);
    return OK;
}

void view_free(struct view *v)
{
    free(v->table);
    v->table = NULL;
}

enum status view_scratch_init(struct view_scratch *s, const struct view *v, struct error *err)
{
    struct image_shape shape = v->shape;
    size_t size = (size_t)shape.channels * (size_t)shape.height * (size_t)shape.width;
    *s = (struct view_scratch){.pixels = malloc(size)};
    if (!s->pixels)
        return error_memory(err, size);
    if (!v->whole)
        return OK;
    enum status status = image_room(&s->image, shape.width, shape.height, err);
    return status ? status : image_room(&s->spare, shape.width, shape.height, err);
}

void view_scratch_free(struct view_scratch *s)
{
    free(s->pixels);
    image_free(&s->record);
    image_free(&s->image);
    image_free(&s->spare);
    resampler_free(&s->resampler);
    *s = (struct view_scratch){0};
}

/* A random part of the record, at the model's size, into s->image. */
static enum status take_part(const struct view *v, struct view_scratch *s, size_t record,
                             uint64_t epoch, uint64_t position, struct error *err)
{
    enum status status = dataset_image(v->dataset, record, &s->record, err);
    if (status)
        return status;
    struct augment_box box = augment_crop_draw(v->augment.random_resized_crop, s->record.width,
                                               s->record.height, v->crop_stream, epoch, position);
    enum resize_mode filter = v->move.filter;
    if (filter == RESIZE_ERROR)
        filter = rng_uniform(v->crop_stream, epoch, position, UINT32_MAX) < 0.5 ? RESIZE_BILINEAR
                                                                                : RESIZE_BICUBIC;
    s->image.width = v->shape.width;
    s->image.height = v->shape.height;
    return resample_crop(&s->resampler, &s->record, box.left, box.top, box.width, box.height,
                         filter, &s->image, err);
}

/* The whole record at the model's size, into s->image. */
static enum status take_whole(const struct view *v, struct view_scratch *s, size_t record,
                              struct error *err)
{
    size_t plane = (size_t)v->shape.height * (size_t)v->shape.width;
    enum status status = dataset_read(v->dataset, record, s->pixels, err);
    for (size_t c = 0; c < 3 && !status; c++)
        for (size_t p = 0; p < plane; p++)
            s->image.rgb[3 * p + c] = s->pixels[c * plane + p];
    return status;
}

static void normalize(const struct view *v, const struct image *image, real *out)
{
    size_t plane = (size_t)v->shape.height * (size_t)v->shape.width;
    for (int c = 0; c < v->shape.channels; c++, out += plane)
        for (size_t p = 0; p < plane; p++)
            out[p] = v->table[256 * c + image->rgb[3 * p + (size_t)c]];
}

/* Changes in colour, before normalisation. */
static enum status make_whole(const struct view *v, struct view_scratch *s, size_t record,
                              const struct augment_draw *draw, uint64_t epoch, uint64_t position,
                              real *out, struct error *err)
{
    const struct augment *o = &v->augment;
    enum status status = o->random_resized_crop ? take_part(v, s, record, epoch, position, err)
                                                : take_whole(v, s, record, err);
    if (status)
        return status;
    augment_shift(draw, v->shape.height, v->shape.width, 3, s->image.rgb, s->spare.rgb);
    struct image shifted = s->spare;
    s->spare = s->image;
    s->image = shifted;
    const struct policy_draw from = {v->policy_stream, epoch, position};
    policy_apply(&v->policy, &from, &v->move, &s->image, &s->spare);
    if (o->color_jitter > 0 && !policy_replaces_jitter(&v->policy))
        augment_jitter(&s->image, o->color_jitter, v->jitter_stream, epoch, position);
    normalize(v, &s->image, out);
    return OK;
}

enum status view_make(const struct view *v, struct view_scratch *s, size_t record, uint64_t epoch,
                      uint64_t position, real *out, struct error *err)
{
    struct augment_draw draw = {0};
    enum status status;
    if (v->augmented)
        draw = augment_draw(&v->augment, v->stream, epoch, position);
    if (v->whole) {
        status = make_whole(v, s, record, &draw, epoch, position, out, err);
    } else {
        status = dataset_read(v->dataset, record, s->pixels, err);
        if (!status)
            augment_apply(&draw, v->shape, s->pixels, v->table, out);
    }
    if (!status && v->augmented && v->augment.random_erasing)
        augment_erase(v->augment.random_erasing, v->shape, out, v->erase_stream, epoch, position);
    return status;
}
