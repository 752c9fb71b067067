/* dataset.c - opening a split through its format, and reading records in the model's shape. */
#include "data/dataset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "data/format.h"

static const struct dataset_format *const formats[] = {
#define FORMAT(name) &name##_format,
#include "data/formats.def"
#undef FORMAT
};

const char *const dataset_format_names[] = {
#define FORMAT(name) #name,
#include "data/formats.def"
#undef FORMAT
    NULL,
};

enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

const struct dataset_format *dataset_format_at(int i)
{
    assert(i >= 0 && i < FORMAT_COUNT);
    return formats[i];
}

const char *dataset_format_summary(int format)
{
    return dataset_format_at(format)->summary;
}

int dataset_format_find(const char *name)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return i;
    return -1;
}

int dataset_format_detect(const char *path)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (formats[i]->detect && formats[i]->detect(path))
            return i;
    return -1;
}

static enum status dataset_check_path(const struct dataset_format *format, const char *path,
                                      struct error *err)
{
    if (!format->needs_path)
        return OK;
    if (!path)
        return error_set(err, ERR_INPUT, "data.path: is missing, and %s data lie in a folder (%s)",
                         format->name, format->hint);
    if (!file_exists(path))
        return error_set(err, ERR_INPUT, "%s: no such folder (%s)", path, format->hint);
    if (!file_is_directory(path))
        return error_set(err, ERR_INPUT, "%s: is a file, expected the folder with the %s files",
                         path, format->name);
    return OK;
}

/* Pictures of their own size are fitted one by one. */
static enum status dataset_fit_pictures(struct dataset *d, const struct dataset_request *r,
                                        struct error *err)
{
    d->fit = (struct fit_options){
        .mode = r->config->resize == RESIZE_AUTO ? RESIZE_BICUBIC
                                                 : (enum resize_mode)r->config->resize,
        .shape = d->shape,
        .crop_pct = r->config->crop_pct,
    };
    if (d->shape.height && d->shape.channels != d->native.channels)
        return error_set(err, ERR_INPUT,
                         "%s: pictures have %d channels, the model takes %d (set model.channels "
                         "to %d)",
                         d->where, d->native.channels, d->shape.channels, d->native.channels);
    return fit_pool_create(&d->pool, err);
}

static enum status dataset_fit(struct dataset *d, const struct dataset_request *r,
                               struct error *err)
{
    struct image_shape have = d->native, want = r->shape.height ? r->shape : d->native;
    d->shape = want;
    if (d->format->fetch)
        return dataset_fit_pictures(d, r, err);
    bool same_size = have.height == want.height && have.width == want.width;
    if (same_size && have.channels == want.channels)
        return OK;
    if (r->config->resize == RESIZE_ERROR || r->config->resize == RESIZE_AUTO)
        return error_set(err, ERR_INPUT,
                         "%s: images are %dx%d with %d channel%s, the model takes %dx%d with %d "
                         "(set data.resize to \"pad\", \"bilinear\" or \"bicubic\", or "
                         "model.image_size and model.channels to those of the images)",
                         d->where, have.height, have.width, have.channels,
                         have.channels == 1 ? "" : "s", want.height, want.width, want.channels);
    if (have.channels != want.channels && !(have.channels == 1 && want.channels == 3))
        return error_set(err, ERR_INPUT,
                         "%s: images have %d channel%s, the model takes %d, and only grey is "
                         "repeated, for 3 (set model.channels to %d)",
                         d->where, have.channels, have.channels == 1 ? "" : "s", want.channels,
                         have.channels);
    if (same_size)
        return OK;
    enum status status = resize_create(&d->resize, (enum resize_mode)r->config->resize, have.height,
                                       have.width, want.height, want.width, err);
    if (status)
        error_prefix(err, "%s: ", d->where);
    return status;
}

