/* datasource.c - data named by a config or by a folder. */
#include "cli/datasource.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/source.h"
#include "data/normalize.h"

static struct reals copy_reals(struct arena *memory, const double *from, int count)
{
    struct reals list = {.at = arena_alloc(memory, (size_t)count * sizeof *list.at)};
    if (list.at) {
        memcpy(list.at, from, (size_t)count * sizeof *list.at);
        list.count = count;
    }
    return list;
}

/* The data of an experiment in another folder, normalised as that experiment does. */
static enum status move_data(struct datasource *d, const struct experiment *like, struct error *err)
{
    struct normalization n;
    enum status status =
        normalization_resolve(&n, &like->data, source_shape(like).channels, err);
    if (status)
        return status;
    d->plain = like->data;
    d->seed = like->seed;
    d->plain.validation = (struct choice){.kind = NULL};
    d->plain.train_path = d->plain.val_path = d->plain.test_path = NULL;
    d->plain.val_labels = NULL;
    d->plain.normalize.mean = copy_reals(&d->memory, n.mean, n.channels);
    d->plain.normalize.std = copy_reals(&d->memory, n.std, n.channels);
    if (!d->plain.normalize.mean.count || !d->plain.normalize.std.count)
        return error_memory(err, sizeof n);
    return OK;
}

static enum status open_folder(struct datasource *d, const char *path, int format,
                               const struct experiment *like, struct error *err)
{
    enum status status = like ? move_data(d, like, err)
                              : config_defaults(data_fields, &d->plain, &d->memory, err);
    if (status)
        return status;
    d->plain.format = format;
    d->plain.path = arena_strdup(&d->memory, path);
    d->config = &d->plain;
    return d->plain.path ? OK : error_memory(err, strlen(path) + 1);
}

static bool has_config(const char *folder)
{
    char *path = file_join(folder, "config.json");
    bool there = path && file_exists(path);
    free(path);
    return there;
}

enum status datasource_open(struct datasource *d, const char *path, const struct experiment *like,
                            const char *const *settings, int count, struct error *err)
{
    memset(d, 0, sizeof *d);
    arena_init(&d->memory);
    enum source kind;
    enum status status = source_kind(&kind, path, err);
    if (status)
        return status;
    if (kind == SOURCE_CHECKPOINT)
        return error_set(err, ERR_INPUT,
                         "%s: a checkpoint does not say where data lies (name a config or folder)",
                         path);
    int format = kind == SOURCE_DIRECTORY ? dataset_format_detect(path) : -1;
    if (format >= 0)
        return open_folder(d, path, format, like, err);
    if (kind == SOURCE_DIRECTORY && !has_config(path))
        return error_set(err, ERR_INPUT,
                         "%s: no data files that are known lie there (attnbench list datasets)",
                         path);
    status = source_experiment(&d->own, kind, path, settings, count, err);
    d->config = &d->own.data;
    d->seed = d->own.seed;
    return status;
}

void datasource_free(struct datasource *d)
{
    if (d->own.config)
        experiment_free(&d->own);
    arena_free(&d->memory);
}

const struct part *splits_part(const struct splits *s, const char *name)
{
    return strcmp(name, "train") == 0 ? &s->train : strcmp(name, "val") == 0 ? &s->val : &s->test;
}
