/* files.c - pictures that are named one by one, without labels: a format that no config can name. */
#include <stdlib.h>

#include "data/format.h"
#include "io/decode.h"

/* What files_fetch reads. */
struct files {
    const char *const *paths;
    struct decode_options options;
};

static enum status files_open(struct dataset *d, const struct dataset_request *r,
                              struct error *err)
{
    struct files *f = arena_alloc(&d->memory, sizeof *f);
    d->labels = calloc(r->file_count + 1, sizeof *d->labels);
    if (!f || !d->labels)
        return error_memory(err, r->file_count * sizeof *d->labels);
    *f = (struct files){r->files,
                        {.exif = r->config->exif, .max_pixels = r->config->max_pixels}};
    d->source = f;
    d->where = r->files[0];
    d->count = r->file_count;
    d->named = r->classes;
    d->native = (struct image_shape){r->shape.channels == 1 ? 1 : 3, 0, 0};
    return OK;
}

static enum status files_fetch(const struct dataset *d, size_t i, struct image *out,
                               struct error *err)
{
    const struct files *f = d->source;
    return image_decode_file(out, f->paths[i], &f->options, NULL, err);
}

static char *files_path(const struct dataset *d, size_t i, struct arena *memory)
{
    const struct files *f = d->source;
    return arena_strdup(memory, f->paths[i]);
}

static const struct dataset_format files_format = {
    .name = "files",
    .open = files_open,
    .fetch = files_fetch,
    .path = files_path,
};

enum status dataset_open_files(struct dataset **out, const struct data_config *config,
                               const char *const *paths, size_t count, struct image_shape shape,
                               int classes, struct error *err)
{
    const struct dataset_request request = {
        .config = config,
        .shape = shape,
        .classes = classes,
        .files = paths,
        .file_count = count,
    };
    return dataset_open_format(out, &files_format, &request, err);
}