static enum status dataset_name_classes(struct dataset *d, int classes, struct error *err)
{
    d->classes = classes ? classes : d->named;
    d->class_names = arena_alloc(&d->memory, (size_t)d->classes * sizeof *d->class_names);
    if (!d->class_names)
        return error_memory(err, (size_t)d->classes * sizeof *d->class_names);
    for (int c = 0; c < d->classes; c++) {
        d->class_names[c] =
            d->names && c < d->named ? d->names[c] : arena_printf(&d->memory, "%d", c);
        if (!d->class_names[c])
            return error_memory(err, 16);
    }
    return OK;
}

enum status dataset_open(struct dataset **out, const struct data_config *config, enum split split,
                         struct image_shape shape, int classes, uint64_t seed, struct error *err)
{
    *out = NULL;
    const struct dataset_request request = {
        .config = config, .split = split, .shape = shape, .classes = classes, .seed = seed};
    const struct dataset_format *format = dataset_format_at(config->format);
    enum status status = dataset_check_path(format, config->path, err);
    return status ? status : dataset_open_format(out, format, &request, err);
}

enum status dataset_open_format(struct dataset **out, const struct dataset_format *format,
                                const struct dataset_request *r, struct error *err)
{
    *out = NULL;
    struct dataset *d = calloc(1, sizeof *d);
    if (!d)
        return error_memory(err, sizeof *d);
    d->format = format;
    arena_init(&d->memory);
    enum status status = format->open(d, r, err);
    if (!status && d->count > 0) {
        status = dataset_fit(d, r, err);
        if (!status)
            status = dataset_name_classes(d, r->classes, err);
    }
    if (status || d->count == 0)
        dataset_close(d);
    else
        *out = d;
    return status;
}

void dataset_close(struct dataset *d)
{
    if (!d)
        return;
    resize_destroy(d->resize);
    fit_pool_destroy(d->pool);
    free(d->labels);
    free(d->pixels);
    arena_free(&d->memory);
    free(d);
}

size_t dataset_count(const struct dataset *d)
{
    return d->count;
}

int dataset_classes(const struct dataset *d)
{
    return d->classes;
}

const char *dataset_class_name(const struct dataset *d, int label)
{
    assert(label >= 0 && label < d->classes);
    return d->class_names[label];
}

struct image_shape dataset_shape(const struct dataset *d)
{
    return d->shape;
}

int dataset_label(const struct dataset *d, size_t i)
{
    assert(i < d->count);
    return d->labels[i];
}

static void name_picture(const struct dataset *d, size_t i, struct error *err)
{
    struct arena memory;
    arena_init(&memory);
    const char *path = d->format->path(d, i, &memory);
    error_prefix(err, "%s: ", path ? path : d->where);
    arena_free(&memory);
}

static enum status read_picture(const struct dataset *d, size_t i, uint8_t *pixels,
                                struct error *err)
{
    assert(d->shape.height > 0);
    struct fit_scratch *scratch;
    enum status status = fit_pool_take(d->pool, &scratch, err);
    if (status)
        return status;
    status = d->format->fetch(d, i, &scratch->record, err);
    if (!status) {
        status = fit_view(scratch, &d->fit, pixels, err);
        if (status == ERR_INPUT)
            name_picture(d, i, err);
    }
    fit_pool_give(d->pool, scratch);
    return status;
}

enum status dataset_read(const struct dataset *d, size_t i, uint8_t *pixels, struct error *err)
{
    assert(i < d->count);
    if (d->format->fetch)
        return read_picture(d, i, pixels, err);
    if (d->format->draw) {
        d->format->draw(d, i, pixels);
        return OK;
    }
    size_t from_plane = (size_t)d->native.height * (size_t)d->native.width;
    size_t to_plane = (size_t)d->shape.height * (size_t)d->shape.width;
    const uint8_t *from = d->pixels + i * (size_t)d->native.channels * from_plane;
    for (int c = 0; c < d->shape.channels; c++) {
        uint8_t *to = pixels + (size_t)c * to_plane;
        if (c >= d->native.channels)
            memcpy(to, pixels, to_plane);
        else if (d->resize)
            resize_plane(d->resize, from + (size_t)c * from_plane, to);
        else
            memcpy(to, from + (size_t)c * from_plane, to_plane);
    }
    return OK;
}

/* Behind the record's own bytes, which `draw` makes planes first, the same bytes pixel by pixel. */
static enum status image_from_planes(const struct dataset *d, size_t i, struct image *image,
                                     struct error *err)
{
    int width = d->native.width, height = d->native.height;
    size_t plane = (size_t)height * (size_t)width, channels = (size_t)d->native.channels;
    enum status status = image_room(image, width, 2 * height, err);
    if (status)
        return status;
    image->height = height;
    uint8_t *planes = image->rgb + 3 * plane;
    if (d->format->draw)
        d->format->draw(d, i, planes);
    const uint8_t *from = d->format->draw ? planes : d->pixels + i * channels * plane;
    for (size_t c = 0; c < 3; c++) {
        const uint8_t *channel = from + (channels == 3 ? c * plane : 0);
        for (size_t p = 0; p < plane; p++)
            image->rgb[3 * p + c] = channel[p];
    }
    return OK;
}

enum status dataset_image(const struct dataset *d, size_t i, struct image *image,
                          struct error *err)
{
    assert(i < d->count && (d->native.channels == 1 || d->native.channels == 3));
    return d->format->fetch ? d->format->fetch(d, i, image, err)
                            : image_from_planes(d, i, image, err);
}

bool dataset_has_own_sizes(const struct dataset *d)
{
    return d->format->fetch != NULL;
}

const char *dataset_empty_class(const struct dataset *d)
{
    return d->empty_class;
}

bool dataset_has_part(const struct data_config *config, enum split split)
{
    const struct dataset_format *format = dataset_format_at(config->format);
    return format->has && format->has(config, split);
}

uint64_t dataset_fingerprint(const struct dataset *d)
{
    return d->fingerprint;
}

const char *dataset_note(const struct dataset *d)
{
    return d->note;
}

/* Records of one class, in a random order, are record[start .. start + left - 1]. */
struct class_queue {
    size_t start, left;
};

/* Rounds over the classes that have records left, one record a class, in a new order each. */
static void take_in_turns(struct class_queue *queue, size_t classes, const size_t *record,
                          size_t *turn, uint64_t stream, size_t *order)
{
    for (size_t round = 1, out = 0; classes > 0; round++) {
        rng_permutation(turn, classes, stream, round);
        for (size_t k = 0; k < classes; k++) {
            struct class_queue *q = &queue[turn[k]];
            order[out++] = record[q->start++];
            q->left--;
        }
        size_t kept = 0;
        for (size_t k = 0; k < classes; k++)
            if (queue[k].left > 0)
                queue[kept++] = queue[k];
        classes = kept;
    }
}

enum status dataset_balanced_order(const struct dataset *d, uint64_t seed, size_t *order,
                                   struct error *err)
{
    size_t classes = (size_t)d->classes, n = d->count;
    uint64_t stream = rng_stream(seed, "balance");
    struct class_queue *queue = calloc(classes, sizeof *queue);
    size_t *turn = calloc(classes, sizeof *turn);
    size_t *record = calloc(n, sizeof *record);
    enum status status = OK;
    if (!queue || !turn || !record) {
        status = error_memory(err, (2 * classes + n) * sizeof *record);
        goto out;
    }
    rng_permutation(order, n, stream, 0);
    for (size_t i = 0; i < n; i++)
        queue[d->labels[i]].left++;
    for (size_t c = 1; c < classes; c++)
        queue[c].start = queue[c - 1].start + queue[c - 1].left;
    for (size_t i = 0; i < n; i++)
        record[queue[d->labels[order[i]]].start++] = order[i];

    /* The starts now lie behind each class; classes without records drop out. */
    size_t present = 0;
    for (size_t c = 0; c < classes; c++) {
        if (queue[c].left > 0) {
            queue[present] = queue[c];
            queue[present++].start -= queue[c].left;
        }
    }
    take_in_turns(queue, present, record, turn, stream, order);

out:
    free(queue);
    free(turn);
    free(record);
    return status;
}
